"""Marks at functions that are methods or properties of tensors, too; `methods` binds them."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from .._foundation.errors import KeywordError

F = TypeVar("F", bound=Callable)

METHODS: dict[str, Callable] = {}
IN_PLACE: dict[str, Callable] = {}
PROPERTIES: dict[str, property] = {}


def method(function: F) -> F:
    """Mark a function as a method of its name."""
    METHODS[function.__name__] = function
    return function


def method_named(name: str) -> Callable[[F], F]:
    """Mark a function as a method of another name."""

    def mark(function: F) -> F:
        METHODS[name] = function
        return function

    return mark


def spread_method(*names: str) -> Callable[[F], F]:
    """Mark a function as a method that takes lengths or axes one by one, too: x.reshape(2, 3)."""

    def mark(function: F) -> F:
        def call(x: Any, first: Any, *more: int, **options: Any) -> Any:
            return function(x, (first, *more) if more else first, **options)

        call.__name__, call.__doc__ = function.__name__, function.__doc__
        METHODS.update(dict.fromkeys(names, call))
        return function

    return mark


def single_method(instead: str) -> Callable[[F], F]:
    """Mark a function as a method of one argument: NumPy and PyTorch disagree about two of them."""

    def mark(function: F) -> F:
        @functools.wraps(function)
        def call(x: Any, *args: Any, **options: Any) -> Any:
            if len(args) > 1:
                given = ", ".join(map(repr, args))
                advice = instead.format(given, *args)
                raise KeywordError(f"x.{function.__name__}({given}): {advice}")
            return function(x, *args, **options)

        METHODS[function.__name__] = call
        return function

    return mark


def in_place_method(function: F) -> F:
    """Mark a function as a method of its name that changes the tensor."""
    IN_PLACE[function.__name__] = function
    return function


def property_named(name: str, setter: Callable | None = None) -> Callable[[F], F]:
    """Mark a function of a tensor as a property."""

    def mark(function: F) -> F:
        PROPERTIES[name] = property(function, setter)
        return function

    return mark
