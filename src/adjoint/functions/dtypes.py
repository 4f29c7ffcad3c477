"""Questions about dtypes: what they hold, and how they promote."""

from typing import Any, NamedTuple

import numpy as np

from .._core.tensor import Tensor
from .._foundation.dtypes import (
    FROM_NUMPY,
    REAL_PART,
    SCALAR_RANK,
    DType,
    as_numpy,
    of_scalar,
    promote,
    weak,
)
from .._foundation.dtypes import promote_scalar as with_scalar
from .._foundation.errors import ArgumentError, DTypeError

__all__ = ["can_cast", "finfo", "iinfo", "isdtype", "result_type"]

KINDS = {
    "bool": ("bool",),
    "signed integer": ("int",),
    "unsigned integer": ("uint",),
    "integral": ("int", "uint"),
    "real floating": ("float",),
    "complex floating": ("complex",),
    "numeric": ("int", "uint", "float", "complex"),
}


class FloatInfo(NamedTuple):
    """What a float dtype can represent."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntegerInfo(NamedTuple):
    """What an integer dtype can represent."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: Any, /) -> FloatInfo:
    """The limits of a float dtype, or of the parts of a complex one; also of a tensor's.

    >>> ad.finfo(ad.float32).bits
    32
    """
    raw = raw_dtype(type)
    raw = REAL_PART.get(raw, raw)
    if raw.kind != "f":
        raise DTypeError(f"finfo: a float dtype is needed, got {raw}; use ad.iinfo for integers")
    info = np.finfo(raw)
    eps, smallest = float(info.eps), float(info.smallest_normal)
    return FloatInfo(info.bits, eps, float(info.max), float(info.min), smallest, FROM_NUMPY[raw])


def iinfo(type: Any, /) -> IntegerInfo:
    """The limits of an integer dtype, or of a tensor's.

    >>> ad.iinfo(ad.int8).max
    127
    """
    raw = raw_dtype(type)
    if raw.kind not in "iu":
        raise DTypeError(f"iinfo: an integer dtype is needed, got {raw}; use ad.finfo for floats")
    info = np.iinfo(raw)
    return IntegerInfo(info.bits, int(info.max), int(info.min), FROM_NUMPY[raw])


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind: another dtype, a name of the standard, or a tuple of those.

    >>> ad.isdtype(ad.int8, ("bool", "integral"))
    True
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    dtype = FROM_NUMPY[as_numpy(dtype)]
    if not isinstance(kind, str):
        return dtype is FROM_NUMPY[as_numpy(kind)]
    if kind not in KINDS:
        raise ArgumentError(f"isdtype: {kind!r} isn't a kind; there are {', '.join(KINDS)}")
    return dtype.kind in KINDS[kind]


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that tensors, dtypes and numbers promote to.

    >>> ad.result_type(ad.float32, ad.int64, 1.0)
    adjoint.float32
    """
    if not arrays_and_dtypes:
        raise ArgumentError("result_type: at least one tensor or dtype is needed")
    given = arrays_and_dtypes
    if any(map(is_of_tensors, given)):
        given = tuple(map(weak, given))
    scalars = [x for x in given if type(x) in SCALAR_RANK]
    dtypes = [raw_dtype(x) for x in given if type(x) not in SCALAR_RANK]
    result = dtypes[0] if dtypes else of_scalar(scalars[0])
    for dtype in dtypes[1:]:
        result = promote("result_type", result, dtype)
    for scalar in scalars:
        result = with_scalar(result, scalar)
    return FROM_NUMPY[result]


def is_of_tensors(x: Any) -> bool:
    """Whether x is a tensor, or a dtype, which stands for tensors of it."""
    return not isinstance(x, (np.ndarray, np.generic)) and type(x) not in SCALAR_RANK


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether promotion would turn a dtype (or a tensor's) into another.

    >>> ad.can_cast(ad.int32, ad.int64), ad.can_cast(ad.float64, ad.float32)
    (True, False)
    """
    source, target = raw_dtype(from_), as_numpy(to)
    try:
        return promote("can_cast", source, target) is target
    except DTypeError:
        return False


def raw_dtype(x: Any) -> np.dtype:
    """The raw dtype of a tensor or an array, or behind a dtype."""
    if isinstance(x, Tensor):
        return x.raw.dtype
    return as_numpy(x if isinstance(x, type) else getattr(x, "dtype", x))  # np.float32 has one, too
