"""exp and what is made of it.

exp(x) = 2**n * exp(r), where n is the integer nearest to x / ln 2 and so |r| <= ln 2 / 2; there
exp(r) is 1 + r + r * r * a polynomial. Scaling by 2**n takes two steps, so that it neither
overflows nor loses digits too early.
"""

from .floats import (
    at_least,
    at_most,
    fast_two_sum,
    float_of,
    format_of,
    nan,
    of_type,
    polynomial,
    word,
)
from .language import Value, absolute, constant, copysign, equal, fma, select, trunc

LOG2E = 1.4426950408889634
LN2 = (0.6931472, -1.9046542e-09), (0.6931471805599453, 2.3190468138462996e-17)
SINGLE = (
    0.5,
    0.16666666,
    0.041666478,
    0.008333568,
    0.0013933735,
    0.00019742131,
)
DOUBLE = (
    0.5000000000000006,
    0.16666666666666427,
    0.041666666666569284,
    0.008333333333528046,
    0.0013888888934480274,
    0.00019841269351362524,
    2.4801501431108083e-05,
    2.7557790550763303e-06,
    2.7627653240825596e-07,
    2.491692764662403e-08,
)
# 2**r = 1 + r * a polynomial, up to 1/2.
SINGLE_EXP2 = (
    0.6931472,
    0.24022645,
    0.05550359,
    0.009618836,
    0.001339143,
    0.00015240518,
)
DOUBLE_EXP2 = (
    0.6931471805599453,
    0.24022650695910175,
    0.055504108664824574,
    0.009618129107575951,
    0.0013333558145570263,
    0.00015403530480238042,
    1.5252734730849433e-05,
    1.3215423813263123e-06,
    1.0177661283581039e-07,
    7.075728218176375e-09,
    4.5181747937402677e-10,
)
# Beyond these exp is 0 or infinite.
SINGLE_RANGE = -104.0, 89.0
DOUBLE_RANGE = -746.0, 710.0

# tanh(x) = x + x**3 * a polynomial in x * x, up to 0.56.
SINGLE_TANH = (
    -0.33333313,
    0.13332437,
    -0.053835757,
    0.02100038,
    -0.006169621,
)
DOUBLE_TANH = (
    -0.3333333333333328,
    0.13333333333323746,
    -0.053968253962076745,
    0.021869488337252052,
    -0.008863231798796958,
    0.00359208386340665,
    -0.0014554899039574108,
    0.0005882253351083655,
    -0.0002328208901138034,
    8.250890700213508e-05,
    -1.8994024239596714e-05,
)
# sinh(r) = r + r**3 * a polynomial in r * r: up to ln 2 / 2, and up to 1.
SINGLE_SINH = (0.16666542, 0.008366662)
DOUBLE_SINH = (
    0.16666666666666677,
    0.008333333333321376,
    0.00019841269886864795,
    2.7557243379417636e-06,
    2.5109353866282932e-08,
)
SINGLE_SINH_NEAR = (0.16666667, 0.0083333105, 0.00019842896, 2.7822132e-06)
DOUBLE_SINH_NEAR = (
    0.16666666666666669,
    0.008333333333332912,
    0.00019841269841593416,
    2.755731910675271e-06,
    2.505213099971179e-08,
    1.6056659064524563e-10,
    7.776603999115487e-13,
)
# cosh(r) = 1 + r * r * a polynomial in r * r, up to ln 2 / 2.
SINGLE_COSH = (0.5, 0.04166646, 0.0013935458)
DOUBLE_COSH = (
    0.5000000000000013,
    0.04166666666651048,
    0.0013888888948353733,
    2.480148850864594e-05,
    2.7631809234617494e-07,
)


def nearest_power(x: Value, offset: float) -> tuple[Value, Value, Value]:
    """A word whose last bits are n + offset, where n is the integer nearest to x / ln 2; n; r."""
    shift = format_of(x).ones + offset
    shifted = fma(x, LOG2E, shift)
    n = shifted - shift
    high, low = of_type(x, *LN2)
    return word(shifted), n, fma(n, -low, fma(n, -high, x, exact=True))


def less_one(r: Value) -> Value:
    """exp(r) - 1, for r up to ln 2 / 2."""
    return fma(r * r, polynomial(r, of_type(r, SINGLE, DOUBLE)), r)


def exp_parts(x: Value, low: Value | None = None) -> tuple[Value, Value, Value]:
    """Three numbers: exp(x + low) is 1 more than the first, times the other two.

    x lies in the range of exp; low is much smaller.
    """
    exponent, _, r = nearest_power(x, 2 * format_of(x).bias)
    return (less_one(r if low is None else r + low), *two_scales(exponent, x))


def two_scales(exponent: Value, x: Value) -> tuple[Value, Value]:
    """2**n as a product; the last bits of the exponent are n plus twice the bias."""
    digits, half = format_of(x).digits, exponent >> 1
    return float_of(half << digits), float_of((exponent - half) << digits)


def exp2_parts(x: Value, low: Value | None = None) -> tuple[Value, Value, Value]:
    """The same for 2**(x + low)."""
    shift = format_of(x).ones + 2 * format_of(x).bias
    shifted = x + shift
    r = x - (shifted - shift)
    r = r if low is None else r + low
    return r * polynomial(r, of_type(x, SINGLE_EXP2, DOUBLE_EXP2)), *two_scales(word(shifted), x)


def scale(x: Value, n: Value) -> Value:
    """x * 2**n, in three steps: from the smallest to the largest number it takes more than two."""
    digits, bias, _ = format_of(x)
    whole = trunc(at_least(at_most(n, 3.0 * bias - 3), 3.0 - 3 * bias))
    third = trunc(whole / 3)
    shift = format_of(x).ones + bias
    step, last = (float_of(word(k + shift) << digits) for k in (third, whole - third - third))
    return select(equal(n - n, 0), x * step * last * step, nan(x.type))


def exp(x: Value) -> Value:
    """What is far below the range, as masked scores are, isn't computed by underflowing: processors
    take long over that."""
    lower, upper = of_type(x, SINGLE_RANGE, DOUBLE_RANGE)
    vanishes = x < lower
    part, scale, rest = exp_parts(select(vanishes, 0, at_most(x, upper)))
    return select(vanishes, 0, (part + 1) * scale * rest)


def exp_below(x: Value, low: Value) -> Value:
    """exp(x + low) of an x that isn't positive; beyond the range of exp, low is left out."""
    lower, _ = of_type(x, SINGLE_RANGE, DOUBLE_RANGE)
    part, scale, rest = exp_parts(at_least(x, lower), select(x > lower, low, 0))
    return (part + 1) * scale * rest


def expm1(x: Value) -> Value:
    """2**n * (exp(r) - 1) + (2**n - 1), computed as half of that: 2**n may overflow before it."""
    digits, bias, _ = format_of(x)
    lower, upper = of_type(x, (-18.0, 89.0), (-38.0, 710.0))
    exponent, n, r = nearest_power(at_least(at_most(x, upper), lower), bias - 1)
    part, lost = fast_two_sum(r, r * r * polynomial(r, of_type(r, SINGLE, DOUBLE)))
    scale = float_of(exponent << digits)
    far = fma(lost, scale, fma(part, scale, scale - 0.5))
    return copysign(select(absolute(n) < 0.5, part, far + far), x)


def sigmoid_parts(x: Value, low: Value | None = None) -> tuple[Value, Value, int]:
    """2**n and part: exp(-x - low) = 2**n * (1 + part). 2**n comes times a power of two.

    Without that power, which is the third, it might overflow.
    """
    digits, bias, _ = format_of(x)
    power, upper = of_type(x, (48, 18.0), (128, 38.0))
    exponent, _, r = nearest_power(-at_most(x, upper), bias - power)
    r = r if low is None else r - low
    return float_of(exponent << digits), less_one(r), power


def one_and_exp(one: Value, scale: Value, part: Value) -> Value:
    """one + scale * (1 + part), with what one + scale loses."""
    total = scale + one
    return total + fma(part, scale, one - (total - scale))


def sigmoid(x: Value) -> Value:
    """1 / (1 + exp(-x))."""
    scale, part, power = sigmoid_parts(at_least(x, of_type(x, -120.0, -760.0)))
    return 1 / one_and_exp(constant(2.0**-power, x.type), scale, part) * 2.0**-power


def times_sigmoid(x: Value, y: Value, low: Value | None = None) -> Value:
    """x * sigmoid(y + low), where y is as negative as x.

    The power of two is for negative x only, as large ones would overflow by it.
    """
    scale, part, power = sigmoid_parts(y, low)
    one, small = constant(1, x.type), constant(2.0**-power, x.type)
    unit = select(x < 0, small, one)
    scale = scale * select(x < 0, one, constant(2.0**power, x.type))
    return x / one_and_exp(unit, scale, part) * unit


def silu(x: Value) -> Value:
    """x * sigmoid(x)."""
    x = at_least(x, of_type(x, -120.0, -760.0))
    return times_sigmoid(x, x)


def tanh(x: Value) -> Value:
    """1 - 2 / (exp(2|x|) + 1), or x + x**3 * a polynomial in x * x."""
    digits, bias, _ = format_of(x)
    size = absolute(x)
    far = at_most(size, of_type(x, 9.1, 19.1))
    exponent, _, r = nearest_power(far + far, bias)
    scale = float_of(exponent << digits)
    far = 1 - 2 / fma(less_one(r), scale, scale + 1)
    square = size * size
    near = fma(size * square, polynomial(square, of_type(x, SINGLE_TANH, DOUBLE_TANH)), size)
    return copysign(select(size < 0.55, near, far), x)


def hyperbolic_parts(x: Value) -> tuple[Value, Value, Value, Value]:
    """sinh and cosh of n ln 2, an eighth of each; cosh(r) - 1 and sinh(r): n ln 2 + r is |x|."""
    digits, bias, _ = format_of(x)
    size = at_most(absolute(x), of_type(x, 90.0, 711.0))
    exponent, n, r = nearest_power(size, bias - 4)
    large = float_of(exponent << digits)
    small = select(n < 100, float_of((2 * (bias - 4) - exponent) << digits), 0)
    square = r * r
    cosh_less_one = square * polynomial(square, of_type(x, SINGLE_COSH, DOUBLE_COSH))
    sinh_near = fma(r * square, polynomial(square, of_type(x, SINGLE_SINH, DOUBLE_SINH)), r)
    return large - small, large + small, cosh_less_one, sinh_near


def cosh(x: Value) -> Value:
    """cosh(n ln 2) cosh(r) + sinh(n ln 2) sinh(r)."""
    sinh_far, cosh_far, cosh_less_one, sinh_near = hyperbolic_parts(x)
    return 8 * (cosh_far + fma(cosh_far, cosh_less_one, sinh_far * sinh_near))


def sinh(x: Value) -> Value:
    """sinh(n ln 2) cosh(r) + cosh(n ln 2) sinh(r); below 1 these might cancel."""
    sinh_far, cosh_far, cosh_less_one, sinh_near = hyperbolic_parts(x)
    far = 8 * (sinh_far + fma(sinh_far, cosh_less_one, cosh_far * sinh_near))
    square = x * x
    near = polynomial(square, of_type(x, SINGLE_SINH_NEAR, DOUBLE_SINH_NEAR))
    return select(absolute(x) < 1, fma(x * square, near, x), copysign(far, x))
