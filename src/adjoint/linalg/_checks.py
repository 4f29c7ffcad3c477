"""What the functions of this package check and share."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from .._core.tensor import Tensor
from .._foundation.dtypes import REAL_PART, as_numpy, float16
from .._foundation.errors import ArgumentError, DTypeError, ShapeError
from .._foundation.modes import is_grad_enabled
from ..functions._arguments import as_tensor
from ..functions.contractions import conjugated
from ..functions.shapes import matrix_transpose
from ..primitives.triangles import symmetrized

P = ParamSpec("P")
R = TypeVar("R")


def named(function: Callable[P, R]) -> Callable[P, R]:
    """A function whose errors begin with its own name, whatever in it they come from."""
    name = function.__name__

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (ArgumentError, DTypeError, ShapeError) as error:
            start, _, rest = str(error).partition(": ")
            if start == name:
                raise
            said = rest if start.isidentifier() and rest else error
            raise type(error)(f"{name}: {said}") from None

    return call


def matrices(function: str, x: Any) -> Tensor:
    x = as_tensor(function, x)
    if x.ndim < 2:
        raise ShapeError(
            f"{function}: matrices are needed, with at least 2 axes; shape is {x.shape}"
        )
    return x


def factorizable(function: str, x: Any) -> Tensor:
    """Matrices of a dtype that LAPACK knows."""
    x = matrices(function, x)
    if x.raw.dtype.kind not in "fc" or x.raw.dtype == float16.dtype:
        raise DTypeError(
            f"{function}: float32, float64, complex64 or complex128 is needed, got {x.dtype.name}; "
            "cast it with ad.astype"
        )
    return x


def square_matrices(function: str, x: Any) -> Tensor:
    x = matrices(function, x)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{function}: square matrices are needed, shape is {x.shape}")
    return x


def regular(function: str, x: Any) -> Tensor:
    """Square matrices of a dtype that LAPACK knows."""
    return square_matrices(function, factorizable(function, x))


def hermitian(function: str, x: Any) -> Tensor:
    """The Hermitian part of square matrices."""
    return symmetrized(regular(function, x))


def is_differentiated(x: Tensor) -> bool:
    return x.requires_grad and is_grad_enabled()


def adjoint(x: Tensor) -> Tensor:
    return conjugated(matrix_transpose(x))


def real_of(x: Tensor) -> np.dtype:
    dtype = x.raw.dtype
    return REAL_PART[dtype] if dtype.kind == "c" else dtype


def complex_of(x: Tensor) -> np.dtype:
    return as_numpy(np.result_type(x.raw.dtype, np.complex64))
