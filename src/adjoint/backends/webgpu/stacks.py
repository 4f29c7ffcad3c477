"""Matrices in the last two axes, as programs of linear algebra take them: arrays of three axes,
matrices, rows, columns, with any strides. A program knows each by four words."""

import math

from ..launches import View
from ..spaces import Ints, steps_in
from .lowering import Programs
from .maps import as_contiguous


def steps(*names: str) -> str:
    """The words of arrays, in a program."""
    return " ".join(f"at_{name} {name}_step {name}_row {name}_column" for name in names)


def step_words(**arrays: View) -> dict[str, int]:
    """The words of views of three axes, by their names in the program."""
    words = {}
    for name, x in arrays.items():
        step, row, column = x.strides
        words |= {f"{name}_step": step, f"{name}_row": row, f"{name}_column": column}
    return words


def place(name: str, matrix: str, row: str, column: str) -> str:
    """Where an element is, in a program. Steps may be negative: u32 wraps around."""
    return (
        f"p.at_{name} + ({matrix}) * p.{name}_step + ({row}) * p.{name}_row"
        f" + ({column}) * p.{name}_column"
    )


# Which element of which matrix `at` is, in a program `per_element`.
ELEMENT = """
    let column = at % p.columns;
    let row = at / p.columns % p.rows;
    let matrix = at / p.columns / p.rows;"""


def stacked(to: Programs, x: View) -> View:
    """Matrices with three axes, of a copy if need be."""
    step = None
    for n, stride in zip(reversed(x.shape[:-2]), reversed(x.strides[:-2]), strict=True):
        if n == 1:
            continue
        if step is not None and stride != step[0] * step[1]:
            x, step = as_contiguous(to, x), (1, x.shape[-2] * x.shape[-1])
            break
        step = (n, stride) if step is None else (n * step[0], step[1])
    count = math.prod(x.shape[:-2])
    shape = (count, *x.shape[-2:])
    return x.view(shape, (step[1] if step else 0, *x.strides[-2:]))


def over(to: Programs, x: View, batch: Ints) -> View:
    """Matrices that broadcast to batch axes, with three axes."""
    shape = (*batch, *x.shape[-2:])
    return stacked(to, x.view(shape, steps_in(x, shape)))


def part(x: View, top: int, bottom: int, left: int, right: int) -> View:
    """Some rows and columns of matrices, in three axes."""
    _, down, across = x.strides
    shape = (x.shape[0], bottom - top, right - left)
    return x.view(shape, x.strides, top * down + left * across)


def upside_down(x: View) -> View:
    """With the last row first."""
    step, down, across = x.strides
    return x.view(x.shape, (step, -down, across), (x.shape[1] - 1) * down)
