"""Families of functions, which have a signature and a body in common, and a docstring each."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def member(
    family: Callable[..., Callable[P, T]], *args: Any
) -> Callable[[Callable[..., None]], Callable[P, T]]:
    """Make `family(name, *args)` of a function that has nothing but a name and a docstring."""

    def make(described: Callable[..., None]) -> Callable[P, T]:
        return described_by(described, family(described.__name__, *args))

    return make


def described_by(described: Callable, function: Callable[P, T]) -> Callable[P, T]:
    """A function under the name and with the docstring of another."""
    named: Any = function
    named.__name__ = named.__qualname__ = described.__name__
    named.__doc__ = described.__doc__
    return function
