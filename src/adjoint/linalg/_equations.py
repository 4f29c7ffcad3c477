"""Linear equations, inverses, determinants."""

from collections.abc import Callable
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from .._core.shape_inference import broadcast_shapes, broadcasts_to
from .._core.tensor import Tensor
from .._foundation.errors import ArgumentError, ShapeError
from .._foundation.modes import no_grad
from ..functions import reductions
from ..functions._arguments import as_tensor, in_common_dtype
from ..functions.shapes import expand_dims, matrix_transpose
from ..primitives import factorizations, solving
from ..primitives.contractions import matmul
from ..primitives.conversions import cast
from ..primitives.creation import full
from ..primitives.elementwise import abs as absolute
from ..primitives.elementwise import greater, square, where
from ..primitives.reductions import broadcast_to, max_, sum_
from ..primitives.shapes import reshape
from ._checks import adjoint, factorizable, named, real_of, regular
from ._orthogonal import svd


class SlogdetResult(NamedTuple):
    """The sign of a determinant, and the logarithm of its absolute value."""

    sign: Tensor
    logabsdet: Tensor


class LstsqResult(NamedTuple):
    """What comes closest, the squares of what is missing, and what the matrix is like."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


# Matrices and their right sides.


class System(NamedTuple):
    """Matrices, as many right sides, and what gives a result the axes that it should have."""

    x: Tensor
    y: Tensor
    finish: Callable[[Tensor], Tensor]


def system(function: str, x: Tensor, y: Tensor) -> System:
    """Batch axes broadcast. A matrix that many right sides share isn't repeated: these are columns
    of one right side then. y is a vector if it has exactly one axis, else matrices."""
    rows = x.shape[-2]
    right = reshape(y, shape=(*y.shape, 1)) if y.ndim == 1 else y
    if right.ndim < 2 or right.shape[-2] != rows:
        raise ShapeError(
            f"{function}: matrices of shape {x.shape} need a right side of shape ({rows},) or "
            f"(..., {rows}, k), got {y.shape}"
            + (
                "; for a vector for each matrix, pass y[..., None]"
                if y.shape[-1:] == (rows,)
                else ""
            )
        )
    batch = broadcast_shapes(f"{function}: batch axes", [x.shape[:-2], right.shape[:-2]])
    if right.shape[:-2] != batch:
        right = broadcast_to(right, shape=(*batch, *right.shape[-2:]))
    own = (*(1,) * (len(batch) + 2 - x.ndim), *x.shape[:-2])
    shared = tuple(k for k, n in enumerate(batch) if own[k] != n)
    left = (*(n for k, n in enumerate(batch) if k not in shared), *x.shape[-2:])
    x = x if x.shape == left else reshape(x, shape=left)
    columns = solving.Columns(right, shared) if shared else None

    def finish(out: Tensor) -> Tensor:
        out = columns.restored(out) if columns else out
        return reshape(out, shape=out.shape[:-1]) if y.ndim == 1 else out

    return System(x, columns.matrices if columns else right, finish)


@named
def solve(x: Any, y: Any, /) -> Tensor:
    """What x takes to y: x @ solve(x, y) = y. Batch axes broadcast.

    y is a vector if it has exactly one axis, else matrices.

    >>> ad.linalg.solve(ad.asarray([[2.0, 0.0], [0.0, 4.0]]), ad.asarray([1.0, 1.0]))
    tensor([0.5 , 0.25])
    """
    x, y = in_common_dtype("solve", x, y)
    x, y, finish = system("solve", regular("solve", x), y)
    factors, pivots = solving.lu(x)
    return finish(solving.lu_solve(x, factors, pivots, y, transposed=False, asked="solve"))


@named
def solve_triangular(
    a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """What the triangular matrix a takes to b; what is beyond the triangle isn't read.

    `upper`: which triangle. With `left=False`, x @ a = b is solved instead of a @ x = b. With
    `unitriangular` the diagonal isn't read either, and taken to be ones. Batch axes broadcast. b is
    a vector if it has exactly one axis, else matrices.

    >>> a = ad.asarray([[2.0, 0.0], [1.0, 1.0]])
    >>> ad.linalg.solve_triangular(a, ad.asarray([2.0, 3.0]), upper=False)
    tensor([1., 2.])
    """
    a, b = in_common_dtype("solve_triangular", a, b)
    a = regular("solve_triangular", a)
    if not left:
        if b.shape[-1:] != a.shape[-1:]:
            n = a.shape[-1]
            raise ShapeError(
                f"solve_triangular: from the right, matrices of shape {a.shape} need a side of "
                f"shape ({n},) or (..., k, {n}), got {b.shape}"
            )
        a, upper = matrix_transpose(a), not upper
        b = matrix_transpose(b) if b.ndim > 1 else b
    x, y, finish = system("solve_triangular", a, b)
    out = solving.solve_triangular(x, y, upper=bool(upper), unit=bool(unitriangular))
    out = finish(out)
    return matrix_transpose(out) if not left and b.ndim > 1 else out


@named
def cholesky_solve(b: Any, L: Any, *, upper: bool = False) -> Tensor:
    """What a positive definite matrix takes to b, from its Cholesky factor: L @ Lᴴ @ x = b.

    `upper`: Lᴴ is given, as `cholesky` gives it with `upper=True`. Batch axes broadcast. b is a
    vector if it has exactly one axis, else matrices.

    >>> L = ad.linalg.cholesky(ad.asarray([[4.0, 2.0], [2.0, 2.0]]))
    >>> ad.linalg.cholesky_solve(ad.asarray([8.0, 6.0]), L)
    tensor([1., 2.])
    """
    L, b = in_common_dtype("cholesky_solve", L, b)
    L = regular("cholesky_solve", L)
    x, y, finish = system("cholesky_solve", adjoint(L) if upper else L, b)
    return finish(solving.cholesky_solve(x, y))


@named
def lstsq(a: Any, b: Any, *, rtol: Any = None) -> LstsqResult:
    """The smallest x for which a @ x is closest to b: `solution`, and what was found on the way.

    `residuals` are the sums of the squares of what is missing in each column, `rank` counts the
    `singular_values` of a that are larger than `rtol` times the largest; the others count as 0.
    Batch axes broadcast. b is a vector if it has exactly one axis, else matrices.

    >>> a = ad.asarray([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> ad.linalg.lstsq(a, ad.asarray([1.0, 3.0, 5.0])).rank
    tensor(2)
    """
    a, b = in_common_dtype("lstsq", a, b)
    a = factorizable("lstsq", a)
    x, y, finish = system("lstsq", a, b)
    rtol = checked_rtol("lstsq", a, rtol)
    own = reshape(rtol, shape=(*x.shape[:-2], 1)) if isinstance(rtol, Tensor) else rtol
    found = pseudo_inverse(x, own)
    solution = found(y)
    missing = finish(y - matmul(x, solution))
    squares = square(absolute(missing) if missing.raw.dtype.kind == "c" else missing)
    rows = missing.ndim - (1 if b.ndim == 1 else 2)
    s = reshape(found.s, shape=(*a.shape[:-2], found.s.shape[-1]))
    rank = reductions.count_nonzero(greater(s, cutoff(s, rtol)), axis=-1)
    return LstsqResult(finish(solution), sum_(squares, axis=(rows,), keepdims=False), rank, s)


# Inverses.


class PseudoInverse(NamedTuple):
    """The pseudo-inverse of x, by the parts of x."""

    x: Tensor
    u: Tensor
    s: Tensor
    inverse: Tensor
    vh: Tensor

    def __call__(self, y: Tensor) -> Tensor:
        """Times y."""
        parts = (self.u, self.inverse, self.vh)
        return solving.least_squares(self.x, *parts, y, transposed=False)


def pseudo_inverse(x: Tensor, rtol: Any) -> PseudoInverse:
    u, s, vh = svd(x, full_matrices=False, real=real_of(x))
    with no_grad():
        counts = greater(s, cutoff(s, rtol))
        inverse = where(counts, 1 / where(counts, s, 1), 0)
    return PseudoInverse(x, u.detach(), s, inverse, vh.detach())


def checked_rtol(function: str, x: Tensor, rtol: Any) -> Any:
    """A number, or one for each matrix, with one more axis."""
    if rtol is None:
        return max(x.shape[-2:]) * float(np.finfo(real_of(x)).eps)
    if isinstance(rtol, (Tensor, np.ndarray)):
        rtol = cast(as_tensor(function, rtol), dtype=real_of(x))
        if not broadcasts_to(rtol.shape, x.shape[:-2]):
            raise ShapeError(
                f"{function}: rtol of shape {rtol.shape} doesn't fit the batch axes "
                f"{x.shape[:-2]} of shape {x.shape}"
            )
        return expand_dims(broadcast_to(rtol, shape=x.shape[:-2]), -1)
    if not isinstance(rtol, Real) or not float(rtol) >= 0:
        raise ArgumentError(
            f"{function}: rtol is a number from 0 on, or a tensor of them, got {rtol!r}"
        )
    return rtol


def cutoff(s: Tensor, rtol: Any) -> Tensor:
    """The largest singular value that counts as 0, for each matrix; rtol is checked."""
    if not s.shape[-1]:
        return full(shape=s.shape, value=0, dtype=s.raw.dtype, device=s.device)
    return max_(s, axis=(s.ndim - 1,), keepdims=True) * rtol


@named
def inv(x: Any, /) -> Tensor:
    """The inverse of a square matrix.

    >>> ad.linalg.inv(ad.asarray([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5 , 0.  ],
            [0.  , 0.25]])
    """
    return solving.inv(regular("inv", x))


@named
def pinv(x: Any, /, *, rtol: Any = None) -> Tensor:
    """The pseudo-inverse; singular values of at most `rtol` times the largest count as 0.

    >>> ad.linalg.pinv(ad.asarray([[2.0, 0.0], [0.0, 0.0]]))
    tensor([[0.5, 0. ],
            [0. , 0. ]])
    """
    x = factorizable("pinv", x)
    rows = x.shape[-2]
    one = solving.identity(x, rows)
    inverse = pseudo_inverse(x, checked_rtol("pinv", x, rtol))
    return inverse(broadcast_to(one, shape=(*x.shape[:-2], rows, rows)))


@named
def matrix_rank(x: Any, /, *, rtol: Any = None) -> Tensor:
    """How many singular values are larger than `rtol` times the largest.

    >>> ad.linalg.matrix_rank(ad.asarray([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    x = factorizable("matrix_rank", x)
    s = factorizations.svdvals(x)
    limit = cutoff(s, checked_rtol("matrix_rank", x, rtol))
    return reductions.count_nonzero(greater(s, limit), axis=-1)


@named
def det(x: Any, /) -> Tensor:
    """The determinant of a square matrix.

    >>> ad.linalg.det(ad.asarray([[1.0, 2.0], [2.0, 4.0]]))
    tensor(0.)
    """
    return solving.det(regular("det", x))


@named
def slogdet(x: Any, /) -> SlogdetResult:
    """The sign of the determinant, and the logarithm of its absolute value.

    >>> ad.linalg.slogdet(ad.asarray([[-1.0, 0.0], [0.0, 1.0]]))
    SlogdetResult(sign=tensor(-1.), logabsdet=tensor(0.))
    """
    x = regular("slogdet", x)
    return SlogdetResult(*solving.slogdet(x, real=real_of(x))[:2])
