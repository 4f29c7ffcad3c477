"""Numbers that may be others when a recorded function runs again: settings, and what is computed
from them.

While a function is recorded a learning rate is a `Number`: operators on it build expressions, each
a line of a `Ledger`; a comparison answers with the present value, and the answer is a line too: a
recording holds as long as it stays the same. Whoever needs the value itself gets it, and from then
on the recording holds for this value alone.
"""

import math
import numbers
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .dtypes import SCALAR_RANK

GIVEN, CONSTANT, ANY = object(), object(), object()
METHODS = ("as_integer_ratio", "conjugate", "hex", "imag", "is_integer", "real")  # of a float


class Ledger:
    """Values that were computed from settings, in order, and answers that depended on them.

    A line is a function, the places of its operands among the lines, and the answer that it must
    give, or ANY. Equal lines are one.
    """

    def __init__(self) -> None:
        self.lines: list[tuple[Any, Any, Any]] = []
        self.values: list[Any] = []
        self.places: dict[Any, int] = {}
        self.count = 0  # of settings
        self.program: Callable[[Any], list[Any] | None] = list
        self.written = -1  # lines that are in the program

    def given(self, value: Any) -> "tuple[int, Number]":
        """A new setting: its position among all, and the number that stands for it."""
        place = self.add(GIVEN, self.count, value)
        self.count += 1
        return self.count - 1, Number(self, place, value)

    def constant(self, value: Any) -> int:
        return self.add(CONSTANT, value, value, (CONSTANT, type(value), repr(value)))

    def add(self, function: Any, operands: Any, value: Any, key: Any = None) -> int:
        key = key or (function, operands)
        if key not in self.places:
            self.places[key] = len(self.lines)
            self.lines.append((function, operands, value if type(value) is bool else ANY))
            self.values.append(value)
        return self.places[key]

    def apply(self, function: Callable, *operands: int) -> Any:
        """What a function gives of lines: a Number, or an answer, which is noted."""
        try:
            value = function(*[self.values[k] for k in operands])
        except ArithmeticError:
            self.fix(*operands)
            raise
        if type(value) not in KINDS:
            self.fix(*operands)
            return value
        place = self.add(function, operands, value)
        return value if type(value) is bool else KINDS[type(value)](self, place, value)

    def fix(self, *places: int) -> None:
        """The recording is for these values alone."""
        for place in places:
            self.apply(is_exactly, place, self.constant(self.values[place]))

    def evaluate(self, given: Mapping[int, Any] | Sequence[Any]) -> list[Any] | None:
        """All lines for other settings, by position; None if an answer would be another one."""
        if self.written != len(self.lines):
            self.write()
        try:
            return self.program(given)
        except ArithmeticError:
            return None

    def write(self) -> None:
        """Make a Python function of the lines: with a scheduler it runs at each step."""
        text, scope = ["def program(given):"], {}
        for k, (function, operands, answer) in enumerate(self.lines):
            if function is GIVEN:
                text.append(f"v{k} = given[{operands}]")
            elif function is CONSTANT:
                scope[f"v{k}"] = operands
            else:
                scope[f"f{k}"] = function
                call = f"f{k}({', '.join(f'v{place}' for place in operands)})"
                text.append(f"v{k} = {call}")
                if answer is not ANY:
                    text.append(f"if v{k} is not {answer}: return None")
        text.append(f"return [{', '.join(f'v{k}' for k in range(len(self.lines)))}]")
        exec("\n    ".join(text), scope)
        self.program, self.written = scope["program"], len(self.lines)


def is_exactly(x: float, y: float) -> bool:
    """Whether two numbers can't be told apart."""
    if x != x or y != y:
        return x != x and y != y
    return x == y and type(x) is type(y) and math.copysign(1, x) == math.copysign(1, y)


class Number:
    """A float that may be another one when what is recorded now runs again."""

    __slots__ = ("ledger", "place", "value")

    def __init__(self, ledger: Ledger, place: int, value: float) -> None:
        self.ledger = ledger
        self.place = place
        self.value = value

    def fixed(self) -> Any:
        """The present value; the recording is for it alone."""
        self.ledger.fix(self.place)
        return self.value

    def __bool__(self) -> bool:
        return self.ledger.apply(bool, self.place)

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None:
            return self.ledger.apply(round, self.place)
        return round(self.fixed(), digits)

    def __float__(self) -> float:
        return float(self.fixed())

    def __int__(self) -> int:
        return int(self.fixed())

    def __trunc__(self) -> int:
        return math.trunc(self.fixed())

    def __floor__(self) -> int:
        return math.floor(self.fixed())

    def __ceil__(self) -> int:
        return math.ceil(self.fixed())

    def __complex__(self) -> complex:
        return complex(self.fixed())

    def __hash__(self) -> int:
        return hash(self.fixed())

    def __repr__(self) -> str:
        return repr(self.fixed())

    def __format__(self, spec: str) -> str:
        return format(self.fixed(), spec)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.fixed(), dtype)

    def __divmod__(self, other: Any) -> Any:
        return divmod(self.fixed(), other)

    def __rdivmod__(self, other: Any) -> Any:
        return divmod(other, self.fixed())

    def __copy__(self) -> float:
        return self.fixed()

    def __deepcopy__(self, memo: dict) -> float:
        return self.fixed()

    def __reduce__(self) -> tuple:
        return type(self.value), (self.fixed(),)

    def __getattr__(self, name: str) -> Any:
        if name not in METHODS:
            raise AttributeError(f"a float has no attribute {name!r}")
        return getattr(self.fixed(), name)


class Whole(Number):
    """An integer that is computed from settings."""

    __slots__ = ()

    def __index__(self) -> int:
        return operator.index(self.fixed())


def operand(ledger: Ledger, x: Any) -> int | None:
    """The place of an operand; None of what Python's numbers know nothing about."""
    if isinstance(x, Number):
        return x.place if x.ledger is ledger else ledger.constant(x.fixed())
    return ledger.constant(x) if isinstance(x, (float, int)) else None


def binary(function: Callable) -> Callable:
    def call(x: Number, y: Any) -> Any:
        place = operand(x.ledger, y)
        return NotImplemented if place is None else x.ledger.apply(function, x.place, place)

    return call


def reflected(function: Callable) -> Callable:
    def call(x: Number, y: Any) -> Any:
        place = operand(x.ledger, y)
        return NotImplemented if place is None else x.ledger.apply(function, place, x.place)

    return call


def unary(function: Callable) -> Callable:
    return lambda x: x.ledger.apply(function, x.place)


KINDS: dict[type, Any] = {bool: bool, float: Number, int: Whole}
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Number, f"__{_name}__", binary(getattr(operator, _name)))
    setattr(Number, f"__r{_name}__", reflected(getattr(operator, _name)))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Number, f"__{_name}__", binary(getattr(operator, _name)))
for _name in ("neg", "pos", "abs"):
    setattr(Number, f"__{_name}__", unary(getattr(operator, _name)))
numbers.Real.register(Number)
SCALAR_RANK[Number] = SCALAR_RANK[float]
SCALAR_RANK[Whole] = SCALAR_RANK[int]
