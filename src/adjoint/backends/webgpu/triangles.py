"""Halves of square matrices."""

import functools

from .arrays import WGSL, Array
from .programs import Program
from .stacks import layout, place, stacked, steps
from .table import kernel

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


@kernel
def triangle(x: Array, *, k: int, upper: bool) -> Array:
    out = x.gpu.empty(x.shape, x.dtype)
    if x.size:
        rows, columns = x.shape[-2:]
        k = max(-rows, min(k, columns))
        x = stacked(x)
        words = [x.size, rows, columns, k, int(upper), *layout(x)]
        x.gpu.run(triangle_program(WGSL[x.dtype]), [x, out], words, -(-x.size // 256))
    return out


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


def with_image(name: str, value: str, x: Array) -> Array:
    out = x.gpu.empty(x.shape, x.dtype)
    if x.size:
        n = x.shape[-1]
        x = stacked(x)
        tiles = -(-n // SIDE)
        words = [len(x), n, tiles, *layout(x)]
        program = mirror_program(name, WGSL[x.dtype], value)
        x.gpu.run(program, [x, out], words, len(x) * tiles * tiles)
    return out


@kernel
def mirrored(x: Array) -> Array:
    return with_image("mirrored", "select(own, image, column > row)", x)


@kernel
def symmetrized(x: Array) -> Array:
    return with_image("symmetrized", "(own + image) * 0.5", x)
