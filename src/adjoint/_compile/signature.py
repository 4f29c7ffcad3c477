"""Signatures: what of a call's arguments a program depends on, apart from tensors' layouts."""

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.tensor import Tensor
from .._foundation.dtypes import DefaultDType
from .._foundation.modes import mode
from .._foundation.trees import parts
from ..backends import DefaultDevice

PLAIN = (int, float, bool, complex, str, bytes, type(None), type(...))


class Same:
    """A key for an object that is itself, as long as it lives."""

    def __init__(self, x: Any) -> None:
        self.number = id(x)
        self.hash = hash((type(x), self.number))
        try:
            self.found: Any = weakref.ref(x)
        except TypeError:
            self.found = lambda: x

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: Any) -> bool:
        return type(other) is Same and self.number == other.number and self.lives()

    def lives(self) -> bool:
        return self.found() is not None

    def __repr__(self) -> str:
        return f"a {type(self.found()).__name__}"


def signature(args: tuple, kwargs: dict) -> tuple[tuple, Sequence[Tensor]]:
    """The key of a call, and its tensors, in order."""
    if not kwargs:
        for x in args:
            if type(x) is not Tensor:
                break
        else:
            count = len(args)
            if count < 2 or len({*map(id, args)}) == count:
                return (count, mode.word, DefaultDType.float, DefaultDevice.name), args
    tensors: list[Tensor] = []
    structure = (described(args, tensors), described(kwargs, tensors))
    return (structure, *surroundings(), *aliases(tensors)), tensors


def surroundings() -> tuple:
    return mode.word, DefaultDType.float, DefaultDevice.name


def aliases(tensors: list[Tensor]) -> tuple:
    """Which tensors are one, if any are."""
    ids = [*map(id, tensors)]
    return () if len({*ids}) == len(ids) else tuple(map(ids.index, ids))


def described(x: Any, tensors: list[Tensor]) -> Any:
    """A hashable value that differs where another program is needed."""
    if isinstance(x, Tensor):
        tensors.append(x)
        return Tensor
    inner = parts(x)
    if inner is not None:
        keys = tuple(inner) if isinstance(x, dict) else len(inner)
        return type(x), keys, tuple([described(v, tensors) for v in inner.values()])
    value = plain_value(x)
    return Same(x) if value is None else value


def plain_value(x: Any) -> Any:
    """A hashable value of what is compared by value; None for an object that is only itself."""
    if type(x) in PLAIN:
        return type(x), repr(x) if isinstance(x, float | complex) else x
    if isinstance(x, np.generic):
        return type(x), x.tobytes()
    if isinstance(x, slice):
        return slice, repr(x)
    if type(x) in (set, frozenset):
        return type(x), frozenset(map(described_item, x))
    return x if isinstance(x, np.dtype | range) else None


def described_item(x: Any) -> Any:
    value = plain_value(x)
    return Same(x) if value is None else value


def with_tensors(x: Any) -> Any:
    """Arrays of NumPy among the arguments count as tensors: their elements may differ."""
    from ..functions.creation import asarray

    return asarray(x) if isinstance(x, np.ndarray) else x


def differences(old: tuple, new: tuple) -> str:
    """What differs between two keys, in words; "" if nothing does."""
    if old[0] != new[0]:
        return argument_difference(old[0], new[0])
    for name, x, y in zip(
        ("mode", "default dtype", "default device"), old[1:], new[1:], strict=False
    ):
        if x != y:
            return f"the {name} is another" if name == "mode" else f"the {name} is {y}, was {x}"
    return "" if old == new else "other arguments are one tensor"


def argument_difference(old: Any, new: Any) -> str:
    """What differs between two descriptions of arguments."""
    if type(old) is not tuple or type(new) is not tuple or len(old) != len(new):
        return "the structure of the arguments is another"
    if len(old) == 3 and old[:2] == new[:2]:  # a container
        names = old[1] if isinstance(old[1], tuple) else range(old[1])
        for name, x, y in zip(names, old[2], new[2], strict=True):
            if x != y:
                inner = argument_difference(x, y)
                return inner if inner.startswith("argument") else f"argument {name!r} {inner}"
    if len(old) == 2 and type(old[0]) is tuple:  # those by position, and those by name
        return next(argument_difference(x, y) for x, y in zip(old, new, strict=True) if x != y)
    if len(old) == 2 and isinstance(old[0], type):
        return f"is {new[1]!s}, was {old[1]!s}"
    return "the structure of the arguments is another"


__all__ = ["Same", "differences", "plain_value", "signature", "with_tensors"]
