"""Data types and how they promote. Raw arrays carry NumPy's dtype objects, users see `DType`."""

import builtins
from typing import Any

import numpy as np

from .changes import note_change
from .errors import DTypeError

__all__ = ["DType", "bool", "complex64", "complex128", "float16", "float32", "float64"]
__all__ += ["get_default_dtype", "int8", "int16", "int32", "int64", "set_default_dtype", "uint8"]
__all__ += ["uint16", "uint32", "uint64"]


class DType:
    """A data type, such as `ad.float32`. NumPy accepts it wherever it wants a dtype."""

    __slots__ = ("dtype", "kind", "name")

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.dtype = np.dtype(name)

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    @property
    def __numpy_dtype__(self) -> np.dtype:
        return self.dtype

    def __repr__(self) -> str:
        return f"adjoint.{self.name}"

    def __reduce__(self) -> tuple:
        return by_name, (self.name,)


bool = DType("bool", "bool")
int8, int16, int32, int64 = (DType(f"int{n}", "int") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (DType(f"uint{n}", "uint") for n in (8, 16, 32, 64))
float16, float32, float64 = (DType(f"float{n}", "float") for n in (16, 32, 64))
complex64, complex128 = (DType(f"complex{n}", "complex") for n in (64, 128))

ALL = tuple(value for value in globals().values() if isinstance(value, DType))
FROM_NUMPY = {dtype.dtype: dtype for dtype in ALL}
BY_NAME = {dtype.name: dtype for dtype in ALL}
REAL_PART = {complex64.dtype: float32.dtype, complex128.dtype: float64.dtype}
BY_PYTHON = {builtins.bool: bool, int: int64}

# A scalar is weak: it changes an array's dtype only if its kind is the larger one.
RANK = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
SCALAR_RANK = {builtins.bool: 0, int: 1, float: 2, complex: 3}
PYTHON = (builtins.bool, int, float, complex)  # by rank
SCALARS = {"b": builtins.bool, "i": int, "u": int, "f": float, "c": complex}


class DefaultDType:
    """The dtype of Python floats; settable."""

    float: np.dtype = np.dtype("float32")


def by_name(name: str) -> DType:
    """The dtype of a pickle, which knows this function as adjoint._dtype."""
    return BY_NAME[name]


by_name.__module__, by_name.__qualname__ = "adjoint", "_dtype"


def set_default_dtype(dtype: Any) -> None:
    """Set the dtype that Python floats and integer division get (float32 unless set).

    >>> ad.set_default_dtype(ad.float64)
    >>> ad.asarray(1.0).dtype
    adjoint.float64
    >>> ad.set_default_dtype(ad.float32)
    """
    raw = as_numpy(dtype)
    if raw.kind != "f":
        raise DTypeError(f"set_default_dtype: a float dtype is needed, got {show(raw)}")
    DefaultDType.float = raw
    note_change()


def get_default_dtype() -> DType:
    """The dtype that Python floats get.

    >>> ad.get_default_dtype()
    adjoint.float32
    """
    return FROM_NUMPY[DefaultDType.float]


def as_numpy(dtype: Any) -> np.dtype:
    """The NumPy dtype behind a DType, a NumPy dtype, a name, or `float`, `int`, `bool`."""
    if isinstance(dtype, DType):
        return dtype.dtype
    if dtype is float:
        return DefaultDType.float
    if dtype is complex:
        return np.result_type(DefaultDType.float, np.complex64)
    try:
        if dtype in BY_PYTHON:
            return BY_PYTHON[dtype].dtype
        raw = None if dtype is None else np.dtype(dtype)
    except TypeError:
        raw = None
    if raw is None or raw not in FROM_NUMPY:
        asked = dtype if raw is None else raw.str if raw.kind in "SU" else raw.name
        raise DTypeError(f"{asked!r} isn't a dtype of adjoint; there are {', '.join(BY_NAME)}")
    return FROM_NUMPY[raw].dtype


def show(raw: np.dtype) -> str:
    """A raw dtype as users know it."""
    return FROM_NUMPY[raw].name


def of_scalar(scalar: Any) -> np.dtype:
    """The dtype that a Python scalar has where no array decides."""
    kind = type(scalar)
    return as_numpy(PYTHON[SCALAR_RANK[kind]] if kind in SCALAR_RANK else kind)


def weak(x: Any) -> Any:
    """A NumPy scalar as the Python number of its value; anything else as it is."""
    if not isinstance(x, np.generic) or x.dtype.kind not in SCALARS:
        return x
    return SCALARS[x.dtype.kind](x)  # item() gives no Python number of a longdouble


def canonical(array: np.ndarray) -> np.ndarray:
    """The array in native byte order, with the dtype object that adjoint compares by identity."""
    dtype = as_numpy(array.dtype.newbyteorder("="))
    if array.dtype is dtype:
        return array
    return array.view(dtype) if array.dtype == dtype else array.astype(dtype)


def promote(name: str, x: np.dtype, y: np.dtype) -> np.dtype:
    """The dtype of an op on arrays of two dtypes. Integers never widen a float."""
    if x == y:
        return x
    low, high = sorted((x, y), key=lambda d: RANK[d.kind])
    if high.kind in "fc" and low.kind in "iub":
        return high
    result = np.promote_types(x, y)
    if result.kind == "f" and high.kind != "f":
        raise DTypeError(
            f"{name}: {show(x)} and {show(y)} have no common integer dtype; cast one of them with "
            "ad.astype"
        )
    return FROM_NUMPY[result].dtype


def promote_scalar(dtype: np.dtype, scalar: Any) -> np.dtype:
    """The dtype of an op on an array and a Python scalar."""
    if SCALAR_RANK[type(scalar)] <= RANK[dtype.kind]:
        return dtype
    if type(scalar) is complex:
        return np.result_type(dtype if dtype.kind == "f" else DefaultDType.float, np.complex64)
    return of_scalar(scalar)
