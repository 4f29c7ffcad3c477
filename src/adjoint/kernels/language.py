"""The kernel language: a DAG of typed values, computed for each element of an iteration space.

    x = element(0, F32)
    y = exp(x - reduce("max", x))
    kernel = Kernel((y / reduce("sum", y),))

An element of an array is a value, and so is what ops make of values. `reduce` combines a value over
a row: the axes that a launch says are reduced. What is made of reductions, of `row` arrays and of
numbers is the same all along a row. Equal values are one object, so nothing is computed twice.
Integers wrap around; floats are IEEE, and nothing is reordered.
"""

from collections.abc import Container, Iterable, Mapping
from threading import RLock
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np


class Type(NamedTuple):
    kind: str  # as NumPy's: f, i, u or b
    bits: int

    def __repr__(self) -> str:
        return "bool" if self.kind == "b" else f"{self.kind}{self.bits}"

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(f"{self.kind}{self.bits // 8}")

    @property
    def signed(self) -> "Type":
        """The signed integer of the same size."""
        return Type("i", self.bits)


F16, F32, F64 = (Type("f", bits) for bits in (16, 32, 64))
I8, I16, I32, I64 = (Type("i", bits) for bits in (8, 16, 32, 64))
U8, U16, U32, U64 = (Type("u", bits) for bits in (8, 16, 32, 64))
BOOL = Type("b", 8)
TYPES = {t.dtype: t for t in (F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, BOOL)}

REDUCTIONS = ("sum", "prod", "max", "min")

_values: "WeakValueDictionary[tuple, Value]" = WeakValueDictionary()
_making = RLock()  # one that the collector may take again while a value is made


def infix(op: str, type: Type | None = None, swapped: bool = False):
    """The method of an operator, whose result has a type, or that of its operands."""

    def call(self: "Value", y: Any) -> "Value":
        return binary(op, y, self, type) if swapped else binary(op, self, y, type)

    return call


class Value:
    """An op on other values; `detail` is what it knows besides them. Made by the functions below.

    `varies`: whether it differs along a row.
    """

    __slots__ = ("__weakref__", "args", "depth", "detail", "op", "type", "varies")

    op: str
    args: "tuple[Value, ...]"
    type: Type
    detail: Any
    varies: bool
    depth: int  # how many reductions, one after the other, come before it

    def __repr__(self) -> str:
        return text_of([self])

    def __bool__(self) -> bool:
        raise TypeError("a kernel can't branch on a value; use select")

    __add__, __radd__ = infix("add"), infix("add", swapped=True)
    __sub__, __rsub__ = infix("sub"), infix("sub", swapped=True)
    __mul__, __rmul__ = infix("mul"), infix("mul", swapped=True)
    __truediv__, __rtruediv__ = infix("div"), infix("div", swapped=True)
    __lt__, __gt__ = infix("lt", BOOL), infix("lt", BOOL, swapped=True)
    __le__, __ge__ = infix("le", BOOL), infix("le", BOOL, swapped=True)
    __and__, __or__, __xor__ = infix("and"), infix("or"), infix("xor")
    __lshift__, __rshift__ = infix("shl"), infix("shr")

    def __neg__(self):
        return value("neg", (self,), self.type)

    def __invert__(self):
        return binary("xor", self, constant(True if self.type is BOOL else -1, self.type))


def value(op: str, args: tuple[Value, ...], type: Type, detail: Any = None) -> Value:
    """The value of an op; the same op on the same values is the same object."""
    key = (op, tuple(map(id, args)), type, repr(detail))
    with _making:
        found = _values.get(key)
        if found is None:
            found = _values[key] = Value()
            found.op, found.args, found.type, found.detail = op, args, type, detail
            found.varies = op in ("element", "position") or (
                op != "reduce" and any(arg.varies for arg in args)
            )
            found.depth = max((arg.depth for arg in args), default=0) + (op == "reduce")
    return found


# Where values come from.


def element(position: int, type: Type) -> Value:
    """The element of the array at this position among the kernel's arrays."""
    return value("element", (), type, position)


def row(position: int, type: Type) -> Value:
    """The one number that an array has for the whole row."""
    return value("row", (), type, position)


def scalar(position: int, type: Type) -> Value:
    """A number that is given with each call: the number at this position among them."""
    return value("scalar", (), type, position)


def constant(number: Any, type: Type) -> Value:
    """A number that is part of the kernel's text."""
    if type.kind == "f":
        return value("constant", (), type, float(number))
    if type.kind == "b":
        return value("constant", (), type, bool(number))
    number = int(number) & (1 << type.bits) - 1
    if type.kind == "i" and number >> (type.bits - 1):
        number -= 1 << type.bits
    return value("constant", (), type, number)


def count(type: Type) -> Value:
    """How many elements a row has."""
    return value("count", (), type)


def position(type: Type) -> Value:
    """Which element of its row this is, counted from 0. (Only GPUs have it.)"""
    return value("position", (), type)


# Ops on values.


def binary(op: str, x: Any, y: Any, type: Type | None = None) -> Value:
    x, y = alike(x, y)
    return value(op, (x, y), type or x.type)


def compare(op: str, x: Any, y: Any) -> Value:
    return binary(op, x, y, BOOL)


def alike(x: Any, y: Any) -> tuple[Value, Value]:
    """Two values of one type; Python numbers take that of the other."""
    if not isinstance(x, Value):
        x = constant(x, y.type)
    if not isinstance(y, Value):
        y = constant(y, x.type)
    if x.type != y.type:
        raise TypeError(f"values of types {x.type} and {y.type}: convert one of them")
    return x, y


def equal(x: Any, y: Any) -> Value:
    return compare("eq", x, y)


def not_equal(x: Any, y: Any) -> Value:
    return compare("ne", x, y)


def select(condition: Value, x: Any, y: Any) -> Value:
    """x where the condition holds, else y."""
    x, y = alike(x, y)
    if condition.op == "constant":
        return x if condition.detail else y
    return x if x is y else value("select", (condition, x, y), x.type)


def fma(x: Any, y: Any, z: Any, exact: bool = False) -> Value:
    """x * y + z, rounded once; on GPUs that round twice, only where it has to be `exact`."""
    type = next(v.type for v in (x, y, z) if isinstance(v, Value))
    x, y, z = (v if isinstance(v, Value) else constant(v, type) for v in (x, y, z))
    return value("fma", (x, y, z), type, "exact" if exact else None)


def _unary(op: str, doc: str):
    def call(x: Value) -> Value:
        return value(op, (x,), x.type)

    call.__name__, call.__doc__ = op, doc
    return call


sqrt = _unary("sqrt", "The square root, correctly rounded.")
floor = _unary("floor", "Rounded down.")
ceil = _unary("ceil", "Rounded up.")
trunc = _unary("trunc", "Rounded towards zero.")
rint = _unary("rint", "Rounded to the nearest integer, halves to even ones.")
absolute = _unary("absolute", "Without its sign; of integers, the largest negative one stays.")


def copysign(x: Value, y: Value) -> Value:
    """The magnitude of x with the sign of y."""
    return binary("copysign", x, y)


def quotient(x: Value, y: Value) -> Value:
    """Of integers, rounded towards zero; y isn't 0, nor -1 where x is the smallest integer."""
    return binary("quotient", x, y)


def fmod(x: Value, y: Value) -> Value:
    """The exact remainder of x / y, with the sign of x; y isn't 0, both are finite. (Only GPUs have
    it.)"""
    return binary("fmod", x, y)


def convert(x: Value, type: Type) -> Value:
    """The nearest number of another type; floats are rounded towards zero to integers.

    From float64 to float16 it is rounded twice.
    """
    if x.type == type:
        return x
    if type == BOOL:
        return not_equal(x, 0)
    if x.op == "constant" and not (x.type.kind == "f" and type.kind != "f"):
        return constant(x.detail, type)
    if {x.type, type} == {F16, F64}:  # no processor does it in one step
        x = value("convert", (x,), F32)
    return value("convert", (x,), type)


def bits(x: Value) -> Value:
    """The signed integer that has the bits of a float."""
    return value("bits", (x,), x.type.signed)


def from_bits(x: Value, type: Type) -> Value:
    """The value of another type of the same size that has the bits of x."""
    return x if x.type == type else value("bits", (x,), type)


def library(name: str, condition: Value, x: Value, fast: Value) -> Value:
    """`fast`, but where the condition holds, which is rare, the renderer's own function of x."""
    return value("library", (condition, x, fast), fast.type, name)


def reduce(how: str, x: Value, type: Type | None = None) -> Value:
    """All of a row combined by "sum", "prod", "max" or "min" (these two: NaN if there is one).

    A sum or product may be of a wider type than its elements.
    """
    if how not in REDUCTIONS:
        raise ValueError(f"reductions are {', '.join(REDUCTIONS)}, got {how!r}")
    return value("reduce", (x,), type or x.type, how)


# Whole kernels.


def walk(outputs: Iterable[Value], known: Container[Value] = ()) -> list[Value]:
    """All values behind the outputs, each once, operands before what uses them; those behind what
    is known only if something else needs them."""
    order: dict[Value, None] = {}
    stack = [(out, False) for out in outputs]
    while stack:
        node, done = stack.pop()
        if node in order:
            continue
        if done:
            order[node] = None
        else:
            stack.append((node, True))
            if node not in known:
                stack.extend((arg, False) for arg in reversed(node.args))
    return list(order)


def substituted(outputs: Iterable[Value], changes: Mapping[Value, Value]) -> list[Value]:
    """The same values made of others."""
    outputs = list(outputs)
    made = dict(changes)
    for node in walk(outputs, known=changes):
        if node not in made:
            args = tuple(made[arg] for arg in node.args)
            made[node] = value(node.op, args, node.type, node.detail)
    return [made[out] for out in outputs]


def text_of(outputs: Iterable[Value]) -> str:
    """The values as lines, one op each."""
    outputs = list(outputs)
    order = walk(outputs)
    names = {node: f"%{k}" for k, node in enumerate(order)}
    lines = [
        " ".join(
            [f"{names[node]}: {node.type!r} = {node.op}"]
            + ([repr(node.detail)] if node.detail is not None else [])
            + [names[arg] for arg in node.args]
        )
        for node in order
    ]
    return "\n".join([*lines, f"-> {', '.join(names[out] for out in outputs)}"])


class Kernel:
    """What to compute for each element, or each row, from arrays and numbers.

    `arrays`: the type of each input array, None where the kernel doesn't read it. An output that
    varies has an element for each of the space; another has one for each row.
    """

    def __init__(self, outputs: Iterable[Value]) -> None:
        self.outputs = tuple(outputs)
        self.values = walk(self.outputs)
        self.sources = {v.detail: v for v in self.values if v.op in ("element", "row")}
        self.scalars = {v.detail: v.type for v in self.values if v.op == "scalar"}
        self.reduces = any(v.op == "reduce" for v in self.values)

    def __str__(self) -> str:
        return text_of(self.outputs)
