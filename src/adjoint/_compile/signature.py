"""Signatures: what of a call's arguments a program depends on, apart from tensors' layouts."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.tensor import Tensor
from .._foundation.dtypes import DefaultDType
from .._foundation.modes import PROFILE, mode
from .._trace.keys import change_of, key_of
from ..backends import DefaultDevice

NOTHING = key_of({})


def signature(args: tuple, kwargs: dict) -> tuple[tuple, Sequence[Tensor]]:
    """The key of a call, and its tensors, in order."""
    if not kwargs:
        for x in args:
            if type(x) is not Tensor:
                break
        else:
            count = len(args)
            if count < 2 or len({*map(id, args)}) == count:
                return (count, *surroundings()), args
    tensors: list[Tensor] = []
    positional = key_of(args, tensors)  # first: that is the order of tensors
    structure = tuple, 2, (positional, key_of(kwargs, tensors) if kwargs else NOTHING)
    return (structure, *surroundings(), *aliases(tensors)), tensors


def surroundings() -> tuple:
    """The mode and the defaults, which are part of every key; a profile only looks on."""
    return mode.word & ~PROFILE, DefaultDType.float, DefaultDevice.name


def aliases(tensors: list[Tensor]) -> tuple:
    """Which tensors are one, if any are."""
    ids = [*map(id, tensors)]
    return () if len({*ids}) == len(ids) else tuple(map(ids.index, ids))


def with_tensors(x: Any) -> Any:
    """Arrays of NumPy among the arguments count as tensors: their elements may differ."""
    from ..functions.creation import asarray

    return asarray(x) if isinstance(x, np.ndarray) else x


def differences(old: tuple, new: tuple) -> str:
    """What differs between two keys, in words; "" if nothing does."""
    if old[0] != new[0]:
        return argument_difference(old[0], new[0])
    if old[1] != new[1]:
        return "the mode is another"
    for name, x, y in zip(("dtype", "device"), old[2:], new[2:], strict=False):
        if x != y:
            return f"the default {name} is {y}, was {x}"
    return "" if old == new else "other arguments are one tensor"


def argument_difference(old: Any, new: Any, name: Any = None) -> str:
    """What differs between two keys of arguments; `name` is that of the one that they are for."""
    if type(old) is type(new) is tuple and len(old) == 3 and old[:2] == new[:2]:  # containers
        names = old[1] if type(old[1]) is tuple else range(old[1])
        items = zip(names, old[2], new[2], strict=True)
        return next(argument_difference(x, y, name) for name, x, y in items if x != y)
    change = change_of(old, new)
    return f"argument {name!r}{change}" if change else "the structure of the arguments is another"
