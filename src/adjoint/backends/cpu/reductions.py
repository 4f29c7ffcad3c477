"""Reductions, and ops along one axis, on NumPy."""

import math

import numpy as np

from .table import FUNCTIONS, entry, hosted, lowered, refuse_complex, refuse_non_floats, wide

FUNCTIONS.update(any=np.logical_or.reduce, all=np.logical_and.reduce)

FEW_LINES = 32  # lines along an axis, up to which each is walked on its own


@lowered("reductions", least="ELEMENTS")
def sum_(x, *, axis, keepdims):
    out = np.add.reduce(x, axis=axis, dtype=wide(x.dtype), keepdims=keepdims)
    return out if out.dtype is x.dtype else out.astype(x.dtype)


@lowered("reductions", least="ELEMENTS")
def max_(x, *, axis, keepdims):
    refuse_complex(x)
    return np.maximum.reduce(x, axis=axis, keepdims=keepdims)


@lowered("reductions", least="ELEMENTS")
def min_(x, *, axis, keepdims):
    refuse_complex(x)
    return np.minimum.reduce(x, axis=axis, keepdims=keepdims)


@lowered("reductions", least="ELEMENTS")
def prod(x, *, axis, keepdims):
    out = np.multiply.reduce(x, axis=axis, dtype=wide(x.dtype), keepdims=keepdims)
    return out.astype(x.dtype, copy=False)


@lowered("reductions", least="ELEMENTS")
def logsumexp(x, *, axis, keepdims):
    terms = x.astype(wide(x.dtype), copy=False)
    largest = np.maximum.reduce(terms, axis=axis, keepdims=True, initial=-np.inf)
    offset = np.where(np.isfinite(largest), largest, 0)
    total = np.add.reduce(np.exp(terms - offset), axis=axis, keepdims=keepdims)
    offset = offset if keepdims else offset.reshape(total.shape)
    return (np.log(total) + offset).astype(x.dtype, copy=False)


@entry
def argmax(x, *, axis, keepdims):
    refuse_complex(x)
    return np.argmax(x, axis=axis, keepdims=keepdims)


@entry
def argmin(x, *, axis, keepdims):
    refuse_complex(x)
    return np.argmin(x, axis=axis, keepdims=keepdims)


def running(dtype):
    """The dtype to add up in one by one: each step rounds, so float32 has too few digits too."""
    return np.float64 if dtype.kind == "f" else dtype


@lowered("running", least="RUNNING")
def cumulative_sum(x, *, axis, reverse):
    if reverse:
        return np.flip(cumulative_sum(np.flip(x, axis), axis=axis, reverse=False), axis)
    return np.cumsum(x, axis, running(x.dtype)).astype(x.dtype, copy=False)


@lowered("running", least="RUNNING")
def cumulative_prod(x, *, axis, reverse):
    if reverse:
        return np.flip(cumulative_prod(np.flip(x, axis), axis=axis, reverse=False), axis)
    return np.cumprod(x, axis, running(x.dtype)).astype(x.dtype, copy=False)


@lowered("running", least="RECURRENCE")
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
        out = b.astype(running(b.dtype))
        for k in range(1, len(out)):
            out[k] += np.where(a[k] == 0, 0, a[k] * out[k - 1])
        out = out.astype(b.dtype, copy=False)
    return np.moveaxis(out[::step], 0, axis)


def recurrence_of_numbers(a: list[float], b: list[float]) -> list[float]:
    """For a few long lines Python's floats are faster than NumPy's calls."""
    out, last = [], 0.0
    for factor, term in zip(a, b, strict=True):
        last = factor * last + term if factor else term
        out.append(last)
    return out


@hosted("running", least="RECURRENCE")
def scaled_recurrence(a, b, n, *, axis, reverse, plain=recurrence):
    """`plain`: what computes a[k] * out[k - 1] + b[k]; mostly that is enough, in float64."""
    dtype = b.dtype
    if not n.any():
        wide = a.astype(np.float64, copy=False), b.astype(np.float64, copy=False)
        out = plain(*wide, axis=axis, reverse=reverse)
        if is_exact(a, out, np.finfo(dtype)) or not (np.isfinite(a).all() and np.isfinite(b).all()):
            return out.astype(dtype, copy=False), np.zeros(b.shape, dtype)
    out, exponent = np.empty(b.shape, dtype), np.empty(b.shape, dtype)
    step = -1 if reverse else 1
    a, b, n, *results = (np.moveaxis(x, axis, 0)[::step] for x in (a, b, n, out, exponent))
    for k in np.ndindex(*b.shape[1:]):
        line = recurrence_with_exponents(*(x[:, *k].tolist() for x in (a, b, n)))
        results[0][:, *k], results[1][:, *k] = line
    return out, exponent


def is_exact(a, out, info) -> bool:
    """Whether a recurrence in float64 has lost nothing, nor will in its own dtype: no number on the
    way was infinite, or so small that it had fewer digits."""
    (factor, _), (least, most) = magnitudes(a), magnitudes(out)
    return bool(most <= info.max and least >= info.tiny and factor * least > 1e-290)


def magnitudes(x):
    """The smallest absolute value of elements that aren't 0, and the largest; 1 of nothing."""
    size = np.abs(x).reshape(-1)
    if not size.any():
        return 1.0, 1.0
    words = size.view(f"u{size.itemsize}") - 1  # ordered as floats are, with 0 as the largest
    least = (words.min(keepdims=True) + 1).view(size.dtype)
    return float(least[0]), float(size.max())


def recurrence_with_exponents(
    a: list[float], b: list[float], n: list[float]
) -> tuple[list[float], list[int]]:
    """Numbers from a half to 1, and the powers of two that they are to be multiplied by."""
    out, powers, last, power = [], [], 0.0, 0
    for factor, term, raised in zip(a, b, n, strict=True):
        factor, exponent = math.frexp(factor)
        product, exponent = factor * last, exponent + power
        term, height = math.frexp(term)
        height += int(raised)
        top = max(exponent, height) if product and term else exponent if product else height
        total = math.ldexp(product, exponent - top) if product else 0.0
        last, change = math.frexp(total + math.ldexp(term, height - top) if term else total)
        power = top + change if last else 0
        out.append(last)
        powers.append(power)
    return out, powers


@lowered("reductions", least="ELEMENTS")
def norm(x, *, axis, keepdims):
    refuse_non_floats(x)
    terms = x.astype(np.float64, copy=False)
    out = np.sqrt(np.add.reduce(np.square(terms), axis=axis, keepdims=keepdims))
    return within_range(out, x.dtype, lambda: scaled_norm(terms, axis, keepdims))


def within_range(out, dtype, scaled):
    """A root of squares in its own dtype; what is scaled, if squares of float64 left the range."""
    if dtype == np.float64 and not ((out > 1e-140) & (out < 1e150)).all():
        out = scaled()
    return np.asarray(out).astype(dtype, copy=False)


def scaled_norm(x, axis, keepdims):
    """The norm of numbers whose largest is near 1, and their power of two."""
    power = np.frexp(np.abs(x).max(axis=axis, keepdims=True, initial=0))[1]
    total = np.add.reduce(np.square(np.ldexp(x, -power)), axis=axis, keepdims=keepdims)
    return np.ldexp(np.sqrt(total), power.reshape(np.shape(total)))


@lowered("reductions", least="ELEMENTS")
def moments(x, *, axis):
    """Mean and variance over `axis`, kept as axes of one."""
    mean, rest, count = centred(x, axis, wide(x.dtype))
    var = np.add.reduce(np.square(rest, rest), axis=axis, keepdims=True) / count
    return mean.astype(x.dtype, copy=False), var.astype(x.dtype, copy=False)


@lowered("reductions", least="ELEMENTS")
def deviation(x, *, axis):
    refuse_non_floats(x)
    mean, rest, count = centred(x, axis, np.float64)
    std = norm(rest, axis=axis, keepdims=True) / np.sqrt(count)
    return mean.astype(x.dtype, copy=False), std.astype(x.dtype, copy=False)


def centred(x, axis, dtype):
    """The mean, x less it, and the count, in two passes.

    The mean of large numbers is off by its rounding error, which the differences from it reveal:
    their own mean is taken off too, so that the variance of 1e4 and 1e4 + 0.01 is right.
    """
    terms = x.astype(dtype, copy=False)
    count = np.array(math.prod(x.shape[k] for k in axis), terms.dtype)
    mean = np.add.reduce(terms, axis=axis, keepdims=True) / count
    rest = np.asarray(terms - mean)
    error = np.add.reduce(rest, axis=axis, keepdims=True) / count
    mean += error
    rest -= error
    return mean, rest, count


@lowered("reductions", least="ELEMENTS")
def softmax(x, *, axis):
    out = below_largest(x, axis)
    np.exp(out, out)
    out /= np.add.reduce(out, axis=axis, keepdims=True)
    return out.astype(x.dtype, copy=False)


@lowered("reductions", least="ELEMENTS")
def masked_softmax(x, mask, *, axis):
    out = softmax(np.where(mask, x, np.array(-np.inf, x.dtype)), axis=axis)
    return np.where(np.any(np.broadcast_to(mask, x.shape), axis=axis, keepdims=True), out, 0)


@lowered("reductions", least="ELEMENTS")
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
