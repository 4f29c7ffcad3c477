"""What each op is, in the kernel language: a function from the values of its inputs to its value.

Inputs have one type, as the dispatcher promotes them, and attributes are values too, but for
`dtype`. float16 is computed in float32 and rounded at the end. An op isn't described for types that
it raises `Unsupported` for.
"""

import math
from collections.abc import Callable, Sequence
from typing import TypeGuard

from . import exponential, logarithmic, powers, special, trigonometric
from .floats import is_nan
from .language import (
    BOOL,
    F16,
    F32,
    F64,
    TYPES,
    Kernel,
    Type,
    Value,
    absolute,
    bits,
    ceil,
    constant,
    convert,
    copysign,
    element,
    equal,
    floor,
    fma,
    from_bits,
    not_equal,
    quotient,
    rint,
    scalar,
    select,
    sqrt,
    trunc,
)


class Unsupported(TypeError):
    """An op that isn't described for a type."""


Ops = dict[str, Callable[..., Value]]
OPS: Ops = {}


def describe(
    name: str, inputs: Sequence[Value | None], ops: Ops = OPS, /, **attrs: object
) -> Value:
    """The value of an op on values of any type; None where an optional input is left out."""
    if name not in ops:
        raise Unsupported(f"{name} isn't described as a kernel")
    if not any(is_half(x) for x in inputs):
        return ops[name](*inputs, **attrs)
    if name == "nextafter":
        raise Unsupported("nextafter isn't described for f16, which is computed in f32")
    out = ops[name](*(convert(x, F32) if is_half(x) else x for x in inputs), **attrs)
    return convert(out, F16) if out.type == F32 and name != "cast" else out


def kernel_of(
    name: str,
    dtypes: Sequence[object],
    attributes: Sequence[str],
    dtype: object = None,
    ops: Ops = OPS,
) -> Kernel:
    """The kernel of an op on arrays of these dtypes, None where an optional one is left out.
    Attributes are its numbers, in their order; `dtype` isn't one."""
    given = [k for k, t in enumerate(dtypes) if t is not None]
    places = {k: n for n, k in enumerate(given)}
    inputs = [
        element(places[k], TYPES[t]) if t is not None else None  # type: ignore[index]
        for k, t in enumerate(dtypes)
    ]
    first = TYPES[dtypes[given[0]]]  # type: ignore[index]
    number = F32 if first == F16 else first
    names = [name for name in attributes if name != "dtype"]
    attrs: dict[str, object] = {name: scalar(k, number) for k, name in enumerate(names)}
    if dtype is not None:
        attrs["dtype"] = dtype
    return Kernel((describe(name, inputs, ops, **attrs),))


def is_half(x: Value | None) -> TypeGuard[Value]:
    return x is not None and x.type == F16


def numbers(function: Callable[..., Value]) -> Callable[..., Value]:
    """An op of numbers: booleans are none."""
    return restricted(function, "fiu")


def floats(function: Callable[..., Value]) -> Callable[..., Value]:
    return restricted(function, "f")


def integers(function: Callable[..., Value]) -> Callable[..., Value]:
    return restricted(function, "iub")


def restricted(function: Callable[..., Value], kinds: str) -> Callable[..., Value]:
    def call(*inputs: Value, **attrs: object) -> Value:
        for x in inputs:
            if x.type.kind not in kinds:
                raise Unsupported(f"a kernel for {x.type!r} isn't described")
        return function(*inputs, **attrs)

    return call


def truth(x: Value) -> Value:
    return convert(x, BOOL)


def is_finite(x: Value) -> Value:
    return equal(x - x, 0)


def is_infinite(x: Value) -> Value:
    return equal(absolute(x), math.inf)


def magnitude(x: Value) -> Value:
    return x if x.type.kind == "u" else absolute(x)


def sign(x: Value) -> Value:
    if x.type.kind == "u":
        return select(equal(x, 0), x, 1)
    return select(x > 0, 1, select(x < 0, constant(-1, x.type), select(equal(x, 0), 0, x)))


def maximum(x: Value, y: Value) -> Value:
    larger = x >= y
    return select(larger | is_nan(x) if x.type.kind == "f" else larger, x, y)


def minimum(x: Value, y: Value) -> Value:
    smaller = x <= y
    return select(smaller | is_nan(x) if x.type.kind == "f" else smaller, x, y)


def relu(x: Value) -> Value:
    return select(x <= 0, 0, x)


def where(condition: Value, x: Value, y: Value) -> Value:
    return select(truth(condition), x, y)


def clip(x: Value, lower: Value | None, upper: Value | None) -> Value:
    x = x if lower is None else maximum(x, lower)
    return x if upper is None else minimum(x, upper)


def shift(x: Value, y: Value, left: bool) -> Value:
    """Bits that are shifted beyond the end are lost, however many."""
    if x.type.kind == "b":
        raise Unsupported("booleans have no bits to shift")
    inside = from_bits(y, Type("u", x.type.bits)) < x.type.bits
    if left:
        return select(inside, x << select(inside, y, 0), 0)
    if x.type.kind == "i":
        return x >> select(inside, y, x.type.bits - 1)
    return select(inside, x >> select(inside, y, 0), 0)


def floor_divide(x: Value, y: Value) -> Value:
    """Rounded down; by 0 it is 0, and the smallest integer by -1 is itself, as in NumPy."""
    out = safe_quotient(x, y)
    if x.type.kind == "u":
        return select(equal(y, 0), 0, out)
    inexact = not_equal(out * y, x) & ((x < 0) ^ (y < 0))
    return select(equal(y, 0), 0, select(inexact, out - 1, out))


def safe_quotient(x: Value, y: Value) -> Value:
    if x.type.kind == "u":
        return quotient(x, select(equal(y, 0), 1, y))
    special = equal(y, 0) | equal(y, -1)
    return select(equal(y, -1), -x, quotient(x, select(special, 1, y)))


def remainder(x: Value, y: Value) -> Value:
    return select(equal(y, 0), 0, x - floor_divide(x, y) * y)


def nextafter(x: Value, y: Value) -> Value:
    """Floats of one sign are ordered as their bits are."""
    step = select((y > x) ^ (x < 0), constant(1, x.type.signed), constant(-1, x.type.signed))
    moved = from_bits(bits(x) + step, x.type)
    smallest = copysign(from_bits(constant(1, x.type.signed), x.type), y)
    moved = select(equal(x, 0), smallest, moved)
    return select(equal(x, y), y, select(is_nan(x) | is_nan(y), x + y, moved))


def cast(x: Value, dtype: object) -> Value:
    """To booleans, or to numbers that x can be rounded to: NumPy has its own ways with others."""
    target = TYPES.get(dtype)  # type: ignore[call-overload]
    if (
        target is None
        or (x.type.kind == "f" and target.kind in "iu")
        or (x.type, target) == (F64, F16)
    ):
        raise Unsupported(f"a kernel for a cast from {x.type!r} to {dtype} isn't described")
    return convert(x, target)


def leaky_relu(x: Value, negative_slope: Value) -> Value:
    return select(x > 0, x, x * negative_slope)


def elu(x: Value, alpha: Value) -> Value:
    return select(x > 0, x, alpha * exponential.expm1(select(x > 0, 0, x)))


OPS |= {
    "equal": equal,
    "not_equal": not_equal,
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y,
    "logical_and": lambda x, y: truth(x) & truth(y),
    "logical_or": lambda x, y: truth(x) | truth(y),
    "logical_xor": lambda x, y: truth(x) ^ truth(y),
    "logical_not": lambda x: ~truth(x),
    "isfinite": floats(is_finite),
    "isinf": floats(is_infinite),
    "isnan": floats(is_nan),
    "signbit": floats(lambda x: bits(x) < 0),
    "bitwise_and": integers(lambda x, y: x & y),
    "bitwise_or": integers(lambda x, y: x | y),
    "bitwise_xor": integers(lambda x, y: x ^ y),
    "bitwise_invert": integers(lambda x: ~x),
    "bitwise_left_shift": integers(lambda x, y: shift(x, y, left=True)),
    "bitwise_right_shift": integers(lambda x, y: shift(x, y, left=False)),
    "add": numbers(lambda x, y: x + y),
    "subtract": numbers(lambda x, y: x - y),
    "multiply": numbers(lambda x, y: x * y),
    "divide": floats(lambda x, y: x / y),
    "negative": numbers(lambda x: -x),
    "square": numbers(lambda x: x * x),
    "floor_divide": restricted(floor_divide, "iu"),
    "remainder": restricted(remainder, "iu"),
    "add_scaled": floats(lambda x, y, alpha: fma(alpha, y, x)),
    "abs": numbers(magnitude),
    "sign": numbers(sign),
    "floor": floats(floor),
    "ceil": floats(ceil),
    "trunc": floats(trunc),
    "round": floats(rint),
    "sqrt": floats(sqrt),
    "maximum": maximum,
    "minimum": minimum,
    "relu": numbers(relu),
    "where": where,
    "clip": clip,
    "copysign": floats(copysign),
    "nextafter": floats(nextafter),
    "cast": cast,
    "leaky_relu": floats(leaky_relu),
    "elu": floats(elu),
}
FUNCTIONS = {
    exponential: "exp expm1 sinh cosh tanh sigmoid silu scale",
    logarithmic: "log log1p log2 log10 asinh acosh atanh logaddexp",
    trigonometric: "sin cos tan asin acos atan atan2",
    special: "erf gelu gelu_tanh",
    powers: "pow hypot",
}
for module, names in FUNCTIONS.items():
    OPS |= {name: floats(getattr(module, name)) for name in names.split()}
