"""The NumPy table: op name -> function on raw arrays. Inputs by position, attributes by keyword."""

import math
from collections.abc import Callable

import numpy as np

from .blas import axpy
from .threefry import random_bits
from .windows import conv, conv_input, conv_weight, max_pool

KERNELS: dict[str, Callable] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "negative": np.negative,
    "pow": np.power,
    "exp": np.exp,
    "log": np.log,
    "square": np.square,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "abs": np.abs,
    "sign": np.sign,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_not": np.logical_not,
    "isfinite": np.isfinite,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_invert": np.invert,
    "bitwise_right_shift": np.right_shift,
    "matmul": np.matmul,
    "conv": conv,
    "conv_input": conv_input,
    "conv_weight": conv_weight,
    "max_pool": max_pool,
    "random_bits": random_bits,
}


def kernel(function: Callable) -> Callable:
    """Enter a function into the table; a trailing underscore keeps a builtin's name free."""
    KERNELS[function.__name__.rstrip("_")] = function
    return function


@kernel
def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


@kernel
def relu(x):
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


@kernel
def sum_(x, *, axis, keepdims):
    if x.dtype == np.float16:  # too few digits to add in
        return np.add.reduce(x, axis=axis, dtype=np.float32, keepdims=keepdims).astype(x.dtype)
    return np.add.reduce(x, axis=axis, dtype=x.dtype, keepdims=keepdims)


@kernel
def max_(x, *, axis, keepdims):
    return np.maximum.reduce(x, axis=axis, keepdims=keepdims)


@kernel
def any_(x, *, axis, keepdims):
    return np.logical_or.reduce(x, axis=axis, keepdims=keepdims)


@kernel
def all_(x, *, axis, keepdims):
    return np.logical_and.reduce(x, axis=axis, keepdims=keepdims)


@kernel
def argmax(x, *, axis, keepdims):
    return np.argmax(x, axis=axis, keepdims=keepdims)


@kernel
def cumulative_sum(x, *, axis, reverse):
    if reverse:
        return np.flip(cumulative_sum(np.flip(x, axis), axis=axis, reverse=False), axis)
    wide = np.float32 if x.dtype == np.float16 else x.dtype
    return np.cumsum(x, axis, wide).astype(x.dtype, copy=False)


@kernel
def moments(x, *, axis):
    """Mean and variance over `axis`, kept as axes of one. Two passes: large offsets are safe."""
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    count = np.array(math.prod(x.shape[k] for k in axis), wide.dtype)
    mean = np.add.reduce(wide, axis=axis, keepdims=True) / count
    var = np.add.reduce(np.square(wide - mean), axis=axis, keepdims=True) / count
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
    if x.dtype == np.float16:
        x = x.astype(np.float32)
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
    out = np.zeros(shape, x.dtype)
    np.add.at(out, complete(spec, indices), x)  # x has the index's shape: NumPy 2.4 misreads others
    return out


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
    out = np.zeros(shape, x.dtype)
    if index.shape[axis] == 1:  # nothing can occur twice
        out[along(index, axis)] = x
    else:
        np.add.at(out, along(index, axis), x)
    return out


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
def eye(*, rows, columns, k, dtype):
    return np.eye(rows, columns, k, dtype)
