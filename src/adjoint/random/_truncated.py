"""The normal distribution between two bounds, by its inverse: accurate however far out they are.

Everything rests on one function, the Mills ratio: the tail P(x > t) over the density at t. With
y = (t - 4) / (t + 4), which maps all t >= 0 to [-1, 1), the product (t + 4) * mills(t) is a
Chebyshev series in y, fitted in 60 digits. Largest error: 2 ulp.
"""

import math
from typing import Any

from .._core.promotion import constant, to_dtype
from .._core.tensor import Tensor
from ..primitives.conversions import clip
from ..primitives.elementwise import abs, exp, log, log1p, logaddexp, maximum, minimum, sqrt, where
from ._generator import Generator
from ._parameters import Draw, Options, check, check_not_negative, float_draw, refuse_grad
from ._units import fraction

MILLS = {
    "float32": (
        1.893219064,
        -1.523770314,
        0.9704095376,
        -0.4675531274,
        0.1513919463,
        -0.01883037159,
        -0.008722952689,
        0.003919832456,
        0.0003350193591,
        -0.0003943441879,
        -4.339179843e-06,
    ),
    "float64": (
        1.8932190633084853,
        -1.523770910819985,
        0.9704095548676177,
        -0.46754096299818737,
        0.1513917623110474,
        -0.018900450865484503,
        -0.008722295248200037,
        0.0040878557264789955,
        0.0003342443649391365,
        -0.0005792696065073663,
        -4.781834677436329e-06,
        8.809696060211897e-05,
        1.7912419621396938e-06,
        -1.4846493010422612e-05,
        -1.5665301434775512e-06,
        2.5742673078165543e-06,
        6.635890483495518e-07,
        -4.0665439602468896e-07,
        -1.974812079272745e-07,
        4.9053735092410555e-08,
        4.027496644667924e-08,
        -3.2015537235375595e-09,
        -4.232837128668023e-09,
    ),
}
# x / sqrt(2 * l) as a polynomial in 1 / sqrt(2 * l), where l = -log P(normal > x): within 0.1 %.
GUESS = (1.00098712728, -0.12481937369, -2.33028332063, 1.93382995662, -0.76803023775)
# Steps that bring the guess to full precision; their error is about the cube of the former's.
STEPS = {"float32": 1, "float64": 2}
HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
# No normal number is ever this large, and its square is still a float32.
FAR = 1e18


def truncated_normal(
    shape: Any = None,
    lower: Any = -2.0,
    upper: Any = 2.0,
    mean: Any = 0.0,
    std: Any = 1.0,
    *,
    dtype: Any = None,
    device: str | None = None,
    generator: Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal numbers from `lower` to `upper`, which count standard deviations from the mean.

    The bounds may be infinite, and may be far out in a tail.

    >>> x = ad.random.truncated_normal((1000,), mean=10.0, std=3.0)
    >>> ad.all((x >= 4) & (x <= 16))
    tensor(True)
    >>> x = ad.random.truncated_normal((1000,), lower=30.0, upper=float("inf"))
    >>> 30.02 < x.mean().item() < 30.04
    True
    """
    options = Options(shape, dtype, device, generator)
    parameters = {"lower": lower, "upper": upper, "mean": mean, "std": std}
    wanted, (lower, upper, mean, std) = float_draw("random.truncated_normal", options, **parameters)
    check("random.truncated_normal", lower < upper, "lower must be less than upper", lower)
    refuse_grad("random.truncated_normal", "lower", lower)
    refuse_grad("random.truncated_normal", "upper", upper)
    check_not_negative("random.truncated_normal", "std", std)
    draw = wanted.working
    low, high = as_bound(draw, lower), as_bound(draw, upper)
    number = fraction(draw)
    # P(x < z) and P(x > z) for the number z that is to be found: the smaller one has its digits.
    below = logaddexp(number.log_rest + log_cdf(low), number.log + log_cdf(high))
    above = logaddexp(number.log_rest + log_cdf(-low), number.log + log_cdf(-high))
    size = tail_quantile(-minimum(below, above))
    z = clip(where(below < above, -size, size), low, high)
    return wanted.finished(z * std + mean, requires_grad)


def as_bound(draw: Draw, bound: Any) -> Tensor:
    """A bound as a finite tensor of the draw's dtype."""
    if isinstance(bound, Tensor):
        return clip(to_dtype(bound, draw.dtype), -FAR, FAR)
    return constant(float(min(max(bound, -FAR), FAR)), draw.dtype, draw.device)


def polynomial(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    out = x * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        out = out * x + coefficient
    return out


def hazard(t: Tensor) -> Tensor:
    """The normal density at t >= 0 over the tail beyond it: 1 / mills(t)."""
    return (t + 4) / polynomial(MILLS[t.dtype.name], (t - 4) / (t + 4))


def minus_log_tail(t: Tensor, hazard_at_t: Tensor) -> Tensor:
    """-log P(normal > t)."""
    return t * t * 0.5 + HALF_LOG_TWO_PI + log(hazard_at_t)


def log_cdf(x: Tensor) -> Tensor:
    """log P(normal < x)."""
    t = abs(x)
    tail = -minus_log_tail(t, hazard(t))
    return where(x < 0, tail, log1p(-exp(tail)))


def tail_quantile(minus_log_p: Tensor) -> Tensor:
    """The t >= 0 at which P(normal > t) is p, which is at most a half.

    Halley's method, with a bound of the curvature in the place of the curvature, which would lose
    its digits far out.
    """
    root = sqrt(2 * minus_log_p)
    t = maximum(root * polynomial(GUESS, 1 / root), 0)
    for _ in range(STEPS[t.dtype.name]):
        slope = hazard(t)
        step = (minus_log_p - minus_log_tail(t, slope)) / slope
        t = t + step / (1 + step / (t + sqrt(t * t + 6)))
    return maximum(t, 0)
