"""Exchange of memory with other libraries, by DLPack."""

from typing import Any

import numpy as np

from .. import backends
from .._core.promotion import lift
from .._core.tensor import Tensor
from .._foundation.dtypes import canonical
from .._foundation.errors import ArgumentError, DTypeError, GradientError
from ._marks import method_named
from .creation import asarray, ask_for_grad

__all__ = ["from_dlpack"]

CPU = (1, 0)  # DLPack's name for it
VERSIONED = (1, 0)  # the first version of DLPack that can say "read-only"
KNOWS_VERSIONS = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


@method_named("__dlpack_device__")
def dlpack_device(x: Tensor) -> tuple[int, int]:
    """DLPack's name for the device."""
    return CPU


@method_named("__dlpack__")
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
