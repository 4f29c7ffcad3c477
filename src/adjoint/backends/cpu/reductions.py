"""Reductions, and ops along one axis, on NumPy."""

import math

import numpy as np

from .table import kernel, refuse_complex, wide

FEW_LINES = 32  # lines along an axis, up to which each is walked on its own


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


def running(dtype):
    """The dtype to add up in one by one: each step rounds, so float32 has too few digits too."""
    return np.float64 if dtype.kind == "f" else dtype


@kernel
def cumulative_sum(x, *, axis, reverse):
    if reverse:
        return np.flip(cumulative_sum(np.flip(x, axis), axis=axis, reverse=False), axis)
    return np.cumsum(x, axis, running(x.dtype)).astype(x.dtype, copy=False)


@kernel
def cumulative_prod(x, *, axis, reverse):
    if reverse:
        return np.flip(cumulative_prod(np.flip(x, axis), axis=axis, reverse=False), axis)
    return np.cumprod(x, axis, running(x.dtype)).astype(x.dtype, copy=False)


@kernel
def recurrence(a, b, *, axis, reverse):
    """One step after the other: products of many factors would overflow where the result doesn't.

    A factor of 0 starts anew, also after an infinity.
    """
    step = -1 if reverse else 1
    a, b = (np.moveaxis(x, axis, 0)[::step] for x in (a, b))
    lines = math.prod(b.shape[1:])
    if b.dtype.kind == "f" and lines < FEW_LINES:
        out = np.empty(b.shape, b.dtype)
        for k in np.ndindex(*b.shape[1:]):
            out[:, *k] = recurrence_of_numbers(a[:, *k].tolist(), b[:, *k].tolist())
    else:
        out = b.astype(wide(b.dtype))
        for k in range(1, len(out)):
            out[k] += np.where(a[k] == 0, 0, a[k] * out[k - 1])
        out = out.astype(b.dtype, copy=False)
    return np.moveaxis(out[::step], 0, axis)


def recurrence_of_numbers(a: list[float], b: list[float]) -> list[float]:
    """For a few long lines Python's floats are faster than NumPy's calls, and more precise."""
    out, last = [], 0.0
    for factor, term in zip(a, b, strict=True):
        last = factor * last + term if factor else term
        out.append(last)
    return out


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
def masked_softmax(x, mask, *, axis):
    out = softmax(np.where(mask, x, np.array(-np.inf, x.dtype)), axis=axis)
    return np.where(np.any(np.broadcast_to(mask, x.shape), axis=axis, keepdims=True), out, 0)


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
