"""How reductions are added up, lane by lane, in the kernel language.

An accumulator is one or two values that start somewhere, take in an element at a time (`step`), are
joined with those of other lanes (`join`), and end in the result. float32 is added up in float64;
float64 with the rounding error of each addition kept aside, so that long sums lose nothing.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from .floats import two_product, word
from .language import (
    BOOL,
    F32,
    F64,
    I32,
    Type,
    Value,
    constant,
    convert,
    equal,
    fma,
    from_bits,
    not_equal,
    select,
    walk,
)

Parts = tuple[Value, ...]


class Accumulator(NamedTuple):
    start: Parts
    step: Callable[[Parts, Value], Parts]
    join: Callable[[Parts, Parts], Parts]
    result: Callable[[Parts], Value]


def accumulator(reduction: Value) -> Accumulator:
    """How the elements of a reduction are added up."""
    how, source = reduction.detail, reduction.args[0].type
    if how in ("max", "min"):
        return extreme(how, source)
    if how == "sum" and source == F64 and not is_widened(reduction.args[0]):
        return compensated_sum(F64)
    return total(how, source, reduction.type, F64 if source.kind == "f" else source)


def is_widened(x: Value) -> bool:
    """Whether a number in float64 is made of smaller ones: it has digits to spare."""
    arrays = {v.type for v in walk([x]) if v.op in ("element", "row")}
    return bool(arrays) and F64 not in arrays


def total(how: str, source: Type, type: Type, wide: Type) -> Accumulator:
    """A plain sum or product, in a type that may be wider than that of the elements."""

    def joined(x: Parts, y: Parts) -> Parts:
        return (x[0] + y[0] if how == "sum" else x[0] * y[0],)

    return Accumulator(
        (constant(0 if how == "sum" else 1, wide),),
        lambda parts, x: joined(parts, (convert(x, wide),)),
        joined,
        lambda parts: convert(parts[0], type),
    )


def compensated_sum(type: Type) -> Accumulator:
    zero = constant(0, type)

    def step(parts: Parts, x: Value) -> Parts:
        """Knuth's two-sum: what the addition of x rounds away is added to the second part."""
        s, lost = parts
        out = s + x
        part = out - s
        return out, lost + ((s - (out - part)) + (x - part))

    def join(x: Parts, y: Parts) -> Parts:
        s, lost = step(x, y[0])
        return s, lost + y[1]

    def result(parts: Parts) -> Value:
        """An infinite sum has lost NaN."""
        s, lost = parts
        return select(equal(s - s, 0), s + lost, s)

    return Accumulator((zero, zero), step, join, result)


def compensated_product() -> Accumulator:
    """A product of float32: a number between 1 and 2, what its roundings have lost, and a power of
    two, so that no product on the way is too large or too small."""

    def join(x: Parts, y: Parts) -> Parts:
        out, lost = two_product(x[0], y[0])
        lost = fma(x[0], y[1], fma(x[1], y[0], lost))
        exponent = convert((word(out) >> 23) & 255, I32) - 127
        scaled = (exponent > -127) & (exponent < 127)
        scale = power_of_two(select(scaled, -exponent, 0))
        return out * scale, lost * scale, x[2] + y[2] + select(scaled, exponent, 0)

    def result(parts: Parts) -> Value:
        out, lost, exponent = parts
        exponent = select(exponent > 252, 252, select(exponent < -252, -252, exponent))
        half = exponent >> 1
        out = select(equal(lost - lost, 0), out + lost, out)
        return out * power_of_two(half) * power_of_two(exponent - half)

    def start(x: Value) -> Parts:
        return x, constant(0, F32), constant(0, I32)

    return Accumulator(
        start(constant(1, F32)), lambda parts, x: join(parts, start(x)), join, result
    )


def power_of_two(exponent: Value) -> Value:
    """Of an exponent from -126 to 127."""
    return from_bits((exponent + 127) << 23, F32)


def extreme(how: str, type: Type) -> Accumulator:
    """The largest or smallest, and beside it whether there was a NaN."""

    def better(x: Value, y: Value) -> Value:
        return select(x > y if how == "max" else x < y, x, y)

    if type.kind != "f":
        start = constant(worst(how, type), type)
        return Accumulator(
            (start,),
            lambda parts, x: (better(x, parts[0]),),
            lambda x, y: (better(x[0], y[0]),),
            lambda parts: parts[0],
        )
    start = constant(-math.inf if how == "max" else math.inf, type)
    return Accumulator(
        (start, constant(False, BOOL)),
        lambda parts, x: (better(x, parts[0]), parts[1] | not_equal(x, x)),
        lambda x, y: (better(x[0], y[0]), x[1] | y[1]),
        lambda parts: select(parts[1], constant(math.nan, type), parts[0]),
    )


def worst(how: str, type: Type) -> int:
    """The integer that every other is at least as good as."""
    if type.kind == "b":
        return how == "min"
    low = -(1 << (type.bits - 1)) if type.kind == "i" else 0
    return low if how == "max" else low + (1 << type.bits) - 1
