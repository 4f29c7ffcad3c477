"""What the array API's inspection functions tell: the namespace, its dtypes and devices."""

import sys
from types import ModuleType
from typing import Any

from .. import backends
from .._dtypes import ALL, FROM_NUMPY, as_numpy, int64
from .._errors import ArgumentError, DeviceError
from .._tensor import Tensor
from .dtypes import isdtype

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


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
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Where tensors are made if no device is named."""
        return "cpu"

    def devices(self) -> tuple[str, ...]:
        """The devices there are."""
        return tuple(backends.MODULES)

    def default_dtypes(self, *, device: str | None = None) -> dict[str, Any]:
        """The dtypes of Python numbers, and of indices."""
        known_device(device)
        kinds = {"real floating": float, "complex floating": complex, "integral": int}
        dtypes = {kind: FROM_NUMPY[as_numpy(number)] for kind, number in kinds.items()}
        return {**dtypes, "indexing": int64}

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, Any]:
        """The standard's dtypes that a device has, of a kind; adjoint also has float16.

        >>> ad.__array_namespace_info__().dtypes(kind="real floating")
        {'float32': adjoint.float32, 'float64': adjoint.float64}
        """
        known_device(device)
        standard = [dtype for dtype in ALL if dtype.name != "float16"]
        return {d.name: d for d in standard if kind is None or isdtype(d, kind)}


def known_device(device: str | None) -> None:
    if device is not None and device not in backends.MODULES:
        known = ", ".join(backends.MODULES)
        raise DeviceError(f"there is no device {device!r}; devices are {known}")


def devices() -> tuple[str, ...]:
    """The devices that tensors can be on.

    >>> ad.devices()
    ('cpu',)
    """
    return NamespaceInfo().devices()
