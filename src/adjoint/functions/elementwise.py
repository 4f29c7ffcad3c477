"""Elementwise functions with more than an op's signature."""

from typing import Any

import numpy as np

from .. import backends
from .._dtypes import as_numpy
from .._errors import DeviceError, DTypeError
from .._tensor import Tensor
from ..primitives import conversions
from ..primitives.elementwise import pow, square
from ._arguments import as_tensor


def astype(x: Any, dtype: Any, *, copy: bool = True) -> Tensor:
    """The values in another dtype, rounded towards zero if that is an integer one.

    >>> ad.astype(ad.asarray([1.7, -1.7]), ad.int32)
    tensor([ 1, -1], dtype=adjoint.int32)
    """
    x = as_tensor("astype", x)
    raw = as_numpy(dtype)
    return x if raw is x.data.dtype and not copy else conversions.cast(x, dtype=raw)


def clip(x: Any, min: Any = None, max: Any = None) -> Tensor:
    """x, but at least `min` and at most `max`; the gradient is 1 strictly between them.

    >>> ad.clip(ad.asarray([-1.0, 0.5, 2.0]), 0, 1)
    tensor([0. , 0.5, 1. ])
    """
    x = as_tensor("clip", x)
    low, high = extremes(x)
    return conversions.clip(x, low if min is None else min, high if max is None else max)


def extremes(x: Tensor) -> tuple[Any, Any]:
    """Bounds that nothing of x's dtype passes."""
    if x.data.dtype.kind == "f":
        return -float("inf"), float("inf")
    if x.data.dtype.kind not in "iu":
        raise DTypeError(f"clip: real numbers are needed, got {x.dtype.name}")
    limits = np.iinfo(x.data.dtype)
    return int(limits.min), int(limits.max)


def power(x: Tensor, y: Any) -> Tensor:
    """x ** y; squares are frequent, and have an op of their own."""
    return square(x) if type(y) in (int, float) and y == 2 else pow(x, y)


def to(x: Tensor, target: Any) -> Tensor:
    """The tensor on another device (a string) or in another dtype.

    >>> ad.asarray([1, 2]).to(ad.float32)
    tensor([1., 2.])
    """
    if not isinstance(target, str):
        return astype(x, target, copy=False)
    if target != x.device:
        backends.backend(target)
        raise DeviceError(f"to: moving a tensor from {x.device} to {target} isn't possible yet")
    return x
