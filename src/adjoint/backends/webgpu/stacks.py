"""Matrices in the last two axes, as programs of linear algebra take them: arrays of three axes,
matrices, rows, columns, with any strides. A program knows each by four words."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

from .arrays import Array
from .launcher import contiguous_copy

T = TypeVar("T", bound=Any)


def steps(*names: str) -> str:
    """The words of arrays, in a program."""
    return " ".join(f"at_{name} {name}_step {name}_row {name}_column" for name in names)


def step_words(**arrays: Any) -> dict[str, int]:
    """The words of arrays, or views, of three axes, by their names in the program."""
    words = {}
    for name, x in arrays.items():
        words[name + "_step"], words[name + "_row"], words[name + "_column"] = x.strides
    return words


def place(name: str, matrix: str, row: str, column: str) -> str:
    """Where an element is, in a program. Steps may be negative: u32 wraps around."""
    return (
        f"p.at_{name} + ({matrix}) * p.{name}_step + ({row}) * p.{name}_row"
        f" + ({column}) * p.{name}_column"
    )


# An invocation for each element of matrices, of which there are `size`: which it is, and of which.
ELEMENT = """
    let e = group * 256u + lane;
    if (e >= p.size) { return; }
    let column = e % p.columns;
    let row = e / p.columns % p.rows;
    let matrix = e / p.columns / p.rows;
"""
LARGEST = 1024  # rows of matrices that one workgroup looks through; beyond it the host does


def stacked(x: T, copy: Callable[[T], T] = contiguous_copy) -> T:
    """An array, or a view, with three axes, of a copy if need be."""
    step = None
    for n, stride in zip(reversed(x.shape[:-2]), reversed(x.strides[:-2]), strict=True):
        if n == 1:
            continue
        if step is not None and stride != step[0] * step[1]:
            x, step = copy(x), (1, x.shape[-2] * x.shape[-1])
            break
        step = (n, stride) if step is None else (n * step[0], step[1])
    count = math.prod(x.shape[:-2])
    shape = (count, *x.shape[-2:])
    return x.view(shape, (step[1] if step else 0, *x.strides[-2:]))


def turned(x: Array) -> Array:
    """The transposed matrices."""
    *batch, rows, columns = x.shape
    *steps, down, across = x.strides
    return x.view((*batch, columns, rows), (*steps, across, down))


def part(x: Array, top: int, bottom: int, left: int, right: int) -> Array:
    """Some rows and columns of matrices, in three axes."""
    step, down, across = x.strides
    offset = x.offset + top * down + left * across
    return x.view((x.shape[0], bottom - top, right - left), (step, down, across), offset)


def upside_down(x: Array) -> Array:
    """With the last row first."""
    step, down, across = x.strides
    return x.view(x.shape, (step, -down, across), x.offset + (x.shape[1] - 1) * down)
