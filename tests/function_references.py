"""Functions of a wider type than those that are compared with them, and the errors of these."""

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def normal_tail(a: Array) -> Array:
    """The probability that a normal variable is more than a, for a >= 0."""
    near, far = np.minimum(a, 2), np.maximum(a, 2)
    density = np.exp(-a * a / 2) / np.sqrt(2 * pi(a))
    return np.where(a < 2, a.dtype.type(0.5) - density * series(near), density * fraction(far))


def pi(like: Array) -> Any:
    return like.dtype.type(4) * np.arctan(like.dtype.type(1))


def series(a: Array) -> Array:
    """a + a**3 / 3 + a**5 / (3 * 5) + ...: what lies between 0 and a, over the density."""
    term = out = a
    for k in range(3, 80, 2):
        term = term * a * a / k
        out = out + term
    return out


def fraction(a: Array) -> Array:
    """1 / (a + 1 / (a + 2 / (a + 3 / ...))): the tail over the density."""
    out = a
    for k in range(300, 0, -1):
        out = a + k / out
    return 1 / out


def gelu(x: Array) -> Array:
    less = np.abs(np.where(np.isinf(x), 0, x)) * normal_tail(np.abs(np.where(np.isinf(x), 0, x)))
    return np.where(x < 0, -less, x - less)


def erf(x: Array) -> Array:
    """Of small x by the series: 1 minus the tail has lost digits."""
    a = np.minimum(np.abs(x), 30) * np.sqrt(x.dtype.type(2))
    small = np.minimum(a, 2)
    near = 2 * np.exp(-small * small / 2) / np.sqrt(2 * pi(x)) * series(small)
    return np.copysign(np.where(a < 2, near, 1 - 2 * normal_tail(a)), x)


def sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


def silu(x: Array) -> Array:
    return np.where(x == -np.inf, -0.0, x * sigmoid(np.maximum(x, -20000)))


def gelu_tanh(x: Array) -> Array:
    third = x.dtype.type(44715) / 1000000
    y = np.clip(x, -40, 40)
    u = 2 * np.sqrt(2 / pi(x)) * (y + third * y * y * y)
    return np.where(x == -np.inf, -0.0, x * sigmoid(u))


UNARY: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "silu": silu,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "log10": np.log10,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "erf": erf,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
}
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "pow": np.power,
    "hypot": np.hypot,
    "atan2": np.arctan2,
    "logaddexp": np.logaddexp,
}


def ulps(out: Array, wide: Array, size: Array | None = None) -> Array:
    """The error of each element, in units of the last digit of the right result, or of `size`.

    Infinite where only one of the two is NaN or overflows, or where zeros have different signs, if
    the error isn't that of a `size`.
    """
    info = np.finfo(out.dtype)
    with np.errstate(all="ignore"):
        right = wide.astype(out.dtype)
        _, exponent = np.frexp(np.abs(wide if size is None else size))
        exponent = np.where(np.isfinite(wide), np.maximum(exponent - 1, info.minexp), 0)
        error = np.abs(out - wide) / np.ldexp(wide.dtype.type(1), exponent - info.nmant)
        same = (out == right) & ((out != 0) | (np.signbit(out) == np.signbit(right)))
        lost_sign = (out == 0) & (right == 0) & ~same & (size is None)
        wrong = np.isnan(error) | lost_sign | np.isinf(out)
    error = np.where(wrong, np.inf, error)
    return np.where(np.isinf(out) & same | np.isnan(out) & np.isnan(wide), 0, error)
