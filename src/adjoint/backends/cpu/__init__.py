"""The CPU: storage is `numpy.ndarray`, and every op has a function in `FUNCTIONS`.

`NUMPY` is the table of functions on NumPy. It is complete, and is the reference that kernels and
other devices are tested against. `FUNCTIONS` has those in its place that run compiled kernels where
arrays are large enough: see `dispatch`. They are in `op_tables`, which the first op loads.
"""

import functools
import math
import sys
from typing import Any

import numpy as np

from ..._foundation.silence import compute, computing
from . import blas, dispatch, indexing, thresholds
from .blas import blas_threads as blas_threads
from .jit.availability import available as has_kernels
from .table import FUNCTIONS as ENTRIES

DEVICE = "cpu"
Array = np.ndarray
LEAST = thresholds.ELEMENTS


def __getattr__(name: str) -> Any:
    if name not in ("BACKWARD", "FUNCTIONS", "NUMPY"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    from . import op_tables

    return globals().setdefault(name, getattr(op_tables, name))


def from_numpy(array: np.ndarray) -> np.ndarray:
    return array


def to_numpy(array: np.ndarray) -> np.ndarray:
    return array


class Constants(dict):
    """Python scalars as 0-d arrays of one dtype: NumPy takes these twice as fast as a float."""

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype

    def __missing__(self, value: Any) -> np.ndarray:
        array = compute(np.array, value, self.dtype)
        array.setflags(write=False)
        # 0.0 and -0.0 are one key, and a NaN is never found again: those aren't kept.
        if value == value and value != 0 and len(self) < 4096:
            self[value] = array
        return array


# By array dtype, for Python floats, and for Python ints.
FLOATS = {np.dtype(name): Constants(np.dtype(name)) for name in ("f2", "f4", "f8")}
INTEGERS = FLOATS | {np.dtype(name): Constants(np.dtype(name)) for name in ("i4", "i8", "u4", "u8")}


def scalar(value: Any, dtype: np.dtype) -> np.ndarray:
    constants = FLOATS.get(dtype)
    return compute(np.array, value, dtype) if constants is None else constants[value]


def function_of(op: Any) -> Any:
    """The function that computes an op, or None. Elementwise ops all have kernels.

    Functions that compute run without NumPy's warnings; those that only move elements give none.
    """
    from . import op_tables

    function = op_tables.FUNCTIONS.get(op.name)
    if function is None or op.kind == "movement" or op.name in op_tables.DISPATCHED:
        return function
    if op.kind != "elementwise":
        return computing(function)
    plain = not (op.attributes or op.optional or op.variadic)
    return dispatch.elementwise(op.name, function, len(op.inputs), plain)


def base_is_free(array: np.ndarray) -> bool:
    base = array.base
    return type(base) is np.ndarray and base.base is None and sys.getrefcount(base) <= BASE_FLOOR


def exclusive(array: np.ndarray, holders: int) -> bool:
    """Whether nothing but `holders` references that the caller knows of reaches this memory.

    This one function decides whether memory may be overwritten. Memory is reached through the
    array object, through views (which refer to the array that owns the memory), and through
    whatever lent it to us: in any doubt the answer is no.
    """
    if type(array) is not np.ndarray or sys.getrefcount(array) > FLOOR + holders:
        return False
    flags = array.flags
    if not flags.writeable or not flags.c_contiguous:  # layout must not depend on sharing
        return False
    return flags.owndata if array.base is None else base_is_free(array)


def floor(array: Any) -> int:
    return sys.getrefcount(array)


def base_floor(array: np.ndarray) -> int:
    base = array.base
    return sys.getrefcount(base)


# What the count shows for an array that nobody else holds depends on the interpreter: measure it.
# Where it can't tell a shared array from an unshared one, everything counts as shared.
FLOOR = floor(np.empty(1))
BASE_FLOOR = base_floor(np.empty(2)[:1])


def can_tell() -> bool:
    mine, shared, free_view, lent = np.empty(1), np.empty(1), np.empty(2)[:1], np.empty(2)
    other, part = shared, lent[:1]
    return (
        exclusive(mine, 1)
        and not exclusive(shared, 1)
        and exclusive(free_view, 1)
        and not exclusive(part, 1)
        and other is shared
    )


if not can_tell():
    FLOOR = -sys.maxsize


def copy(array: np.ndarray) -> np.ndarray:
    return array.copy()


def write(array: np.ndarray, value: np.ndarray, spec: tuple, indices: list) -> None:
    """array[index] = value, in place."""
    array[indexing.complete(spec, indices)] = value


@functools.cache
def weights(size: int, dtype: np.dtype) -> np.ndarray:
    """Numbers between 1 and 2 without a pattern."""
    return (1 + np.arange(size) * math.pi % 1).astype(dtype)


@computing
def fingerprint(array: np.ndarray) -> tuple[float, float]:
    """Two numbers that differ for different arrays: a sum of the elements weighted by position, and
    the sum of their squares."""
    flat = array.astype(np.float64).ravel() if array.dtype.itemsize < 4 else array.ravel()
    rows, length = divmod(flat.size, 1024)
    end = flat.size - length
    sums = flat[:end].reshape(rows, 1024) @ weights(1024, flat.dtype)
    sums = np.append(sums, flat[end:] @ weights(1024, flat.dtype)[:length])
    return float(sums @ (1 + np.arange(rows + 1) * math.e % 1)), float(np.vdot(flat, flat))


@computing
def axpy(array: np.ndarray, other: np.ndarray, alpha: float) -> None:
    """array += alpha * other in place, as the op add_scaled computes it."""
    if array.size < LEAST or not dispatch.try_compute_into(array, "add_scaled", other, alpha=alpha):
        blas.axpy(array, other, alpha)


def compute_into(array: np.ndarray, op: str, other: np.ndarray) -> bool:
    """array = op(array, other) in place, where op is a ufunc or has a kernel."""
    function = ENTRIES.get(op) or __getattr__("NUMPY").get(op)
    if not isinstance(function, np.ufunc) or array.strides != other.strides:
        return False
    if array.size < LEAST:
        try:
            dispatch.alone(function, array, other, array)
            return True
        except RuntimeError:
            pass
    if array.size < LEAST or not dispatch.try_compute_into(array, op, other):
        compute(function, array, other, array)
    return True


@computing
def add_place(array: np.ndarray, x: np.ndarray, *, index: tuple, shape: tuple) -> None:
    """array += place(x), of which only a part isn't zero."""
    part = array[(*index, ...)]  # also of one element an array
    if x.size < LEAST or not dispatch.try_compute_into(part, "add", x):
        np.add(part, x, part)


# Ops whose result can be added to an array without being made.
ADDERS = {"place": add_place}


@computing
def exponent_bound(array: np.ndarray) -> float:
    from .reductions import magnitudes

    least, most = np.log2(magnitudes(array))
    return float(np.maximum(most, -least))


def empty(shape: tuple, dtype: np.dtype) -> np.ndarray:
    """Memory for a result, from the pool if it is large."""
    from .jit import memory

    return memory.empty(shape, dtype)


@computing
def update(launcher: Any, arrays: list[np.ndarray], numbers: np.ndarray) -> None:
    """Run a kernel on many tensors in one launch."""
    launcher.update(arrays, numbers)


def launcher(kernel: Any) -> Any:
    """The launcher of a kernel, or None where none can be compiled."""
    if not has_kernels():
        return None
    from .lowering.launchers import Launcher

    return Launcher(kernel)


def lower(op: str, layouts: Any, attrs: dict[str, Any], target: Any) -> Any:
    """The launches of an op on arrays of these layouts; None where kernels don't do it.

    It never sees an array, and asks for no least size.
    """
    from . import op_tables
    from .lowering.ops import lower

    assert op_tables.DISPATCHED  # the NumPy functions say where ops are lowered
    return lower(op, layouts, attrs, target)
