"""Elementwise ops that are public as they are: `ad.<name>`.

Rules are bare mathematics; the engine undoes broadcasting. Where an op has a kink, the convention
is SPEC's: zero at the kink, half for each of two equals.
"""

import math as _math
from collections.abc import Callable as _Callable

from .. import op

# Comparisons and logic: no gradient.


def _predicate(name: str, doc: str, example: str, inputs: str = "x"):
    """An op that answers a question about each element."""
    return op.elementwise(name, doc, example, inputs=inputs, dtype="bool", differentiable=False)


def _comparison(name: str, doc: str, example: str):
    return _predicate(name, doc, example, inputs="x y")


def _bitwise(name: str, doc: str, example: str, inputs: str = "x y"):
    return op.elementwise(name, doc, example, inputs=inputs, differentiable=False)


def _of_floats(name: str, doc: str, example: str, x: _Callable):
    """A function of one number, which is made a float."""
    return op.elementwise(name, doc, example, floats=True, x=x)


equal = _comparison("equal", "x == y.", "2.0, 3.0 -> False")
not_equal = _comparison("not_equal", "x != y.", "2.0, 3.0 -> True")
less = _comparison("less", "x < y.", "2.0, 3.0 -> True")
less_equal = _comparison("less_equal", "x <= y.", "2, 2 -> True")
greater = _comparison("greater", "x > y.", "2.0, 3.0 -> False")
greater_equal = _comparison("greater_equal", "x >= y.", "2, 2 -> True")
logical_and = _comparison("logical_and", "x and y.", "True, False -> False")
logical_or = _comparison("logical_or", "x or y.", "True, False -> True")
logical_xor = _comparison("logical_xor", "x or y, not both.", "True, True -> False")
logical_not = _predicate("logical_not", "not x.", "True -> False")
isfinite = _predicate("isfinite", "Whether x is neither NaN nor infinite.", "1.0 -> True")
isinf = _predicate("isinf", "Whether x is infinite.", "float('-inf') -> True")
isnan = _predicate("isnan", "Whether x is NaN.", "float('nan') -> True")
signbit = _predicate(
    "signbit", "Whether the sign bit is set: for negative x, and -0.", "-0.0 -> True"
)
bitwise_and = _bitwise("bitwise_and", "x & y.", "6, 3 -> 2")
bitwise_or = _bitwise("bitwise_or", "x | y.", "6, 3 -> 7")
bitwise_xor = _bitwise("bitwise_xor", "x ^ y.", "6, 3 -> 5")
bitwise_invert = _bitwise("bitwise_invert", "~x.", "6 -> -7", inputs="x")
bitwise_left_shift = _bitwise("bitwise_left_shift", "Integers shifted left by y bits.", "2, 2 -> 8")
bitwise_right_shift = _bitwise(
    "bitwise_right_shift", "Integers shifted right by y bits.", "8, 2 -> 2"
)

# Arithmetic.

add = op.elementwise("add", "x + y.", "2.0, 3.0 -> 5.", linear=True, x=lambda g: g, y=lambda g: g)
subtract = op.elementwise(
    "subtract", "x - y.", "2.0, 3.0 -> -1.", linear=True, x=lambda g: g, y=lambda g: -g
)
multiply = op.elementwise(
    "multiply", "x * y.", "2.0, 3.0 -> 6.", x=lambda g, y: g * y, y=lambda g, x: g * x
)
divide = op.elementwise(
    "divide",
    "x / y; integers give the default float.",
    "3.0, 2.0 -> 1.5",
    floats=True,
    x=lambda g, y: g / y,
    y=lambda g, y, out: -g * out / y,
)
negative = op.elementwise("negative", "-x.", "2.0 -> -2.", linear=True, x=lambda g: -g)
pow = op.elementwise(
    "pow",
    "x ** y; x ** 0 is 1 and has gradient 0, also at 0.",
    "3.0, 2.0 -> 9.",
    x=lambda g, x, y: g * _power_slope(x, y),
    y=lambda g, x, y, out: g * out * log(where(logical_and(equal(x, 0), y >= 0), 1, x)),
)

square = op.elementwise("square", "x * x.", "3.0 -> 9.", x=lambda g, x: 2 * g * x)
floor_divide = op.elementwise(
    "floor_divide",
    "x / y, rounded down; its gradient is zero.",
    "-7, 2 -> -4",
    x=lambda g: _zero(g),
    y=lambda g: _zero(g),
)
remainder = op.elementwise(
    "remainder",
    "What is left of x after division by y, with the sign of y; `x % y`.",
    "-7, 3 -> 2",
    x=lambda g: g,
    y=lambda g, x, y: -g * floor_divide(x, y),
)
hypot = op.elementwise(
    "hypot",
    "sqrt(x * x + y * y) without overflow; the gradient at 0 is 0.",
    "3.0, 4.0 -> 5.",
    floats=True,
    x=lambda g, x, out: _over(g * x, out),
    y=lambda g, y, out: _over(g * y, out),
)
atan2 = op.elementwise(
    "atan2",
    "The angle of the point (y, x), from -pi to pi.",
    "1.0, 0.0 -> 1.5708",
    floats=True,
    x=lambda g, x, y: _over(_over(g * y, hypot(x, y)), hypot(x, y)),
    y=lambda g, x, y: -_over(_over(g * x, hypot(x, y)), hypot(x, y)),
)
logaddexp = op.elementwise(
    "logaddexp",
    "log(exp(x) + exp(y)) without overflow.",
    "0.0, 0.0 -> 0.6931",
    floats=True,
    x=lambda g, x, y: g * sigmoid(_gap(x, y)),
    y=lambda g, x, y: g * sigmoid(_gap(y, x)),
)
copysign = op.elementwise(
    "copysign",
    "The magnitude of x with the sign of y.",
    "3.0, -0.0 -> -3.",
    floats=True,
    x=lambda g, x, y: where(signbit(y), -g, g) * sign(x),
    y=lambda g: _zero(g),
)
nextafter = op.elementwise(
    "nextafter",
    "The next number after x, towards y.",
    "1.0, 2.0 -> 1.",
    floats=True,
    x=lambda g: g,
    y=lambda g: _zero(g),
)

# Functions of one real variable.

exp = _of_floats("exp", "e ** x.", "0.0 -> 1.", x=lambda g, out: g * out)
expm1 = _of_floats(
    "expm1", "exp(x) - 1, accurate near 0.", "0.0 -> 0.", x=lambda g, out: g * (out + 1)
)
log = _of_floats("log", "Natural logarithm.", "1.0 -> 0.", x=lambda g, x: g / x)
log1p = _of_floats("log1p", "log(1 + x), accurate near 0.", "0.0 -> 0.", x=lambda g, x: g / (x + 1))
log2 = _of_floats(
    "log2", "Logarithm to base 2.", "8.0 -> 3.", x=lambda g, x: g / (x * _math.log(2))
)
log10 = _of_floats(
    "log10", "Logarithm to base 10.", "1000.0 -> 3.", x=lambda g, x: g / (x * _math.log(10))
)
sqrt = _of_floats("sqrt", "Square root.", "9.0 -> 3.", x=lambda g, out: g / (2 * out))
sin = _of_floats("sin", "Sine.", "0.0 -> 0.", x=lambda g, x: g * cos(x))
cos = _of_floats("cos", "Cosine.", "0.0 -> 1.", x=lambda g, x: -g * sin(x))
tan = _of_floats("tan", "Tangent.", "0.0 -> 0.", x=lambda g, out: g * (1 + out * out))
asin = _of_floats(
    "asin",
    "The angle from -pi/2 to pi/2 with sine x.",
    "1.0 -> 1.5708",
    x=lambda g, x: g / sqrt((1 - x) * (1 + x)),
)
acos = _of_floats(
    "acos",
    "The angle from 0 to pi with cosine x.",
    "1.0 -> 0.",
    x=lambda g, x: -g / sqrt((1 - x) * (1 + x)),
)
atan = _of_floats(
    "atan",
    "The angle from -pi/2 to pi/2 with tangent x.",
    "1.0 -> 0.7854",
    x=lambda g, x: g / (1 + x * x),
)
sinh = _of_floats("sinh", "Hyperbolic sine.", "0.0 -> 0.", x=lambda g, x: g * cosh(x))
cosh = _of_floats("cosh", "Hyperbolic cosine.", "0.0 -> 1.", x=lambda g, x: g * sinh(x))
tanh = _of_floats("tanh", "Hyperbolic tangent.", "0.0 -> 0.", x=lambda g, out: g * (1 - out * out))
asinh = _of_floats("asinh", "Inverse of sinh.", "0.0 -> 0.", x=lambda g, x: g / hypot(x, 1))
acosh = _of_floats(
    "acosh",
    "Inverse of cosh, not negative.",
    "1.0 -> 0.",
    x=lambda g, x: g / (sqrt(x - 1) * sqrt(x + 1)),
)
atanh = _of_floats("atanh", "Inverse of tanh.", "0.0 -> 0.", x=lambda g, x: g / ((1 - x) * (1 + x)))
sigmoid = _of_floats(
    "sigmoid", "1 / (1 + exp(-x)).", "0.0 -> 0.5", x=lambda g, out: g * out * (1 - out)
)
erf = _of_floats(
    "erf",
    "The error function: 2 / sqrt(pi) times the integral of exp(-t * t) from 0 to x.",
    "1.0 -> 0.8427",
    x=lambda g, x: g * exp(-x * x) * (2 / _math.sqrt(_math.pi)),
)
silu = _of_floats(
    "silu",
    "x * sigmoid(x).",
    "0.0 -> 0.",
    x=lambda g, x: g * sigmoid(x) * (1 + x * (1 - sigmoid(x))),
)

# Piecewise linear.

sign = op.elementwise("sign", "-1, 0 or 1.", "-3.0 -> -1.", x=lambda g: _zero(g))
floor = op.elementwise("floor", "Rounded down.", "-1.5 -> -2.", x=lambda g: _zero(g))
ceil = op.elementwise("ceil", "Rounded up.", "1.5 -> 2.", x=lambda g: _zero(g))
trunc = op.elementwise("trunc", "Rounded towards zero.", "-1.5 -> -1.", x=lambda g: _zero(g))
round = op.elementwise(
    "round",
    "Rounded to the nearest integer, halves to even ones.",
    "2.5 -> 2.",
    x=lambda g: _zero(g),
)
abs = op.elementwise(
    "abs", "Absolute value.", "-3.0 -> 3.", real_valued=True, x=lambda g, x: g * sign(x)
)
relu = op.elementwise("relu", "max(x, 0).", "-3.0 -> 0.", x=lambda g, out: where(out <= 0, 0, g))
maximum = op.elementwise(
    "maximum",
    "The larger of x and y; equals share the gradient.",
    "2.0, 3.0 -> 3.",
    x=lambda g, x, y: _to_larger(g, x, y),
    y=lambda g, x, y: _to_larger(g, y, x),
)
minimum = op.elementwise(
    "minimum",
    "The smaller of x and y; equals share the gradient.",
    "2.0, 3.0 -> 2.",
    x=lambda g, x, y: _to_larger(g, y, x),
    y=lambda g, x, y: _to_larger(g, x, y),
)
where = op.elementwise(
    "where",
    "x where the condition holds, else y.",
    "True, 2.0, 3.0 -> 2.",
    inputs="condition x y",
    promotes="x y",
    x=lambda g, condition: where(condition, g, 0),
    y=lambda g, condition: where(condition, 0, g),
)


def _zero(g):
    """The gradient of what is constant nearly everywhere: zero, not a missing one."""
    return where(False, g, 0)


def _power_slope(x, y):
    """y * x ** (y - 1), and 0 where y is, also at 0 ** 0.

    Where y may be differentiated, too, it isn't cut off at y = 0: the derivative by y is 1 / x
    there. Written as y / x * x ** y the value is 0 also where 1 / x overflows.
    """
    zero = equal(y, 0)
    if not getattr(y, "requires_grad", False):
        return where(zero, 0, y * x ** (y - where(zero, 0, 1)))
    singular = logical_and(zero, logical_not(abs(x) > 0))  # NaN ** 0 is 1, too
    x = where(singular, 1, x)
    return where(singular, 0, y / where(zero, x, 1) * x ** (y - where(zero, 0, 1)))


def _over(x, r):
    """x / r, but 0 where r is: derivatives of lengths at the origin."""
    return where(equal(r, 0), 0, x / where(equal(r, 0), 1, r))


def _gap(x, y):
    """x - y, but 0 for equal infinities."""
    return where(logical_and(isinf(x), equal(x, y)), 0, x - y)


def _to_larger(g, x, y):
    """What maximum gives its first input: half of g if they are equal; g if there is a NaN."""
    return where(x < y, 0, where(equal(x, y), g * 0.5, g))
