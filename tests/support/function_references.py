"""Functions with more digits than those that are compared with them.

Those of float32 and less are compared with float64, those of float64 with precise numbers.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.support.precise import mp

Array = np.ndarray[Any, Any]


# In float64, for whole arrays.

erf = np.vectorize(math.erf, otypes=[np.float64])
erfc = np.vectorize(math.erfc, otypes=[np.float64])


def gelu(x: Array) -> Array:
    """By the tail of the normal distribution, which keeps its digits where it is small."""
    return np.where(x == -np.inf, -0.0, x * (erfc(-x / math.sqrt(2)) / 2))


def sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


def silu(x: Array) -> Array:
    return np.where(x == -np.inf, -0.0, x * sigmoid(x))


def gelu_tanh(x: Array) -> Array:
    y = np.clip(x, -40, 40)
    u = math.sqrt(8 / math.pi) * (y + 0.044715 * y * y * y)
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


def largest_term(x: Array, y: Array) -> Array:
    """The largest of what logaddexp adds, max(x, y) and at most log(2), and of their sum."""
    with np.errstate(all="ignore"):
        term = np.maximum(np.abs(np.maximum(x, y)), np.log1p(np.exp(-np.abs(x - y))))
        return np.maximum(term, np.abs(np.logaddexp(x, y)))


# Of precise numbers, one or two.

PRECISE: dict[str, Callable] = {
    **{name: getattr(mp, name) for name in {*UNARY, *BINARY} if hasattr(mp, name)},
    "log2": lambda x: mp.log(x, 2),
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "silu": lambda x: x / (1 + mp.exp(-x)),
    "gelu": lambda x: x * mp.erfc(min(-x / mp.sqrt(2), 100)) / 2,  # of more there's no exponent
    "gelu_tanh": lambda x: x / (1 + mp.exp(-mp.sqrt(8 / mp.pi) * cubic(x))),
    "pow": mp.power,
    "logaddexp": lambda x, y: max(x, y) + mp.log1p(mp.exp(-abs(x - y))),
    "add_scaled": lambda x, y, alpha: x + alpha * y,
    "leaky_relu": lambda x, negative_slope: x if x > 0 else x * negative_slope,
    "elu": lambda x, alpha: x if x > 0 else alpha * mp.expm1(x),
}


def cubic(x: Any) -> Any:
    return x + x**3 * 44715 / 1000000
