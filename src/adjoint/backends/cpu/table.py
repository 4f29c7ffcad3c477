"""The NumPy table: op name -> function on raw arrays. Inputs by position, attributes by keyword."""

import math
from collections.abc import Callable

import numpy as np

from .blas import axpy
from .erf import erf
from .factorizations import FACTORIZATIONS
from .gamma import random_log_gamma
from .normalization import standardize, standardize_gradient
from .threefry import random_bits
from .windows import conv, conv_input, conv_weight, max_pool, window_spread, window_sum


def refuse_complex(x: np.ndarray) -> None:
    if x.dtype.kind == "c":
        raise TypeError("real numbers are needed")


def of_reals(compare: Callable) -> Callable:
    """A ufunc for which NumPy orders complex numbers by their real parts: that is no order."""

    def call(x, y):
        if x.dtype.kind == "c":
            refuse_complex(x)
        return compare(x, y)

    return call


KERNELS: dict[str, Callable] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "negative": np.negative,
    "pow": np.power,
    "remainder": np.remainder,
    "hypot": np.hypot,
    "atan2": np.arctan2,
    "logaddexp": np.logaddexp,
    "copysign": np.copysign,
    "nextafter": np.nextafter,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "log10": np.log10,
    "square": np.square,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": erf,
    "abs": np.abs,
    "sign": np.sign,
    "maximum": of_reals(np.maximum),
    "minimum": of_reals(np.minimum),
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": of_reals(np.less),
    "less_equal": of_reals(np.less_equal),
    "greater": of_reals(np.greater),
    "greater_equal": of_reals(np.greater_equal),
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "logical_not": np.logical_not,
    "isfinite": np.isfinite,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "signbit": np.signbit,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_invert": np.invert,
    "bitwise_left_shift": np.left_shift,
    "bitwise_right_shift": np.right_shift,
    "real": np.real,
    "imag": np.imag,
    "conj": np.conjugate,
    "matmul": np.matmul,
    "conv": conv,
    "conv_input": conv_input,
    "conv_weight": conv_weight,
    "max_pool": max_pool,
    "standardize": standardize,
    "standardize_gradient": standardize_gradient,
    "window_sum": window_sum,
    "window_spread": window_spread,
    "random_bits": random_bits,
    "random_log_gamma": random_log_gamma,
    **FACTORIZATIONS,
}


def kernel(function: Callable) -> Callable:
    """Enter a function into the table; a trailing underscore keeps a builtin's name free."""
    KERNELS[function.__name__.rstrip("_")] = function
    return function


@kernel
def floor_divide(x, y):
    """NumPy's, but infinities as the array API has them: inf // 2 is inf, 2 // -inf is -0."""
    out = np.floor_divide(x, y)
    infinite = np.isinf(x) | np.isinf(y) if out.dtype.kind == "f" else np.False_
    return np.where(infinite, np.floor(np.divide(x, y)), out) if infinite.any() else out


@kernel
def sigmoid(x):
    refuse_complex(x)
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


@kernel
def silu(x):
    return x * sigmoid(x)


@kernel
def gelu(x):
    refuse_complex(x)
    out = erf(x * x.dtype.type(math.sqrt(0.5)))
    out += 1
    out *= x
    out *= 0.5
    return out


@kernel
def gelu_tanh(x):
    refuse_complex(x)
    out = x * x
    out *= 0.044715
    out += 1
    out *= x
    out *= math.sqrt(2 / math.pi)
    out = np.tanh(out)
    out += 1
    out *= x
    out *= 0.5
    return out


@kernel
def leaky_relu(x, *, negative_slope):
    refuse_complex(x)
    return np.where(x > 0, x, x * x.dtype.type(negative_slope))


@kernel
def elu(x, *, alpha):
    refuse_complex(x)
    return np.where(x > 0, x, x.dtype.type(alpha) * np.expm1(np.minimum(x, 0)))


@kernel
def floor(x):
    return np.floor(x) if x.dtype.kind in "fc" else x


@kernel
def ceil(x):
    return np.ceil(x) if x.dtype.kind in "fc" else x


@kernel
def trunc(x):
    return np.trunc(x) if x.dtype.kind in "fc" else x


@kernel
def round_(x):
    return np.rint(x) if x.dtype.kind in "fc" else x


@kernel
def relu(x):
    refuse_complex(x)
    return np.maximum(x, 0)


@kernel
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


@kernel
def clip(x, lower, upper):
    x = x if lower is None else np.maximum(x, lower)
    return x if upper is None else np.minimum(x, upper)


@kernel
def add_scaled(x, y, *, alpha):
    shape = np.broadcast_shapes(x.shape, y.shape)
    out = np.array(np.broadcast_to(x, shape), order="C")
    axpy(out, np.broadcast_to(y, shape), alpha)
    return out


@kernel
def cast(x, *, dtype):
    return x.astype(dtype, copy=False)


def wide(dtype):
    """The dtype to add up in: float16 has too few digits."""
    return np.float32 if dtype == np.float16 else dtype


@kernel
def sum_(x, *, axis, keepdims):
    out = np.add.reduce(x, axis=axis, dtype=wide(x.dtype), keepdims=keepdims)
    return out if out.dtype is x.dtype else out.astype(x.dtype)


@kernel
def max_(x, *, axis, keepdims):
    refuse_complex(x)
    return np.maximum.reduce(x, axis=axis, keepdims=keepdims)


@kernel
def min_(x, *, axis, keepdims):
    refuse_complex(x)
    return np.minimum.reduce(x, axis=axis, keepdims=keepdims)


@kernel
def prod(x, *, axis, keepdims):
    out = np.multiply.reduce(x, axis=axis, dtype=wide(x.dtype), keepdims=keepdims)
    return out.astype(x.dtype, copy=False)


@kernel
def logsumexp(x, *, axis, keepdims):
    terms = x.astype(wide(x.dtype), copy=False)
    largest = np.maximum.reduce(terms, axis=axis, keepdims=True, initial=-np.inf)
    offset = np.where(np.isfinite(largest), largest, 0)
    total = np.add.reduce(np.exp(terms - offset), axis=axis, keepdims=keepdims)
    offset = offset if keepdims else offset.reshape(total.shape)
    return (np.log(total) + offset).astype(x.dtype, copy=False)


@kernel
def any_(x, *, axis, keepdims):
    return np.logical_or.reduce(x, axis=axis, keepdims=keepdims)


@kernel
def all_(x, *, axis, keepdims):
    return np.logical_and.reduce(x, axis=axis, keepdims=keepdims)


@kernel
def argmax(x, *, axis, keepdims):
    refuse_complex(x)
    return np.argmax(x, axis=axis, keepdims=keepdims)


@kernel
def argmin(x, *, axis, keepdims):
    refuse_complex(x)
    return np.argmin(x, axis=axis, keepdims=keepdims)


@kernel
def cumulative_sum(x, *, axis, reverse):
    if reverse:
        return np.flip(cumulative_sum(np.flip(x, axis), axis=axis, reverse=False), axis)
    return np.cumsum(x, axis, wide(x.dtype)).astype(x.dtype, copy=False)


@kernel
def cumulative_prod(x, *, axis, reverse):
    if reverse:
        return np.flip(cumulative_prod(np.flip(x, axis), axis=axis, reverse=False), axis)
    return np.cumprod(x, axis, wide(x.dtype)).astype(x.dtype, copy=False)


@kernel
def recurrence(a, b, *, axis, reverse):
    """By doubling: after each step, element k stands for twice as many elements before it."""
    step = -1 if reverse else 1
    a, out = (np.array(np.moveaxis(x, axis, 0)[::step]) for x in (a, b))
    reach = 1
    while reach < len(out):
        out[reach:] += a[reach:] * out[:-reach]
        a[reach:] = a[reach:] * a[:-reach]
        reach *= 2
    return np.moveaxis(out[::step], 0, axis)


@kernel
def moments(x, *, axis):
    """Mean and variance over `axis`, kept as axes of one. Two passes: large offsets are safe."""
    terms = x.astype(wide(x.dtype), copy=False)
    count = np.array(math.prod(x.shape[k] for k in axis), terms.dtype)
    mean = np.add.reduce(terms, axis=axis, keepdims=True) / count
    rest = np.asarray(terms - mean)
    error = np.add.reduce(rest, axis=axis, keepdims=True) / count  # of the rounded mean
    mean += error
    rest -= error
    var = np.add.reduce(np.square(rest, rest), axis=axis, keepdims=True) / count
    return mean.astype(x.dtype, copy=False), var.astype(x.dtype, copy=False)


@kernel
def softmax(x, *, axis):
    out = below_largest(x, axis)
    np.exp(out, out)
    out /= np.add.reduce(out, axis=axis, keepdims=True)
    return out.astype(x.dtype, copy=False)


@kernel
def log_softmax(x, *, axis):
    out = below_largest(x, axis)
    out -= np.log(np.add.reduce(np.exp(out), axis=axis, keepdims=True))
    return out.astype(x.dtype, copy=False)


def below_largest(x, axis):
    """x less its largest along an axis, in a dtype that can be added up."""
    refuse_complex(x)
    x = x.astype(wide(x.dtype), copy=False)
    if x.size == 0:
        return x.copy()
    if x.shape[axis] > 32:
        return np.subtract(x, np.maximum.reduce(x, axis=axis, keepdims=True))
    # Along a short last axis NumPy's maximum is slow: turn the array so that it is the first.
    turned = np.ascontiguousarray(x.swapaxes(0, axis))
    return np.subtract(x, np.maximum.reduce(turned, axis=0, keepdims=True).swapaxes(0, axis))


@kernel
def reshape(x, *, shape):
    return x.reshape(shape)


@kernel
def permute_dims(x, *, axes):
    return x.transpose(axes)


@kernel
def matrix_transpose(x):
    return x.swapaxes(-1, -2)


@kernel
def broadcast_to(x, *, shape):
    if math.prod(shape) > 4096:
        return np.broadcast_to(x, shape)
    out = np.empty(shape, x.dtype)  # for small arrays a copy takes less time than the view
    out[...] = x
    return out


@kernel
def spread(x, *, axis, shape):
    kept = tuple(1 if k in axis else n for k, n in enumerate(shape))
    return broadcast_to(x.reshape(kept), shape=shape)


@kernel
def concat(*xs, axis):
    return np.concatenate(xs, axis)


@kernel
def pad(x, *, pad_width, value):
    shape = tuple(before + n + after for n, (before, after) in zip(x.shape, pad_width, strict=True))
    inside = tuple(slice(b, b + n) for n, (b, _) in zip(x.shape, pad_width, strict=True))
    out = np.full(shape, value, x.dtype)
    out[inside] = x
    return out


@kernel
def slice_(x, *, index):
    return x[(*index, ...)]


@kernel
def place(x, *, index, shape):
    out = np.zeros(shape, x.dtype)
    out[index] = x
    return out


def complete(spec, indices):
    """The index that NumPy takes: `spec` with its "array" entries filled in."""
    arrays = iter(indices)
    return tuple(next(arrays) if isinstance(entry, str) else entry for entry in spec)


@kernel
def index(x, *indices, spec):
    return x[complete(spec, indices)]


@kernel
def scatter(x, *indices, spec, shape):
    out = np.zeros(shape, wide(x.dtype))
    np.add.at(out, complete(spec, indices), x)  # x has the index's shape: NumPy 2.4 misreads others
    return out.astype(x.dtype, copy=False)


@kernel
def assign(x, v, *indices, spec):
    out = x.copy()
    out[complete(spec, indices)] = v
    return out


def along(index, axis):
    """The full index behind an index along one axis."""
    places = [
        np.arange(n).reshape((-1,) + (1,) * (index.ndim - 1 - k)) for k, n in enumerate(index.shape)
    ]
    places[axis] = index
    return tuple(places)


@kernel
def take_along_axis(x, index, *, axis):
    return x[along(index, axis)]


@kernel
def scatter_along_axis(x, index, *, axis, shape):
    out = np.zeros(shape, wide(x.dtype))
    if index.shape[axis] == 1:  # nothing can occur twice
        out[along(index, axis)] = x
    else:
        np.add.at(out, along(index, axis), x)
    return out.astype(x.dtype, copy=False)


@kernel
def topk(x, *, k, axis, largest):
    """Stable: equals stay in the order of their indices. NaN counts as the largest."""
    if largest:
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, stable=True), axis)
    else:
        order = np.argsort(x, axis, stable=True)
    indices = np.take(order, np.arange(k), axis)
    return np.take_along_axis(x, indices, axis), indices


@kernel
def searchsorted(x, values, *, after):
    return np.searchsorted(x, values, "right" if after else "left")


@kernel
def unique(x):
    """Every NaN is distinct, as it isn't equal to itself."""
    return np.unique(x, True, True, True, equal_nan=False)[1:]


@kernel
def nonzero(x):
    return np.stack(np.nonzero(x))


@kernel
def full(*, shape, value, dtype):
    zero = type(value) is int and value == 0
    return np.zeros(shape, dtype) if zero else np.full(shape, np.array(value, dtype))


@kernel
def arange(*, start, stop, step, dtype):
    return np.arange(start, stop, step, dtype=dtype)


@kernel
def linspace(*, start, stop, num, endpoint, dtype):
    return np.linspace(start, stop, num, endpoint=endpoint, dtype=dtype)


@kernel
def eye(*, rows, columns, k, dtype):
    return np.eye(rows, columns, k, dtype)
