"""What the array API's inspection functions tell: the namespace, its dtypes and devices."""

import sys
from collections.abc import Collection
from types import ModuleType
from typing import Any

import numpy as np

from .. import backends
from .._core.tensor import Tensor
from .._foundation.changes import note_change
from .._foundation.dtypes import ALL, FROM_NUMPY, as_numpy
from .._foundation.errors import ArgumentError
from ._marks import method_named
from .dtypes import isdtype

__all__ = ["get_default_device", "set_default_device"]

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


@method_named("__array_namespace__")
def array_namespace(x: Tensor, /, *, api_version: str | None = None) -> ModuleType:
    """The module with the functions of the array API standard: adjoint."""
    if api_version is not None and api_version not in VERSIONS:
        raise ArgumentError(
            f"__array_namespace__: version {api_version!r} of the array API isn't among {VERSIONS}"
        )
    return sys.modules[__name__.partition(".")[0]]


class NamespaceInfo:
    """What the array API standard's inspection functions tell."""

    def capabilities(self) -> dict[str, Any]:
        """Which optional parts of the standard there are.

        >>> ad.__array_namespace_info__().capabilities()["boolean indexing"]
        True
        """
        # Tensors have 64 at most, but NumPy broadcasts and sorts no more than 32.
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 32}

    def default_device(self) -> str:
        """Where tensors are made if no device is named."""
        return backends.DefaultDevice.name

    def devices(self) -> tuple[str, ...]:
        """The devices there are."""
        from ..backends.devices import devices

        return tuple(device.name for device in devices() if device.usable)

    def default_dtypes(self, *, device: str | None = None) -> dict[str, Any]:
        """The dtypes of Python numbers, and of indices, on a device.

        A kind has no entry where creation functions refuse it: the device has no such dtype.

        >>> ad.__array_namespace_info__().default_dtypes()["indexing"]
        adjoint.int64
        """
        device = device or backends.DefaultDevice.name
        known, integer = dtypes_of(device), backends.widest(device, "i")
        numbers = {"real floating": as_numpy(float), "complex floating": as_numpy(complex)}
        dtypes = {**numbers, "integral": integer, "indexing": integer}
        return {kind: FROM_NUMPY[raw] for kind, raw in dtypes.items() if raw in known}

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, Any]:
        """The standard's dtypes that a device has, of a kind; adjoint also has float16.

        >>> ad.__array_namespace_info__().dtypes(kind="real floating")
        {'float32': adjoint.float32, 'float64': adjoint.float64}
        """
        known = dtypes_of(device or backends.DefaultDevice.name)
        standard = [d for d in ALL if d.name != "float16" and d.dtype in known]
        return {d.name: d for d in standard if kind is None or isdtype(d, kind)}


def dtypes_of(device: str) -> Collection[np.dtype]:
    """The dtypes that a device has."""
    there: Any = backends.backend(device)
    return there.gpu.dtypes if hasattr(there, "gpu") else FROM_NUMPY


def set_default_device(device: str) -> None:
    """Set where tensors are made if no device is named ("cpu" unless set).

    The environment can say so too: `ADJOINT_DEVICE=webgpu`.

    >>> ad.set_default_device("cpu")
    >>> ad.get_default_device()
    'cpu'
    """
    backends.DefaultDevice.name = backends.backend(device).DEVICE
    note_change()


def get_default_device() -> str:
    """Where tensors are made if no device is named.

    >>> ad.get_default_device()
    'cpu'
    """
    return backends.DefaultDevice.name
