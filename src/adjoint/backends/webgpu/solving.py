"""Linear equations and inverses.

A matrix that is singular has NaNs for its results; the error is raised when data is next read.
"""

import math

import numpy as np

from ..._foundation.errors import AdjointError, GradientError
from ..cpu.solving import SINGULAR
from ..launches import View
from . import elimination
from .arrays import Ints
from .lowering import Programs, lowering
from .maps import as_contiguous, copy
from .programs import per_element, wgsl
from .stacks import ELEMENT, check_size, over, place, stacked, step_words, steps
from .status import WORD, refusal

PIVOT = np.dtype("i4")


# What is found of matrices, and what becomes of those of which something is found.

DIAGONAL = per_element("zeros_on_diagonal", "x:f32 -> found", "n " + steps("x"), workgroup=64)(f"""
    var first = 0u;
    for (var i = p.n; i > 0u; i--) {{
        if (x[{place("x", "at", "i - 1u", "i - 1u")}] == 0.0) {{ first = i; }}
    }}
    found[at] = first;""")

UNLESS = per_element(
    "copy_unless",
    "x:f32 found -> out:f32",
    f"rows columns found_step nan:f32 {steps('x')}",
)(f"""
    {ELEMENT}
    let value = x[{place("x", "matrix", "row", "column")}];
    out[at] = select(value, p.nan, found[matrix * p.found_step] != 0u);""")


def zeros_on_diagonal(to: Programs, x: View) -> View:
    """For matrices in three axes, where the first zero on the diagonal is, from 1; or 0."""
    count, n, _ = x.shape
    found = to.temporary((count,), WORD)
    to.launch_each(DIAGONAL, count, x, found, n=n, **step_words(x=x))
    return found


def copy_unless(to: Programs, out: View, found: View, x: View) -> None:
    """Copy matrices in three axes to memory without gaps: NaNs where something is found. One word
    may be for all."""
    words = {"rows": x.shape[1], "columns": x.shape[2], "found_step": found.size > 1}
    to.launch_each(UNLESS, x.size, x, found, out, nan=math.nan, **words, **step_words(x=x))


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
    factorize(to, to.result(x.shape, x.dtype), to.result(x.shape[:-1], PIVOT), x)


def factorize(to: Programs, factors: View, pivots: View, x: View) -> None:
    copy(to, factors, x)
    if x.size:
        elimination.lu(to, stacked(to, factors), pivots)


def factorized(to: Programs, x: View) -> tuple[View, View]:
    """Factors and pivots that nobody sees."""
    factors, pivots = to.temporary(x.shape, x.dtype), to.temporary(x.shape[:-1], PIVOT)
    factorize(to, factors, pivots, x)
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
    solve_factored(to, out, *factorized(to, x), identity(to, x), False, "inv")


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

GROWTH = wgsl(
    "growth",
    "x:f32 inverse:f32 -> found",
    f"count n most:f32 {steps('x', 'inverse')}",
    declarations="""
// As bits, whose order is that of positive numbers; NaNs are larger than all.
var<workgroup> elements: atomic<u32>;
var<workgroup> norm: atomic<u32>;
var<workgroup> inverse_norm: atomic<u32>;
""",
)(f"""
    if (group >= p.count) {{ return; }}
    if (lane == 0u) {{
        atomicStore(&elements, 0u);
        atomicStore(&norm, 0u);
        atomicStore(&inverse_norm, 0u);
    }}
    workgroupBarrier();
    for (var i = lane; i < p.n; i += 64u) {{
        var sums = vec2<f32>();
        var largest = 0u;
        for (var j = 0u; j < p.n; j++) {{
            let both = abs(vec2<f32>(
                x[{place("x", "group", "i", "j")}], inverse[{place("inverse", "group", "i", "j")}]
            ));
            sums += both;
            largest = max(largest, bitcast<u32>(both.x));
        }}
        atomicMax(&elements, largest);
        atomicMax(&norm, bitcast<u32>(sums.x));
        atomicMax(&inverse_norm, bitcast<u32>(sums.y));
    }}
    workgroupBarrier();
    if (lane == 0u) {{
        let grown = bitcast<f32>(atomicLoad(&norm)) * bitcast<f32>(atomicLoad(&inverse_norm));
        let near = bitcast<u32>(grown) >= bitcast<u32>(p.most);
        found[group] = select(0u, 1u, near && atomicLoad(&elements) < 0x7f800000u);
    }}""")


@lowering
def far_from_singular(to: Programs, x: View, *, power: float, asked: str) -> None:
    out = to.result(x.shape, x.dtype)
    if not x.size:
        return
    check_size(x)
    matrices, inverse = stacked(to, x), stacked(to, identity(to, x))
    factors, pivots = factorized(to, x)
    elimination.lu_solve(to, stacked(to, factors), pivots, inverse, transposed=False)
    count, n, _ = matrices.shape
    found = to.temporary((count,), WORD)
    words = {"count": count, "n": n, "most": float(np.finfo(x.dtype).eps) ** -power}
    words |= step_words(x=matrices, inverse=inverse)
    to.launch(GROWTH, count, matrices, inverse, found, **words)
    to.report(found, no_gradient, asked)
    copy_unless(to, out, found, matrices)
