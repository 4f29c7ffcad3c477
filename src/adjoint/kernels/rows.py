"""Ops that reduce rows and go over them again, in the kernel language.

Each is a function from the types of its arrays to its outputs. float16 is computed in float32.
"""

import math
from collections.abc import Callable

from .exponential import exp
from .floats import float_of, is_nan, nan, word
from .language import (
    BOOL,
    F16,
    F32,
    F64,
    I32,
    U32,
    Type,
    Value,
    absolute,
    constant,
    convert,
    count,
    element,
    equal,
    position,
    reduce,
    row,
    scalar,
    select,
    sqrt,
)
from .logarithmic import log

Outputs = tuple[Value, ...]


def wide(x: Value) -> Value:
    return convert(x, F32) if x.type == F16 else x


def offset(x: Value) -> Value:
    """The largest of a row, or 0 where that is infinite."""
    largest = reduce("max", x)
    return select(equal(largest - largest, 0), largest, 0)


def softmax(type: Type) -> Outputs:
    x = wide(element(0, type))
    e = exp(x - reduce("max", x))
    return (convert(e / reduce("sum", e), type),)


def masked_softmax(type: Type, mask: Type) -> Outputs:
    x, taken = wide(element(0, type)), convert(element(1, mask), BOOL)
    largest = reduce("max", select(taken, x, -math.inf))
    e = select(taken, exp(x - largest), 0)
    total = reduce("sum", e)
    return (convert(select(equal(total, 0), 0, e / total), type),)


def log_softmax(type: Type) -> Outputs:
    x = wide(element(0, type))
    rest = x - reduce("max", x)
    return (convert(rest - log(reduce("sum", exp(rest))), type),)


def log_total(type: Type) -> Outputs:
    """The largest of a row, and the logarithm of the sum of exp(x - largest)."""
    x = wide(element(0, type))
    largest = reduce("max", x)
    return convert(largest, type), convert(log(reduce("sum", exp(x - largest))), type)


def logsumexp(type: Type) -> Outputs:
    x = wide(element(0, type))
    start = offset(x)
    return (convert(log(reduce("sum", exp(x - start))) + start, type),)


def centred(x: Value) -> tuple[Value, Value, Value]:
    """x less the mean of its row, that mean, and the variance.

    The mean of large numbers is off by its rounding error, which the differences from it reveal:
    their own mean is taken off too.
    """
    n = count(x.type)
    mean = reduce("sum", x) / n
    rest = x - mean
    error = reduce("sum", rest) / n
    variance = reduce("sum", rest * rest) / n - error * error
    return rest - error, mean + error, select(variance < 0, 0, variance)


def moments(type: Type) -> Outputs:
    _, mean, variance = centred(wide(element(0, type)))
    return convert(mean, type), convert(variance, type)


def deviation(type: Type) -> Outputs:
    """The mean, and the root of the variance, whose square needn't be within the range of float32.

    In float64, where there is one.
    """
    _, mean, variance = centred(convert(element(0, type), F64))
    return convert(mean, type), convert(sqrt(variance), type)


def scaled_deviation(type: Type) -> Outputs:
    """The same without float64."""
    rest, mean, _ = centred(wide(element(0, type)))
    return convert(mean, type), convert(root_of_squares(rest) / sqrt(count(F32)), type)


def norm(type: Type, target: Type) -> Outputs:
    """The root of the sum of squares, in float64."""
    x = convert(element(0, type), F64)
    return (convert(sqrt(reduce("sum", x * x)), target),)


def dot(type: Type, target: Type) -> Outputs:
    """The sum of products of two arrays, in float64."""
    x, y = (convert(element(k, type), F64) for k in range(2))
    return (convert(reduce("sum", x * y), target),)


def scaled_norm(type: Type) -> Outputs:
    return (convert(root_of_squares(wide(element(0, type))), type),)


def root_of_squares(x: Value) -> Value:
    """Of float32, scaled by a power of two so that the largest is near 1."""
    exponent = word(reduce("max", absolute(x))) >> 23
    exponent = select(exponent > 253, constant(253, U32), exponent)  # its inverse isn't subnormal
    down, up = float_of((254 - exponent) << 23), float_of(exponent << 23)
    part = x * select(equal(exponent, 0), 1, down)
    return sqrt(reduce("sum", part * part)) * select(equal(exponent, 0), 1, up)


def standardize(type: Type, center: bool) -> Outputs:
    """Its number is eps."""
    x = element(0, type)
    if center:
        rest, mean, variance = centred(x)
    else:
        rest, mean = x, constant(0, type)
        variance = reduce("sum", x * x) / count(type)
    return rest / sqrt(variance + scalar(0, type)), mean, variance


def scaled_standardize(type: Type, center: bool, biased: bool) -> Outputs:
    """Of x, weight, and perhaps bias; its number is eps."""
    normal, _, variance = standardize(type, center)
    out = normal * element(1, type)
    return out + element(2, type) if biased else out, normal, variance


def standardize_gradient(type: Type, center: bool) -> Outputs:
    """Of dout, dmean, dvar, out, var; its number is eps."""
    dout, out = element(0, type), element(3, type)
    dmean, dvar, variance = row(1, type), row(2, type), row(4, type)
    n, scale = count(type), sqrt(variance + scalar(0, type))
    slope = (reduce("sum", dout * out) - 2 * dvar * (scale * scale)) / n
    result = dout - out * slope
    if center:
        result = result - (reduce("sum", dout) - dmean * scale) / n
    return (result / scale,)


def argument(how: str, type: Type) -> Outputs:
    """Where the first of the largest (or smallest) of a row is; the first NaN, if there is one."""
    x = wide(element(0, type))
    best = reduce(how, x)
    found = equal(x, best)
    if x.type.kind == "f":
        found = found | (is_nan(best) & is_nan(x))
    return (reduce("min", select(found, position(I32), constant(2**31 - 1, I32))),)


def cross_entropy(type: Type, target: Type) -> Outputs:
    """And whether the target isn't the place of an element: then the loss is NaN."""
    x, place = wide(element(0, type)), convert(row(1, target), I32)
    rest = x - reduce("max", x)
    picked = reduce("sum", select(equal(position(I32), place), rest, 0))
    loss = log(reduce("sum", exp(rest))) - picked
    inside = is_inside(place)
    return convert(select(inside, loss, nan(loss.type)), type), ~inside


def cross_entropy_gradient(type: Type, target: Type) -> Outputs:
    """Of the loss's gradient, the scores, and the target."""
    g, x, place = wide(row(0, type)), wide(element(1, type)), convert(row(2, target), I32)
    e = exp(x - reduce("max", x))
    out = e / reduce("sum", e) * g - select(equal(position(I32), place), g, 0)
    return (convert(select(is_inside(place), out, nan(out.type)), type),)


def is_inside(place: Value) -> Value:
    return (place >= 0) & (place < count(I32))


NAMED = (
    *(softmax, masked_softmax, log_softmax, log_total, logsumexp),
    *(moments, deviation, scaled_deviation, norm, dot, scaled_norm),
    *(standardize, scaled_standardize, standardize_gradient),
    *(cross_entropy, cross_entropy_gradient),
)
ROWS: dict[str, Callable[..., Outputs]] = {
    **{function.__name__: function for function in NAMED},
    "argmax": lambda type: argument("max", type),
    "argmin": lambda type: argument("min", type),
}
