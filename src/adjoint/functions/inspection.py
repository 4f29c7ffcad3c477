"""What the array API's inspection functions tell: the namespace, its dtypes and devices."""

import sys
from types import ModuleType
from typing import Any

from .. import backends
from .._dtypes import ALL, FROM_NUMPY, as_numpy
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
        return backends.Default.device

    def devices(self) -> tuple[str, ...]:
        """The devices there are."""
        from .._devices import devices

        return tuple(device.name for device in devices() if device.usable)

    def default_dtypes(self, *, device: str | None = None) -> dict[str, Any]:
        """The dtypes of Python numbers, and of indices."""
        there = known_device(device)
        integer = FROM_NUMPY[backends.widest(there, "i")]
        kinds = {"real floating": float, "complex floating": complex}
        if backends.widest(there, "f") != backends.WIDEST["f"]:
            del kinds["complex floating"]  # which are twice as wide
        dtypes = {kind: FROM_NUMPY[as_numpy(number)] for kind, number in kinds.items()}
        return {**dtypes, "integral": integer, "indexing": integer}

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, Any]:
        """The standard's dtypes that a device has, of a kind; adjoint also has float16.

        >>> ad.__array_namespace_info__().dtypes(kind="real floating")
        {'float32': adjoint.float32, 'float64': adjoint.float64}
        """
        there: Any = backends.backend(known_device(device))
        known = there.gpu.dtypes if hasattr(there, "gpu") else FROM_NUMPY
        standard = [d for d in ALL if d.name != "float16" and d.dtype in known]
        return {d.name: d for d in standard if kind is None or isdtype(d, kind)}


def known_device(device: str | None) -> str:
    """A device's name; the default one's, if none is given."""
    device = device or backends.Default.device
    if device.partition(":")[0] not in backends.MODULES:
        known = ", ".join(backends.MODULES)
        raise DeviceError(f"there is no device {device!r}; devices are {known}")
    return device


def set_default_device(device: str) -> None:
    """Set where tensors are made if no device is named ("cpu" unless set).

    The environment can say so too: `ADJOINT_DEVICE=webgpu`.

    >>> ad.set_default_device("cpu")
    >>> ad.get_default_device()
    'cpu'
    """
    backends.Default.device = backends.backend(device).DEVICE


def get_default_device() -> str:
    """Where tensors are made if no device is named.

    >>> ad.get_default_device()
    'cpu'
    """
    return backends.Default.device
