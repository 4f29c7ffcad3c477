"""Activations: functions of each element, and those that share an axis among its elements."""

from typing import Any

from ..._core.tensor import Tensor
from ..._foundation.errors import ArgumentError
from ..._foundation.modes import no_grad
from ...functions._arguments import as_integer
from ...functions.creation import full
from .. import functional as F
from .._operands import as_scalar
from .._parameter import Parameter
from .applied import OfOne, count, kind, one_of
from .module import Module

__all__ = ["CELU", "ELU", "GELU", "GLU", "SELU", "Hardsigmoid", "Hardswish", "Hardtanh"]
__all__ += ["LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "ReLU", "ReLU6", "SiLU"]
__all__ += ["Sigmoid", "Softmax", "Softmin", "Softplus", "Softsign", "Tanh", "Threshold"]


class ReLU(OfOne, function=F.relu):
    """x, or 0 where it is negative.

    >>> ad.nn.ReLU()(ad.asarray([-1.0, 2.0]))
    tensor([0., 2.])
    """


class ReLU6(OfOne, function=F.relu6):
    """x, but at least 0 and at most 6.

    >>> ad.nn.ReLU6()(ad.asarray([-1.0, 3.0, 9.0]))
    tensor([0., 3., 6.])
    """


class SELU(OfOne, function=F.selu):
    """ELU with the slope and the scale for which means of 0 and variances of 1 last.

    >>> ad.nn.SELU()(ad.asarray([-1.0, 1.0]))
    tensor([-1.1113,  1.0507])
    """


class SiLU(OfOne, function=F.silu):
    """x * sigmoid(x).

    >>> ad.nn.SiLU()(ad.asarray([-1.0, 1.0]))
    tensor([-0.2689,  0.7311])
    """


class Mish(OfOne, function=F.mish):
    """x * tanh(log(1 + exp(x))).

    >>> ad.nn.Mish()(ad.asarray([-1.0, 1.0]))
    tensor([-0.3034,  0.8651])
    """


class Sigmoid(OfOne, function=F.sigmoid):
    """1 / (1 + exp(-x)).

    >>> ad.nn.Sigmoid()(ad.asarray([0.0, 1000.0]))
    tensor([0.5, 1. ])
    """


class LogSigmoid(OfOne, function=F.logsigmoid):
    """log(sigmoid(x)) without overflow.

    >>> ad.nn.LogSigmoid()(ad.asarray([-100.0, 0.0]))
    tensor([-100.    ,   -0.6931])
    """


class Tanh(OfOne, function=F.tanh):
    """The hyperbolic tangent of x.

    >>> ad.nn.Tanh()(ad.asarray([0.0, 1.0]))
    tensor([0.    , 0.7616])
    """


class Softsign(OfOne, function=F.softsign):
    """x / (1 + |x|).

    >>> ad.nn.Softsign()(ad.asarray([-1.0, 3.0]))
    tensor([-0.5 ,  0.75])
    """


class Hardsigmoid(OfOne, function=F.hardsigmoid):
    """(x + 3) / 6, but at least 0 and at most 1.

    >>> ad.nn.Hardsigmoid()(ad.asarray([-3.0, 0.0, 3.0]))
    tensor([0. , 0.5, 1. ])
    """


class Hardswish(OfOne, function=F.hardswish):
    """x times hardsigmoid(x).

    >>> ad.nn.Hardswish()(ad.asarray([-1.5, 1.5, 3.0]))
    tensor([-0.375,  1.125,  3.   ])
    """


class LeakyReLU(OfOne, function=F.leaky_relu, options=("negative_slope",)):
    """x, times a slope where it is negative.

    >>> ad.nn.LeakyReLU(0.1)(ad.asarray([-1.0, 2.0]))
    tensor([-0.1,  2. ])
    """

    def __init__(self, negative_slope: float = 0.01, *more: Any, **unknown: Any) -> None:
        super().__init__(*more, **unknown)
        self.negative_slope = as_scalar("LeakyReLU", "negative_slope", negative_slope)


class ELU(OfOne, function=F.elu, options=("alpha",)):
    """x, or alpha * (exp(x) - 1) where it is negative.

    >>> ad.nn.ELU()(ad.asarray([-1.0, 2.0]))
    tensor([-0.6321,  2.    ])
    """

    def __init__(self, alpha: float = 1.0, *more: Any, **unknown: Any) -> None:
        super().__init__(*more, **unknown)
        self.alpha = as_scalar("ELU", "alpha", alpha)


class CELU(OfOne, function=F.celu, options=("alpha",)):
    """x, or alpha * (exp(x / alpha) - 1) where it is negative.

    >>> ad.nn.CELU(2.0)(ad.asarray([-1.0, 2.0]))
    tensor([-0.7869,  2.    ])
    """

    def __init__(self, alpha: float = 1.0, *more: Any, **unknown: Any) -> None:
        super().__init__(*more, **unknown)
        self.alpha = as_scalar("CELU", "alpha", alpha)
        if not self.alpha:
            raise ArgumentError("CELU: alpha must not be 0")


class GELU(OfOne, function=F.gelu, options=("approximate",)):
    """x times the normal distribution function of x; `approximate="tanh"` for its cheaper form.

    >>> ad.nn.GELU()(ad.asarray([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.    ,  0.8413])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = one_of(self, "approximate", approximate, ("none", "tanh"))


class Softplus(OfOne, function=F.softplus, options=("beta", "threshold")):
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x is above the threshold.

    >>> ad.nn.Softplus()(ad.asarray([-1.0, 0.0, 100.0]))
    tensor([  0.3133,   0.6931, 100.    ])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = as_scalar("Softplus", "beta", beta)
        self.threshold = as_scalar("Softplus", "threshold", threshold)
        if not self.beta:
            raise ArgumentError("Softplus: beta must not be 0")


class Hardtanh(OfOne, function=F.hardtanh, options=("min_val", "max_val")):
    """x, but at least `min_val` and at most `max_val`.

    >>> ad.nn.Hardtanh()(ad.asarray([-3.0, 0.5, 3.0]))
    tensor([-1. ,  0.5,  1. ])
    """

    def __init__(
        self, min_val: float = -1.0, max_val: float = 1.0, *more: Any, **unknown: Any
    ) -> None:
        super().__init__(*more, **unknown)
        self.min_val = as_scalar("Hardtanh", "min_val", min_val)
        self.max_val = as_scalar("Hardtanh", "max_val", max_val)
        if not self.min_val < self.max_val:
            raise ArgumentError(f"Hardtanh: min_val={min_val} must be below max_val={max_val}")


class Threshold(OfOne, function=F.threshold, options=("threshold", "value")):
    """x where it is above the threshold, else `value`.

    >>> ad.nn.Threshold(1.0, -7.0)(ad.asarray([0.5, 2.0]))
    tensor([-7.,  2.])
    """

    def __init__(self, threshold: float, value: float, *more: Any, **unknown: Any) -> None:
        super().__init__(*more, **unknown)
        self.threshold = as_scalar("Threshold", "threshold", threshold)
        self.value = as_scalar("Threshold", "value", value)


class AlongAxis(OfOne, options=("axis",)):
    """A function along an axis, by default the last."""

    def __init__(self, axis: int = -1, **unknown: Any) -> None:
        super().__init__(**unknown)
        self.axis = as_integer(kind(self), "axis", axis)


class Softmax(AlongAxis, function=F.softmax):
    """exp(x) / sum(exp(x)) along an axis, without overflow.

    >>> ad.nn.Softmax(axis=1)(ad.asarray([[0.0, 0.0]]))
    tensor([[0.5, 0.5]])
    """


class LogSoftmax(AlongAxis, function=F.log_softmax):
    """log(softmax(x)) along an axis, without losing digits.

    >>> ad.nn.LogSoftmax(axis=1)(ad.asarray([[0.0, 0.0]]))
    tensor([[-0.6931, -0.6931]])
    """


class Softmin(AlongAxis, function=F.softmin):
    """softmax(-x) along an axis.

    >>> ad.nn.Softmin(axis=0)(ad.asarray([0.0, 1.0]))
    tensor([0.7311, 0.2689])
    """


class GLU(AlongAxis, function=F.glu):
    """The first half of x along an axis, times the sigmoid of the second half.

    >>> ad.nn.GLU()(ad.asarray([3.0, 0.0]))
    tensor([1.5])
    """


class PReLU(Module):
    """x, times a weight where it is negative: one for all, or one for each channel of (N, C, …).

    >>> ad.nn.PReLU()(ad.asarray([-2.0, 2.0]))
    tensor([-0.5,  2. ], grad_fn=...)
    """

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_parameters = count(self, "num_parameters", num_parameters)
        self.init = as_scalar("PReLU", "init", init)
        start = full(self.num_parameters, float(self.init), device=device, dtype=dtype)
        self.weight = Parameter(start)

    def reset_parameters(self) -> None:
        """Let the weight be `init` again."""
        with no_grad():
            self.weight[...] = self.init

    def forward(self, x: Any) -> Tensor:
        """x, times the weight where it is negative."""
        return F.prelu(x, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"
