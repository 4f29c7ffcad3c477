"""Linear algebra on the last two axes, with the array API's names: `ad.linalg`.

Products, diagonals, powers and most norms have gradients of every order. Factorisations, and what
is made of them, have none yet: they refuse tensors that require grad.
"""

import math
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np

from ._dtypes import REAL_PART, as_numpy, float16, float32
from ._errors import ArgumentError, DTypeError, ShapeError
from ._shapes import broadcast_shapes
from ._tensor import Tensor
from .functions import arrangement, reductions
from .functions._arguments import (
    Axis,
    as_axes,
    as_integer,
    as_tensor,
    in_common_dtype,
    reject,
    undifferentiated,
)
from .functions.contractions import conjugated
from .functions.contractions import cross as cross
from .functions.contractions import matmul as matmul
from .functions.contractions import outer as outer
from .functions.contractions import tensordot as tensordot
from .functions.contractions import vecdot as vecdot
from .functions.elementwise import positive
from .functions.shapes import expand_dims
from .functions.shapes import matrix_transpose as matrix_transpose
from .primitives import contractions, factorizations
from .primitives.conversions import cast
from .primitives.creation import eye, full
from .primitives.elementwise import abs as absolute
from .primitives.elementwise import equal, greater, not_equal, pow, sign, sqrt, square, where
from .primitives.reductions import max_, min_, sum_
from .primitives.shapes import reshape

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


def __dir__() -> list[str]:
    return __all__


class SVDResult(NamedTuple):
    """Left singular vectors, singular values, adjoint right singular vectors."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class EighResult(NamedTuple):
    """Real eigenvalues, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class EigResult(NamedTuple):
    """Complex eigenvalues, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """Orthonormal columns, and an upper triangle."""

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """The sign of a determinant, and the logarithm of its absolute value."""

    sign: Tensor
    logabsdet: Tensor


# Diagonals and powers.


def diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices; `offset` counts upwards from the main one.

    >>> ad.linalg.diagonal(ad.asarray([[1, 2], [3, 4]]), offset=1)
    tensor([2])
    """
    return arrangement.diagonal(matrices("diagonal", x), offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sum of a diagonal. Integers are summed in 64 bits.

    >>> ad.linalg.trace(ad.asarray([[1.0, 2.0], [3.0, 4.0]]))
    tensor(5.)
    """
    found = arrangement.diagonal(matrices("trace", x), offset, -2, -1)
    return reductions.sum(found, axis=-1, dtype=dtype)


def matrix_power(x: Any, n: int, /) -> Tensor:
    """A square matrix multiplied with itself n times; a negative n is for its inverse.

    >>> ad.linalg.matrix_power(ad.asarray([[1.0, 1.0], [0.0, 1.0]]), 5)
    tensor([[1., 5.],
            [0., 1.]])
    """
    x = square_matrices("matrix_power", x)
    count = as_integer("matrix_power", "n", n)
    if count < 0:
        x, count = factorizations.inv(factorizable("matrix_power", x)), -count
    if count == 0:  # constant, but with a gradient, of zeros
        size, dtype = x.shape[-1], x.data.dtype
        return where(False, x, eye(rows=size, columns=size, k=0, dtype=dtype, device=x.device))
    out = None
    while count:
        if count & 1:
            out = x if out is None else contractions.matmul(out, x)
        count >>= 1
        x = contractions.matmul(x, x) if count else x
    return positive(out)  # not x itself, if n is 1


# Norms.


def vector_norm(
    x: Any, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2, **unknown: Any
) -> Tensor:
    """(sum |x| ** ord) ** (1 / ord) over axes, all if none is named; its gradient at 0 is 0.

    `ord` is any number: inf and -inf give the largest and the smallest absolute value, 0 counts
    what isn't 0.

    >>> ad.linalg.vector_norm(ad.asarray([3.0, 4.0]))
    tensor(5.)
    """
    if unknown:
        reject("vector_norm", unknown)
    x = reductions.as_float(as_tensor("vector_norm", x))
    if not isinstance(ord, Real) or math.isnan(ord):
        raise ArgumentError(
            f"vector_norm: ord is a number, inf or -inf, got {ord!r}; matrices have "
            "ad.linalg.matrix_norm"
        )
    axes = as_axes("vector_norm", axis, x.ndim)
    if x.data.dtype == float16.dtype:  # squares overflow where the norm doesn't
        wide = cast(x, dtype=float32.dtype)
        return cast(p_norm(wide, axes, keepdims, float(ord)), dtype=float16.dtype)
    return p_norm(x, axes, keepdims, float(ord))


def p_norm(x: Tensor, axis: tuple[int, ...], keepdims: bool, ord: float) -> Tensor:
    if x.data.dtype.kind == "c":
        x = absolute(x)
    if math.isinf(ord):
        return extreme("vector_norm", absolute(x), axis, keepdims, ord)
    if ord == 0:  # sign has a gradient, of zeros
        return sum_(where(not_equal(x, 0), 1, sign(x)), axis=axis, keepdims=keepdims)
    total = sum_(powers(x, ord), axis=axis, keepdims=keepdims)
    return total if ord == 1 else root(total, ord)


def extreme(function: str, x: Tensor, axis: tuple[int, ...], keepdims: bool, ord: float) -> Tensor:
    """The largest of numbers that aren't negative, 0 if there is none; or the smallest."""
    if ord > 0 and not math.prod(x.shape[k] for k in axis):
        return sum_(x, axis=axis, keepdims=keepdims)
    reductions.some_elements(function, x, axis)
    return (max_ if ord > 0 else min_)(x, axis=axis, keepdims=keepdims)


def powers(x: Tensor, ord: float) -> Tensor:
    """|x| ** ord, whose derivatives at 0 are those that exist, or 0."""
    if ord in (1, 2):
        return absolute(x) if ord == 1 else square(x)
    if ord > 0 and ord == int(ord):
        return pow(absolute(x) if ord % 2 else x, ord)
    zero = equal(x, 0)
    return where(zero, 0.0 if ord > 0 else math.inf, pow(absolute(where(zero, 1, x)), ord))


def root(total: Tensor, ord: float) -> Tensor:
    """total ** (1 / ord), with gradient 0 where total is 0."""
    zero = equal(total, 0)
    safe = where(zero, 1, total)
    found = sqrt(safe) if ord == 2 else pow(safe, 1 / ord)
    return where(zero, 0.0 if ord > 0 else math.inf, found)


def matrix_norm(
    x: Any,
    /,
    *,
    keepdims: bool = False,
    ord: float | Literal["fro", "nuc"] | None = "fro",
    **unknown: Any,
) -> Tensor:
    """A norm of matrices: "fro" (of all elements), "nuc" (the sum of the singular values), 1 or
    inf (the largest sum of absolute values in a column or a row), 2 (the largest singular value);
    -1, -inf and -2 take the smallest.

    >>> x = ad.asarray([[1.0, -2.0], [3.0, 4.0]])
    >>> ad.linalg.matrix_norm(x, ord=1), ad.linalg.matrix_norm(x, ord=float("inf"))
    (tensor(6.), tensor(7.))
    """
    if unknown:
        reject("matrix_norm", unknown)
    x = reductions.as_float(matrices("matrix_norm", x))
    if ord is None or ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord in (2, -2, "nuc"):
        values, axes = factorizations.svdvals(factorizable("matrix_norm", x)), (x.ndim - 2,)
    elif ord in (1, -1, math.inf, -math.inf):
        summed = x.ndim - 2 if math.isfinite(ord) else x.ndim - 1
        values, axes = sum_(absolute(x), axis=(summed,), keepdims=False), (x.ndim - 2,)
    else:
        raise ArgumentError(
            f"matrix_norm: ord is 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got {ord!r}"
        )
    if ord == "nuc":
        out = sum_(values, axis=axes, keepdims=False)
    else:
        out = extreme("matrix_norm", values, axes, False, ord)
    return reshape(out, shape=(*out.shape, 1, 1)) if keepdims else out


# Factorisations.


def svd(x: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """Singular values, largest first, and vectors: x = U @ diag(S) @ Vh.

    >>> ad.linalg.svd(ad.asarray([[0.0, 2.0], [1.0, 0.0]])).S
    tensor([2., 1.])
    """
    x = factorizable("svd", x)
    return SVDResult(*factorizations.svd(x, full_matrices=bool(full_matrices), real=real_of(x)))


def svdvals(x: Any, /) -> Tensor:
    """Singular values, largest first.

    >>> ad.linalg.svdvals(ad.asarray([[0.0, 2.0], [1.0, 0.0]]))
    tensor([2., 1.])
    """
    return factorizations.svdvals(factorizable("svdvals", x))


def eigh(x: Any, /) -> EighResult:
    """Eigenvalues of a Hermitian matrix, smallest first, and eigenvectors as columns.

    Of another matrix it reads the Hermitian part, (x + xᴴ) / 2.

    >>> ad.linalg.eigh(ad.asarray([[2.0, 1.0], [1.0, 2.0]])).eigenvalues
    tensor([1., 3.])
    """
    x = hermitian("eigh", x)
    return EighResult(*factorizations.eigh(x, real=real_of(x)))


def eigvalsh(x: Any, /) -> Tensor:
    """Eigenvalues of a Hermitian matrix, smallest first.

    >>> ad.linalg.eigvalsh(ad.asarray([[2.0, 1.0], [1.0, 2.0]]))
    tensor([1., 3.])
    """
    return factorizations.eigvalsh(hermitian("eigvalsh", x))


def eig(x: Any, /) -> EigResult:
    """Eigenvalues of a square matrix, in no order, and eigenvectors as columns; both complex.

    >>> ad.linalg.eig(ad.asarray([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
    tensor([2.+0.j, 3.+0.j], dtype=adjoint.complex64)
    """
    x = square_matrices("eig", factorizable("eig", x))
    return EigResult(*factorizations.eig(x, dtype=complex_of(x)))


def eigvals(x: Any, /) -> Tensor:
    """Eigenvalues of a square matrix, in no order; complex.

    >>> ad.linalg.eigvals(ad.asarray([[0.0, 1.0], [-1.0, 0.0]])).shape
    (2,)
    """
    x = square_matrices("eigvals", factorizable("eigvals", x))
    return factorizations.eigvals(x, dtype=complex_of(x))


def qr(x: Any, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """Orthonormal columns and an upper triangle: x = Q @ R.

    >>> x = ad.ones((3, 2))
    >>> ad.linalg.qr(x).Q.shape, ad.linalg.qr(x, mode="complete").Q.shape
    ((3, 2), (3, 3))
    """
    if mode not in ("reduced", "complete"):
        raise ArgumentError(f"qr: mode is 'reduced' or 'complete', got {mode!r}")
    return QRResult(*factorizations.qr(factorizable("qr", x), complete=mode == "complete"))


def cholesky(x: Any, /, *, upper: bool = False) -> Tensor:
    """The lower triangle L of a positive definite matrix x = L @ Lᴴ, or the upper one, Lᴴ.

    Of a matrix that isn't Hermitian it reads the Hermitian part, (x + xᴴ) / 2.

    >>> ad.linalg.cholesky(ad.asarray([[4.0, 2.0], [2.0, 2.0]]))
    tensor([[2., 0.],
            [1., 1.]])
    """
    return factorizations.cholesky(hermitian("cholesky", x), upper=bool(upper))


def inv(x: Any, /) -> Tensor:
    """The inverse of a square matrix.

    >>> ad.linalg.inv(ad.asarray([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5 , 0.  ],
            [0.  , 0.25]])
    """
    return factorizations.inv(square_matrices("inv", factorizable("inv", x)))


def pinv(x: Any, /, *, rtol: Any = None) -> Tensor:
    """The pseudo-inverse; singular values of at most `rtol` times the largest count as 0.

    >>> ad.linalg.pinv(ad.asarray([[2.0, 0.0], [0.0, 0.0]]))
    tensor([[0.5, 0. ],
            [0. , 0. ]])
    """
    x = factorizable("pinv", x)
    u, s, vh = factorizations.svd(x, full_matrices=False, real=real_of(x))
    counts = greater(s, cutoff("pinv", x, s, rtol))
    inverse = where(counts, 1 / where(counts, s, 1), 0)
    scaled = adjoint(vh) * expand_dims(inverse, -2)
    return contractions.matmul(scaled, adjoint(u))


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Tensor:
    """How many singular values are larger than `rtol` times the largest.

    >>> ad.linalg.matrix_rank(ad.asarray([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    x = factorizable("matrix_rank", x)
    s = factorizations.svdvals(x)
    return reductions.count_nonzero(greater(s, cutoff("matrix_rank", x, s, rtol)), axis=-1)


def det(x: Any, /) -> Tensor:
    """The determinant of a square matrix.

    >>> ad.linalg.det(ad.asarray([[1.0, 2.0], [2.0, 4.0]]))
    tensor(0.)
    """
    return factorizations.det(square_matrices("det", factorizable("det", x)))


def slogdet(x: Any, /) -> SlogdetResult:
    """The sign of the determinant, and the logarithm of its absolute value.

    >>> ad.linalg.slogdet(ad.asarray([[-1.0, 0.0], [0.0, 1.0]]))
    SlogdetResult(sign=tensor(-1.), logabsdet=tensor(0.))
    """
    x = square_matrices("slogdet", factorizable("slogdet", x))
    return SlogdetResult(*factorizations.slogdet(x, real=real_of(x)))


def solve(x: Any, y: Any, /) -> Tensor:
    """What x takes to y: x @ solve(x, y) = y. Batch axes broadcast.

    y is a vector if it has exactly one axis, else matrices.

    >>> ad.linalg.solve(ad.asarray([[2.0, 0.0], [0.0, 4.0]]), ad.asarray([1.0, 1.0]))
    tensor([0.5 , 0.25])
    """
    x, y = in_common_dtype("solve", x, y)
    x, y = square_matrices("solve", factorizable("solve", x)), undifferentiated("solve", y)
    vector = y.ndim == 1
    right = reshape(y, shape=(*y.shape, 1)) if vector else y
    if right.ndim < 2 or right.shape[-2] != x.shape[-1]:
        raise ShapeError(
            f"solve: matrices of shape {x.shape} need a right side of shape ({x.shape[-1]},) or "
            f"(..., {x.shape[-1]}, k), got {y.shape}"
        )
    broadcast_shapes("solve: batch axes", [x.shape[:-2], right.shape[:-2]])
    out = factorizations.solve(x, right)
    return reshape(out, shape=out.shape[:-1]) if vector else out


# What they check and share.


def matrices(function: str, x: Any) -> Tensor:
    x = as_tensor(function, x)
    if x.ndim < 2:
        raise ShapeError(
            f"{function}: matrices are needed, with at least 2 axes; shape is {x.shape}"
        )
    return x


def square_matrices(function: str, x: Any) -> Tensor:
    x = matrices(function, x)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{function}: square matrices are needed, shape is {x.shape}")
    return x


def factorizable(function: str, x: Any) -> Tensor:
    """Matrices of a dtype that LAPACK knows, that don't require grad."""
    x = undifferentiated(function, matrices(function, x))
    if x.data.dtype.kind not in "fc" or x.data.dtype == float16.dtype:
        raise DTypeError(
            f"{function}: float32, float64, complex64 or complex128 is needed, got {x.dtype.name}; "
            "cast it with ad.astype"
        )
    return x


def hermitian(function: str, x: Any) -> Tensor:
    """The Hermitian part of square matrices."""
    x = square_matrices(function, factorizable(function, x))
    return (x + adjoint(x)) / 2


def adjoint(x: Tensor) -> Tensor:
    return conjugated(matrix_transpose(x))


def real_of(x: Tensor) -> np.dtype:
    dtype = x.data.dtype
    return REAL_PART[dtype] if dtype.kind == "c" else dtype


def complex_of(x: Tensor) -> np.dtype:
    return as_numpy(np.result_type(x.data.dtype, np.complex64))


def cutoff(function: str, x: Tensor, s: Tensor, rtol: Any) -> Tensor:
    """The largest singular value that counts as 0, for each matrix."""
    if rtol is None:
        rtol = max(x.shape[-2:]) * float(np.finfo(real_of(x)).eps)
    elif not isinstance(rtol, (int, float)):
        rtol = as_tensor(function, rtol)
        rtol = expand_dims(cast(rtol, dtype=s.data.dtype), -1)
    if not s.shape[-1]:
        return full(shape=s.shape, value=0, dtype=s.data.dtype, device=s.device)
    return max_(s, axis=(s.ndim - 1,), keepdims=True) * rtol
