"""log and what is made of it.

x = 2**k * (1 + f), where 1 + f lies between sqrt(1/2) and sqrt(2), so log x = k ln 2 + log(1 + f).
log(1 + f) = f + tail, where the tail is a polynomial in f or, of float64, one in s * s for
s = f / (2 + f), as 2 atanh(s) = log(1 + f).
"""

import math
from typing import NamedTuple

from .exponential import LN2, exp_below
from .floats import (
    fast_two_sum,
    float_of,
    format_of,
    nan,
    of_type,
    polynomial,
    two_sum,
    word,
    word_of,
)
from .language import Value, absolute, bits, constant, convert, copysign, equal, fma, select, sqrt

SINGLE = (
    0.33333313,
    -0.25000063,
    0.20002128,
    -0.16664952,
    0.14216366,
    -0.12458668,
    0.119685076,
    -0.11385025,
    0.062037326,
)
# atanh(s) = s + s**3 * a polynomial in s * s, up to 0.1716 and up to 0.275.
DOUBLE = (
    0.33333333333333687,
    0.1999999999969648,
    0.14285714373834976,
    0.11111098994061895,
    0.0909179841165452,
    0.07656584332075281,
    0.0740262639483359,
)
SINGLE_ATANH = (
    0.33333308,
    0.20003241,
    0.1416003,
    0.12999469,
)
DOUBLE_ATANH = (
    0.3333333333333333,
    0.20000000000001492,
    0.14285714285348158,
    0.11111111153610112,
    0.09090906320133779,
    0.07692417848548584,
    0.06663898321448815,
    0.059263918719518076,
    0.048364956603787444,
    0.07007159029552389,
)
LOG2E = (1.442695, 1.925963e-08), (1.4426950408889634, 2.0355273740931033e-17)
LOG10E = (0.4342945, -1.010305e-08), (0.4342944819032518, 1.098319650216765e-17)
LOG10_2 = (0.30103, -1.4320989e-08), (0.3010299956639812, -2.8037281277851704e-18)


class Reduced(NamedTuple):
    """2**k * (1 + f), and the tail of log(1 + f)."""

    k: Value
    f: Value
    tail: Value


def tail_of(f: Value) -> Value:
    """log(1 + f) - f."""
    square = f * f
    single = of_type(f, True, False)
    if single:
        return fma(f * square, polynomial(f, SINGLE), square * -0.5)
    s = f / (f + 2)
    z, half = s * s, square * 0.5
    return fma(s, fma(z + z, polynomial(z, DOUBLE), half), -half)


def exponent_word(x: Value) -> tuple[Value, Value]:
    """k plus the bias, as an integer, and the bits that are left for 1 + f; x is positive."""
    digits, bias, _ = format_of(x)
    lowest = word_of(math.sqrt(0.5), x.type)
    moved = word(x) + ((bias << digits) - lowest)
    return moved >> digits, (moved & ((1 << digits) - 1)) + lowest


def whole(exponent: Value, x: Value, less: Value | int = 0) -> Value:
    """An integer with the bias added, as a float without it."""
    ones = format_of(x).ones
    return float_of(exponent + (word_of(ones, x.type) - format_of(x).bias)) - (less + ones)


def split(x: Value) -> tuple[Value, Value]:
    """k and f: x = 2**k * (1 + f); x is positive."""
    digits, bias, _ = format_of(x)
    tiny = x < format_of(x).least
    if of_type(x, True, False):  # by bits: some GPUs take numbers as small as that for 0
        large, shift = convert(bits(x), x.type), digits + bias - 1
    else:
        large, shift = x * 2.0**digits, digits
    exponent, rest = exponent_word(select(tiny, large, x))
    less = select(tiny, constant(shift, x.type), 0)
    return whole(exponent, x, less), float_of(rest) - 1


def reduced(x: Value) -> Reduced:
    k, f = split(x)
    return Reduced(k, f, tail_of(f))


def reduced_above_one(x: Value, low: Value | None = None) -> Reduced:
    """That of 1 + x + low, where x is more than -1 and not small."""
    digits, bias, _ = format_of(x)
    exponent, _ = exponent_word(x + 1)
    scale = float_of((2 * bias + 2 - exponent) << digits)  # 4 / 2**k: the inverse may be too small
    quarter, less = x * 0.25, fma(scale, 0.25, constant(-1, x.type))
    f = fma(quarter, scale, less, exact=True)
    lost = fma(quarter, scale, less - f, exact=True)
    if low is not None:
        lost = fma(low * 0.25, scale, lost)
    return Reduced(whole(exponent, x), f, tail_of(f) + lost)


def joined(x: Reduced) -> Value:
    high, low = of_type(x.f, *LN2)
    return fma(x.k, high, x.f + fma(x.k, low, x.tail))


def at_ends(x: Value, out: Value) -> Value:
    """A logarithm of x where x isn't an ordinary positive number."""
    out = select(x < math.inf, out, x)
    return select(x > 0, out, select(equal(x, 0), constant(-math.inf, x.type), nan(x.type)))


def near_zero(x: Value, out: Value) -> Value:
    """x itself where it is so small that the function can't be told from it."""
    return select(absolute(x) < 2.0 ** -(format_of(x).digits + 3), x, out)


def log(x: Value) -> Value:
    return at_ends(x, joined(reduced(x)))


def log2(x: Value) -> Value:
    high, low = of_type(x, *LOG2E)
    k, f, tail = reduced(x)
    return at_ends(x, fma(f, high, fma(f, low, tail * high)) + k)


def log10(x: Value) -> Value:
    high, low = of_type(x, *LOG10E)
    high_of_2, low_of_2 = of_type(x, *LOG10_2)
    k, f, tail = reduced(x)
    small = fma(f, low, fma(tail, high, k * low_of_2))
    return at_ends(x, fma(k, high_of_2, fma(f, high, small)))


def log1p(x: Value) -> Value:
    return near_zero(x, at_ends(x + 1, joined(reduced_above_one(x))))


def asinh(x: Value) -> Value:
    """log(1 + v) for v = |x| + x * x / (1 + sqrt(x * x + 1)); of large x, log(2|x|)."""
    size = absolute(x)
    square = size * size
    v, low = fast_two_sum(size, square / (sqrt(fma(size, size, 1)) + 1))
    out = log1p_or_double(size, v, low)
    return copysign(near_zero(size, select(size < math.inf, out, size)), x)


def acosh(x: Value) -> Value:
    """log(1 + v) for v = t + sqrt(t * t + 2 t), where t = x - 1; of large x, log(2 x)."""
    t = x - 1
    square = fma(t, t, t + t)
    root = sqrt(square)
    lost = fma(t, t, (t + t) - square) + fma(-root, root, square)
    v, low = fast_two_sum(root, t)
    low = fma(lost / root, 0.5, low)
    out = select(x < math.inf, log1p_or_double(x, v, low), x)
    return select(x < 1, nan(x.type), select(equal(x, 1), 0, out))


def log1p_or_double(x: Value, v: Value, low: Value) -> Value:
    """log(1 + v + low), but log(2 x) if x is so large that v might not be a number."""
    large = x > 2.0 ** (format_of(x).digits + 3)
    k, f, tail = reduced_above_one(select(large, x, v), select(large, 0, low))
    return joined(Reduced(k + select(large, constant(1, x.type), 0), f, tail))


def atanh(x: Value) -> Value:
    """k ln 2 / 2 + atanh(s), where s = (q - 2**k) / (q + 2**k) for q = (1 + |x|) / (1 - |x|)."""
    digits, bias, _ = format_of(x)
    size = absolute(x)
    rounding = (bias << digits) + (5 << (digits - 4))  # rounds down to what is 1.6 times as large
    exponent = (word(size + 1) - word(1 - size) + rounding) >> digits
    scale = float_of(exponent << digits)
    # Below 1/2 scale + 1 is exact, from there on size - 1 is.
    low, more, less = size < 0.5, scale + 1, size - 1
    above = select(low, fma(size, more, 1 - scale), fma(less, scale, 1) + size)
    below = select(low, fma(size, 1 - scale, more), fma(-less, scale, 1) + size)
    s = above / below
    z, k = s * s, whole(exponent, x) * 0.5
    ln2, ln2_low = of_type(x, *LN2)
    tail = s * z * polynomial(z, of_type(x, SINGLE_ATANH, DOUBLE_ATANH))
    out = fma(k, ln2, s + fma(k, ln2_low, tail))
    at_one = select(equal(size, 1), constant(math.inf, x.type), nan(x.type))
    return copysign(select(size < 1, out, at_one), x)


def logaddexp(x: Value, y: Value) -> Value:
    """The larger of the two, plus log(1 + exp(-d)), where d is their distance, in two parts."""
    larger, smaller = select(x < y, y, x), select(x < y, x, y)
    distance, lost = two_sum(larger, -smaller)
    same = equal(x, y)
    small = exp_below(select(same, 0, -distance), select(same, 0, -lost))
    return larger + near_zero(small, joined(reduced_above_one(small)))
