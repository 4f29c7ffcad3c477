"""Halves of square matrices."""

import functools

from ..launches import View
from .arrays import WGSL
from .lowering import Programs, lowering
from .programs import Program, per_element, wgsl
from .stacks import ELEMENT, place, stacked, step_words, steps

SIDE = 16  # of the tiles that mirror images are made of


@functools.cache
def triangle_program(type: str) -> Program:
    return per_element(
        "triangle", f"x:{type} -> out:{type}", f"rows columns k:i32 upper {steps('x')}"
    )(f"""
    {ELEMENT}
    let beyond = i32(column) - i32(row) - p.k;
    let inside = select(beyond <= 0, beyond >= 0, p.upper != 0u);
    out[at] = select({type}(0), x[{place("x", "matrix", "row", "column")}], inside);""")


@lowering
def triangle(to: Programs, x: View, *, k: int, upper: bool) -> None:
    keep_triangle(to, to.result(x.shape, x.dtype), x, k, upper)


def keep_triangle(to: Programs, out: View, x: View, k: int, upper: bool) -> None:
    """Copy what is on one side of the k-th diagonal, or on it; the rest becomes 0."""
    if x.size:
        x, (rows, columns) = stacked(to, x), x.shape[-2:]
        words = {"rows": rows, "columns": columns, "k": max(-rows, min(k, columns)), "upper": upper}
        program = triangle_program(WGSL[x.dtype])
        to.launch_each(program, x.size, x, out, **words, **step_words(x=x))


@functools.cache
def mirror_program(name: str, type: str, value: str) -> Program:
    """`value` is made of an element, and of its mirror image."""
    words = f"count n tiles {steps('x')}"
    declarations = f"var<workgroup> opposite: array<{type}, {SIDE * (SIDE + 1)}>;"
    return wgsl(name, f"x:{type} -> out:{type}", words, declarations, SIDE * SIDE)(f"""
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
        }}""")


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
