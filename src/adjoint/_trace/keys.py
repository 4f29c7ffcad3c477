"""Keys: what values are like, to be compared later; they keep nothing alive."""

import weakref
from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np

from .._core.tensor import Tensor

EXACT = frozenset((int, bool, str, bytes, type(None), type(...)))
SHOWN = (float, complex, slice, range, np.generic, np.dtype)  # by repr: NaN is NaN, 0.0 isn't -0.0


class Same:
    """The key of an object that must be the very same again."""

    def __init__(self, x: Any) -> None:
        self.kind = type(x)
        self.number = id(x.__self__ if self.kind is MethodType else x)
        self.ref: Callable[[], Any]
        try:  # a method is another object each time
            self.ref = weakref.WeakMethod(x) if self.kind is MethodType else weakref.ref(x)
        except TypeError:  # it can't be known weakly
            self.ref = lambda: x

    def __hash__(self) -> int:
        return hash((self.kind, self.number))

    def __eq__(self, other: Any) -> bool:
        if type(other) is not Same or self.number != other.number:
            return False
        x, y = self.ref(), other.ref()
        return x is not None and (x is y or (self.kind is other.kind is MethodType and x == y))

    def __repr__(self) -> str:
        return f"a {self.kind.__name__}"


def key_of(x: Any, tensors: list[Tensor] | None = None, depth: int = -1) -> Any:
    """A hashable key, equal for what a recording need not tell apart: a plain value by type and
    value, a container by its items down to a depth, anything else by identity. Where there is a
    list for tensors they go there, and one is like another."""
    kind = type(x)
    if kind in EXACT:
        return kind, x
    if tensors is not None and isinstance(x, Tensor):
        tensors.append(x)
        return Tensor
    if depth and isinstance(x, (tuple, list)):
        return kind, len(x), tuple([key_of(item, tensors, depth - 1) for item in x])
    if depth and isinstance(x, dict):
        names = tuple([key if type(key) is str else key_of(key) for key in x])
        return kind, names, tuple([key_of(item, tensors, depth - 1) for item in x.values()])
    if depth and isinstance(x, (set, frozenset)):
        return kind, frozenset([key_of(item, None, depth - 1) for item in x])
    return (getattr(x, "dtype", kind), repr(x)) if isinstance(x, SHOWN) else Same(x)


def change_of(old: Any, new: Any) -> str:
    """How one key became another, in words, where both are of plain values."""
    is_plain = type(old) is type(new) is tuple and len(old) == len(new) == 2
    return f" is {new[1]}, was {old[1]}" if is_plain else ""
