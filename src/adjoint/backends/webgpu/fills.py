"""Memory with one number everywhere, and what programs that only move elements have in common."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .arrays import WGSL
from .programs import Program, per_element

VALUES = {"u32": "p.value", "f16": "f16(unpack2x16float(p.value).x)"}  # of a word


def stored_as(dtype: np.dtype) -> str:
    """The WGSL type to move elements in, which are bits where nothing is computed."""
    return "f16" if WGSL[dtype] == "f16" else "u32"


def word(value: Any, dtype: np.dtype) -> int:
    """A number's bits, as a word takes them."""
    number = np.array(value, dtype)
    return int(number.view({1: "i1", 2: "u2", 4: "i4"}[number.itemsize]))


def per_axis(rank: int, names: str) -> str:
    """The words of a program that has some for each axis."""
    return " ".join(f"{name}{k}" for k in range(rank) for name in names.split())


def axis_words(names: str, *columns: Sequence[int]) -> dict[str, int]:
    """What such words are: for each name a number for each axis."""
    return {
        f"{name}{k}": number
        for name, column in zip(names.split(), columns, strict=True)
        for k, number in enumerate(column)
    }


def walk(rank: int, step: str) -> str:
    """Text that takes the coordinates of element `at` from its number, the last one first.

    `step` says what to do with one, `c`, where `{k}` is the number of its axis.
    """
    lines = ["var rest = at;"]
    for k in reversed(range(rank)):
        taken = f"let c = rest % p.n{k}; rest /= p.n{k};" if k else "let c = rest;"
        lines.append(f"{{ {taken} {step.format(k=k)} }}")
    return "\n".join(lines)


def fill(to: Any, out: Any, value: Any = 0) -> None:
    """Put one number everywhere into new memory."""
    to.launch_each(filling(stored_as(out.dtype)), out.size, out, value=word(value, out.dtype))


@functools.cache
def filling(type: str) -> Program:
    return per_element("fill", f"-> out:{type}", "value")(f"out[at] = {VALUES[type]};")
