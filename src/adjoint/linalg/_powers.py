"""Diagonals, powers and the exponential."""

from typing import Any

from .._core.tensor import Tensor
from ..functions import arrangement, reductions
from ..functions._arguments import as_integer
from ..functions.elementwise import positive
from ..primitives import factorizations
from ..primitives.contractions import matmul
from ..primitives.elementwise import where
from ..primitives.solving import identity, inv
from ._checks import factorizable, matrices, named, regular, square_matrices


@named
def diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices; `offset` counts upwards from the main one.

    >>> ad.linalg.diagonal(ad.asarray([[1, 2], [3, 4]]), offset=1)
    tensor([2])
    """
    return arrangement.diagonal(matrices("diagonal", x), offset, -2, -1)


@named
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sum of a diagonal. Integers are summed in 64 bits.

    >>> ad.linalg.trace(ad.asarray([[1.0, 2.0], [3.0, 4.0]]))
    tensor(5.)
    """
    found = arrangement.diagonal(matrices("trace", x), offset, -2, -1)
    return reductions.sum(found, axis=-1, dtype=dtype)


@named
def matrix_power(x: Any, n: int, /) -> Tensor:
    """A square matrix multiplied with itself n times; a negative n is for its inverse.

    >>> ad.linalg.matrix_power(ad.asarray([[1.0, 1.0], [0.0, 1.0]]), 5)
    tensor([[1., 5.],
            [0., 1.]])
    """
    x = square_matrices("matrix_power", x)
    count = as_integer("matrix_power", "n", n)
    if count < 0:
        x, count = inv(factorizable("matrix_power", x)), -count
    if count == 0:  # constant, but with a gradient, of zeros
        return where(False, x, identity(x, x.shape[-1]))
    out = None
    while count:
        if count & 1:
            out = x if out is None else matmul(out, x)
        count >>= 1
        x = matmul(x, x) if count else x
    return positive(out)  # not x itself, if n is 1


@named
def expm(x: Any, /) -> Tensor:
    """The exponential of square matrices: 1 + x + x @ x / 2 + ...

    >>> ad.linalg.expm(ad.asarray([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return factorizations.expm(regular("expm", x))
