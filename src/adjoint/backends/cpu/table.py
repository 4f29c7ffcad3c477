"""The NumPy table: op name -> function on raw arrays. Inputs by position, attributes by keyword.

The modules beside this one enter their functions.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

KERNELS: dict[str, Callable] = {}
COMPLEX: dict[str, Callable] = {}  # the same for complex arrays, where that is another function


class FastForm(NamedTuple):
    """Where kernels stand in for a function of the table, and for which arrays.

    `module`: one of `cpu/fast`, which has a function of the same name; `least`: the name of its
    threshold, in elements of the largest input.
    """

    module: str
    least: str


FAST: dict[str, FastForm] = {}


def kernel(function: Callable) -> Callable:
    """Enter a function into the table; a trailing underscore keeps a builtin's name free."""
    KERNELS[function.__name__.rstrip("_")] = function
    return function


def fast(module: str, *, least: str) -> Callable:
    """Say where the kernels of a function are, and from which threshold on they are asked.

    They take what the function takes, and may leave a case to it.
    """

    def enter(function: Callable) -> Callable:
        FAST[function.__name__.rstrip("_")] = FastForm(module, least)
        return function

    return enter


def refuse_complex(x: np.ndarray) -> None:
    if x.dtype.kind == "c":
        raise TypeError("real numbers are needed")


def refuse_non_floats(x: np.ndarray) -> None:
    """Refuse what isn't float, in functions whose result has x's dtype: integers are to be cast."""
    if x.dtype.kind != "f":
        raise TypeError("real numbers are needed")


def wide(dtype):
    """The dtype to add up in: float16 has too few digits."""
    return np.float32 if dtype == np.float16 else dtype
