"""Activation functions that are compositions of others."""

from typing import Any

from .._core.tensor import Tensor
from .._foundation.errors import DTypeError, ShapeError
from ..functions._arguments import as_axis, as_number, as_real, in_common_dtype, reject
from ..functions.elementwise import clip, elu
from ..functions.elementwise import softplus as plain_softplus
from ..functions.reductions import softmax
from ..functions.shapes import reshape, split
from ..primitives.elementwise import abs, sigmoid, tanh, where
from ._operands import as_reals, as_scalar, in_float32

__all__ = ["celu", "glu", "hardsigmoid", "hardswish", "hardtanh", "logsigmoid", "mish", "prelu"]
__all__ += ["relu6", "selu", "softmin", "softplus", "softsign", "threshold"]

# The fixed point of self-normalising networks: mean 0 and variance 1 stay.
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def relu6(x: Any) -> Tensor:
    """x, but at least 0 and at most 6.

    >>> ad.nn.functional.relu6(ad.asarray([-1.0, 3.0, 9.0]))
    tensor([0., 3., 6.])
    """
    return bounded("relu6", x, 0, 6)


def hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x, but at least `min_val` and at most `max_val`.

    >>> ad.nn.functional.hardtanh(ad.asarray([-3.0, 0.5, 3.0]))
    tensor([-1. ,  0.5,  1. ])
    """
    low = as_scalar("hardtanh", "min_val", min_val)
    return bounded("hardtanh", x, low, as_scalar("hardtanh", "max_val", max_val))


@in_float32
def hardsigmoid(x: Any) -> Tensor:
    """(x + 3) / 6, but at least 0 and at most 1.

    >>> ad.nn.functional.hardsigmoid(ad.asarray([-3.0, 0.0, 3.0]))
    tensor([0. , 0.5, 1. ])
    """
    return clip(as_reals("hardsigmoid", x) + 3, 0, 6) / 6


@in_float32
def hardswish(x: Any) -> Tensor:
    """x times hardsigmoid(x).

    >>> ad.nn.functional.hardswish(ad.asarray([-1.5, 1.5, 3.0]))
    tensor([-0.375,  1.125,  3.   ])
    """
    x = as_reals("hardswish", x)
    return x * hardsigmoid(x)


@in_float32
def selu(x: Any) -> Tensor:
    """elu with the slope and the scale for which means of 0 and variances of 1 last.

    >>> ad.nn.functional.selu(ad.asarray([-1.0, 1.0]))
    tensor([-1.1113,  1.0507])
    """
    return elu(as_reals("selu", x), SELU_ALPHA) * SELU_SCALE


@in_float32
def celu(x: Any, alpha: float = 1.0) -> Tensor:
    """x, or alpha * (exp(x / alpha) - 1) where it is negative.

    >>> ad.nn.functional.celu(ad.asarray([-1.0, 2.0]), 2.0)
    tensor([-0.7869,  2.    ])
    """
    x, alpha = as_reals("celu", x), as_number("celu", "alpha", alpha)
    return elu(x / alpha) * alpha


@in_float32
def mish(x: Any) -> Tensor:
    """x * tanh(log(1 + exp(x))).

    >>> ad.nn.functional.mish(ad.asarray([-1.0, 1.0]))
    tensor([-0.3034,  0.8651])
    """
    x = as_reals("mish", x)
    return x * tanh(plain_softplus(x))


@in_float32
def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x is above the threshold.

    >>> ad.nn.functional.softplus(ad.asarray([-1.0, 0.0, 100.0]))
    tensor([  0.3133,   0.6931, 100.    ])
    """
    x, beta = as_reals("softplus", x), as_number("softplus", "beta", beta)
    threshold = as_number("softplus", "threshold", threshold)
    if beta == 1:
        return where(x > threshold, x, plain_softplus(x))
    steep = x * beta
    return where(steep > threshold, x, plain_softplus(steep) / beta)


@in_float32
def softsign(x: Any) -> Tensor:
    """x / (1 + |x|).

    >>> ad.nn.functional.softsign(ad.asarray([-1.0, 3.0]))
    tensor([-0.5 ,  0.75])
    """
    x = as_reals("softsign", x)
    return x / (abs(x) + 1)


def logsigmoid(x: Any) -> Tensor:
    """log(sigmoid(x)) without overflow.

    >>> ad.nn.functional.logsigmoid(ad.asarray([-100.0, 0.0]))
    tensor([-100.    ,   -0.6931])
    """
    return -plain_softplus(-as_reals("logsigmoid", x))


def softmin(x: Any, axis: int = -1, **unknown: Any) -> Tensor:
    """softmax(-x) along an axis.

    >>> ad.nn.functional.softmin(ad.asarray([0.0, 0.0]))
    tensor([0.5, 0.5])
    """
    if unknown:
        reject("softmin", unknown)
    x = as_reals("softmin", x)
    return softmax(-x, as_axis("softmin", axis, x.ndim))


@in_float32
def glu(x: Any, axis: int = -1, **unknown: Any) -> Tensor:
    """The first half of x along an axis, times the sigmoid of the second half.

    >>> ad.nn.functional.glu(ad.asarray([3.0, 0.0]))
    tensor([1.5])
    """
    if unknown:
        reject("glu", unknown)
    x = as_reals("glu", x)
    axis = as_axis("glu", axis, x.ndim)
    if x.shape[axis] % 2:
        raise ShapeError(f"glu: axis {axis} of shape {x.shape} can't be halved")
    value, gate = split(x, 2, axis)
    return value * sigmoid(gate)


def prelu(x: Any, weight: Any) -> Tensor:
    """x, times a weight, one for all or one per channel of (N, C, ...), where it is negative.

    >>> ad.nn.functional.prelu(ad.asarray([-2.0, 2.0]), ad.asarray([0.25]))
    tensor([-0.5,  2. ])
    """
    x, weight = (as_real("prelu", operand) for operand in in_common_dtype("prelu", x, weight))
    channels = x.shape[1] if x.ndim > 1 else 1
    if weight.ndim > 1 or weight.size not in (1, channels):
        raise ShapeError(
            f"prelu: one weight or {channels} (one per channel of shape {x.shape}) are needed, got "
            f"shape {weight.shape}"
        )
    if weight.size > 1:
        weight = reshape(weight, (-1, *(1 for _ in x.shape[2:])))
    return where(x > 0, x, x * weight)


def threshold(x: Any, threshold: float, value: float) -> Tensor:
    """x where it is above the threshold, else `value`.

    >>> ad.nn.functional.threshold(ad.asarray([0.5, 2.0]), 1.0, -7.0)
    tensor([-7.,  2.])
    """
    x, limit = as_real("threshold", x), as_scalar("threshold", "threshold", threshold)
    return where(x > limit, x, as_scalar("threshold", "value", value))


def bounded(function: str, x: Any, low: float, high: float) -> Tensor:
    x = as_real(function, x)
    if x.raw.dtype.kind == "b":
        raise DTypeError(f"{function}: numbers are needed, got {x.dtype.name}")
    return clip(x, low, high)
