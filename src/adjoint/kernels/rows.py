"""Ops that reduce rows and go over them again, in the kernel language.

Each is a function from the types of its arrays to its outputs. float16 is computed in float32.
"""

import math
from collections.abc import Callable

from .exponential import exp
from .floats import nan
from .language import (
    BOOL,
    F16,
    F32,
    I32,
    Type,
    Value,
    constant,
    convert,
    count,
    element,
    equal,
    not_equal,
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


def is_nan(x: Value) -> Value:
    return not_equal(x, x)


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


ROWS: dict[str, Callable[..., Outputs]] = {
    "softmax": softmax,
    "masked_softmax": masked_softmax,
    "log_softmax": log_softmax,
    "log_total": log_total,
    "logsumexp": logsumexp,
    "moments": moments,
    "standardize": standardize,
    "scaled_standardize": scaled_standardize,
    "standardize_gradient": standardize_gradient,
    "cross_entropy": cross_entropy,
    "cross_entropy_gradient": cross_entropy_gradient,
    "argmax": lambda type: argument("max", type),
    "argmin": lambda type: argument("min", type),
}
