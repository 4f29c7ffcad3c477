"""Backends: the only code that touches memory. May import `_errors` and `_dtypes`, nothing else.

A backend is an array type and a table from op name to a function on raw arrays, plus the few
things that aren't ops: moving data in and out. It is loaded when its device is first named.
"""

import importlib
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from .._errors import DeviceError

MODULES = {"cpu": ".cpu"}


class Backend(Protocol):
    """What a backend module offers."""

    DEVICE: str
    Array: type
    KERNELS: dict[str, Callable]

    def kernel_of(self, op: Any) -> Callable | None:
        """What computes an op on raw arrays: from KERNELS, or made of what is there."""
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


LOADED: dict[type, Backend] = {}


def backend(device: str) -> Backend:
    """The backend behind a device name."""
    name = str(device).partition(":")[0]
    if name not in MODULES:
        raise DeviceError(f"there is no device {device!r}; devices are {', '.join(MODULES)}")
    module: Any = importlib.import_module(MODULES[name], __name__)
    LOADED[module.Array] = module
    return module
