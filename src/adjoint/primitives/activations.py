"""Activation functions that keep only their input for backward."""

import math

from .. import op
from .elementwise import erf, exp, maximum, minimum, tanh, where

SPREAD = math.sqrt(2 / math.pi)


def normal_cdf(x):
    return 0.5 * (1 + erf(x * math.sqrt(0.5)))


def normal_density(x):
    return exp(-0.5 * x * x) * math.sqrt(0.5 / math.pi)


def gelu_tanh_rule(g, x):
    x = minimum(maximum(x, -20), 20)  # beyond, the slope is 0 or 1, and powers of x overflow
    t = tanh(SPREAD * (x + 0.044715 * x * x * x))
    slope = SPREAD * (1 + 3 * 0.044715 * x * x)
    return 0.5 * g * (1 + t + x * (1 - t * t) * slope)


gelu = op.elementwise(
    "gelu",
    "x times the normal distribution function of x.",
    floats=True,
    x=lambda g, x: g * (normal_cdf(x) + x * normal_density(x)),
)
gelu_tanh = op.elementwise(
    "gelu_tanh",
    "An approximation of gelu by tanh.",
    floats=True,
    x=gelu_tanh_rule,
)
leaky_relu = op.elementwise(
    "leaky_relu",
    "x, times a slope where it is negative.",
    attrs="negative_slope",
    floats=True,
    x=lambda g, x, negative_slope: where(x > 0, g, g * negative_slope),
)
elu = op.elementwise(
    "elu",
    "x, or alpha * (exp(x) - 1) where it is negative.",
    attrs="alpha",
    floats=True,
    x=lambda g, x, alpha: where(x > 0, g, g * alpha * exp(where(x > 0, 0, x))),
)
