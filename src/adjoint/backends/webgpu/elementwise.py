"""Elementwise ops, each by a kernel of the kernel language."""

import functools
from collections.abc import Callable
from typing import Any

from ...kernels.language import (
    BOOL,
    F32,
    I32,
    TYPES,
    U32,
    Kernel,
    Value,
    absolute,
    constant,
    convert,
    copysign,
    equal,
    floor,
    fmod,
    from_bits,
    not_equal,
    select,
)
from ...kernels.ops import (
    OPS,
    Unsupported,
    floats,
    is_finite,
    is_infinite,
    is_nan,
    kernel_of,
    restricted,
)
from ..launches import Number, View
from .arrays import Array
from .launcher import Launcher
from .lowering import LOWERINGS, Programs
from .maps import lower_map


@functools.cache
def launcher(name: str, dtypes: tuple, attributes: tuple[str, ...], dtype: Any) -> Launcher:
    """The launcher of an op's kernel for arrays of these dtypes."""
    return Launcher(described(name, dtypes, attributes, dtype))


@functools.cache
def described(name: str, dtypes: tuple, attributes: tuple[str, ...], dtype: Any) -> Kernel:
    """An op's kernel. Attributes are its numbers, in their order; `dtype` isn't one."""
    try:
        return kernel_of(name, dtypes, attributes, dtype)
    except Unsupported:
        if name not in MORE:
            raise
    return kernel_of(name, dtypes, attributes, dtype, MORE)


def elements(name: str, to: Programs, *inputs: View | None, **attrs: Any) -> None:
    """Lower an elementwise op. A run is given its numbers by their names."""
    dtypes = tuple([None if x is None else x.dtype for x in inputs])
    kernel = described(name, dtypes, tuple(attrs), attrs.get("dtype"))
    names = [k for k in attrs if k != "dtype"]
    numbers = {k: Number(names[k], type.dtype) for k, type in kernel.scalars.items()}
    lower_map(to, kernel, [x for x in inputs if x is not None], numbers=numbers)


# What NumPy has its own ways with, and the kernel language doesn't describe for the CPU.


def divided(x: Value, y: Value) -> tuple[Value, Value]:
    """x divided by y, rounded down, and the remainder, which has the sign of y."""
    rest = fmod(x, y)
    whole = (x - rest) / y
    below = not_equal(rest, 0) & ((rest < 0) ^ (y < 0))
    whole = select(below, whole - 1, whole)
    rest = select(below, rest + y, rest)
    rest = select(equal(rest, 0), copysign(constant(0, F32), y), rest)
    nearest = floor(whole)
    nearest = select(whole - nearest > 0.5, nearest + 1, nearest)
    return select(equal(nearest, 0), copysign(constant(0, F32), x / y), nearest), rest


def remainder(x: Value, y: Value) -> Value:
    _, rest = divided(x, y)
    apart = (x < 0) ^ (y < 0)
    far = select(apart & not_equal(x, 0), y, select(equal(x, 0), copysign(x, y), x))
    rest = select(is_infinite(y) & is_finite(x), far, rest)
    bad = is_nan(x) | is_nan(y) | is_infinite(x) | equal(y, 0)
    return select(bad, constant(float("nan"), F32), rest)


def floor_divide(x: Value, y: Value) -> Value:
    """The values at infinities are the array API standard's."""
    whole, _ = divided(x, y)
    out = select(is_infinite(y) & is_finite(x), copysign(constant(0, F32), x / y), whole)
    out = select(equal(y, 0) | is_infinite(x), x / y, out)
    return select(is_nan(x) | is_nan(y), constant(float("nan"), F32), out)


def cast(x: Value, dtype: Any) -> Value:
    """Floats to integers: towards zero."""
    target = TYPES[dtype]
    if target == U32 and x.type.kind == "f":
        return select(x < 0, from_bits(convert(x, I32), U32), convert(absolute(x), U32))
    return convert(x, target)


def integer_pow(x: Value, y: Value) -> Value:
    """By squaring, modulo 2 ** 32; below 1 it is rounded towards zero."""
    out, base = constant(1, x.type), x
    for bit in range(32):
        out = select(not_equal(y & (1 << bit), 0), out * base, out)
        base = base * base
    if x.type.kind == "u":
        return out
    odd = select(not_equal(y & 1, 0), x, 1)
    inverse = select(equal(x, 1) | equal(x, -1), odd, 0)
    return select(y < 0, inverse, out)


def unchanged_value(x: Value) -> Value:
    return x


def always(answer: bool) -> Callable[[Value], Value]:
    return lambda x: constant(answer, BOOL)


MORE: dict[str, Callable[..., Value]] = {
    "remainder": floats(remainder),
    "floor_divide": floats(floor_divide),
    "cast": cast,
    "pow": restricted(integer_pow, "iu"),
    **dict.fromkeys(("floor", "ceil", "round", "trunc"), unchanged_value),
    "isfinite": always(True),
    "isinf": always(False),
    "isnan": always(False),
    "signbit": lambda x: x < 0,
    "add": restricted(lambda x, y: x | y, "b"),
    "multiply": restricted(lambda x, y: x & y, "b"),
    **dict.fromkeys(("abs", "square", "relu"), restricted(unchanged_value, "b")),
}

LOWERINGS |= {name: functools.partial(elements, name) for name in {*OPS, *MORE}}


def function(name: str, plain: int) -> Callable:
    """The function of an op. `plain`: how many inputs it has, if there is nothing else to it."""
    known: dict[Any, Launcher] = {}

    def unary(x: Array) -> Array:
        dtype = x.dtype
        found = known.get(dtype)
        if found is None:
            found = known[dtype] = launcher(name, (dtype,), (), None)
        return found.map((x,))[0]

    def binary(x: Array, y: Array) -> Array:
        key = x.dtype, y.dtype
        found = known.get(key)
        if found is None:
            found = known[key] = launcher(name, key, (), None)
        return found.map((x, y))[0]

    def general(*inputs: Array | None, **attrs: Any) -> Array:
        dtypes = tuple([None if x is None else x.dtype for x in inputs])
        found = launcher(name, dtypes, tuple(attrs), attrs.get("dtype"))
        numbers = [v for k, v in attrs.items() if k != "dtype"]
        return found.map([x for x in inputs if x is not None], numbers)[0]

    return (general, unary, binary)[plain] if plain < 3 else general


def casting(x: Array, *, dtype: Any) -> Array:
    x.gpu.check_dtype(dtype)
    if x.number is not None:
        return type(x)(x.shape, dtype, None, number=dtype.type(x.dtype.type(x.number)).item())
    return launcher("cast", (x.dtype,), ("dtype",), dtype).map([x])[0]


def unchanged(x: Array) -> Array:
    """Of numbers that aren't complex."""
    return x


def power(x: Array, y: Array) -> Array:
    if x.dtype.kind in "iu" and y.number is not None and y.number < 0:
        raise ValueError("integers to negative integer powers aren't integers; cast them to floats")
    return POWER(x, y)


POWER = function("pow", 2)
SPECIAL: dict[str, Callable] = {"pow": power, "cast": casting, "conj": unchanged, "real": unchanged}


def function_of(op: Any) -> Callable:
    """The function of an elementwise op. That it has a kernel follows from its kind."""
    special = SPECIAL.get(op.name)
    if special is not None:
        return special
    return function(op.name, 0 if op.attributes or op.optional or op.variadic else len(op.inputs))
