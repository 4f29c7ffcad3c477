"""Sums of two gradients: recorded, raw, and in the first one's memory where nobody else sees it."""

from typing import Any

import numpy as np

from .. import backends
from .._core.execute import as_array
from .._core.node import Node
from .._core.tensor import Tensor, wrap
from .._foundation.modes import TRACE, mode
from .._foundation.silence import compute, computing, is_computing
from ..primitives.elementwise import add
from .lazy_gradients import Pending, from_sum, materialize

cpu: Any = backends.backend("cpu")
add_arrays: Any = add.op.functions  # type: ignore[attr-defined]
add_in_silence = computing(np.add)


def add_raw(former: Any, g: Any) -> Any:
    """The sum of two raw gradients."""
    if type(former) is type(g) in backends.LOADED and not mode.word & TRACE:
        return as_array(add_arrays[type(g)](former, g))
    return add(wrap(former), wrap(g)).raw


def add_onto(former: Any, overwrites: bool, g: Any) -> Any:
    """The sum of two raw arrays, in the memory of the first if it `overwrites` that."""
    return compute(np.add, former, g, former) if overwrites and former.shape else add_raw(former, g)


# What follows is called with gradients by key, the key of one of them, and another: an engine that
# holds no further name of an array lets it be overwritten.


def add_in_place(grads: dict[Node, Any], node: Node, g: Any) -> Any:
    """A node's raw gradient plus another, in the first's memory if nobody else can see it."""
    former = grads.pop(node)
    if type(former) is Pending or type(g) is Pending:
        out = from_sum(former, g)
        if out is not None:
            return out
        former, g = materialize(former), materialize(g)
    if type(g) is not np.ndarray or type(former) is not np.ndarray:
        return add_raw(former, g)
    if former.size < cpu.LEAST:
        add = np.add if is_computing.get() else add_in_silence
        if former.nbytes > 8192 and former.strides == g.strides and cpu.exclusive(former, 1):
            return add(former, g, former)
        return as_array(add(former, g))
    if cpu.exclusive(former, 1) and cpu.compute_into(former, "add", g):
        return former
    return as_array(add_arrays[np.ndarray](former, g))


def add_unrecorded(grads: Any, key: Any, g: Any) -> Any:
    return add_raw(grads[key], g)


def add_recorded(grads: Any, key: Any, g: Tensor) -> Tensor:
    return add(grads[key], g)
