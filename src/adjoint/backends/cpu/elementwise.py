"""Elementwise ops on NumPy: most are ufuncs."""

import math
from collections.abc import Callable

import numpy as np

from .blas import axpy
from .erf import erf
from .table import FUNCTIONS, entry, refuse_complex, refuse_non_floats, wide


def of_reals(compare: Callable) -> Callable:
    """A ufunc for which NumPy orders complex numbers by their real parts: that is no order."""

    def call(x, y):
        if x.dtype.kind == "c":
            refuse_complex(x)
        return compare(x, y)

    return call


def of_fractions(rounded: Callable) -> Callable:
    """A ufunc that rounds: whole numbers stay as they are."""
    return lambda x: rounded(x) if x.dtype.kind in "fc" else x


# The array API gave these ops and NumPy's functions one name.
NAMED_ALIKE = """
add subtract multiply divide negative pow remainder hypot atan2 logaddexp copysign nextafter
exp expm1 log log1p log2 log10 square sqrt
sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh
abs sign equal not_equal logical_and logical_or logical_xor logical_not
isfinite isinf isnan signbit
bitwise_and bitwise_or bitwise_xor bitwise_invert bitwise_left_shift bitwise_right_shift
real imag conj
"""
ORDERING = "maximum minimum less less_equal greater greater_equal"
UFUNCS = {name: getattr(np, name) for name in NAMED_ALIKE.split()}
UFUNCS |= {name: of_reals(getattr(np, name)) for name in ORDERING.split()}
UFUNCS |= {name: of_fractions(getattr(np, name)) for name in ("floor", "ceil", "trunc")}
UFUNCS["round"] = of_fractions(np.rint)
FUNCTIONS.update(UFUNCS)


@entry
def floor_divide(x, y):
    """NumPy's, but infinities as the array API has them: inf // 2 is inf, 2 // -inf is -0."""
    out = np.floor_divide(x, y)
    infinite = np.isinf(x) | np.isinf(y) if out.dtype.kind == "f" else np.False_
    return np.where(infinite, np.floor(np.divide(x, y)), out) if infinite.any() else out


@entry
def sigmoid(x):
    refuse_complex(x)
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


def finite_below(x: np.ndarray) -> np.ndarray:
    """x, but no less than a number that functions with a tail of zeros take for minus infinity."""
    return np.maximum(x, np.array(-1000, x.dtype))


@entry
def silu(x):
    return finite_below(x) * sigmoid(x)


@entry
def gelu(x):
    refuse_non_floats(x)
    y = x.astype(wide(x.dtype), copy=False)
    out = erf(y * y.dtype.type(math.sqrt(0.5)))
    out += 1
    out *= 0.5
    out *= finite_below(y)
    return out.astype(x.dtype, copy=False)


@entry
def gelu_tanh(x):
    refuse_non_floats(x)
    y = x.astype(wide(x.dtype), copy=False)
    out = y * y
    out *= 0.044715
    out += 1
    out *= y
    out *= math.sqrt(2 / math.pi)
    out = np.tanh(out)
    out += 1
    out *= 0.5
    out *= finite_below(y)
    return out.astype(x.dtype, copy=False)


@entry
def leaky_relu(x, *, negative_slope):
    refuse_complex(x)
    return np.where(x > 0, x, x * x.dtype.type(negative_slope))


@entry
def elu(x, *, alpha):
    refuse_complex(x)
    return np.where(x > 0, x, x.dtype.type(alpha) * np.expm1(np.minimum(x, 0)))


@entry
def scale(x, n):
    """NaN where n isn't finite."""
    return np.ldexp(x - (n - n), np.clip(n, -9999, 9999).astype(np.int32))


@entry
def relu(x):
    refuse_complex(x)
    return np.maximum(x, 0)


@entry
def where(condition, x, y):
    """np.where branches at each element: on large arrays selecting by bits is ten times as fast."""
    dtype = x.dtype
    if condition.size < 4096 or condition.dtype != bool or dtype.itemsize not in (4, 8):
        return np.where(condition, x, y)
    word = np.int32 if dtype.itemsize == 4 else np.int64
    x, y = x.view(word), y.view(word)
    if not x.ndim and not x:
        x, y, condition = y, x, np.logical_not(condition)
    chosen = condition.astype(word)  # 0 or 1
    if not y.ndim and not y:
        return np.multiply(x, chosen, chosen if chosen.shape == x.shape else None).view(dtype)
    return (y ^ ((x ^ y) * chosen)).view(dtype)


@entry
def clip(x, lower, upper):
    x = x if lower is None else np.maximum(x, lower)
    return x if upper is None else np.minimum(x, upper)


@entry
def add_scaled(x, y, *, alpha):
    shape = np.broadcast_shapes(x.shape, y.shape)
    out = np.array(np.broadcast_to(x, shape), order="C")
    axpy(out, np.broadcast_to(y, shape), alpha)
    return out


@entry
def cast(x, *, dtype):
    return x.astype(dtype, copy=False)
