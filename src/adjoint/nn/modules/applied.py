"""Layers that are a function with settings, and checks of what layers are made with."""

from collections.abc import Callable
from typing import Any

from ..._core.tensor import Tensor
from ..._foundation.errors import ArgumentError, KeywordError
from ...functions._arguments import as_count, reject
from .module import Module


class Kind(Module):
    """Layers that differ in some attributes of their classes: the words of their class statements,
    as in `class ReLU(OfOne, function=F.relu)`."""

    words: tuple[str, ...] = ()

    def __init_subclass__(cls, **words: Any) -> None:
        own = {name: words.pop(name) for name in cls.words if name in words}
        super().__init_subclass__(**words)  # refuses words that aren't known
        for name, value in own.items():
            setattr(cls, name, staticmethod(value) if callable(value) else value)


class Applied(Kind):
    """A layer without parameters: a function of its inputs, whose options are attributes."""

    words = ("function", "options", "shown", "spatial", "more")
    function: Callable[..., Any]
    options: tuple[str, ...] = ()
    shown: tuple[str, ...] | None = None  # in its repr, if not all options

    def __init__(self, *more: Any, **unknown: Any) -> None:
        super().__init__()
        if more and not isinstance(more[0], bool):
            raise KeywordError(f"{kind(self)}: too many arguments, the first is {more[0]!r}")
        if more or unknown:
            reject(kind(self), unknown or {"inplace": more[0]})

    def _applied(self, *inputs: Any) -> Any:
        """The function of inputs, with the options as they are now."""
        return self.function(*inputs, **{name: getattr(self, name) for name in self.options})

    def extra_repr(self) -> str:
        return settings(self, *(self.options if self.shown is None else self.shown))


class OfOne(Applied):
    """A function of one tensor."""

    def forward(self, x: Any) -> Tensor:
        """The function of x, with the layer's settings."""
        return self._applied(x)


def settings(layer: Module, *names: str) -> str:
    """Attributes as keywords."""
    return ", ".join(f"{name}={getattr(layer, name)!r}" for name in names)


def kind(layer: Module) -> str:
    """What errors call a layer."""
    return type(layer).__name__


def count(layer: Module, name: str, value: Any, least: int = 1) -> int:
    """An integer that isn't too small."""
    return as_count(kind(layer), name, value, least)


def check_multiple(layer: Module, name: str, parts: str) -> None:
    """Of two attributes the first must be a multiple of the second."""
    whole, part = getattr(layer, name), getattr(layer, parts)
    if whole % part:
        raise ArgumentError(f"{kind(layer)}: {name}={whole} must be divisible by {parts}={part}")


def one_of(layer: Module, name: str, value: Any, known: tuple[str, ...]) -> str:
    """A word that the layer knows."""
    if value not in known:
        raise ArgumentError(f"{kind(layer)}: {name}={value!r} is none of {', '.join(known)}")
    return value
