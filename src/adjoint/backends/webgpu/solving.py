"""Linear equations and inverses.

A matrix that is singular has NaNs for its results; the error is raised when data is next read.
"""

import math

import numpy as np

from ..._foundation.errors import AdjointError, GradientError
from ..cpu.solving import SINGULAR
from ..spaces import steps_in
from . import elimination, host
from .arrays import Array, Ints
from .launcher import contiguous_copy, copy_into
from .programs import Program
from .stacks import ELEMENT, LARGEST, place, stacked, step_words, steps, turned
from .status import WORD, refusal
from .table import kernel

PIVOT = np.dtype("i4")


def copied(x: Array) -> Array:
    """A copy by rows, which may be written to."""
    out = x.gpu.empty(x.shape, x.dtype)
    copy_into(out, x)
    return out


def over(x: Array, batch: Ints) -> Array:
    """Matrices that broadcast to batch axes, with three axes."""
    if x.shape[:-2] != batch:
        shape = (*batch, *x.shape[-2:])
        x = x.view(shape, steps_in(x, shape))
    return stacked(x)


# What is found of matrices, and what becomes of those of which something is found.

DIAGONAL = Program(
    "zeros_on_diagonal",
    {"x": "f32"},
    {"found": "u32"},
    f"count n {steps('x')}",
    f"""
    let matrix = group * 64u + lane;
    if (matrix >= p.count) {{ return; }}
    var first = 0u;
    for (var i = p.n; i > 0u; i--) {{
        if (x[{place("x", "matrix", "i - 1u", "i - 1u")}] == 0.0) {{ first = i; }}
    }}
    found[matrix] = first;
    """,
)

UNLESS = Program(
    "copy_unless",
    {"x": "f32", "found": "u32"},
    {"out": "f32"},
    f"size rows columns found_step nan:f32 {steps('x')}",
    f"""
    {ELEMENT}
    let value = x[{place("x", "matrix", "row", "column")}];
    out[e] = select(value, p.nan, found[matrix * p.found_step] != 0u);
    """,
    workgroup=256,
)


def zeros_on_diagonal(x: Array) -> Array:
    """For matrices in three axes, where the first zero on the diagonal is, from 1; or 0."""
    found = x.gpu.empty((len(x),), WORD)
    words = {"count": len(x), "n": x.shape[1], **step_words(x=x)}
    x.gpu.launch(DIAGONAL, -(-len(x) // 64), x, found, **words)
    return found


def copied_unless(found: Array, x: Array, shape: Ints) -> Array:
    """A copy, in another shape, of matrices in three axes; NaNs where something is found. One word
    may be for all."""
    out = x.gpu.empty(shape, x.dtype)
    words = {"size": x.size, "rows": x.shape[1], "columns": x.shape[2], "nan": math.nan}
    words |= {"found_step": found.size > 1, **step_words(x=x)}
    x.gpu.launch(UNLESS, -(-x.size // 256), x, found, out, **words)
    return out


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


@kernel
def lu(x: Array) -> tuple[Array, Array]:
    factors, pivots = copied(x), x.gpu.empty(x.shape[:-1], PIVOT)
    if x.size:
        elimination.lu(stacked(factors), pivots)
    return factors, pivots


@kernel
def lu_solve(x, factors, pivots, y, *, transposed: bool, asked: str) -> Array:
    if not y.size:
        return y.gpu.empty(y.shape, y.dtype)
    matrices = over(factors, y.shape[:-2])
    found = zeros_on_diagonal(matrices)
    y.gpu.status.report(found, singular, asked, (*y.shape[:-2], *x.shape[-2:]))
    out = copied_unless(found, stacked(y), y.shape)
    all_pivots = over(pivots.view((*pivots.shape, 1), (*pivots.strides, 1)), y.shape[:-2])
    elimination.lu_solve(matrices, contiguous_copy(all_pivots), stacked(out), transposed=transposed)
    return out


IDENTITY = Program(
    "identity",
    {},
    {"out": "f32"},
    "size n",
    """
    let e = group * 256u + lane;
    if (e < p.size) { out[e] = select(0.0, 1.0, e / p.n % p.n == e % p.n); }
    """,
    workgroup=256,
)


def identity(x: Array) -> Array:
    """Identity matrices of the shape of x."""
    out = x.gpu.empty(x.shape, x.dtype)
    x.gpu.launch(IDENTITY, -(-x.size // 256), out, size=x.size, n=x.shape[-1])
    return out


@kernel
def inv(x: Array) -> Array:
    return lu_solve(x, *lu(x), identity(x), transposed=False, asked="inv")


# Triangles.


def checked_triangles(x: Array, y: Array) -> tuple[Array, Array]:
    """Triangles in three axes, and a copy of y, with NaNs for those that are singular: there is a 0
    on the diagonal."""
    matrices = over(x, y.shape[:-2])
    found = zeros_on_diagonal(matrices)
    y.gpu.status.report(found, singular_triangle, (*y.shape[:-2], *x.shape[-2:]))
    return matrices, copied_unless(found, stacked(y), y.shape)


@kernel
def solve_triangular(x: Array, y: Array, *, upper: bool, unit: bool) -> Array:
    if not y.size:
        return y.gpu.empty(y.shape, y.dtype)
    if unit:
        matrices, out = over(x, y.shape[:-2]), copied(y)
    else:
        matrices, out = checked_triangles(x, y)
    solve = elimination.solve_upper if upper else elimination.solve_lower
    solve(matrices, stacked(out), unit=unit)
    return out


@kernel
def cholesky_solve(x: Array, y: Array) -> Array:
    if not y.size:
        return y.gpu.empty(y.shape, y.dtype)
    matrices, out = checked_triangles(x, y)
    elimination.solve_lower(matrices, stacked(out), unit=False)
    elimination.solve_upper(turned(matrices), stacked(out), unit=False)
    return out


# How far from singular.

GROWTH = Program(
    "growth",
    {"x": "f32", "inverse": "f32"},
    {"found": "u32"},
    f"count n most:f32 {steps('x', 'inverse')}",
    f"""
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
    }}
    """,
    declarations="""
// As bits, whose order is that of positive numbers; NaNs are larger than all.
var<workgroup> elements: atomic<u32>;
var<workgroup> norm: atomic<u32>;
var<workgroup> inverse_norm: atomic<u32>;
""",
)


@kernel
def far_from_singular(x: Array, *, power: float, asked: str) -> Array:
    if not x.size:
        return x
    if x.shape[-1] > LARGEST:
        return host.function("far_from_singular")(x, power=power, asked=asked)
    matrices, inverse = stacked(x), stacked(identity(x))
    factors, pivots = lu(x)
    elimination.lu_solve(stacked(factors), pivots, inverse, transposed=False)
    found = x.gpu.empty((len(matrices),), WORD)
    most = float(np.finfo(x.dtype).eps) ** -power
    words = {"count": len(matrices), "n": x.shape[-1], "most": most}
    words |= step_words(x=matrices, inverse=inverse)
    x.gpu.launch(GROWTH, len(matrices), matrices, inverse, found, **words)
    x.gpu.status.report(found, no_gradient, asked)
    return copied_unless(found, matrices, x.shape)
