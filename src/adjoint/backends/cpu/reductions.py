"""Reductions, and ops along one axis, on NumPy."""

import math

import numpy as np

from .table import kernel, refuse_complex, wide


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
