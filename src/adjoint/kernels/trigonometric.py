"""Sines, tangents and their inverses.

x = n pi / 2 + r with |r| <= pi / 4; pi / 2 is subtracted in three parts, each product rounded only
with its difference. Where |x| is so large that this isn't exact enough any more, a renderer's own
function is asked.
"""

import math

from .floats import (
    at_most,
    fast_two_sum,
    format_of,
    of_type,
    polynomial,
    two_product,
    two_sum,
    with_sign,
    word,
)
from .language import (
    Value,
    absolute,
    bits,
    constant,
    copysign,
    equal,
    fma,
    library,
    not_equal,
    select,
    sqrt,
)

TWO_OVER_PI = 0.6366197723675814
HALF_PI = (
    (1.5707964, -4.371139e-08, -1.7151245e-15),
    (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
)
# Up to here the remainder is right to the last digit.
LIMITS = 2.0**19, 2.0**30

# sin(r) = r + r**3 * a polynomial in r * r, cos(r) = 1 - r * r / 2 + r**4 * another.
SINGLE_SIN = (-0.16666654, 0.008332095, -0.00019505531)
DOUBLE_SIN = (
    -0.1666666666666663,
    0.008333333333321842,
    -0.0001984126982935996,
    2.755731353911917e-06,
    -2.5050734495769517e-08,
    1.589543998354518e-10,
)
SINGLE_COS = (0.04166664, -0.001388713, 2.4412064e-05)
DOUBLE_COS = (
    0.041666666666666595,
    -0.0013888888888873296,
    2.480158728895382e-05,
    -2.75573141987875e-07,
    2.0875702449722384e-09,
    -1.1358576770762333e-11,
)
# tan(r) = r + r**3 * a polynomial in r * r: float64 divides sin by cos instead.
SINGLE_TAN = (
    0.33333355,
    0.13332468,
    0.054082684,
    0.021161942,
    0.011153152,
    -0.00031868333,
    0.0045800824,
)
# asin(x) = x + x**3 * a polynomial in x * x, up to 1/2.
SINGLE_ASIN = (0.16666752, 0.074953094, 0.045469165, 0.024184693, 0.04215847)
DOUBLE_ASIN = (
    0.16666666666665408,
    0.0750000000033715,
    0.04464285682820074,
    0.030381959142800168,
    0.02237175789904633,
    0.017359707188652714,
    0.013885210364108063,
    0.01216938266392935,
    0.006527212877137189,
    0.0195304057071834,
    -0.016227687181080763,
    0.03191467078421835,
)
# atan(x) = x + x**3 * a polynomial in x * x, up to tan(pi / 8).
SINGLE_ATAN = (-0.33333316, 0.19998527, -0.14244346, 0.10598747, -0.060888074)
DOUBLE_ATAN = (
    -0.3333333333333319,
    0.1999999999995219,
    -0.14285714280055054,
    0.11111110776361412,
    -0.09090897553001477,
    0.07692056562015563,
    -0.06663062382703372,
    0.058475849454410006,
    -0.05037927507171791,
    0.03802941569750911,
    -0.017868547969617597,
)
TAN_EIGHTH_PI = math.sqrt(2) - 1


def remainder(size: Value) -> tuple[Value, Value, Value]:
    """n, in the last bits of an integer, and r in two parts."""
    ones = format_of(size).ones
    first, second, third = of_type(size, *HALF_PI)
    shifted = fma(size, TWO_OVER_PI, ones)
    n = shifted - ones
    exact = fma(n, -first, size, exact=True)
    high, low = two_product(n, constant(second, size.type))
    r = exact - high
    return word(shifted), r, fma(n, -third, ((exact - r) - high) - low)


def sin_near(r: Value, low: Value) -> Value:
    square = r * r
    return r + fma(r * square, polynomial(square, of_type(r, SINGLE_SIN, DOUBLE_SIN)), low)


def cos_near(r: Value, low: Value) -> Value:
    square = r * r
    if of_type(r, True, False):
        return fma(square, fma(square, polynomial(square, SINGLE_COS), -0.5), 1)
    most, rest = double_cos_terms(r, low)
    return most + rest


def double_cos_terms(r: Value, low: Value) -> tuple[Value, Value]:
    """1 - r * r / 2, and the rest of cos(r + low), with the digits that this has lost."""
    square = r * r
    most, lost = fast_two_sum(constant(1, r.type), square * -0.5)
    rest = fma(r, -low, lost)
    return most, fma(square * square, polynomial(square, DOUBLE_COS), rest)


def at_quadrant(quadrant: Value, r: Value, low: Value) -> Value:
    """sin(r + quadrant * pi / 2)."""
    out = select(not_equal(quadrant & 1, 0), cos_near(r, low), sin_near(r, low))
    return with_sign(out, quadrant << (r.type.bits - 2))


def sin(x: Value) -> Value:
    size = absolute(x)
    fast = with_sign(at_quadrant(*remainder(size)), word(x))
    return library("sin", size > of_type(x, *LIMITS), x, fast)


def cos(x: Value) -> Value:
    size = absolute(x)
    quadrant, r, low = remainder(size)
    return library("cos", size > of_type(x, *LIMITS), x, at_quadrant(quadrant + 1, r, low))


def tan(x: Value) -> Value:
    size = absolute(x)
    quadrant, r, low = remainder(size)
    near = of_type(x, single_tan, double_tan)(not_equal(quadrant & 1, 0), r, low)
    return library("tan", size > of_type(x, *LIMITS), x, with_sign(near, word(x)))


def single_tan(turned: Value, r: Value, low: Value) -> Value:
    """tan(r), or -1 / tan(r), with what tan(r) loses by rounding."""
    square = r * r
    tail = fma(r * square, polynomial(square, SINGLE_TAN), fma(square, low, low))
    out, lost = fast_two_sum(r, tail)
    inverse = -1 / out
    return select(turned, fma(inverse * inverse, lost, inverse), out)


def double_tan(turned: Value, r: Value, low: Value) -> Value:
    """sin(r) / cos(r), or -cos(r) / sin(r), each of them in two parts."""
    square = r * r
    sine, sine_low = fast_two_sum(r, fma(r * square, polynomial(square, DOUBLE_SIN), low))
    cosine, cosine_low = fast_two_sum(*double_cos_terms(r, low))
    x, x_low = select(turned, -cosine, sine), select(turned, -cosine_low, sine_low)
    y, y_low = select(turned, sine, cosine), select(turned, sine_low, cosine_low)
    return divided(x, y, y_low, x_low)[0]


def folded(x: Value, small: Value) -> tuple[Value, Value, Value]:
    """Whether |x| is more than 1/2; then y = sqrt((1 - |x|) / 2), else y = small; asin(y) - y."""
    size = absolute(x)
    large = size > 0.5
    square = select(large, fma(size, -0.5, 0.5), x * x)
    y = select(large, sqrt(square), small)
    return large, y, y * square * polynomial(square, of_type(x, SINGLE_ASIN, DOUBLE_ASIN))


def asin(x: Value) -> Value:
    """Of more than 1/2: pi / 2 - 2 asin(y) with y = sqrt((1 - |x|) / 2)."""
    large, y, tail = folded(x, absolute(x))
    high, low, _ = of_type(x, *HALF_PI)
    far = fma(y + (tail - 0.5 * low), constant(-2, x.type), high)
    return copysign(select(large, far, y + tail), x)


def acos(x: Value) -> Value:
    """2 asin(y) with y = sqrt((1 - x) / 2), that of -x from pi, or pi / 2 - asin(x)."""
    large, y, tail = folded(x, x)
    high, low, _ = of_type(x, *HALF_PI)
    near = (high - y) + (low - tail)
    far = y + tail
    back = fma(y, -2.0, 2 * high) + fma(tail, -2.0, 2 * low)
    return select(large, select(x < 0, back, far + far), near)


def atan(x: Value) -> Value:
    """That of 1 / x from pi / 2, that of (x - 1) / (x + 1) plus pi / 4, or a polynomial."""
    size = at_most(absolute(x), 2.0**60)
    one = constant(1, x.type)
    large, middle = size > 1 / TAN_EIGHTH_PI, size > TAN_EIGHTH_PI
    total, lost = two_sum(size, one)
    above = select(large, -one, select(middle, size - 1, size))
    below = select(large, size, select(middle, total, one))
    t = divided(above, below, select(middle & ~large, lost, 0))
    quarters = select(large, one, select(middle, constant(0.5, x.type), 0))
    return copysign(atan_plus(*t, quarters), x)


def divided(x: Value, y: Value, y_low: Value, x_low: Value | None = None) -> tuple[Value, Value]:
    """(x + x_low) / (y + y_low) in two parts."""
    inverse = 1 / y
    out = x * inverse
    rest = fma(-out, y_low, fma(-out, y, x, exact=True))
    return fast_two_sum(out, (rest if x_low is None else rest + x_low) * inverse)


def atan_plus(x: Value, x_low: Value, quarters: Value) -> Value:
    """atan(x + x_low) and quarters of a turn, for x up to tan(pi / 8)."""
    high, low, _ = of_type(x, *HALF_PI)
    square = x * x
    tail = polynomial(square, of_type(x, SINGLE_ATAN, DOUBLE_ATAN))
    return fma(quarters, high, x + fma(x * square, tail, fma(quarters, low, x_low)))


def atan2(y: Value, x: Value) -> Value:
    """The angle in the first eighth of a turn, then moved to where (x, y) is."""
    width, height = absolute(x), absolute(y)
    steep = width < height
    small, large = select(steep, width, height), select(steep, height, width)
    same, nothing = equal(small, large), equal(small + large, 0)
    middle = ((small > large * TAN_EIGHTH_PI) | same) & ~nothing
    # Half of each, as their sum may overflow; they aren't so small that this loses digits.
    half = select(large > 1, constant(0.5, x.type), constant(1, x.type))
    total = fma(small, half, large * half)
    difference = select(same, 0, (small - large) * half)
    above = select(middle, difference, select(nothing, 0, small))
    below = select(middle, total, select(nothing, 1, large))
    t = above / below
    quarters = select(middle, constant(0.5, x.type), 0)
    back = bits(x) < 0
    quarters = select(steep, 1 - quarters, quarters)
    quarters = select(back, 2 - quarters, quarters)
    t = select(steep ^ back, -t, t)
    return copysign(atan_plus(t, constant(0, x.type), quarters), y)
