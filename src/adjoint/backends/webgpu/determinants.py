"""Determinants and their derivatives.

Products are kept as numbers between 1 and 2 and powers of two, which don't overflow on the way.

Cofactors are had of singular matrices, too. With the largest of all elements as the pivot, a matrix
is taken apart as p @ l @ d @ v @ q: permutations, triangles with ones on their diagonals, which are
far from singular, and a diagonal. The cofactors of a product are the product of the cofactors, and
those of d are products of numbers: nothing is divided by a small one. (Stewart, "On the adjugate
matrix", 1998.)
"""

import functools
import math
from collections.abc import Iterator

import numpy as np

from ...kernels.ops import Unsupported
from ..launches import View
from .elimination import exchange, solve
from .logarithms import LOGARITHMS
from .lowering import Programs, lowering
from .maps import copy
from .programs import ROUNDS, Program, per_element, wgsl
from .running import FACTOR
from .solving import PIVOT, factorized
from .stacks import stacked
from .teams import ALONE, LARGE, TINY, Team

DETERMINANTS = wgsl(
    "determinants",
    "factors:f32 pivots:i32 -> sign:f32 logarithm:f32 determinant:f32",
    "count n infinity:f32",
    declarations=f"{LOGARITHMS}{FACTOR}var<workgroup> parts: array<Factor, 64>;",
)("""
    if (group >= p.count) { return; }
    var own = Factor(1.0, 0);
    for (var i = lane; i < p.n; i += 64u) {
        own = times(own, factor(factors[(group * p.n + i) * p.n + i], 0));
        if (pivots[group * p.n + i] != i32(i + 1u)) { own.x = -own.x; }
    }
    parts[lane] = own;
    for (var half = 32u; half > 0u; half >>= 1u) {
        workgroupBarrier();
        if (lane < half) { parts[lane] = times(parts[lane], parts[lane + half]); }
    }
    if (lane != 0u) { return; }
    let whole = parts[0];
    let size = bitcast<u32>(whole.x) & 0x7fffffffu;
    determinant[group] = number(whole);
    var log_size = log_scaled(abs(whole.x), whole.power);
    if (size == 0u) { log_size = -p.infinity; }
    if (size >= 0x7f800000u) { log_size = abs(whole.x); }
    logarithm[group] = log_size;
    var direction = select(1.0, -1.0, whole.x < 0.0);
    if (size == 0u) { direction = 0.0; }
    if (size > 0x7f800000u) { direction = whole.x; }
    sign[group] = direction;""")


def launch_determinants(to: Programs, x: View, *arrays: View) -> None:
    """`arrays`: factors, pivots; signs, logarithms of absolute values, the determinants."""
    count, n = math.prod(x.shape[:-2]), x.shape[-1]
    to.launch(DETERMINANTS, count, *arrays, count=count, n=n, infinity=math.inf)


@lowering
def det(to: Programs, x: View) -> None:
    out = to.result(x.shape[:-2], x.dtype)
    sign, logarithm = (to.temporary(out.shape, x.dtype) for _ in range(2))
    launch_determinants(to, x, *factorized(to, x, to.temporary), sign, logarithm, out)


@lowering
def slogdet(to: Programs, x: View, *, real: np.dtype) -> None:
    sign, logarithm = (to.result(x.shape[:-2], x.dtype) for _ in range(2))
    parts, determinant = factorized(to, x, to.result), to.temporary(sign.shape, x.dtype)
    launch_determinants(to, x, *parts, sign, logarithm, determinant)


# Cofactors.

LARGEST = 1024  # rows of matrices whose change of cofactors isn't left to the host


@functools.cache
def complete_program(team: Team) -> Program:
    """x = p @ l @ d @ v @ q: l is left below the diagonal, d on it, v above it."""
    arrays = "-> x:f32 rows:i32 columns:i32"
    return team.program("complete_pivoting", arrays, "n first last", DIVISION)("""
    let start = matrix * p.n * p.n;
    for (var k = p.first; k < p.last; k++) {
        let size = p.n - k;
        var most = 0u;
        var place = 0u;
        for (var e = worker; e < size * size; e += WORKERS) {
            let value = bitcast<u32>(x[start + (k + e / size) * p.n + k + e % size]) & 0x7fffffffu;
            if (value > most) {
                most = value;
                place = e;
            }
        }
        place = agreed(worker, most, place);
        let row = k + place / size;
        let column = k + place % size;
        for (var j = worker; j < p.n; j += WORKERS) {
            exchange(start + k * p.n + j, start + row * p.n + j);
        }
        sync();
        for (var i = worker; i < p.n; i += WORKERS) {
            exchange(start + i * p.n + k, start + i * p.n + column);
        }
        sync();
        if (worker == 0u) {
            rows[matrix * p.n + k] = i32(row + 1u);
            columns[matrix * p.n + k] = i32(column + 1u);
        }
        let pivot = x[start + k * p.n + k];
        for (var i = k + 1u + worker; i < p.n; i += WORKERS) {
            divide(start + i * p.n + k, pivot);
        }
        sync();
        let rest = size - 1u;
        for (var e = worker; e < rest * rest; e += WORKERS) {
            let i = k + 1u + e / rest;
            let j = k + 1u + e % rest;
            x[start + i * p.n + j] -= x[start + i * p.n + k] * x[start + k * p.n + j];
        }
        sync();
        for (var j = k + 1u + worker; j < p.n; j += WORKERS) {
            divide(start + k * p.n + j, pivot);
        }
    }""")


DIVISION = """
fn exchange(i: u32, j: u32) {
    let value = x[i];
    x[i] = x[j];
    x[j] = value;
}
fn divide(i: u32, pivot: f32) {
    if (pivot != 0.0) { x[i] /= pivot; }
}
"""

# Products of all elements of the diagonal but the i-th and the j-th, with the sign of p and q.
WITHOUT = f"""
{FACTOR}
fn without(start: u32, i: u32, j: u32) -> Factor {{
    var out = Factor(1.0, 0);
    for (var k = 0u; k < p.n; k++) {{
        if (k != i && k != j) {{ out = times(out, factor(x[(start + k) * p.n + k], 0)); }}
        if (rows[start + k] != i32(k + 1u)) {{ out.x = -out.x; }}
        if (columns[start + k] != i32(k + 1u)) {{ out.x = -out.x; }}
    }}
    return out;
}}
"""

DIAGONAL = per_element(
    "cofactors_of_diagonal",
    "x:f32 rows:i32 columns:i32 -> out:f32",
    "n",
    declarations=WITHOUT,
    workgroup=64,
)("""
    let row = at / p.n;
    let i = row % p.n;
    out[at] = 0.0;
    if (at % p.n == i) { out[at] = number(without(row - i, i, i)); }""")

# A workgroup has a row. In a column of its own it has the product with y of the same place on the
# other side of the diagonal; on the diagonal, the sum of those with the diagonal of y.
DIAGONAL_CHANGE = wgsl(
    "change_of_diagonal",
    "x:f32 rows:i32 columns:i32 y:f32 -> out:f32",
    "count n",
    declarations=f"{WITHOUT}var<workgroup> sums: array<f32, 64>;",
)("""
    if (group >= p.count) { return; }
    let i = group % p.n;
    let start = group - i;
    var sum = 0.0;
    for (var j = lane; j < p.n; j += 64u) {
        if (j == i) { continue; }
        let product = without(start, i, j);
        out[group * p.n + j] = -number(times(product, factor(y[(start + j) * p.n + i], 0)));
        sum += number(times(product, factor(y[(start + j) * p.n + j], 0)));
    }
    sums[lane] = sum;
    for (var half = 32u; half > 0u; half >>= 1u) {
        workgroupBarrier();
        if (lane < half) { sums[lane] += sums[lane + half]; }
    }
    if (lane == 0u) { out[group * p.n + i] = sums[0]; }""")


def taken_apart(to: Programs, x: View) -> tuple[View, View, View]:
    """l below the diagonal, d on it, v above it, and the exchanges of rows and of columns."""
    n, count = x.shape[-1], math.prod(x.shape[:-2])
    parts = to.temporary(x.shape, x.dtype)
    rows, columns = (to.temporary(x.shape[:-1], PIVOT) for _ in range(2))
    copy(to, parts, x)
    team = ALONE if n <= TINY else LARGE
    for first, last in ranges(n, team):
        words = {"count": count, "n": n, "first": first, "last": last}
        to.launch(complete_program(team), team.groups(count), parts, rows, columns, **words)
    return parts, rows, columns


def ranges(n: int, team: Team) -> Iterator[tuple[int, int]]:
    """The steps of an elimination, as many together as an invocation may have rounds."""
    first, rounds = 0, 0
    for k in range(n):
        own = 2 * -(-((n - k) ** 2) // team.workers) + 4 * -(-n // team.workers)
        if rounds and rounds + own > ROUNDS:
            yield first, k
            first, rounds = k, 0
        rounds += own
    yield first, n


def put_together(to: Programs, parts: View, rows: View, columns: View, inner: View) -> None:
    """The cofactors of what `inner` has those of in its place, in the middle."""
    n, triangles, inner = parts.shape[-1], stacked(to, parts), stacked(to, inner)
    solve(to, triangles.swapped(), inner, upper=True, unit=True)
    solve(to, triangles, inner.swapped(), upper=True, unit=True)
    exchange(to, inner, rows, 0, n, backwards=True)
    exchange(to, inner.swapped(), columns, 0, n, backwards=True)


@lowering
def cofactors(to: Programs, x: View) -> None:
    out = to.result(x.shape, x.dtype)
    if x.size:
        parts = taken_apart(to, x)
        to.launch_each(DIAGONAL, x.size, *parts, out, n=x.shape[-1])
        put_together(to, *parts, out)


@lowering
def cofactors_change(to: Programs, x: View, y: View) -> None:
    if x.shape[-1] > LARGEST:
        raise Unsupported(f"one workgroup for a row of more than {LARGEST} products")
    out = to.result(x.shape, x.dtype)
    if x.size:
        n, parts = x.shape[-1], taken_apart(to, x)
        inner = to.temporary(y.shape, y.dtype)
        copy(to, inner, y)
        z, triangles = stacked(to, inner), stacked(to, parts[0])
        exchange(to, z, parts[1], 0, n)
        exchange(to, z.swapped(), parts[2], 0, n)
        solve(to, triangles, z, upper=False, unit=True)
        solve(to, triangles.swapped(), z.swapped(), upper=False, unit=True)
        count = x.size // n
        to.launch(DIAGONAL_CHANGE, count, *parts, inner, out, count=count, n=n)
        put_together(to, *parts, out)
