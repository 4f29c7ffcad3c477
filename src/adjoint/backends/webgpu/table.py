"""The table of the ops that WGSL programs compute: op name -> function on arrays.

Inputs by position, attributes by keyword, as in the CPU's table. Creators have no inputs: they get
the device first.
"""

from collections.abc import Callable

FUNCTIONS: dict[str, Callable] = {}


def entry(function: Callable) -> Callable:
    """Enter a function into the table; a trailing underscore keeps a builtin's name free."""
    FUNCTIONS[function.__name__.rstrip("_")] = function
    return function
