"""The gamma distribution and what follows from it, in log space: tiny parameters don't underflow.

Numbers have no gradient with respect to a shape parameter (alpha, a, b): one that requires grad is
refused.
"""

from typing import Any

from .._core.promotion import constant, to_dtype
from .._core.tensor import Tensor
from .._foundation.errors import ShapeError
from ..primitives.creation import random_log_gamma
from ..primitives.elementwise import exp, sigmoid
from ..primitives.reductions import broadcast_to, softmax
from ._generator import Generator
from ._parameters import (
    Draw,
    Options,
    as_parameter,
    check_not_negative,
    check_positive,
    draw_of,
    float_draw,
    float_dtype,
    refuse_grad,
)


def gamma(
    alpha: Any,
    shape: Any = None,
    scale: Any = 1.0,
    *,
    dtype: Any = None,
    device: str | None = None,
    generator: Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers of the gamma distribution: the density is x ** (alpha - 1) * exp(-x / scale).

    `scale` gets gradients.

    >>> x = ad.random.gamma(2.0, (10000,), scale=3.0)
    >>> 5.8 < x.mean().item() < 6.2
    True
    """
    options = Options(shape, dtype, device, generator)
    draw, (alpha, scale) = float_draw("random.gamma", options, alpha=alpha, scale=scale)
    check_not_negative("random.gamma", "scale", scale)
    check_shape_parameters("random.gamma", alpha=alpha)
    out = exp(log_gamma(draw.working, alpha))
    return draw.finished(out * scale, requires_grad)


def beta(
    a: Any,
    b: Any,
    shape: Any = None,
    *,
    dtype: Any = None,
    device: str | None = None,
    generator: Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers from 0 to 1 of the beta distribution: density x ** (a - 1) * (1 - x) ** (b - 1).

    >>> x = ad.random.beta(2.0, 6.0, (10000,))
    >>> 0.24 < x.mean().item() < 0.26
    True
    """
    options = Options(shape, dtype, device, generator)
    draw, (a, b) = float_draw("random.beta", options, a=a, b=b)
    check_shape_parameters("random.beta", a=a, b=b)
    logit = log_gamma(draw.working, a) - log_gamma(draw.working, b)
    return draw.finished(sigmoid(logit), requires_grad)


def dirichlet(
    alpha: Any,
    shape: Any = None,
    *,
    dtype: Any = None,
    device: str | None = None,
    generator: Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Random probabilities: vectors, along a new last axis, that add up to 1.

    `alpha` has a positive number for each entry along its last axis; `shape` is that of the
    vectors' places, by default what the other axes of `alpha` say.

    >>> x = ad.random.dirichlet(ad.asarray([1.0, 2.0, 5.0]), (1000,))
    >>> x.shape
    (1000, 3)
    >>> ad.all(abs(x.sum(axis=1) - 1) < 1e-5)
    tensor(True)
    """
    alpha = as_parameter("random.dirichlet", "alpha", alpha)
    if not isinstance(alpha, Tensor) or alpha.ndim == 0 or alpha.shape[-1] == 0:
        raise ShapeError(
            "random.dirichlet: alpha needs at least one axis, with a number for each entry of a "
            f"vector, got {alpha!r}"
        )
    options = Options(shape, dtype, device, generator)
    raw = float_dtype("random.dirichlet", dtype, [alpha])
    draw = draw_of("random.dirichlet", options, [alpha[..., 0]], raw)
    draw = draw._replace(shape=(*draw.shape, alpha.shape[-1]))
    check_shape_parameters("random.dirichlet", alpha=alpha)
    logs = log_gamma(draw.working, alpha)
    return draw.finished(softmax(logs, axis=logs.ndim - 1), requires_grad)


def check_shape_parameters(function: str, **parameters: Any) -> None:
    for name, value in parameters.items():
        check_positive(function, name, value)
        refuse_grad(function, name, value)


def log_gamma(draw: Draw, alpha: Any) -> Tensor:
    """Logarithms of gamma variates."""
    if not isinstance(alpha, Tensor):
        alpha = constant(alpha, draw.dtype, draw.device)
    alpha = broadcast_to(to_dtype(alpha, draw.dtype), shape=draw.shape)
    return draw.generator.draw(random_log_gamma, alpha, device=draw.device)
