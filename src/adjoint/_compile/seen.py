"""What values are like, as keys that are compared later and keep nothing alive."""

from typing import Any

import numpy as np

from .._core.tensor import Tensor
from .._trace.graph import Same

EXACT = frozenset((int, bool, str, bytes, type(None), type(...)))
PLAIN = EXACT | {float, complex}
SHOWN = (float, complex, slice, range, np.generic, np.dtype)  # by repr: NaN is NaN, 0.0 isn't -0.0
ABSENT = object()  # an attribute that isn't there


def seen(x: Any, tensors: list[Tensor] | None = None, depth: int = -1) -> Any:
    """A hashable key, equal for what a program need not tell apart: a plain value by type and
    value, a container by its items down to a depth, anything else by identity. Where there is a
    list for tensors they go there, and one is like another."""
    kind = type(x)
    if kind in EXACT:
        return kind, x
    if tensors is not None and isinstance(x, Tensor):
        tensors.append(x)
        return Tensor
    if depth and isinstance(x, (tuple, list)):
        return kind, len(x), tuple([seen(item, tensors, depth - 1) for item in x])
    if depth and isinstance(x, dict):
        names = tuple([key if type(key) is str else seen(key) for key in x])
        return kind, names, tuple([seen(item, tensors, depth - 1) for item in x.values()])
    if depth and isinstance(x, (set, frozenset)):
        return kind, frozenset([seen(item, None, depth - 1) for item in x])
    return (getattr(x, "dtype", kind), repr(x)) if isinstance(x, SHOWN) else Same(x)


def is_same(x: Any, y: Any) -> bool:
    """Whether one is the other, or plain and equal."""
    return x is y or (type(x) in PLAIN and type(x) is type(y) and x == y)


def attribute(x: Any, name: str) -> Any:
    """An attribute, also where it is watched who reads it."""
    try:
        return object.__getattribute__(x, name)
    except AttributeError:
        return ABSENT
