"""Exact results of reductions, and how far rounding may take kernels from them, by theory.

A kernel rounds the same numbers in another order on another processor, and NumPy too: what all of
them keep to are bounds. In these u is half a unit of the last digit of 1 in the type that a kernel
computes in, and each operation on the way to a result adds u times what it yields. They are of
first order in u.

Results are Decimals of 36 digits, in arrays of objects: they take a tenth of mpmath's time. Bounds
are floats.
"""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
Axis = int | tuple[int, ...]

U = {"f2": 2.0**-24, "f4": 2.0**-24, "f8": 2.0**-53}  # float16 is computed in float32
FUNCTION = {"f2": 4, "f4": 4, "f8": 8}  # times u: what exp and log may be off

DIGITS = 36
exp, log, sqrt = (np.frompyfunc(f, 1, 1) for f in (Decimal.exp, Decimal.ln, Decimal.sqrt))


class Right(NamedTuple):
    """Precise results, and bounds of the errors that they may have before they are rounded."""

    value: Array
    error: Any


def steps(n: int) -> float:
    """The errors of n roundings in units of u: at most n, and as good as never more than this if
    they are as good as random (Higham and Mary, SIAM J. Sci. Comput. 41, 2019)."""
    return min(n, 6 * math.sqrt(n))


def of_sum(total: Any, n: int, dtype: str) -> Any:
    """The error of a sum of n numbers, whose magnitudes have this total: float64 adds them up,
    and its own numbers with twice the digits (Ogita, Rump and Oishi, the same 26, 2005)."""
    return total * ((n * U["f8"]) ** 2 if dtype == "f8" else steps(n) * U["f8"])


def of_dot(n: int, dtype: Any, parts: int = 1) -> float:
    """The root mean square of errors of sums of n products of normal numbers, in parts whose sums
    are added, all one by one: a sum of k has a variance of k, and a rounding at most u²/3 of that,
    as has that of a product. Sums in another order that doesn't look at numbers are of fewer."""
    length = n / parts
    sizes = n * (length + 1) / 2 + length * parts * (parts - 1) / 2
    return float(np.finfo(dtype).eps) / 2 * math.sqrt((sizes + n) / 3)


def precise(x: Array) -> Array:
    """The same numbers with more digits."""
    return np.asarray(np.frompyfunc(Decimal, 1, 1)(x.astype(np.float64)), object)


def size(x: Any) -> Array:
    """Magnitudes of precise numbers, as bounds are made of."""
    return np.abs(np.asarray(x).astype(np.float64))


def count(x: Array, axis: Axis) -> int:
    return math.prod(x.shape[k] for k in np.atleast_1d(axis))


def mean(x: Array, axis: Axis) -> Array:
    return x.sum(axis, keepdims=True) / count(x, axis)


def sum_(x: Array, dtype: str, axis: Axis, keepdims: bool) -> list[Right]:
    return [Right(x.sum(axis), of_sum(size(x).sum(axis), count(x, axis), dtype))]


def prod(x: Array, dtype: str, axis: Axis, keepdims: bool) -> list[Right]:
    out = x.prod(axis)
    return [Right(out, steps(count(x, axis)) * U["f8"] * size(out))]


class Exponentials:
    """exp(rest), where rest is x less its largest, their sum, and the relative errors of these."""

    def __init__(self, x: Array, dtype: str, axis: Axis) -> None:
        u, self.function = U[dtype], FUNCTION[dtype] * U[dtype]
        self.largest = x.max(axis, keepdims=True)
        self.rest = x - self.largest
        self.terms = exp(self.rest)
        self.errors = u * size(self.rest) + self.function
        self.total = self.terms.sum(axis, keepdims=True)
        self.log = log(self.total)
        weighted = (size(self.terms) * self.errors).sum(axis, keepdims=True)
        self.total_error = weighted / size(self.total) + u
        self.log_error = self.total_error + self.function * size(self.log)


def logsumexp(x: Array, dtype: str, axis: Axis, keepdims: bool) -> list[Right]:
    e = Exponentials(x, dtype, axis)
    return [Right((e.largest + e.log).squeeze(axis), e.log_error.squeeze(axis))]


def softmax(x: Array, dtype: str, axis: Axis) -> list[Right]:
    e = Exponentials(x, dtype, axis)
    out = e.terms / e.total
    return [Right(out, size(out) * (e.errors + e.total_error))]


def log_softmax(x: Array, dtype: str, axis: Axis) -> list[Right]:
    e = Exponentials(x, dtype, axis)
    return [Right(e.rest - e.log, U[dtype] * size(e.rest) + e.log_error)]


def moments(x: Array, dtype: str, axis: Axis) -> list[Right]:
    """The mean is corrected by that of the differences from it, and its own error by u * u. The
    variance has five roundings: of differences, which are squared, of squares, sum, and mean."""
    u, middle = U[dtype], mean(x, axis)
    spread, variance = mean(size(x - middle), axis), mean((x - middle) ** 2, axis)
    lost = u * spread + 4 * u * u * size(middle)
    error = 5 * u * size(variance) + 4 * u * size(middle) * lost
    return [Right(middle, lost), Right(variance, error)]


def standardize(x: Array, dtype: str, axis: Axis, eps: float, center: bool) -> list[Right]:
    u = U[dtype]
    if center:
        (middle, lost), variance = moments(x, dtype, axis)
    else:
        middle, lost = mean(0 * x, axis), np.float64(0)
        squares = mean(x * x, axis)
        variance = Right(squares, 2 * u * size(squares))
    scale = sqrt(variance.value + Decimal(eps))
    out = (x - middle) / scale
    roundings = 7 if center else 3.5
    return [
        Right(out, roundings * u * size(out) + lost / size(scale)),
        Right(middle, lost),
        variance,
    ]


def standardize_gradient(
    dout: Array, dmean: Array, dvar: Array, out: Array, var: Array, dtype: str, **how: Any
) -> list[Right]:
    """The numbers are how many roundings each of the terms goes through."""
    axis, u, n = how["axis"], U[dtype], count(dout, how["axis"])
    scale = sqrt(var + Decimal(how["eps"]))
    slope = (dout * out).sum(axis, keepdims=True) - 2 * dvar * scale**2
    shift = dout.sum(axis, keepdims=True) - dmean * scale if how["center"] else 0 * scale
    value = (dout - (out * slope + shift) / n) / scale
    slopes = 9 * size(dout * out).sum(axis, keepdims=True) + 26 * size(dvar) * size(scale) ** 2
    shifts = 6 * size(dout).sum(axis, keepdims=True) + 8 * size(dmean) * size(scale)
    terms = 4 * size(dout) + (size(out) * slopes + shifts * how["center"]) / n
    return [Right(value, u * terms / size(scale))]


RIGHT: dict[str, Callable[..., list[Right]]] = {
    "sum": sum_,
    "prod": prod,
    "logsumexp": logsumexp,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "moments": moments,
    "standardize": standardize,
    "standardize_gradient": standardize_gradient,
}


def worst(name: str, results: tuple[Array, ...], *arrays: Array, **attrs: Any) -> float:
    """The largest error of an op's results, as a part of what is allowed."""
    dtype = arrays[0].dtype.str[1:]
    with localcontext(prec=DIGITS):
        right = RIGHT[name](*map(precise, arrays), dtype=dtype, **attrs)
        return max(part(out, *result) for out, result in zip(results, right, strict=True))


def part(out: Array, value: Array, error: Any) -> float:
    """Results are rounded once, from float16's float32 twice."""
    unit = np.spacing(size(value).astype(out.dtype)).astype(np.float64)
    return float(np.max(size(precise(out) - value) / (error + unit * 0.501)))
