"""Elementwise ops that functions wrap (`astype`, `clip`, `x.add_`) or rules are made of."""

from .. import op
from .._core.promotion import casting
from .elementwise import logical_and, maximum, where

cast = op.elementwise(
    "cast",
    "The values in another dtype.",
    attrs="dtype",
    promotes="",
    dtype="dtype",
    linear=True,
    x=lambda g, x_dtype: cast(g, dtype=x_dtype),
)
casting.append(cast)
real = op.elementwise(
    "real",
    "The real part of a complex number.",
    inputs="x",
    real_valued=True,
    differentiable=False,
)
imag = op.elementwise(
    "imag",
    "The imaginary part of a complex number.",
    inputs="x",
    real_valued=True,
    differentiable=False,
)
conj = op.elementwise("conj", "The complex conjugate.", inputs="x", differentiable=False)
add_scaled = op.elementwise(
    "add_scaled",
    "x + alpha * y; see `x.add_`.",
    attrs="alpha",
    linear=True,
    x=lambda g: g,
    y=lambda g, alpha: g * alpha,
)
scale = op.elementwise(
    "scale",
    "x * 2 ** n, for whole numbers n as floats: exact, unless the result is beyond the range.",
    x=lambda g, n: scale(g, n),
    n=lambda g: where(False, g, 0),
)
clip = op.elementwise(
    "clip",
    "x, but at least lower and at most upper; the gradient is 1 strictly between.",
    x=lambda g, x, lower, upper: where(logical_and(x > lower, x < upper), g, 0),
    lower=lambda g, x, lower, upper: where(logical_and(x <= lower, lower < upper), g, 0),
    upper=lambda g, x, lower, upper: where(maximum(x, lower) >= upper, g, 0),
)
