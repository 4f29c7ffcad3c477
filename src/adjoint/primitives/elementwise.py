"""Elementwise ops that are public as they are: `ad.<name>`.

Rules are bare mathematics; the engine undoes broadcasting. Where an op has a kink, the convention
is SPEC's: zero at the kink, half for each of two equals.
"""

from .. import op

# Comparisons and logic: no gradient.

equal = op.elementwise(
    "equal", "x == y.", "2.0, 3.0 -> False", inputs="x y", dtype="bool", differentiable=False
)
not_equal = op.elementwise(
    "not_equal", "x != y.", "2.0, 3.0 -> True", inputs="x y", dtype="bool", differentiable=False
)
less = op.elementwise(
    "less", "x < y.", "2.0, 3.0 -> True", inputs="x y", dtype="bool", differentiable=False
)
less_equal = op.elementwise(
    "less_equal", "x <= y.", "2, 2 -> True", inputs="x y", dtype="bool", differentiable=False
)
greater = op.elementwise(
    "greater", "x > y.", "2.0, 3.0 -> False", inputs="x y", dtype="bool", differentiable=False
)
greater_equal = op.elementwise(
    "greater_equal", "x >= y.", "2, 2 -> True", inputs="x y", dtype="bool", differentiable=False
)
logical_and = op.elementwise(
    "logical_and",
    "x and y.",
    "True, False -> False",
    inputs="x y",
    dtype="bool",
    differentiable=False,
)
logical_or = op.elementwise(
    "logical_or", "x or y.", "True, False -> True", inputs="x y", dtype="bool", differentiable=False
)
logical_not = op.elementwise(
    "logical_not", "not x.", "True -> False", inputs="x", dtype="bool", differentiable=False
)
isfinite = op.elementwise(
    "isfinite",
    "Whether x is neither NaN nor infinite.",
    "1.0 -> True",
    inputs="x",
    dtype="bool",
    differentiable=False,
)
bitwise_and = op.elementwise(
    "bitwise_and", "x & y.", "6, 3 -> 2", inputs="x y", differentiable=False
)
bitwise_or = op.elementwise("bitwise_or", "x | y.", "6, 3 -> 7", inputs="x y", differentiable=False)
bitwise_invert = op.elementwise(
    "bitwise_invert", "~x.", "6 -> -7", inputs="x", differentiable=False
)
bitwise_right_shift = op.elementwise(
    "bitwise_right_shift",
    "Integers shifted right by y bits.",
    "8, 2 -> 2",
    inputs="x y",
    differentiable=False,
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
    x=lambda g, x, y: g * where(equal(y, 0), 0, y * x ** (y - where(equal(y, 0), 0, 1))),
    y=lambda g, x, y, out: g * out * log(where(logical_and(equal(x, 0), y >= 0), 1, x)),
)

square = op.elementwise("square", "x * x.", "3.0 -> 9.", x=lambda g, x: 2 * g * x)

# Functions of one real variable.

exp = op.elementwise("exp", "e ** x.", "0.0 -> 1.", floats=True, x=lambda g, out: g * out)
log = op.elementwise("log", "Natural logarithm.", "1.0 -> 0.", floats=True, x=lambda g, x: g / x)
sqrt = op.elementwise(
    "sqrt", "Square root.", "9.0 -> 3.", floats=True, x=lambda g, out: g / (2 * out)
)
sin = op.elementwise("sin", "Sine.", "0.0 -> 0.", floats=True, x=lambda g, x: g * cos(x))
cos = op.elementwise("cos", "Cosine.", "0.0 -> 1.", floats=True, x=lambda g, x: -g * sin(x))
tanh = op.elementwise(
    "tanh", "Hyperbolic tangent.", "0.0 -> 0.", floats=True, x=lambda g, out: g * (1 - out * out)
)
sigmoid = op.elementwise(
    "sigmoid", "1 / (1 + exp(-x)).", "0.0 -> 0.5", floats=True, x=lambda g, out: g * out * (1 - out)
)

# Piecewise linear.

sign = op.elementwise("sign", "-1, 0 or 1.", "-3.0 -> -1.", x=lambda g: where(False, g, 0))
abs = op.elementwise("abs", "Absolute value.", "-3.0 -> 3.", x=lambda g, x: g * sign(x))
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


def _to_larger(g, x, y):
    """g where x > y, half of it where they are equal: what maximum gives its first input."""
    return where(x > y, g, where(equal(x, y), g * 0.5, 0))
