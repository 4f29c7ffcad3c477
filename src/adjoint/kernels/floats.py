"""What the functions of floats are made of: polynomials, powers of two, and how floats are stored.

Numbers that a float can't hold are given as parts that add up to them: the nearest float, the one
nearest to what is left, and so on.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from .language import F32, F64, U32, U64, Type, Value, constant, fma, from_bits, not_equal, select


class Format(NamedTuple):
    """How floats of a type are stored."""

    digits: int  # bits after the point
    bias: int  # added to the exponent
    word: Type  # the unsigned integer of the same size

    @property
    def ones(self) -> float:
        """Of this size floats are 1 apart: adding it rounds, and the last bits count."""
        return 1.5 * 2.0**self.digits

    @property
    def least(self) -> float:
        """The smallest number that has all its digits."""
        return 2.0 ** (1 - self.bias)


FORMATS = {F32: Format(23, 127, U32), F64: Format(52, 1023, U64)}


def format_of(x: Value) -> Format:
    return FORMATS[x.type]


def of_type(x: Value, single, double):
    """What the type of x takes: the first of float32, the second of float64."""
    return single if x.type == F32 else double


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """The sum of coefficients[k] * x**k; long ones as two chains, which are done at once."""
    first, rest = coefficients[0], coefficients[1:]
    if len(rest) < 4:
        return chain(x, coefficients)
    square = x * x
    return fma(fma(chain(square, rest[1::2]), x, chain(square, rest[::2])), x, first)


def chain(x: Value, coefficients: Sequence[float]) -> Value:
    out = constant(coefficients[-1], x.type)
    for coefficient in reversed(coefficients[:-1]):
        out = fma(out, x, coefficient)
    return out


def at_most(x: Value, limit: float) -> Value:
    """The smaller of the two; NaN stays."""
    return select(x > limit, limit, x)


def at_least(x: Value, limit: float) -> Value:
    return select(x < limit, limit, x)


def word(x: Value) -> Value:
    """The bits of a float as an unsigned integer."""
    return from_bits(x, format_of(x).word)


def float_of(x: Value) -> Value:
    """The float with the bits of an unsigned integer."""
    return from_bits(x, F32 if x.type == U32 else F64)


def word_of(number: float, type: Type) -> int:
    """The bits of a number as a float of a type."""
    return int(type.dtype.type(number).view(FORMATS[type].word.dtype))


def is_nan(x: Value) -> Value:
    return not_equal(x, x)


def nan(type: Type) -> Value:
    return constant(math.nan, type)


def with_sign(x: Value, sign: Value) -> Value:
    """x, negated where the first bit of `sign` is set."""
    first = 1 << (x.type.bits - 1)
    return float_of(word(x) ^ (sign & first))


def fast_two_sum(x: Value, y: Value) -> tuple[Value, Value]:
    """x + y in two parts, where x isn't smaller than y."""
    out = x + y
    return out, (x - out) + y


def two_sum(x: Value, y: Value) -> tuple[Value, Value]:
    """x + y in two parts, whichever is larger."""
    out = x + y
    of_y = out - x
    return out, (x - (out - of_y)) + (y - of_y)


def two_product(x: Value, y: Value) -> tuple[Value, Value]:
    """x * y in two parts."""
    out = x * y
    return out, fma(x, y, -out, exact=True)
