"""Halves of square matrices."""

import functools

from ..launches import View
from .arrays import WGSL
from .lowering import Programs, lowering
from .programs import Program
from .stacks import place, stacked, step_words, steps

SIDE = 16  # of the tiles that mirror images are made of


@functools.cache
def triangle_program(type: str) -> Program:
    return Program(
        "triangle",
        {"x": type},
        {"out": type},
        f"size rows columns k:i32 upper {steps('x')}",
        f"""
        let e = group * 256u + lane;
        if (e >= p.size) {{ return; }}
        let column = e % p.columns;
        let row = e / p.columns % p.rows;
        let beyond = i32(column) - i32(row) - p.k;
        let inside = select(beyond <= 0, beyond >= 0, p.upper != 0u);
        let value = x[{place("x", "e / p.columns / p.rows", "row", "column")}];
        out[e] = select({type}(0), value, inside);
        """,
        workgroup=256,
    )


@lowering
def triangle(to: Programs, x: View, *, k: int, upper: bool) -> None:
    keep_triangle(to, to.result(x.shape, x.dtype), x, k, upper)


def keep_triangle(to: Programs, out: View, x: View, k: int, upper: bool) -> None:
    """Copy what is on one side of the k-th diagonal, or on it; the rest becomes 0."""
    rows, columns = x.shape[-2:]
    words = {"size": x.size, "rows": rows, "columns": columns}
    words |= {"k": max(-rows, min(k, columns)), "upper": upper}
    if x.size:
        x = stacked(to, x)
        program = triangle_program(WGSL[x.dtype])
        to.launch(program, -(-x.size // 256), x, out, **words, **step_words(x=x))


@functools.cache
def mirror_program(name: str, type: str, value: str) -> Program:
    """`value` is made of an element, and of its mirror image."""
    return Program(
        name,
        {"x": type},
        {"out": type},
        f"count n tiles {steps('x')}",
        f"""
        let tiles = p.tiles * p.tiles;
        let matrix = group / tiles;
        if (matrix >= p.count) {{ return; }}
        let top = group % tiles / p.tiles * {SIDE}u;
        let left = group % p.tiles * {SIDE}u;
        let i = lane / {SIDE}u;
        let j = lane % {SIDE}u;
        if (left + i < p.n && top + j < p.n) {{
            opposite[i * {SIDE + 1}u + j] = x[{place("x", "matrix", "left + i", "top + j")}];
        }}
        workgroupBarrier();
        let row = top + i;
        let column = left + j;
        if (row < p.n && column < p.n) {{
            let own = x[{place("x", "matrix", "row", "column")}];
            let image = opposite[j * {SIDE + 1}u + i];
            out[(matrix * p.n + row) * p.n + column] = {value};
        }}
        """,
        declarations=f"var<workgroup> opposite: array<{type}, {SIDE * (SIDE + 1)}>;",
        workgroup=SIDE * SIDE,
    )


MIRRORED = "mirrored", "select(own, image, column > row)"
MIRRORED_HALF = "mirrored_half", "0.5 * select(own, image, column > row)"
SYMMETRIZED = "symmetrized", "(own + image) * 0.5"


def mirror(to: Programs, out: View, x: View, how: tuple[str, str]) -> None:
    """Make of elements and their mirror images what the name and the text of a program say."""
    name, value = how
    if x.size:
        x = stacked(to, x)
        count, n, _ = x.shape
        tiles = -(-n // SIDE)
        program = mirror_program(name, WGSL[x.dtype], value)
        groups = count * tiles * tiles
        to.launch(program, groups, x, out, count=count, n=n, tiles=tiles, **step_words(x=x))


@lowering
def mirrored(to: Programs, x: View) -> None:
    mirror(to, to.result(x.shape, x.dtype), x, MIRRORED)


@lowering
def symmetrized(to: Programs, x: View) -> None:
    mirror(to, to.result(x.shape, x.dtype), x, SYMMETRIZED)
