"""How reductions are added up, lane by lane, in the kernel language.

An accumulator is one or two values that start somewhere, take in an element at a time (`step`), are
joined with those of other lanes (`join`), and end in the result. float32 is added up in float64;
float64 with the rounding error of each addition kept aside, so that long sums lose nothing.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from .language import BOOL, F64, Type, Value, constant, convert, equal, not_equal, select

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
    if how == "sum" and source == F64:
        return compensated_sum()
    return total(how, source, reduction.type)


def total(how: str, source: Type, type: Type) -> Accumulator:
    """A plain sum or product, in float64 for all floats."""
    wide = F64 if source.kind == "f" else source

    def joined(x: Parts, y: Parts) -> Parts:
        return (x[0] + y[0] if how == "sum" else x[0] * y[0],)

    return Accumulator(
        (constant(0 if how == "sum" else 1, wide),),
        lambda parts, x: joined(parts, (convert(x, wide),)),
        joined,
        lambda parts: convert(parts[0], type),
    )


def compensated_sum() -> Accumulator:
    zero = constant(0, F64)

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
