"""Copies of large arrays: by kernels where elements change their order, else NumPy's, in memory of
the pool."""

import functools
from collections.abc import Callable

import numpy as np

from ....kernels.language import TYPES, Kernel, Type, element
from .. import movement
from ..jit.memory import call_with_pool, empty
from ..lowering.launchers import Launcher


@functools.cache
def copier(type: Type) -> Launcher:
    return Launcher(Kernel((element(0, type),)))


def copied(x: np.ndarray) -> np.ndarray:
    """x in memory of its own, in the order of its axes."""
    if x.dtype not in TYPES:
        return call_with_pool(np.ascontiguousarray, x)
    return copier(TYPES[x.dtype]).map([x], outputs=[empty(x.shape, x.dtype)])[0]


def reshape(x, *, shape):
    if x.flags.c_contiguous:
        return x.reshape(shape)
    try:
        return x.reshape(shape, copy=False)
    except (ValueError, TypeError):  # it can't be a view, or NumPy 2.0 can't say so
        return copied(x).reshape(shape)


def in_pool(function: Callable) -> Callable:
    return lambda *inputs, **attrs: call_with_pool(function, *inputs, **attrs)


concat, pad, place = map(in_pool, (movement.concat, movement.pad, movement.place))
