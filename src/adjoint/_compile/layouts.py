"""Views: values that are other elements of memory that is there already.

Movement ops become strides of what reads their result. Where a value lies in memory is a `Place`.
"""

from typing import Any, NamedTuple

import numpy as np

from .._trace.recording import Step
from ..backends.launches import ALIGNMENT, Layout, contiguous

LINE = ALIGNMENT  # bytes of a line of a cache


class Buffer:
    """Memory of a program. `kind`: whose it is. `first` and `last`: of the items that use it."""

    def __init__(self, kind: str, nbytes: int, number: int = -1) -> None:
        self.kind = kind  # argument, constant, number, scratch, result, host, update
        self.nbytes = nbytes
        self.number = number  # among those of its kind
        self.first = self.last = -1
        self.alignment = LINE if nbytes >= LINE else 16  # that NumPy's small arrays have, too
        self.offset = 0  # of scratch, in the arena
        self.shared: Buffer | None = None  # whose memory it takes over

    def __repr__(self) -> str:
        return f"{self.kind} {self.number}"


class Place(NamedTuple):
    """Where an array lies: strides and offset in bytes."""

    buffer: Buffer
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype
    offset: int = 0
    aligned: bool = True

    @property
    def is_contiguous(self) -> bool:
        usual = contiguous(self.shape, self.dtype.itemsize)
        pairs = zip(self.shape, self.strides, usual, strict=True)
        return all(n == 1 or s == t for n, s, t in pairs) or 0 in self.shape

    @property
    def is_whole(self) -> bool:
        """Whether it is all there is in its buffer, without gaps."""
        size = self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))
        return not self.offset and size == self.buffer.nbytes and self.is_contiguous

    def layout(self) -> Layout:
        return Layout(self.shape, self.strides, self.dtype, self.aligned)

    def broadcast(self, shape: tuple[int, ...]) -> "Place":
        strides = np.broadcast_to(self.dummy(), shape).strides
        return self._replace(shape=shape, strides=strides)

    def dummy(self) -> np.ndarray:
        """An array with this layout whose elements must not be touched."""
        one = np.empty(1, self.dtype)
        return np.lib.stride_tricks.as_strided(one, self.shape, self.strides)


def whole(buffer: Buffer, shape: tuple[int, ...], dtype: np.dtype) -> Place:
    return Place(buffer, shape, contiguous(shape, dtype.itemsize), dtype)


def moved(step: Step, x: Place) -> Place | None:
    """Where a movement op's result lies in the memory of its input; None if it has to be copied."""
    function = MOVES.get(step.name)
    return None if function is None else seen_through(function, x, **step.attrs)


def seen_through(function: Any, x: Place, **attrs: Any) -> Place | None:
    """Where the view lies that a NumPy function makes of an array."""
    dummy = x.dummy()
    out = function(dummy, **attrs)
    if out is None:
        return None
    offset = address(out) - address(dummy)
    return x._replace(shape=out.shape, strides=out.strides, offset=x.offset + offset)


def part(x: Place, index: tuple) -> Place:
    """Where x[index] lies, for a basic index."""
    found = seen_through(MOVES["slice"], x, index=index)
    assert found is not None
    return found


def up_to(step: int, start: int) -> int:
    """The first multiple of `step` from `start` on."""
    return -(-start // step) * step


def room(nbytes: int) -> int:
    """Bytes that an array takes, with what is lost behind it."""
    return up_to(LINE if nbytes >= LINE else 16, nbytes)


def address(x: np.ndarray) -> int:
    return x.__array_interface__["data"][0]


def reshaped(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    if x.flags.c_contiguous:
        return np.lib.stride_tricks.as_strided(x, shape, contiguous(shape, x.itemsize))
    try:
        return x.reshape(shape, copy=False)  # type: ignore[call-overload]
    except (ValueError, TypeError):  # it can't be a view, or NumPy 2.0 can't say so
        return None


def spread(x: np.ndarray, axis: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray | None:
    kept = reshaped(x, tuple(1 if k in axis else n for k, n in enumerate(shape)))
    return None if kept is None else np.broadcast_to(kept, shape)


MOVES: dict[str, Any] = {
    "reshape": reshaped,
    "permute_dims": lambda x, axes: x.transpose(axes),
    "matrix_transpose": lambda x: x.swapaxes(-1, -2),
    "broadcast_to": np.broadcast_to,
    "spread": spread,
    "slice": lambda x, index: x[(*index, ...)],
}
