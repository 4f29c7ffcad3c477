"""The backend that a device is to the rest of adjoint."""

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ..._foundation.silence import compute, computing
from ..._foundation.spans import observed
from . import elementwise, host
from .arrays import Array
from .device import Device
from .launcher import Launcher, copy_into
from .movement import sliced
from .reductions import backward_of_cross_entropy
from .table import FUNCTIONS

# Modules that enter their functions into FUNCTIONS.
SOURCES = (
    "convolution creation determinants factorizations gamma indexing joining matmul movement "
    "reductions running scattering solving sorting threefry triangles weight_gradients windows"
)


class Numbers(dict):
    """Python scalars as arrays of one dtype: a number that kernels are given as it is."""

    def __init__(self, backend: "WebGPU", dtype: np.dtype) -> None:
        self.backend, self.dtype = backend, dtype

    def __missing__(self, value: Any) -> Array:
        number = compute(np.array, value, self.dtype).item()
        array = self.backend.Array((), self.dtype, None, number=number)
        # 0.0 and -0.0 are one key, and a NaN is never found again: those aren't kept.
        if value == value and value != 0 and len(self) < 4096:
            self[value] = array
        return array


class WebGPU:
    """One adapter, and the class of the arrays that live in its memory."""

    FUNCTIONS = FUNCTIONS
    NUMPY: ClassVar = {}  # nothing is so small that another function is better for it
    LEAST = 0  # elements, from which on kernels are used
    WIDEST: ClassVar = {"i": np.dtype("i4"), "u": np.dtype("u4"), "f": np.dtype("f4")}
    ADDERS: ClassVar = {}

    def __init__(self, name: str, adapter: Any) -> None:
        self.gpu = Device(name, adapter)
        self.Array: type[Array] = type(
            "Array", (Array,), {"gpu": self.gpu, "device": name, "__slots__": ()}
        )
        self.gpu.Array = self.Array
        self.DEVICE = name
        for source in SOURCES.split():
            importlib.import_module(f".{source}", __package__)
        self.BACKWARD = {"cross_entropy": backward_of_cross_entropy}
        dtypes = list(self.gpu.dtypes)
        self.FLOATS = {d: Numbers(self, d) for d in dtypes if d.kind == "f"}
        self.INTEGERS = {d: Numbers(self, d) for d in dtypes if d.kind != "b"}

    def function_of(self, op: Any) -> Callable | None:
        if op.own_functions:  # a user's op, which may have the name of one of ours
            return None
        function = FUNCTIONS.get(op.name)
        if function is not None:
            made_here = "device" in op.attributes
            return computing(functools.partial(function, self.gpu) if made_here else function)
        if op.kind == "elementwise":
            return elementwise.function_of(op)
        function = host.function(op.name)
        return function and computing(function)

    def from_numpy(self, array: np.ndarray) -> Array:
        self.gpu.check_dtype(array.dtype)
        return self.gpu.send(array)

    def to_numpy(self, array: Array) -> np.ndarray:
        return observed("read", "wait", self.gpu.read)(array)

    def scalar(self, value: Any, dtype: np.dtype) -> Array:
        numbers = self.INTEGERS.get(dtype)
        if numbers is not None:
            return numbers[value]
        return self.Array((), dtype, None, number=compute(np.array, value, dtype).item())

    # Memory that is overwritten.

    def exclusive(self, array: Any, holders: int) -> bool:
        """Whether nothing but `holders` references that the caller knows of reaches this memory."""
        if type(array) is not self.Array or sys.getrefcount(array) > FLOOR + holders:
            return False
        if array.number is not None or array.offset or not array.is_contiguous:
            return False
        return sys.getrefcount(array._memory) <= MEMORY_FLOOR

    def copy(self, array: Array) -> Array:
        out = self.gpu.empty(array.shape, array.dtype)
        copy_into(out, array)
        return out

    def write(self, array: Array, value: Array, spec: tuple, indices: list) -> None:
        """array[index] = value, in place."""
        if indices:
            copy_into(array, FUNCTIONS["assign"](array, value, *indices, spec=spec))
            return
        shape, strides, offset = sliced(array.shape, array.strides, spec)
        copy_into(array.view(shape, strides, array.offset + offset), value)

    def compute_into(self, array: Array, op: str, other: Array) -> bool:
        """array = op(array, other) in place."""
        if array.shape != other.shape:
            return False
        run = elementwise.launcher(op, (array.dtype, other.dtype), (), None)
        run.map([array, other], (), [array])
        return True

    def axpy(self, array: Array, other: Array, alpha: float) -> None:
        """array += alpha * other in place, as the op add_scaled computes it."""
        run = elementwise.launcher("add_scaled", (array.dtype, other.dtype), ("alpha",), None)
        run.map([array, other], [alpha], [array])

    # Kernels of more than one op.

    def launcher(self, kernel: Any) -> Launcher | None:
        """What runs a kernel on arrays; None where it has more arrays than can be bound."""
        if len(kernel.sources) + len(kernel.outputs) > self.gpu.target.arrays:
            return None
        return Launcher(kernel)

    def empty(self, shape: tuple, dtype: np.dtype) -> Array:
        return self.gpu.empty(shape, dtype)


def floor(array: Any) -> int:
    return sys.getrefcount(array)


class Holder:
    """What an array is to its memory, to measure what the count shows for one that is alone."""

    __slots__ = ("_memory",)


def memory_floor() -> int:
    holder = Holder()
    holder._memory = object()  # type: ignore[misc]
    return sys.getrefcount(holder._memory)  # type: ignore[misc]


FLOOR = floor(object())
MEMORY_FLOOR = memory_floor()
