"""Matrices taken apart in place, and equations solved in place.

All matrices have three axes: matrices, rows, columns. A block of few columns is one workgroup's.
Anything larger is cut into halves, so that most of the work is in the products of large matrices.
"""

import functools
import math

from ..launches import View
from .lowering import Programs
from .matmul import multiply
from .programs import Program, per_element, wgsl
from .stacks import ELEMENT, part, place, step_words, steps, upside_down
from .teams import ALONE, LARGE, SMALL, TINY, Team

BLOCK = 32  # columns of what is taken apart at once
SHORT = 96  # rows of a block that fits into the memory of a workgroup


def half(n: int) -> int:
    """Where to cut n columns, so that the parts can be cut into whole blocks."""
    return (n + BLOCK - 1) // BLOCK // 2 * BLOCK


def stored(i: str, j: str) -> str:
    """An element of x, in a program."""
    return f"x[{place('x', 'matrix', i, j)}]"


def in_tile(i: str, j: str) -> str:
    """An element of a block that is in the memory of the workgroup."""
    return f"tile[({i}) * {BLOCK + 1}u + {j}]"


def tile(rows: int) -> str:
    return f"var<workgroup> tile: array<f32, {rows * (BLOCK + 1)}>;" if rows else ""


def each(rows: str, inside: str, statement: str) -> str:
    """A statement for each element (i, j) of a block, by all workers."""
    return f"""
    for (var e = worker; e < {rows} * {BLOCK}u; e += WORKERS) {{
        let i = e / {BLOCK}u;
        let j = e % {BLOCK}u;
        if ({inside}) {{ {statement} }}
    }}
    sync();
    """


# LU.


@functools.cache
def panel_program(team: Team, short: bool) -> Program:
    """x = p @ l @ u of matrices of few columns, and not fewer rows; pivots count from 1.

    If they are short they are taken to the workgroup's memory. Each column: the first of the
    largest elements is looked for, NaNs being larger than all, its row is exchanged, and multiples
    of it are taken from those below.
    """
    at = in_tile if short else stored
    load, store = (
        each("p.rows", "j < p.columns", f"{target('i', 'j')} = {source('i', 'j')};")
        for target, source in ((at, stored), (stored, at))
    )
    memory = tile(SHORT if short else 0)
    return team.program(
        "lu_block", "-> x:f32 pivots:i32", f"rows columns first pivots_step {steps('x')}", memory
    )(f"""
    {load if short else ""}
    for (var k = 0u; k < p.columns; k++) {{
        var most = 0u;
        var row = k;
        for (var i = k + worker; i < p.rows; i += WORKERS) {{
            let size = bitcast<u32>({at("i", "k")}) & 0x7fffffffu;
            if (size > most) {{
                most = size;
                row = i;
            }}
        }}
        row = agreed(worker, most, row);
        for (var j = worker; j < p.columns; j += WORKERS) {{
            let above = {at("k", "j")};
            {at("k", "j")} = {at("row", "j")};
            {at("row", "j")} = above;
        }}
        sync();
        let pivot = {at("k", "k")};
        if (worker == 0u) {{
            pivots[matrix * p.pivots_step + p.first + k] = i32(p.first + row + 1u);
        }}
        for (var i = k + 1u + worker; i < p.rows; i += WORKERS) {{
            let value = {at("i", "k")};
            {at("i", "k")} = select(value / pivot, value, pivot == 0.0);
        }}
        sync();
        let rest = p.columns - k - 1u;
        for (var e = worker; e < (p.rows - k - 1u) * rest; e += WORKERS) {{
            let i = k + 1u + e / rest;
            let j = k + 1u + e % rest;
            {at("i", "j")} -= {at("i", "k")} * {at("k", "j")};
        }}
        sync();
    }}
    {store if short else ""}""")


# Rows exchanged as pivots say, one pair after the other; each invocation has a column.
EXCHANGE = wgsl(
    "exchange",
    "pivots:i32 -> x:f32",
    f"count columns start stop backwards at_pivots pivots_step {steps('x')}",
)(f"""
    let parts = (p.columns + 63u) / 64u;
    let matrix = group / parts;
    let column = group % parts * 64u + lane;
    if (matrix >= p.count || column >= p.columns) {{ return; }}
    for (var turn = p.start; turn < p.stop; turn++) {{
        let k = select(turn, p.start + p.stop - 1u - turn, p.backwards != 0u);
        let other = u32(pivots[p.at_pivots + matrix * p.pivots_step + k]) - 1u;
        if (other != k) {{
            let value = {stored("k", "column")};
            {stored("k", "column")} = {stored("other", "column")};
            {stored("other", "column")} = value;
        }}
    }}""")


def exchange(
    to: Programs, x: View, pivots: View, start: int, stop: int, *, backwards: bool = False
) -> None:
    """Exchange rows of x by the pivots from start to stop."""
    count, rows, columns = x.shape
    words = {"count": count, "columns": columns, "start": start, "stop": stop}
    words |= {"backwards": backwards, "pivots_step": rows, **step_words(x=x)}
    to.launch(EXCHANGE, count * -(-columns // 64), pivots, x, **words)


def lu(to: Programs, x: View, pivots: View) -> None:
    """x = p @ l @ u, with pivots from 1.

    l, with ones on its diagonal, is left below the diagonal, u above it and on it.
    """
    take_apart(to, x, pivots, 0, x.shape[2])


def take_apart(to: Programs, x: View, pivots: View, start: int, stop: int) -> None:
    """The same for some columns, of which the rows from the same place on are left."""
    n = x.shape[1]
    if stop - start <= BLOCK:
        block = part(x, start, n, start, stop)
        words = {"count": x.shape[0], "rows": n - start, "columns": stop - start, "first": start}
        words |= {"pivots_step": n, **step_words(x=block)}
        short = TINY < n and n - start <= SHORT
        team = ALONE if n <= TINY else SMALL if short else LARGE
        to.launch(panel_program(team, short), team.groups(x.shape[0]), block, pivots, **words)
        return
    middle = start + half(stop - start)
    take_apart(to, x, pivots, start, middle)
    exchange(to, part(x, 0, n, middle, stop), pivots, start, middle)
    beside = part(x, start, middle, middle, stop)
    solve(to, part(x, start, middle, start, middle), beside, upper=False, unit=True)
    take_away(to, part(x, middle, n, middle, stop), part(x, middle, n, start, middle), beside)
    take_apart(to, x, pivots, middle, stop)
    exchange(to, part(x, 0, n, start, middle), pivots, middle, stop)


def lu_solve(to: Programs, factors: View, pivots: View, y: View, *, transposed: bool) -> None:
    """y = inv(x) @ y, or inv(xᵀ) @ y, where `lu` left the factors of x."""
    n = y.shape[1]
    if transposed:
        solve(to, factors.swapped(), y, upper=False, unit=False)
        solve(to, factors.swapped(), y, upper=True, unit=True)
        exchange(to, y, pivots, 0, n, backwards=True)
    else:
        exchange(to, y, pivots, 0, n)
        solve(to, factors, y, upper=False, unit=True)
        solve(to, factors, y, upper=True, unit=False)


# Cholesky.


@functools.cache
def cholesky_program(team: Team) -> Program:
    """x = l @ lᵀ for small x; what is above the diagonal stays as it was."""
    local = team is not ALONE
    at = in_tile if local else stored
    lower = "i < p.columns && j <= i"
    load = each("p.columns", lower, f"{at('i', 'j')} = {stored('i', 'j')};") if local else ""
    memory = tile(BLOCK if local else 0)
    return team.program(
        "cholesky_block", "-> x:f32 found", f"columns first nan:f32 {steps('x')}", memory
    )(f"""
    {load}
    var order = 0u;
    for (var k = 0u; k < p.columns; k++) {{
        let pivot = {at("k", "k")};
        let bits = bitcast<u32>(pivot);
        let positive = bits - 1u < 0x7f800000u;
        if (!positive && order == 0u) {{
            let is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
            order = (p.first + k + 1u) | select(0u, 0x80000000u, is_nan);
        }}
        let root = select(p.nan, sqrt(pivot), positive);
        sync();
        for (var i = k + worker; i < p.columns; i += WORKERS) {{
            {at("i", "k")} = select({at("i", "k")} / root, root, i == k);
        }}
        sync();
        let rest = p.columns - k - 1u;
        for (var e = worker; e < rest * rest; e += WORKERS) {{
            let i = k + 1u + e / rest;
            let j = k + 1u + e % rest;
            if (j <= i) {{ {at("i", "j")} -= {at("i", "k")} * {at("j", "k")}; }}
        }}
        sync();
    }}
    {each("p.columns", lower, f"{stored('i', 'j')} = select({at('i', 'j')}, p.nan, order != 0u);")}
    if (worker == 0u && (p.first == 0u || found[matrix] == 0u)) {{ found[matrix] = order; }}""")


def cholesky(to: Programs, x: View, found: View, start: int = 0) -> None:
    """x = l @ lᵀ, of which l is left on the diagonal and below; what is above stays as it was.

    What is found of each matrix is the order of the first minor that isn't positive, or 0; the
    highest bit says that it is NaN. The blocks from there on are NaNs then. `start`: where x is in
    the whole.
    """
    n = x.shape[-1]
    if n <= BLOCK:
        team = ALONE if n <= TINY else SMALL
        program, count, steps = cholesky_program(team), x.shape[0], step_words(x=x)
        words = {"count": count, "columns": n, "first": start, "nan": math.nan, **steps}
        to.launch(program, team.groups(count), x, found, **words)
        return
    m = half(n)
    first, below, last = part(x, 0, m, 0, m), part(x, m, n, 0, m), part(x, m, n, m, n)
    cholesky(to, first, found, start)
    solve(to, first, below.swapped(), upper=False, unit=False)
    take_away(to, last, below, below.swapped(), lower=True)
    cholesky(to, last, found, start + m)


# Triangles.


@functools.cache
def substitution_program(same: bool, tiny: bool) -> Program:
    """y = inv(x) @ y for small lower triangles x; each invocation has a column.

    `same`: x and y are in the same memory. Tiny triangles aren't taken to the workgroup's, which
    may then have columns of several matrices.
    """
    x = f"{'y' if same else 'x'}[{place('x', 'matrix', 'i', 'j')}]"
    y = f"y[{place('y', 'matrix', 'i', 'column')}]"
    head = f"""
    let parts = (p.columns + 63u) / 64u;
    let matrix = group / parts;
    if (matrix >= p.count) {{ return; }}
    for (var e = lane; e < {BLOCK * BLOCK}u; e += 64u) {{
        let i = e / {BLOCK}u;
        let j = e % {BLOCK}u;
        if (i < p.n && j <= i) {{ triangle[e] = {x}; }}
    }}
    workgroupBarrier();
    let column = group % parts * 64u + lane;
    if (column >= p.columns) {{ return; }}
    """
    tiny_head = """
    let matrix = (group * 64u + lane) / p.columns;
    let column = (group * 64u + lane) % p.columns;
    if (matrix >= p.count) { return; }
    """
    element = x if tiny else f"triangle[i * {BLOCK}u + j]"
    arrays, words = f"{'' if same else 'x:f32'} -> y:f32", f"count n columns unit {steps('x', 'y')}"
    memory = f"var<workgroup> known: array<f32, {(TINY if tiny else BLOCK) * 64}>;"
    memory += "" if tiny else f"var<workgroup> triangle: array<f32, {BLOCK * BLOCK}>;"
    return wgsl("substitute", arrays, words, memory)(f"""
    {tiny_head if tiny else head}
    for (var i = 0u; i < p.n; i++) {{
        var rest = {y};
        var j = 0u;
        for (; j < i; j++) {{ rest -= {element} * known[j * 64u + lane]; }}
        if (p.unit == 0u) {{ rest /= {element}; }}
        known[i * 64u + lane] = rest;
        {y} = rest;
    }}""")


def substitute(to: Programs, x: View, y: View, *, unit: bool) -> None:
    """y = inv(x) @ y for lower triangles x of one block."""
    count, n, columns = y.shape
    same, tiny = x.slot == y.slot, n <= TINY
    words = {"count": count, "n": n, "columns": columns, "unit": unit, "at_x": x}
    arrays = [y] if same else [x, y]
    groups = -(-count * columns // 64) if tiny else count * -(-columns // 64)
    program = substitution_program(same, tiny)
    to.launch(program, groups, *arrays, **words, **step_words(x=x, y=y))


def solve(to: Programs, x: View, y: View, *, upper: bool, unit: bool) -> None:
    """y = inv(x) @ y for triangles: what is on the other side of the diagonal of x isn't read, nor
    is the diagonal if `unit`. Small upper triangles are lower ones seen from the end."""
    _, n, columns = y.shape
    if n <= BLOCK:
        if upper:
            x, y = upside_down(upside_down(x).swapped()).swapped(), upside_down(y)
        substitute(to, x, y, unit=unit)
        return
    m = half(n)
    first, last = ((m, n), (0, m)) if upper else ((0, m), (m, n))
    known, rest = part(y, *first, 0, columns), part(y, *last, 0, columns)
    solve(to, part(x, *first, *first), known, upper=upper, unit=unit)
    take_away(to, rest, part(x, *last, *first), known)
    solve(to, part(x, *last, *last), rest, upper=upper, unit=unit)


# Products.

SUBTRACT = per_element("subtract", "product:f32 -> x:f32", "rows columns lower " + steps("x"))(f"""
    {ELEMENT}
    if (p.lower == 0u || column <= row) {{ {stored("row", "column")} -= product[at]; }}""")


def take_away(to: Programs, x: View, left: View, right: View, *, lower: bool = False) -> None:
    """x -= left @ right, or only what isn't above the diagonal."""
    product, (_, rows, columns) = to.temporary(x.shape, x.dtype), x.shape
    multiply(to, product, left, right)
    words = {"rows": rows, "columns": columns, "lower": lower, **step_words(x=x)}
    to.launch_each(SUBTRACT, x.size, product, x, **words)
