"""Random programs of the kernel language, arrays of random layouts, and what NumPy makes of them.

Programs are such that results are exact: nothing depends on the order of additions, integers
don't come from floats that they can't hold, and NaNs' bits aren't looked at.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from adjoint.kernels import language
from adjoint.kernels.language import (
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I32,
    I64,
    U8,
    U32,
    Kernel,
    Type,
    Value,
    constant,
    convert,
    element,
    select,
)

Draw = Callable[[st.SearchStrategy], Any]
Ints = tuple[int, ...]

SOURCES = (F32, F64, I32, I64, U8, BOOL)
TARGETS = (F16, F32, F64, I8, I32, I64, U8, U32, BOOL)


# What a program means.


def evaluated(
    kernel: Kernel, arrays: Sequence[np.ndarray], numbers: Sequence[Any] = (), axis: Ints = ()
) -> list[np.ndarray]:
    """The outputs of a kernel, by NumPy; rows run along `axis`."""
    full = [arrays[k] for k, source in kernel.sources.items() if source.varies]
    shape = np.broadcast_shapes(*(a.shape for a in full))
    known: dict[Value, np.ndarray] = {}
    with np.errstate(all="ignore"):
        for v in kernel.values:
            if v.op == "element":
                known[v] = np.broadcast_to(arrays[v.detail], shape)
            elif v.op == "row":
                known[v] = arrays[v.detail]
            elif v.op == "reduce":
                known[v] = reduced(v, np.broadcast_to(known[v.args[0]], shape), axis)
            elif v.op in ("constant", "scalar", "count"):
                known[v] = np.array(number_of(v, numbers, [shape[k] for k in axis]), v.type.dtype)
            else:
                known[v] = np.asarray(computed(v, [known[arg] for arg in v.args]))
    small = tuple(1 if k in axis else n for k, n in enumerate(shape))
    return [np.broadcast_to(known[out], shape if out.varies else small) for out in kernel.outputs]


def number_of(v: Value, numbers: Sequence[Any], sizes: Sequence[int]) -> Any:
    if v.op == "count":
        return math.prod(sizes)
    return v.detail if v.op == "constant" else numbers[v.detail]


def reduced(v: Value, x: np.ndarray, axis: Ints) -> np.ndarray:
    how = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[v.detail]
    return how.reduce(x, axis=axis, dtype=x.dtype, keepdims=True)


def fused_multiply_add(x: float, y: float, z: float, dtype: np.dtype) -> float:
    if not all(map(math.isfinite, (x, y, z))):
        return x * y + z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if not exact:
        return x * y + z  # the sign of zero
    try:
        near = float(exact)
    except OverflowError:
        return math.copysign(math.inf, exact)
    if dtype == np.float64:
        return near
    # Of the two neighbours in float32 the nearer one, and the even one of equals.
    low = np.float32(near)
    best = min(
        (np.nextafter(low, np.float32(-np.inf)), low, np.nextafter(low, np.float32(np.inf))),
        key=lambda v: (
            (abs(Fraction(float(v)) - exact), int(v.view(np.int32)) & 1)
            if np.isfinite(v)
            else (abs(Fraction(2) ** 128 * int(np.sign(v)) - exact), 0)
        ),
    )
    return float(np.copysign(best, float(exact > 0) - 0.5))


def truncated_quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    out = np.floor_divide(x, y)
    return out + ((out * y != x) & ((x < 0) != (y < 0))).astype(x.dtype)


FUNCTIONS: dict[str, Callable] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "select": np.where,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "absolute": np.abs,
    "copysign": np.copysign,
    "quotient": truncated_quotient,
}


def computed(v: Value, args: list[np.ndarray]) -> np.ndarray:
    dtype = v.type.dtype
    if v.op == "convert":
        return args[0].astype(dtype)
    if v.op == "bits":
        return np.array(args[0], order="C").view(dtype)
    if v.op == "fma":
        return np.vectorize(fused_multiply_add, otypes=[dtype], excluded=[3])(*args, dtype)
    return FUNCTIONS[v.op](*args)


# Random programs.

Rule = Callable[[Draw, list[Value]], Value]


def pick(draw: Draw, values: list[Value], kinds: str = "fiub") -> Value:
    """A value of some kinds, which there is if the kinds have "f" or "b"."""
    return draw(st.sampled_from([v for v in values if v.type.kind in kinds and v.type != F16]))


def like(draw: Draw, values: list[Value], x: Value) -> Value:
    return draw(st.sampled_from([v for v in values if v.type == x.type]))


def integer(draw: Draw, values: list[Value]) -> Value:
    return bounded(pick(draw, values, "fiu"), I32, 1e6)


def bounded(x: Value, type: Type, limit: float) -> Value:
    """x as an integer: 0 if it is a float whose magnitude is beyond a limit, or NaN."""
    if x.type.kind == "f":
        x = select(language.absolute(x) < limit, x, 0)
    return convert(x, type)


def arithmetic(draw: Draw, values: list[Value]) -> Value:
    x = pick(draw, values, "fiu")
    op = draw(st.sampled_from(["add", "sub", "mul"] + ["div"] * (x.type.kind == "f")))
    return language.binary(op, x, like(draw, values, x))


def comparison(draw: Draw, values: list[Value]) -> Value:
    x = pick(draw, values)
    return language.compare(
        draw(st.sampled_from(["lt", "le", "eq", "ne"])), x, like(draw, values, x)
    )


def choice(draw: Draw, values: list[Value]) -> Value:
    x = pick(draw, values)
    return select(pick(draw, values, "b"), x, like(draw, values, x))


def rounding(draw: Draw, values: list[Value]) -> Value:
    names = ("sqrt", "floor", "ceil", "trunc", "rint", "absolute")
    return getattr(language, draw(st.sampled_from(names)))(pick(draw, values, "f"))


def sign(draw: Draw, values: list[Value]) -> Value:
    """Of numbers: the sign of a NaN is chance."""
    x = pick(draw, values, "fi")
    if x.type.kind == "i" or draw(st.booleans()):
        return draw(st.sampled_from([language.absolute, lambda x: -x]))(x)
    y = like(draw, values, x)
    return language.copysign(x, select(language.equal(y, y), y, 1))


def multiply_add(draw: Draw, values: list[Value]) -> Value:
    x = pick(draw, values, "f")
    return language.fma(x, like(draw, values, x), like(draw, values, x))


def conversion(draw: Draw, values: list[Value]) -> Value:
    x, type = pick(draw, values), draw(st.sampled_from(TARGETS))
    if x.type.kind == "f" and type.kind in "iu":
        x = language.absolute(x) if type.kind == "u" else x
        return bounded(x, type, 100)
    return convert(convert(x, type), F32) if type == F16 and x.type != F64 else convert(x, F32)


def bits(draw: Draw, values: list[Value]) -> Value:
    x = pick(draw, values, "f")
    return language.bits(select(language.equal(x, x), x, 0))


def logic(draw: Draw, values: list[Value]) -> Value:
    x = pick(draw, values, "b") if draw(st.booleans()) else integer(draw, values)
    if draw(st.booleans()):
        return ~x
    y = like(draw, [*values, x], x)
    return language.binary(draw(st.sampled_from(["and", "or", "xor"])), x, y)


def shift(draw: Draw, values: list[Value]) -> Value:
    x, y = integer(draw, values), integer(draw, values)
    op = draw(st.sampled_from(["shl", "shr"]))
    type = draw(st.sampled_from([I8, I32, I64, U8, U32]))
    return language.binary(op, convert(x, type), convert(y, type) & constant(type.bits - 1, type))


def division(draw: Draw, values: list[Value]) -> Value:
    type = draw(st.sampled_from([I8, I32, I64, U8, U32]))
    x, y = (convert(integer(draw, values), type) for _ in range(2))
    unsafe = language.equal(y, 0) | language.equal(y, -1)
    return language.quotient(x, select(unsafe, 1, y))


def reduction(draw: Draw, values: list[Value]) -> Value:
    """Sums of small integers, and products of 1, -1 and 2, are exact in any order; extremes are
    too, but for the signs of zeros."""
    x = pick(draw, [v for v in values if v.varies])
    how = draw(st.sampled_from(["max", "min", "sum", "prod"]))
    if x.type == BOOL and how in ("sum", "prod"):
        x = convert(x, F32)
    if how in ("max", "min") and x.type.kind == "f":
        x = x + 0
    if how == "sum" and x.type.kind == "f":
        x = select(language.absolute(x) < 64, language.rint(x), 0)
    if how == "prod" and x.type.kind == "f":
        x = select(x < 0, constant(-1, x.type), select(x > 4, constant(2, x.type), 1))
    return language.reduce(how, x)


RULES: tuple[Rule, ...] = (
    *(arithmetic, comparison, choice, rounding, sign, multiply_add, conversion, bits, logic),
    *(shift, division),
)


def grown(draw: Draw, values: list[Value], rules: Sequence[Rule], most: int) -> None:
    """Add values that rules make of those that there are."""
    for _ in range(draw(st.integers(1, most))):
        values.append(draw(st.sampled_from(rules))(draw, values))


@st.composite
def maps(draw: Draw) -> Kernel:
    """A kernel without reductions, with up to 3 arrays and 2 outputs."""
    values = starting(draw, draw(st.integers(1, 3)))
    grown(draw, values, RULES, 8)
    varying = [v for v in values if v.varies]
    return Kernel(draw(st.lists(st.sampled_from(varying), min_size=1, max_size=2, unique_by=id)))


@st.composite
def row_programs(draw: Draw) -> Kernel:
    """A kernel with reductions, perhaps of reductions, and perhaps ops after the last of them."""
    values = starting(draw, draw(st.integers(1, 2)))
    if draw(st.booleans()):
        values.append(language.row(2, F32))
    if draw(st.booleans()):
        values.append(language.count(F32))
    for _ in range(draw(st.integers(1, 2))):
        grown(draw, values, RULES, 3)
        values.append(reduction(draw, values))
    last = values[-1]
    grown(draw, values, RULES, 3)
    # What is the same all along a row is an output only if it's made of a reduction.
    possible = [v for v in values if v.varies or v.depth]
    others = draw(st.lists(st.sampled_from(possible), max_size=2, unique_by=id))
    return Kernel(
        dict.fromkeys([last, *others])
        if draw(st.booleans())
        else [*dict.fromkeys([*others, draw(st.sampled_from([v for v in values if v.depth]))])]
    )


def starting(draw: Draw, count: int) -> list[Value]:
    """Elements of arrays, the first of them floats, and numbers of every kind."""
    types = [draw(st.sampled_from((F32, F64)))]
    types += [draw(st.sampled_from(SOURCES)) for _ in range(count - 1)]
    values = [element(k, type) for k, type in enumerate(types)]
    numbers = [language.scalar(0, F32), constant(2.5, F32), constant(-0.75, F64)]
    return [*values, *numbers, values[0] < 1]


# Random arrays.


def content(rng: np.random.Generator, shape: Ints, dtype: np.dtype) -> np.ndarray:
    """Small numbers, most of them with few digits, and some special ones."""
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        small = rng.integers(max(-9, info.min), 10, shape)
        ends = rng.choice([info.min, info.max], shape)
        return np.where(rng.random(shape) < 0.1, ends, small).astype(dtype)
    special = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 1e30, -1 / 3], shape)
    return np.where(rng.random(shape) < 0.1, special, rng.integers(-40, 40, shape) / 8).astype(
        dtype
    )


def laid_out(rng: np.random.Generator, x: np.ndarray, how: str) -> np.ndarray:
    """An array with the same elements whose memory is laid out in another way.

    `how`: the order of its axes in memory (c or f), then steps (s), a negative one (n), or none.
    """
    order = np.arange(x.ndim) if how[0] == "c" else rng.permutation(x.ndim)
    turned = x.transpose(order)
    step = {"": 1, "s": 2, "n": -1}[how[1:]]
    held = np.zeros([n * abs(step) for n in turned.shape], x.dtype)
    view = held[tuple(slice(None, None, step) for _ in turned.shape)]
    view[...] = turned
    return view.transpose(np.argsort(order))


LAYOUTS = ("c", "f", "cs", "fs", "cn", "fn")


@st.composite
def inputs(draw: Draw, kernel: Kernel, shapes: st.SearchStrategy, axes: bool = False) -> tuple:
    """Arrays for a kernel, of one shape but for axes along which one repeats; and which axes are
    reduced."""
    shape = draw(shapes)
    axis: Ints = ()
    if axes:
        chosen = draw(st.lists(st.sampled_from(range(len(shape))), min_size=1, unique=True))
        axis = tuple(sorted(chosen))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    arrays: list[np.ndarray | None] = [None] * (max(kernel.sources) + 1)
    first = min(k for k, source in kernel.sources.items() if source.varies)
    for k, source in kernel.sources.items():
        own = list(shape)
        for j in range(len(shape)):
            if (source.op == "row" and j in axis) or (k != first and draw(st.integers(0, 3)) == 0):
                own[j] = 1
        x = laid_out(
            rng, content(rng, tuple(own), source.type.dtype), draw(st.sampled_from(LAYOUTS))
        )
        repeats = source.op == "element" and draw(st.booleans())
        arrays[k] = np.broadcast_to(x, shape) if repeats else x
    return arrays, axis
