"""Writing to parts of tensors: x[index] = v, and what in-place operations share with it."""

import math
from sys import getrefcount
from typing import Any

from .. import backends
from .._core.node import extra
from .._core.shape_inference import broadcasts_to
from .._core.tensor import Tensor, journal, share
from .._foundation.errors import GradientError, ShapeError
from .._foundation.modes import ANOMALY, GRAD, PROFILE, TRACE, mode
from .._foundation.spans import TimedWrites
from ..primitives import indexing, shapes
from ..primitives.elementwise import where
from ..primitives.reductions import broadcast_to
from . import _lost
from ._arguments import as_tensor_like
from ._marks import method_named
from .indexing import Index, call_index_op, parse, viewed


@method_named("__setitem__")
def setitem(x: Tensor, index: Any, value: Any) -> None:
    """What x[index] = value calls: `assign`, and a warning where nobody holds x."""
    if getrefcount(x) <= _lost.UNHELD:
        _lost.check_caller()
    assign(x, index, value)


def assign(x: Tensor, index: Any, value: Any) -> None:
    """x[index] = value: changes this tensor object only, and is differentiable in both."""
    recorded = check_writable("assignment", x, value)
    word = mode.word
    if index is Ellipsis and not word & ANOMALY:
        value = as_value("assignment", x, value, x.raw.shape)
        # Tensors are values, so sharing the memory is as good as a copy. A recorded one is a new
        # tensor all the same: an op of its own tells it from `value`.
        rebind(x, shapes.reshape(value, shape=value.shape) if recorded else value)
        return
    if word & TRACE and covers(index, x):
        value = as_tensor_like("assignment", x, value)
        if not value.shape:  # one value needs no places, which aren't known in a trace
            rebind(x, where(index, value, x))
            return
    place = parse(x, index)
    value = as_value("assignment", x, value, place.shape)
    if recorded or word & (TRACE | ANOMALY):
        rebind(x, assigned(x, value, place))
    else:
        write(x, value, place)


def assigned(x: Tensor, value: Tensor, place: Index) -> Tensor:
    """x with a value at a place; of duplicates the last stays."""
    spec, arrays, _, view = place
    out = call_index_op(x, indexing.assign, viewed(x, view), value, *arrays, spec=spec)
    return viewed(out, x.shape)


def covers(index: Any, x: Tensor) -> bool:
    """Whether an index is a mask with an element for each of x."""
    return isinstance(index, Tensor) and index.dtype.kind == "bool" and index.shape == x.shape


def write(x: Tensor, value: Tensor, place: Index) -> None:
    """Put values into x's own memory if nobody else can see it, else into a copy."""
    if place.view != x.raw.shape:
        rebind(x, assigned(x, value, place))
        return
    module: Any = backends.LOADED[type(x.raw)]
    if mode.word & PROFILE:
        module = TimedWrites(module)
    if not module.exclusive(x.raw, 1):
        x.raw = module.copy(x.raw)
    arrays = [array.raw for array in place.arrays]
    call_index_op(x, module.write, x.raw, value.raw, place.spec, arrays)


def check_writable(function: str, x: Tensor, *values: Any) -> bool:
    """Raise where x may not be changed; whether the change is recorded."""
    grad = mode.word & GRAD
    if grad and x.node is not None and x.is_leaf:
        raise GradientError(
            f"{function}: this tensor is a leaf that requires grad, so changing it here would lose "
            "its gradient; do it under ad.no_grad(), on x.data, or on a copy: y = x.copy()"
        )
    if not grad and not x.is_leaf:
        raise GradientError(
            f"{function}: under no_grad a tensor that was computed with gradients can't be "
            "changed: its graph would be wrong; use x.detach()"
        )
    operands = (x, *values)
    return bool(grad) and any(isinstance(v, Tensor) and v.node is not None for v in operands)


def as_value(function: str, x: Tensor, value: Any, shape: tuple[int, ...]) -> Tensor:
    """What is written, in x's dtype and in the shape of the place."""
    value = as_tensor_like(function, x, value)
    if value.raw.shape == shape:
        return value
    extra = value.ndim - len(shape)
    if extra > 0 and math.prod(value.shape[:extra]) == 1:
        value = shapes.reshape(value, shape=value.shape[extra:])
    if not broadcasts_to(value.shape, shape):
        raise ShapeError(f"{function}: a value of shape {value.shape} doesn't fit into {shape}")
    return broadcast_to(value, shape=shape)


def rebind(x: Tensor, result: Tensor) -> None:
    """Let x be the result from now on. A leaf stays the leaf it is."""
    journal(x)
    x.raw = share(result).raw
    if mode.word & GRAD:
        former, x.node = x.node, result.node
        if former is not None and former.extra is not None and x.node is not None:
            extra(x.node).retains, former.extra.retains = former.extra.retains, None
