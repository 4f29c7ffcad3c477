"""Exchange with other libraries: DLPack, the array API namespace, notebooks."""

import html
import sys
from types import ModuleType
from typing import Any

import numpy as np

from .. import backends
from .._dtypes import ALL, FROM_NUMPY, as_numpy, canonical, int64
from .._errors import ArgumentError, DeviceError, DTypeError, GradientError
from .._operands import lift
from .._tensor import Tensor
from .creation import asarray, ask_for_grad
from .dtypes import isdtype

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
CPU = (1, 0)  # DLPack's name for it
VERSIONED = (1, 0)  # the first version of DLPack that can say "read-only"
KNOWS_VERSIONS = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
EDGE = 5  # rows and columns shown at each end of a table


def dlpack_device(x: Tensor) -> tuple[int, int]:
    """DLPack's name for the device."""
    return CPU


def dlpack(
    x: Tensor,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """The values for another library, by DLPack.

    Tensors are values, and many libraries write to what they are given: they get a copy. With
    `copy=False` they get the memory itself, marked as read-only, unless they (or NumPy, before 2.1)
    are too old to know that mark.
    """
    if x.node is not None:
        raise GradientError(
            "__dlpack__: this tensor requires grad, and its graph would be lost; use x.detach()"
        )
    if stream is not None or dl_device not in (None, CPU):
        raise BufferError(f"__dlpack__: {x.device} has no stream {stream}, no device {dl_device}")
    marks = KNOWS_VERSIONS and max_version is not None and max_version >= VERSIONED
    array = x._host("__dlpack__")
    array = array if marks and copy is False else array.copy()
    return array.__dlpack__(max_version=max_version) if marks else array.__dlpack__()


def from_dlpack(
    x: Any,
    /,
    *,
    device: str | None = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor from an object of another library, by DLPack; shares memory where it can.

    >>> import numpy
    >>> ad.from_dlpack(numpy.arange(3))
    tensor([0, 1, 2])
    """
    if isinstance(x, Tensor):
        return asarray(x, device=device, copy=copy, requires_grad=requires_grad)
    if not hasattr(x, "__dlpack__"):
        raise DTypeError(f"from_dlpack: {type(x).__name__} has no __dlpack__; use ad.asarray")
    try:
        array = np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError) as error:
        raise ArgumentError(f"from_dlpack: {type(x).__name__} can't be shared: {error}") from None
    array = canonical(array.copy() if copy else array)
    data = backends.backend(device or "cpu").from_numpy(array)
    return ask_for_grad(lift(data), requires_grad)


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


def as_html(x: Tensor) -> str:
    """The tensor in a notebook: a table of up to two axes, with its dtype, shape and gradient."""
    if type(x.data) not in backends.LOADED or not 1 <= x.ndim <= 2:
        return f"<pre>{html.escape(repr(x))}</pre>"
    rows = np.atleast_2d(x._host("_repr_html_"))
    lines = [table_row(rows[k]) if k is not None else table_row(None) for k in shown(len(rows))]
    notes = [x.dtype.name, str(list(x.shape)), x.device]
    if x.node is not None:
        notes.append("requires grad" if x.is_leaf else f"from {x.node.name}")
    caption = html.escape(" · ".join(notes))
    return f"<table><caption>{caption}</caption>{''.join(lines)}</table>"


def shown(length: int) -> list[int | None]:
    """The positions to show; None stands for those left out."""
    if length <= 2 * EDGE + 1:
        return list(range(length))
    return [*range(EDGE), None, *range(length - EDGE, length)]


def table_row(values: np.ndarray | None) -> str:
    if values is None:
        return "<tr><td>&#8942;</td></tr>"
    texts = ["&#8230;" if k is None else cell(values[k]) for k in shown(len(values))]
    return f"<tr>{''.join(f'<td>{text}</td>' for text in texts)}</tr>"


def cell(value: np.generic) -> str:
    return f"{value:.4g}" if value.dtype.kind in "fc" else str(value)
