"""The error function and the activations that are made of it.

The tail of the normal distribution beyond a is exp(-a * a / 2) * p(t) / (a + c): t = a / (a + c), p
is a polynomial and c a number of our choice. Of large a the tail is about exp(-a * a / 2) / a.
"""

import math
from typing import NamedTuple

from .exponential import exp2_parts, exp_parts, times_sigmoid
from .floats import at_least, at_most, of_type, polynomial, two_product, two_sum
from .language import Value, absolute, constant, copysign, fma, select

# erf(x) = x + x * a polynomial in x * x, up to 1.
SINGLE_NEAR = (
    0.12837917,
    -0.37612626,
    0.11283579,
    -0.026853347,
    0.005187162,
    -0.0007997853,
    7.806903e-05,
)
DOUBLE_NEAR = (
    0.1283791670955126,
    -0.3761263890318375,
    0.11283791670954857,
    -0.026866170645072893,
    0.005223977624780851,
    -0.0008548326978741285,
    0.0001205533103686444,
    -1.4925593505986751e-05,
    1.6460972801425547e-06,
    -1.6350025044598678e-07,
    1.4657878557110335e-08,
    -1.1365660658838072e-09,
    5.945252228147369e-11,
)
# log2(1 - erf(x)) from 1 to 4 as a polynomial.
SINGLE_FAR = (
    -0.0004927139,
    -1.626046,
    -0.9206485,
    -0.14875145,
    0.031505585,
    -0.0042525525,
    0.0002688869,
)
# p of the tail as a polynomial in t - MIDDLE, from 0.75 up to 14.6 and 38.7.
SINGLE_TAIL = (
    0.66538167,
    -0.90164316,
    0.84098494,
    -0.41243467,
    -0.09042134,
    0.23575874,
    -0.002365392,
    -0.14810583,
    -0.0014222678,
    0.07930021,
)
DOUBLE_TAIL = (
    0.6973498658862429,
    -1.0695647586473698,
    1.3358410913118053,
    -1.3026423223868617,
    0.8974344944124688,
    -0.29768420657209677,
    -0.14732632883868818,
    0.21175491888052966,
    -0.01862338990663726,
    -0.1092544040016301,
    0.03690225282549852,
    0.06384267468646049,
    -0.029345608854694148,
    -0.045829560787983774,
    0.018538508821803152,
    0.03857558447656166,
    -0.007636234892731268,
    -0.033742674977565536,
    -0.0017387704095573227,
    0.025132245616596677,
    0.004793593181776463,
    -0.01049740184407921,
)
CENTRE = 3.0, 4.0
MIDDLE = 0.56640625, 0.55078125
# The probability of less than x: 1/2 + x * a polynomial in x * x, up to 0.76.
SINGLE_MIDDLE = (
    0.39894226,
    -0.06648997,
    0.009970533,
    -0.0011773022,
    9.995201e-05,
)
DOUBLE_MIDDLE = (
    0.3989422804014327,
    -0.06649038006690701,
    0.009973557010070168,
    -0.0011873282158527752,
    0.00011543468989255898,
    -9.444664548662794e-06,
    6.659872997687385e-07,
    -4.124797099582352e-08,
    2.2828942496791344e-09,
    -1.0803347946280661e-10,
)
# 2 sqrt(2 / pi), and 0.044715 times that.
CUBIC = (
    ((1.5957692, -4.534068e-08), (0.071354814, 2.3988325e-09)),
    (
        (1.5957691216057308, -9.96930880911092e-17),
        (0.07135481627260025, -6.175149918155315e-19),
    ),
)


class Tail(NamedTuple):
    """The probability of more than a is (1 + part) * scale * rest * p / (a + c)."""

    part: Value
    scale: Value
    rest: Value
    p: Value
    p_low: Value  # what p loses by rounding
    t: Value


def tail(size: Value) -> Tail:
    square, lost = two_product(size, size)
    part, scale, rest = exp_parts(square * -0.5, lost * -0.5)
    centre, middle = of_type(size, *CENTRE), of_type(size, *MIDDLE)
    first, *others = of_type(size, SINGLE_TAIL, DOUBLE_TAIL)
    t = size / (size + centre)
    v = t - middle
    slope = polynomial(v, others)
    p = fma(slope, v, first)
    return Tail(part, scale, rest, p, fma(slope, v, first - p), t)


def erf(x: Value) -> Value:
    square = x * x
    near = fma(x, polynomial(square, of_type(x, SINGLE_NEAR, DOUBLE_NEAR)), x)
    far = copysign(1 - of_type(x, single_tail, double_tail)(absolute(x)), x)
    return select(absolute(x) < 1, near, far)


def single_tail(size: Value) -> Value:
    """1 - erf(size), right to as many digits as there are after the point."""
    part, scale, rest = exp2_parts(polynomial(at_most(size, 4.0), SINGLE_FAR))
    return (part + 1) * (scale * rest)


def double_tail(size: Value) -> Value:
    part, scale, rest, p, _, t = tail(at_most(size, 6.0) * math.sqrt(2))
    return (part + 1) * p * ((1 - t) * (2 / CENTRE[1])) * (scale * rest)


def gelu(x: Value) -> Value:
    """x * (1/2 + x * a polynomial); of larger x, x minus |x| times the tail, or just minus that."""
    size = absolute(x)
    part, scale, rest, p, p_low, t = tail(at_most(size, of_type(x, 14.6, 38.7)))
    factor = fma(t, part, t)
    lost = fma(t, part, t - factor)
    less = fma(factor, p, fma(factor, p_low, lost * p)) * scale * rest
    far = select(x < 0, -less, x - less)
    middle = polynomial(x * x, of_type(x, SINGLE_MIDDLE, DOUBLE_MIDDLE))
    return select(size < 0.75, x * fma(x, middle, 0.5), far)


def gelu_tanh(x: Value) -> Value:
    """x * (1 + tanh(u)) / 2 = x * sigmoid(2 u), where u = sqrt(2 / pi) * (x + 0.044715 * x**3)."""
    x = at_least(x, of_type(x, -11.2, -22.0))
    (first, first_low), (third, third_low) = of_type(x, *CUBIC)
    y = at_most(x, 12.0)
    square, square_low = two_product(y, y)
    cubic, cubic_low = two_product(square, constant(third, x.type))
    factor, factor_low = two_sum(constant(first, x.type), cubic)
    factor_low = factor_low + (
        fma(square_low, third, cubic_low) + fma(square, third_low, constant(first_low, x.type))
    )
    high, low = two_product(y, factor)
    return times_sigmoid(x, high, fma(y, factor_low, low))
