"""Functions of complex numbers, where NumPy's aren't those of the array API on every platform.

What NumPy gives for infinities and NaNs is for the most part what the C library gives, and C
libraries differ. Here those elements have values of their own, made of functions of real numbers.
`a` and `b` are the real and the imaginary parts of elements that have a part that isn't finite.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .elementwise import UFUNCS
from .operands import as_array
from .table import COMPLEX

Parts = tuple[np.ndarray, np.ndarray]


def joined(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + bj, with the signs of zeros as they are."""
    out = np.empty(a.shape, np.result_type(a, np.complex64))
    out.real, out.imag = a, b
    return out


def parts(x: Any) -> Parts:
    return x.real, x.imag


def finite(x: np.ndarray) -> np.ndarray:
    return np.nan_to_num(x, nan=1.0, posinf=1.0, neginf=-1.0)


def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x * y, but zero times anything is zero; NaNs count as positive then."""
    return np.where((x == 0) | (y == 0), finite(x) * finite(y), x * y)


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """cos(b); an infinite a lies on the real axis where b is no angle."""
    return np.where(np.isinf(a) & ~np.isfinite(b), 1, np.cos(b))


def exp(a: np.ndarray, b: np.ndarray) -> Parts:
    size = np.exp(np.where(np.isfinite(a), 0, a))  # must not underflow: b isn't finite then
    return product(size, cosine(a, b)), product(size, np.sin(b))


def sinh(a: np.ndarray, b: np.ndarray) -> Parts:
    return product(np.sinh(a), cosine(a, b)), product(np.cosh(a), np.sin(b))


def cosh(a: np.ndarray, b: np.ndarray) -> Parts:
    return product(np.cosh(a), cosine(a, b)), product(np.sinh(a), np.sin(b))


def tanh(a: np.ndarray, b: np.ndarray) -> Parts:
    """The imaginary part has b's sign, where C has that of sin(2b)."""
    flat = np.isinf(a)
    re = np.where(flat, np.copysign(1, a), np.where(a == 0, a, np.nan))
    return re, np.where(flat | (b == 0), np.copysign(0, b), np.nan)


def log(a: np.ndarray, b: np.ndarray) -> Parts:
    return np.log(np.hypot(a, b)), np.arctan2(b, a)


def sqrt(a: np.ndarray, b: np.ndarray) -> Parts:
    """Beside an infinite a, 0 * b is zero or NaN."""
    re = np.where(np.isinf(b) | (a == np.inf), np.inf, np.where(a == -np.inf, 0 * b, np.nan))
    im = np.where(np.isinf(b) | (a == -np.inf), np.inf, np.where(a == np.inf, 0 * b, np.nan))
    return np.abs(re), np.copysign(im, b)


def acos(a: np.ndarray, b: np.ndarray) -> Parts:
    angle = np.where(a == 0, np.pi / 2, np.arctan2(np.abs(b), a))
    return angle, np.copysign(np.log(np.hypot(a, b)), -b)


def acosh(a: np.ndarray, b: np.ndarray) -> Parts:
    angle, size = acos(a, b)
    return np.abs(size), np.copysign(angle, b)


def asinh(a: np.ndarray, b: np.ndarray) -> Parts:
    angle = np.where(b == 0, b, np.arctan2(b, np.abs(a)))
    return np.copysign(np.log(np.hypot(a, b)), a), angle


def atanh(a: np.ndarray, b: np.ndarray) -> Parts:
    infinite = np.isinf(a) | np.isinf(b)
    re = np.where(infinite | (a == 0), np.copysign(0, a), np.nan)
    return re, np.where(infinite & ~np.isnan(b), np.copysign(np.pi / 2, b), np.nan)


def turned(function: Callable[..., Parts]) -> Callable[..., Parts]:
    """The function z -> -i f(iz): the sine where f is the hyperbolic sine."""

    def call(a, b):
        re, im = function(-b, a)
        return im, -re

    return call


def scaled(function: Callable[..., Parts], factor: float) -> Callable[..., Parts]:
    def call(a, b):
        re, im = function(a, b)
        return re * factor, im * factor

    return call


OF_THEIR_NAMES = (exp, log, sqrt, sinh, cosh, tanh, asinh, acos, acosh, atanh)
NOT_FINITE: dict[str, Callable[..., Parts]] = {f.__name__: f for f in OF_THEIR_NAMES} | {
    "log2": scaled(log, 1 / math.log(2)),
    "log10": scaled(log, 1 / math.log(10)),
    "sin": turned(sinh),
    "cos": lambda a, b: cosh(-b, a),
    "tan": turned(tanh),
    "asin": turned(asinh),
    "atan": turned(atanh),
}


def mended(out: np.ndarray, good: Any, x: np.ndarray, function: Callable) -> np.ndarray:
    """out, with function(x) where it isn't good."""
    if not good.all():
        where = ~good
        out[where] = function(x[where])
    return out


def with_values(ufunc: Callable, special: Callable[..., Parts]) -> Callable:
    """A ufunc, with the values of `special` where an element isn't finite."""

    def call(x):
        out = as_array(ufunc(x))
        return mended(out, np.isfinite(x), x, lambda z: joined(*special(*parts(z))))

    return call


COMPLEX.update({name: with_values(UFUNCS[name], f) for name, f in NOT_FINITE.items()})


def expm1(x):
    """NumPy's multiplies factors that overflow."""
    out = as_array(np.expm1(x))
    return mended(out, np.isfinite(x) & np.isfinite(out), x, lambda z: COMPLEX["exp"](z) - 1)


def log1p(x):
    """NumPy's is log(|1 + x|) for small x too, of which it has no digits left."""
    a, b = parts(x)
    out = COMPLEX["log"](joined(1 + a, b))
    return mended(out, ~(np.abs(x) < 0.5), x, small_log1p)


def small_log1p(x):
    a, b = parts(x)
    return joined(np.log1p(a * (2 + a) + b * b) / 2, np.arctan2(b, 1 + a))


def sign(x):
    """NumPy's is x / |x| also where |x| overflows, has lost digits, or is infinite beside a NaN."""
    size = np.abs(x)
    good = (size > np.finfo(x.dtype).tiny) & (size < np.inf)
    return mended(as_array(np.sign(x)), good, x, scaled_sign)


def scaled_sign(x):
    a, b = parts(x)
    largest = np.maximum(np.abs(a), np.abs(b))
    scale = np.where((largest > 0) & (largest < np.inf), largest, 1)
    return np.where(np.isnan(largest), complex("nan+nanj"), np.sign(joined(a / scale, b / scale)))


COMPLEX.update(expm1=expm1, log1p=log1p, sign=sign)
