"""pow and hypot.

x**y = 2**(y * log2 x): log2 x is computed in two parts, as its error is multiplied by y * log2 x.
log2 x = k + 2 / ln 2 * atanh(s), where x = 2**k * (1 + f) and s = f / (2 + f).
"""

import math

from .exponential import exp2_parts
from .floats import at_least, at_most, fast_two_sum, nan, of_type, polynomial, two_product
from .language import Value, absolute, bits, constant, equal, fma, not_equal, rint, select, sqrt
from .logarithmic import split

THIRD = (0.33333334, -9.934108e-09), (0.3333333333333333, 1.850371707708594e-17)
TWO_OVER_LN2 = (2.88539, 3.851926e-08), (2.8853900817779268, 4.0710547481862066e-17)
# atanh(s) = s + s**3 / 3 + s**5 * a polynomial in s * s.
SINGLE = (
    0.20000076,
    0.14273538,
    0.11710107,
)
DOUBLE = (
    0.20000000000001145,
    0.14285714285041368,
    0.11111111261537703,
    0.09090892039822049,
    0.07693385532371756,
    0.06628243703735387,
    0.06599742738337126,
)


def pow(x: Value, y: Value) -> Value:
    """As C has it: 1 if x is 1 or y is 0, NaN if x is negative and y not whole."""
    size = absolute(x)
    out = power_of_positive(size, y)
    whole = equal(rint(y), y)
    odd = whole & not_equal(rint(y * 0.5), y * 0.5)
    end = equal(size, 0) | equal(size, math.inf)  # to a power that some GPUs take for 0
    far = select(equal(size, 0) ^ (y < 0), constant(0, x.type), math.inf)
    out = select(end & not_equal(y, 0) & equal(y, y), far, out)
    out = select(odd & (bits(x) < 0), -out, out)
    out = select((x < 0) & (x > -math.inf) & ~whole, nan(x.type), out)
    unchanged = equal(size, 1) & equal(absolute(y), math.inf)
    return select(equal(y, 0) | equal(x, 1) | unchanged, 1, out)


def power_of_positive(x: Value, y: Value) -> Value:
    high, low = log2_in_two(x)
    high = select(x > 0, select(x < math.inf, high, x), select(equal(x, 0), -math.inf, x))
    product, rest = two_product(y, high)
    limit = of_type(x, 151.0, 1077.0)
    rest = select(absolute(product) < limit, fma(y, low, rest), 0)
    part, scale, other = exp2_parts(at_least(at_most(product, limit - 22), -limit), rest)
    return (part + 1) * scale * other


def log2_in_two(x: Value) -> tuple[Value, Value]:
    """log2 x in two parts, with some ten bits more than a float has."""
    k, f = split(x)
    total, lost = fast_two_sum(constant(2, x.type), f)
    inverse = 1 / total
    s = f * inverse
    s_low = (fma(-s, total, f) - s * lost) * inverse
    square, square_low = two_product(s, s)
    square_low = fma(s + s, s_low, square_low)
    third, third_low = of_type(x, *THIRD)
    more = polynomial(square, of_type(x, SINGLE, DOUBLE))
    t, t_low = two_product(square, constant(third, x.type))
    t_low = t_low + fma(square_low, third, fma(square, third_low, square * square * more))
    u, u_low = two_product(s, t)
    u_low = u_low + fma(s, t_low, s_low * t)
    a, a_low = fast_two_sum(s, u)
    a_low = a_low + (u_low + s_low)
    factor, factor_low = of_type(x, *TWO_OVER_LN2)
    out, out_low = two_product(a, constant(factor, x.type))
    out_low = out_low + fma(a, factor_low, a_low * factor)
    high, low = fast_two_sum(k, out)
    return fast_two_sum(high, low + out_low)


def hypot(x: Value, y: Value) -> Value:
    """sqrt(x * x + y * y); what is large or small is scaled, so that squares stay in range."""
    width, height = absolute(x), absolute(y)
    taller = width < height
    large, small = select(taller, height, width), select(taller, width, height)
    top, down, bottom, up = of_type(x, (60, 70, -45, 90), (500, 600, -400, 600))
    one = constant(1, x.type)
    huge, tiny = large > 2.0**top, large < 2.0**bottom
    scale = select(huge, 2.0**-down, select(tiny, 2.0**up, one))
    back = select(huge, 2.0**down, select(tiny, 2.0**-up, one))
    large, small = large * scale, small * scale
    out = sqrt(fma(large, large, small * small)) * back
    infinite = equal(width, math.inf) | equal(height, math.inf)
    return select(infinite, math.inf, out)
