"""Compiled methods: programs know their instances weakly, what users hold keeps them alive."""

import functools
import weakref
from collections.abc import Callable
from typing import Any


class Unbound:
    """A method of an instance, which it doesn't keep alive."""

    def __init__(self, function: Callable, instance: weakref.ref) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.instance = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self.instance(), *args, **kwargs)


def forget(known: dict[int, Any], key: int, ref: weakref.ref) -> None:
    if key in known and known[key][0] is ref:
        del known[key]


class Method:
    """A compiled method with its instance, which lives as long."""

    def __init__(self, compiled: Any, instance: Any) -> None:
        self.__wrapped__, self.__self__ = compiled, instance

    def __reduce__(self) -> Any:
        return getattr, (self.__self__, self.__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)
