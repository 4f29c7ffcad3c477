"""The NumPy table: op name -> function on raw arrays. Inputs by position, attributes by keyword.

The modules beside this one enter their functions.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

FUNCTIONS: dict[str, Callable] = {}
COMPLEX: dict[str, Callable] = {}  # the same for complex arrays, where that is another function


class NativeForm(NamedTuple):
    """Where kernels stand in for a function of the table, and for which arrays.

    `module`: one of `cpu/lowering`, which has a function of the same name that lowers the op, or of
    `cpu/host`, where it is a function on arrays. `least`: the name of a threshold, in elements of
    the largest input.
    """

    module: str
    least: str


LOWERED: dict[str, NativeForm] = {}
HOSTED: dict[str, NativeForm] = {}


def entry(function: Callable) -> Callable:
    """Enter a function into the table; a trailing underscore keeps a builtin's name free."""
    FUNCTIONS[function.__name__.rstrip("_")] = function
    return function


def lowered(module: str, *, least: str) -> Callable:
    """Enter a function, and say where its op is lowered, and from which threshold on eager calls
    run its launches."""
    return entering(LOWERED, NativeForm(module, least))


def hosted(module: str, *, least: str) -> Callable:
    """Enter a function, and say where a host step stands in for it, and from which threshold on.

    It takes what the function takes, and may leave a case to it.
    """
    return entering(HOSTED, NativeForm(module, least))


def entering(table: dict[str, NativeForm], form: NativeForm) -> Callable:
    def enter(function: Callable) -> Callable:
        table[function.__name__.rstrip("_")] = form
        return entry(function)

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
