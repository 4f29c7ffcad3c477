"""In-place operations: x += y, x.mul_(y), x.zero_(). They change this tensor object only, and are
recorded, as x[...] = v is; leaves that require grad refuse them."""

from collections.abc import Callable
from typing import Any

from .. import backends
from .._core.tensor import Tensor
from .._foundation.dtypes import weak
from .._foundation.errors import DTypeError, ShapeError
from .._foundation.modes import ANOMALY, GRAD, TRACE, mode
from .._foundation.numbers import Number
from .._foundation.spans import TimedWrites
from ..primitives import elementwise as ops
from ..primitives.conversions import add_scaled
from ._arguments import tensor_or_number
from ._marks import in_place_method
from .assignment import assign, check_writable, rebind
from .elementwise import clip, to_device


def inplace(function: Any, name: str = "") -> Any:
    """The in-place form of a binary operator: x += y."""
    name = name or f"in-place {function.__name__}"
    op = getattr(function, "op", None)

    def operate(x: Tensor, y: Any) -> Tensor:
        recorded = check_writable(name, x, y)
        module = None if recorded or op is None else overwriting_backend(x, y)
        if module and op and module.compute_into(x.raw, op.name, y.raw):
            return x
        replace(name, x, function(x, y))
        return x

    return operate


@in_place_method
def add_(x: Tensor, y: Any, *, alpha: float = 1) -> Tensor:
    """x += alpha * y in one pass, as optimizers do it; returns x.

    >>> x = ad.asarray([1.0, 2.0])
    >>> x.add_(ad.asarray([10.0, 10.0]), alpha=0.5)
    tensor([6., 7.])
    """
    if isinstance(alpha, (Tensor, Number)):
        y, alpha = alpha * y, 1  # which has a gradient for alpha
    recorded = check_writable("add_", x, y)
    alpha = weak(alpha)
    if isinstance(alpha, float) and x.raw.dtype.kind in "iub":
        raise DTypeError(f"add_: alpha={alpha} doesn't go with a tensor of {x.dtype.name}")
    module = None if recorded else overwriting_backend(x, y)
    if module is None:
        replace("add_", x, add_scaled(x, y, alpha=alpha))
    else:
        module.axpy(x.raw, y.raw, alpha)
    return x


def overwriting_backend(x: Tensor, y: Any) -> Any:
    """x's backend, if a result may be computed from x and y into x's own memory, else None."""
    if not isinstance(y, Tensor) or y.raw.shape != x.raw.shape:
        return None
    word = mode.word
    if word > GRAD and word & (TRACE | ANOMALY):
        return None
    if y.raw.dtype is not x.raw.dtype or x.raw.dtype.kind != "f":
        return None
    if type(y.raw) is not type(x.raw):
        return None
    module: Any = backends.LOADED.get(type(x.raw))
    if not module or y.raw is x.raw or not module.exclusive(x.raw, 1):
        return None
    return module if word <= GRAD else TimedWrites(module)


def replace(function: str, x: Tensor, result: Tensor) -> None:
    """Let x be the result of an in-place operation, which keeps its shape and dtype."""
    if result.raw.shape != x.raw.shape:
        raise ShapeError(
            f"{function}: the result has shape {result.shape}, the tensor {x.shape}; it can't grow "
            "in place"
        )
    if result.raw.dtype is not x.raw.dtype:
        raise DTypeError(
            f"{function}: the result is {result.dtype.name}, the tensor {x.dtype.name}; its dtype "
            "can't change in place: cast the other operand with ad.astype"
        )
    rebind(x, result)


multiply_into: Callable = inplace(ops.multiply, "mul_")
divide_into: Callable = inplace(ops.divide, "div_")
subtract_into: Callable = inplace(ops.subtract, "sub_")


@in_place_method
def mul_(x: Tensor, y: Any) -> Tensor:
    """x *= y; returns x.

    >>> ad.asarray([1.0, 2.0]).mul_(10)
    tensor([10., 20.])
    """
    return multiply_into(x, y)


@in_place_method
def div_(x: Tensor, y: Any) -> Tensor:
    """x /= y; returns x.

    >>> ad.asarray([1.0, 2.0]).div_(2)
    tensor([0.5, 1. ])
    """
    return divide_into(x, y)


@in_place_method
def sub_(x: Tensor, y: Any, *, alpha: float = 1) -> Tensor:
    """x -= alpha * y in one pass; returns x.

    >>> ad.asarray([1.0, 2.0]).sub_(1.0)
    tensor([0., 1.])
    """
    plain = not isinstance(alpha, Tensor) and alpha == 1
    return subtract_into(x, y) if plain else add_(x, y, alpha=-weak(alpha))


@in_place_method
def clamp_(x: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Let x be at least `min` and at most `max`; returns x.

    >>> ad.asarray([-1.0, 0.5, 2.0]).clamp_(0, 1)
    tensor([0. , 0.5, 1. ])
    """
    check_writable("clamp_", x, min, max)
    replace("clamp_", x, clip(x, min, max))
    return x


@in_place_method
def zero_(x: Tensor) -> Tensor:
    """0 everywhere; returns x.

    >>> ad.asarray([1.0, 2.0]).zero_()
    tensor([0., 0.])
    """
    return fill("zero_", x, False if x.raw.dtype.kind == "b" else 0)


@in_place_method
def fill_(x: Tensor, value: Any) -> Tensor:
    """One value everywhere; returns x.

    >>> ad.asarray([1.0, 2.0]).fill_(7)
    tensor([7., 7.])
    """
    if isinstance(value, Tensor) and value.ndim:
        raise ShapeError(f"fill_: one value is needed, got shape {value.shape}; use copy_")
    return fill("fill_", x, value)


def fill(function: str, x: Tensor, value: Any) -> Tensor:
    recorded = check_writable(function, x, value)
    # As parts, elements are written to the memory that x has; x[...] = v would share v's.
    assign(x, ... if recorded else (slice(None),) * x.ndim, value)
    return x


@in_place_method
def copy_(x: Tensor, source: Any) -> Tensor:
    """Let x have the values of a tensor that broadcasts to its shape, in its own dtype and on its
    own device; returns x.

    >>> ad.zeros((2, 2)).copy_(ad.asarray([1.0, 2.0]))
    tensor([[1., 2.],
            [1., 2.]])
    """
    check_writable("copy_", x, source)
    source = tensor_or_number("copy_", weak(source))
    assign(x, ..., to_device(source, x.device) if isinstance(source, Tensor) else source)
    return x
