"""Arrays in GPU memory: a buffer with a shape, strides and an offset, in elements.

Views share the buffer. An array all of whose elements are one number that is known here has no
buffer until one is asked for: kernels are given the number instead.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._foundation.silence import compute
from .. import launches
from ..spaces import Ints
from .buffers import Memory

TYPES = {"f4": "f32", "i4": "i32", "u4": "u32", "?": "u32", "f2": "f16"}
WGSL = {np.dtype(code): name for code, name in TYPES.items()}
SIZES = {dtype: 2 if name == "f16" else 4 for dtype, name in WGSL.items()}  # bytes


class Array:
    """The arrays of one device are of a class of their own, which has the device as `gpu`."""

    __slots__ = ("__weakref__", "_memory", "dtype", "number", "offset", "shape", "size", "strides")

    gpu: Any
    device: str
    __array_ufunc__ = None  # NumPy must not take it apart

    def __init__(
        self,
        shape: Ints,
        dtype: np.dtype,
        memory: Memory | None,
        strides: Ints | None = None,
        offset: int = 0,
        number: Any = None,
    ) -> None:
        if strides is None:
            strides = contiguous(shape) if number is None else (0,) * len(shape)
        self.shape, self.dtype, self._memory = shape, dtype, memory
        self.size = math.prod(shape)
        self.strides, self.offset, self.number = strides, offset, number

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        return SIZES[self.dtype]

    @property
    def nbytes(self) -> int:
        return self.size * SIZES[self.dtype]

    @property
    def memory(self) -> Memory:
        """The buffer; a number gets one now."""
        if self._memory is None:
            self._memory = self.gpu.upload(np.array(self.number, self.dtype))
        return self._memory

    @property
    def is_contiguous(self) -> bool:
        return self.number is None and (
            self.strides == contiguous(self.shape) or is_dense(self.shape, self.strides)
        )

    def view(self, shape: Ints, strides: Ints, offset: int | None = None) -> "Array":
        """Other elements of the same memory."""
        if self.number is not None:
            return type(self)(shape, self.dtype, None, number=self.number)
        offset = self.offset if offset is None else offset
        return type(self)(shape, self.dtype, self._memory, strides, offset)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<{self.device} array {self.dtype}{list(self.shape)}>"


def in_memory(x: Array) -> Array:
    """The same array; not as a number, if it was one."""
    return x if x.number is None else type(x)(x.shape, x.dtype, x.memory, x.strides)


def number_word(number: Any, dtype: np.dtype) -> Any:
    """A number as it goes into a word; infinite where it is too large."""
    if dtype.kind == "f":
        return float(compute(np.float32, number))
    if dtype.kind == "b":
        return int(bool(number))
    number = int(number) & 0xFFFFFFFF
    return number - (number >> 31 << 32)


def contiguous(shape: Ints) -> Ints:
    """The strides of elements that follow each other, the last axis fastest."""
    return launches.contiguous(shape, 1)


def is_dense(shape: Ints, strides: Ints) -> bool:
    """Whether elements follow each other, whatever the strides of axes of length 1 are."""
    step = 1
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and stride != step:
            return 0 in shape
        step *= n
    return True


def broadcast_shape(shapes: Sequence[Ints]) -> Ints:
    """The shape that all of these broadcast to, quickly where they are alike."""
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return first
    return np.broadcast_shapes(*shapes)
