"""Continuous distributions that are a fixed one, moved and scaled: parameters get gradients."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.promotion import to_dtype
from .._core.tensor import Tensor
from .._foundation.silence import compute
from ..functions._arguments import shape_first
from ..functions._families import described_by
from ..functions.creation import ask_for_grad
from ..functions.shapes import concat, reshape
from ..primitives.elementwise import cos, isfinite, log, minimum, nextafter, sin, sqrt
from ..primitives.shapes import slice_
from ._generator import Generator
from ._parameters import Draw, Options, check, check_not_negative, float_draw
from ._units import fraction, unit


@shape_first("random.uniform", "low")
def uniform(
    shape: Any = None,
    low: Any = 0.0,
    high: Any = 1.0,
    *,
    dtype: Any = None,
    device: str | None = None,
    generator: Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers spread evenly from low up to, but without, high (unless they are equal).

    >>> x = ad.random.uniform((1000,), 2.0, 3.0)
    >>> ad.all((x >= 2) & (x < 3))
    tensor(True)
    """
    options = Options(shape, dtype, device, generator)
    draw, (low, high) = float_draw("random.uniform", options, low=low, high=high)
    check("random.uniform", low <= high, "low must not be larger than high", low)
    low, high = to_dtype(low, draw.dtype), to_dtype(high, draw.dtype)
    span, below = high - low, just_below(high, low, draw.dtype)
    check("random.uniform", is_finite(span, draw.dtype), "high - low must be finite", span)
    out = unit(draw)
    if isinstance(span, Tensor) or (low, high) != (0, 1):
        out = minimum(out * span + low, below)  # rounding must not reach high
    return ask_for_grad(out, requires_grad)


def just_below(high: Any, low: Any, dtype: np.dtype) -> Any:
    """The largest number that is less than high, on the side of low."""
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        return nextafter(high, low)
    return float(compute(np.nextafter, *compute(np.array, [high, low], dtype)))


def is_finite(x: Any, dtype: np.dtype) -> Any:
    return isfinite(x) if isinstance(x, Tensor) else bool(np.isfinite(compute(np.array, x, dtype)))


@shape_first("random.normal", "mean")
def normal(
    shape: Any = None,
    mean: Any = 0.0,
    std: Any = 1.0,
    *,
    dtype: Any = None,
    device: str | None = None,
    generator: Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers of the normal distribution.

    >>> std = ad.tensor([1.0, 100.0], requires_grad=True)
    >>> x = ad.random.normal((1000, 2), mean=3.0, std=std)
    >>> ad.autograd.grad(x.sum(), std)[0].shape
    (2,)
    >>> abs(ad.random.normal((10000,)).mean().item()) < 0.1
    True
    """
    options = Options(shape, dtype, device, generator)
    draw, (mean, std) = float_draw("random.normal", options, mean=mean, std=std)
    check_not_negative("random.normal", "std", std)
    return draw.finished(standard_normal(draw.working) * std + mean, requires_grad)


def standard_normal(draw: Draw) -> Tensor:
    """Box and Muller: two uniform numbers make two normal ones."""
    size = math.prod(draw.shape)
    half = draw._replace(shape=((size + 1) // 2,))
    radius = sqrt(-2 * log(1 - unit(half)))
    angle = 2 * math.pi * unit(half)
    both = concat([radius * cos(angle), radius * sin(angle)])
    return reshape(slice_(both, index=(slice(0, size),)), draw.shape)


def exponential(
    shape: Any = None,
    scale: Any = 1.0,
    *,
    dtype: Any = None,
    device: str | None = None,
    generator: Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Times until an event that on average takes `scale`: the density falls as exp(-x / scale).

    Small ones have all their digits.

    >>> x = ad.random.exponential((10000,), scale=5.0)
    >>> 4.8 < x.mean().item() < 5.2
    True
    """
    options = Options(shape, dtype, device, generator)
    draw, (scale,) = float_draw("random.exponential", options, scale=scale)
    check_not_negative("random.exponential", "scale", scale)
    return draw.finished(-fraction(draw.working).log * scale, requires_grad)


def located(standard: Callable[[Draw], Tensor]):
    """Move and scale what a function draws: its distribution around a place, of a width."""
    function = f"random.{standard.__name__}"

    def draw_located(
        shape: Any = None,
        loc: Any = 0.0,
        scale: Any = 1.0,
        *,
        dtype: Any = None,
        device: str | None = None,
        generator: Generator | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        options = Options(shape, dtype, device, generator)
        draw, (loc, scale) = float_draw(function, options, loc=loc, scale=scale)
        check_not_negative(function, "scale", scale)
        return draw.finished(standard(draw.working) * scale + loc, requires_grad)

    return described_by(standard, draw_located)


@located
def laplace(draw: Draw) -> Tensor:
    """Numbers whose density falls as exp(-|x - loc| / scale) on both sides.

    >>> x = ad.random.laplace((10000,), loc=3.0)
    >>> 2.9 < x.mean().item() < 3.1
    True
    """
    number = fraction(draw)
    return number.mirrored(log(2 * number.distance))


@located
def gumbel(draw: Draw) -> Tensor:
    """Numbers of the Gumbel distribution: the place of the largest `logits + gumbel` is random,
    with the probabilities softmax(logits).

    >>> logits = ad.log(ad.asarray([0.1, 0.9]))
    >>> chosen = ad.argmax(logits + ad.random.gumbel((1000, 2)), axis=1)
    >>> 850 < chosen.sum().item() < 950
    True
    """
    return -log(-fraction(draw).log)


@located
def cauchy(draw: Draw) -> Tensor:
    """Numbers with the density 1 / (1 + x * x) / pi, scaled and moved: half are within `scale`.

    >>> x = ad.random.cauchy((10000,), scale=2.0)
    >>> 4800 < (abs(x) < 2).sum().item() < 5200
    True
    """
    number = fraction(draw)
    angle = number.distance * math.pi
    return number.mirrored(-cos(angle) / sin(angle))
