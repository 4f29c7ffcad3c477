"""Linear equations and inverses.

A matrix that is singular has NaNs for its results; the error is raised when data is next read.
"""

import math
from collections.abc import Callable

import numpy as np

from ..._foundation.errors import AdjointError, GradientError
from ...kernels.language import (
    F32,
    U32,
    Kernel,
    absolute,
    convert,
    element,
    equal,
    reduce,
    scalar,
    select,
)
from ...kernels.ops import is_finite, is_nan
from ..cpu.solving import SINGULAR
from ..launches import View
from . import elimination
from .arrays import Ints, contiguous
from .lowering import Programs, lowering
from .maps import as_contiguous, copy, lower_map
from .programs import per_element
from .rows import lower_rows, without
from .stacks import over, place, stacked, step_words, steps
from .status import WORD, refusal

PIVOT = np.dtype("i4")


# What is found of matrices, and what becomes of those of which something is found.

DIAGONAL = per_element("zeros_on_diagonal", "x:f32 -> found", "n " + steps("x"), workgroup=64)(f"""
    var first = 0u;
    for (var i = p.n; i > 0u; i--) {{
        if (x[{place("x", "at", "i - 1u", "i - 1u")}] == 0.0) {{ first = i; }}
    }}
    found[at] = first;""")

UNLESS = Kernel((select(equal(element(1, U32), 0), element(0, F32), math.nan),))


def zeros_on_diagonal(to: Programs, x: View) -> View:
    """For matrices in three axes, where the first zero on the diagonal is, from 1; or 0."""
    count, n, _ = x.shape
    found = to.temporary((count,), WORD)
    to.launch_each(DIAGONAL, count, x, found, n=n, **step_words(x=x))
    return found


def copy_unless(to: Programs, out: View, found: View, x: View) -> None:
    """Copy matrices in three axes to memory without gaps: NaNs where something is found. One word
    may be for all."""
    words = found.view((found.size, 1, 1), (1, 0, 0))
    lower_map(to, UNLESS, [x, words], [out.view(x.shape, contiguous(x.shape))])


def singular(asked: str, shape: Ints, index: int, word: int) -> AdjointError:
    """The error for a singular matrix; `asked`: what needs its inverse."""
    if asked != "slogdet":
        return refusal(asked, shape, index, SINGULAR)
    complaint = "is singular: log |det| is -inf there, and has no gradient; ad.linalg.det has one"
    return GradientError(str(refusal(asked, shape, index, complaint)))


def singular_triangle(shape: Ints, index: int, word: int) -> AdjointError:
    complaint = f"is singular: element {word - 1} of its diagonal is 0"
    return refusal("solve_triangular", shape, index, complaint)


def no_gradient(asked: str, index: int, word: int) -> AdjointError:
    """An error that is told beforehand, whichever matrix it is of."""
    return GradientError(asked)


# LU.


@lowering
def lu(to: Programs, x: View) -> None:
    factorized(to, x, to.result)


def factorized(to: Programs, x: View, memory: Callable[..., View]) -> tuple[View, View]:
    """Factors and pivots in new memory: `to.result`, or `to.temporary` if nobody sees them."""
    factors, pivots = memory(x.shape, x.dtype), memory(x.shape[:-1], PIVOT)
    copy(to, factors, x)
    if x.size:
        elimination.lu(to, stacked(to, factors), pivots)
    return factors, pivots


@lowering
def lu_solve(
    to: Programs, x: View, factors: View, pivots: View, y: View, *, transposed: bool, asked: str
) -> None:
    solve_factored(to, to.result(y.shape, y.dtype), factors, pivots, y, transposed, asked)


def solve_factored(
    to: Programs, out: View, factors: View, pivots: View, y: View, transposed: bool, asked: str
) -> None:
    if not y.size:
        return
    batch = y.shape[:-2]
    matrices = over(to, factors, batch)
    found = zeros_on_diagonal(to, matrices)
    to.report(found, singular, asked, (*batch, *factors.shape[-2:]))
    copy_unless(to, out, found, stacked(to, y))
    all_pivots = over(to, pivots.view((*pivots.shape, 1), (*pivots.strides, 1)), batch)
    solved = stacked(to, out)
    elimination.lu_solve(to, matrices, as_contiguous(to, all_pivots), solved, transposed=transposed)


IDENTITY = per_element("identity", "-> out:f32", "n")(
    "out[at] = select(0.0, 1.0, at / p.n % p.n == at % p.n);"
)


def identity(to: Programs, x: View) -> View:
    """Identity matrices of the shape of x."""
    out = to.temporary(x.shape, x.dtype)
    to.launch_each(IDENTITY, x.size, out, n=x.shape[-1])
    return out


@lowering
def inv(to: Programs, x: View) -> None:
    out = to.result(x.shape, x.dtype)
    solve_factored(to, out, *factorized(to, x, to.temporary), identity(to, x), False, "inv")


# Triangles.


def checked_triangles(to: Programs, out: View, x: View, y: View) -> View:
    """Triangles in three axes. A copy of y goes to `out`, with NaNs for those that are singular:
    there is a 0 on the diagonal."""
    matrices = over(to, x, y.shape[:-2])
    found = zeros_on_diagonal(to, matrices)
    to.report(found, singular_triangle, (*y.shape[:-2], *x.shape[-2:]))
    copy_unless(to, out, found, stacked(to, y))
    return matrices


@lowering
def solve_triangular(to: Programs, x: View, y: View, *, upper: bool, unit: bool) -> None:
    solve_triangles(to, to.result(y.shape, y.dtype), x, y, upper, unit)


def solve_triangles(
    to: Programs, out: View, x: View, y: View, upper: bool, unit: bool = False
) -> None:
    if not y.size:
        return
    if unit:
        matrices = over(to, x, y.shape[:-2])
        copy(to, out, y)
    else:
        matrices = checked_triangles(to, out, x, y)
    elimination.solve(to, matrices, stacked(to, out), upper=upper, unit=unit)


@lowering
def cholesky_solve(to: Programs, x: View, y: View) -> None:
    out = to.result(y.shape, y.dtype)
    if y.size:
        matrices, solved = checked_triangles(to, out, x, y), stacked(to, out)
        elimination.solve(to, matrices, solved, upper=False, unit=False)
        elimination.solve(to, matrices.swapped(), solved, upper=True, unit=False)


# How far from singular.

MAGNITUDES = {how: Kernel((reduce(how, absolute(element(0, F32))),)) for how in ("sum", "max")}


def magnitudes(to: Programs, how: str, x: View, *axes: int) -> View:
    """Sums of absolute values, or the largest, along axes, which stay as ones."""
    out = to.temporary(without(x.shape, axes), x.dtype)
    lower_rows(to, MAGNITUDES[how], [x], axes, [out])
    return out


def norms(to: Programs, x: View) -> View:
    """For matrices in three axes, the largest sum of the absolute values of a row."""
    return magnitudes(to, "max", magnitudes(to, "sum", x, 2), 1)


def growing() -> Kernel:
    """Whether the product of norms is as large as a number, or NaN; but not if elements were that
    large already."""
    (norm, inverse, largest), most = (element(k, F32) for k in range(3)), scalar(0, F32)
    grown = norm * inverse
    near = (grown >= most) | is_nan(grown)
    return Kernel((convert(near & is_finite(largest), U32),))


GROWTH = growing()


@lowering
def far_from_singular(to: Programs, x: View, *, power: float, asked: str) -> None:
    out = to.result(x.shape, x.dtype)
    if not x.size:
        return
    matrices, inverse = stacked(to, x), stacked(to, identity(to, x))
    factors, pivots = factorized(to, x, to.temporary)
    elimination.lu_solve(to, stacked(to, factors), pivots, inverse, transposed=False)
    known = [norms(to, matrices), norms(to, inverse), magnitudes(to, "max", matrices, 1, 2)]
    found = to.temporary((matrices.shape[0], 1, 1), WORD)
    most = float(np.finfo(x.dtype).eps) ** -power
    lower_map(to, GROWTH, known, [found], numbers={0: most})
    to.report(found, no_gradient, asked)
    copy_unless(to, out, found, matrices)
