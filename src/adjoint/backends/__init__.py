"""Backends: the only code that touches memory.

A backend is an array type and a table from op name to a function on raw arrays, plus the few
things that aren't ops: moving data in and out. It is loaded when its device is first named.
"""

import importlib
import math
import os
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from .._foundation.errors import DeviceError

MODULES = {"cpu": ".cpu", "webgpu": ".webgpu"}
BUILT_IN = frozenset(MODULES)  # others may come and go


class Backend(Protocol):
    """What a backend offers, a module or an object.

    It may have more, and is used without it: FLOATS and INTEGERS, Python's numbers as kernels take
    them; WIDEST, its widest dtypes; LEAST, ADDERS, BACKWARD and `launcher(kernel)`, for rules that
    run as kernels; `exponent_bound(array)`.
    """

    DEVICE: str
    Array: type
    FUNCTIONS: dict[str, Callable]

    def function_of(self, op: Any) -> Callable | None:
        """The function that computes an op on raw arrays; None if there is none."""
        ...

    def from_numpy(self, array: np.ndarray) -> Any:
        """A raw array with this content; may share memory."""
        ...

    def to_numpy(self, array: Any) -> np.ndarray:
        """The content as a NumPy array; may share memory."""
        ...

    def scalar(self, value: Any, dtype: np.dtype) -> Any:
        """A Python scalar in the form that kernels take it."""
        ...

    def exclusive(self, array: Any, holders: int) -> bool:
        """Whether only `holders` references of the caller's can reach the memory of `array`."""
        ...

    def copy(self, array: Any) -> Any:
        """The same values in memory of their own."""
        ...

    def write(self, array: Any, value: Any, spec: tuple, indices: list) -> None:
        """Put a value at an index, in the array's own memory."""

    def compute_into(self, array: Any, op: str, other: Any) -> bool:
        """array = op(array, other) in its own memory; False where that isn't possible."""
        ...

    def axpy(self, array: Any, other: Any, alpha: float) -> None:
        """array += alpha * other in its own memory, as the op add_scaled computes it."""


# By array type: the backend, and its forms of Python's floats and ints, by dtype.
LOADED: dict[type, Backend] = {}
FLOATS: dict[type, dict] = {}
INTEGERS: dict[type, dict] = {}
LEAST: dict[type, int] = {}  # elements, from which on kernels are worth it

WIDEST = {"i": np.dtype("int64"), "u": np.dtype("uint64"), "f": np.dtype("float64")}


class DefaultDevice:
    """The device on which tensors are made if none is named; settable."""

    name: str = os.environ.get("ADJOINT_DEVICE") or "cpu"


def widest(device: str, kind: str) -> np.dtype:
    """The dtype of a kind ("i", "u" or "f") that has the most bits on a device."""
    return getattr(backend(device), "WIDEST", WIDEST)[kind]


def exponent_bound(array: Any) -> float:
    """The largest |log2 |x|| of elements that aren't 0; infinite where it isn't known, as on GPUs,
    which would have to be waited for."""
    find = getattr(LOADED.get(type(array)), "exponent_bound", None)
    return math.inf if find is None else find(array)


_by_name: dict[str, Backend] = {}


def backend(device: str) -> Backend:
    """The backend behind a device name."""
    found = _by_name.get(device)
    return load(device) if found is None else found


def load(device: str) -> Backend:
    name = str(device).partition(":")[0]
    if name not in MODULES:
        raise DeviceError(f"there is no device {device!r}; devices are {', '.join(MODULES)}")
    module: Any = importlib.import_module(MODULES[name], __name__)
    opened = module.open_device(device) if hasattr(module, "open_device") else module
    LOADED[opened.Array] = opened
    FLOATS[opened.Array] = getattr(opened, "FLOATS", {})
    INTEGERS[opened.Array] = getattr(opened, "INTEGERS", {})
    if hasattr(opened, "LEAST"):
        LEAST[opened.Array] = opened.LEAST
    if name in BUILT_IN:
        _by_name[device] = opened
    return opened
