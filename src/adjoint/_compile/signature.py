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
    if type(x) in PLAIN:
        return type(x), repr(x) if isinstance(x, float | complex) else x
    return x if isinstance(x, np.dtype) else Same(x)


def with_tensors(x: Any) -> Any:
    """Arrays of NumPy among the arguments count as tensors: their elements may differ."""
    from ..functions.creation import asarray

    return asarray(x) if isinstance(x, np.ndarray) else x


def differences(old: tuple, new: tuple) -> str:
    """What differs between two keys, in words."""
    names = ("the arguments", "the mode (no_grad, ...)", "the default dtype", "the default device")
    found = [name for name, x, y in zip(names, old, new, strict=False) if x != y]
    if len(old) != len(new) or old[4:] != new[4:]:
        found.append("which arguments are one tensor")
    return ", ".join(found)


__all__ = ["Same", "differences", "signature", "with_tensors"]
