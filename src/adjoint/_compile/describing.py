"""Members of a group in the kernel language."""

from typing import Any

import numpy as np

from .._trace.recording import Step
from ..kernels.language import (
    BOOL,
    F16,
    F32,
    TYPES,
    Type,
    Value,
    constant,
    convert,
    element,
    reduce,
    row,
    scalar,
)
from ..kernels.ops import describe
from .draft import Fill

PLAIN = (0, 1, -1)  # numbers that are part of a kernel's text; others are its words


def described(step: Step, inputs: list[Value | None], attrs: dict[str, Any]) -> Value:
    """The value of a step; attributes are values or, for `dtype`, a dtype."""
    number = number_type(inputs)
    given = {
        key: v if v is None or isinstance(v, Value | np.dtype) else constant(v, number)
        for key, v in attrs.items()
    }
    return describe(step.name, inputs, **given)


def number_type(inputs: list[Value | None]) -> Type:
    """The type that an op's attributes act in."""
    first = next(x.type for x in inputs if x is not None)
    return F32 if first == F16 else first


class Numbers:
    """The numbers of a kernel: words, so that kernels which differ in them have one text."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, Type], int] = {}
        self.given: list[Any] = []

    def value(self, number: Any, type: Type) -> Value:
        if (
            type is BOOL
            or abs(number) >= 1 << 63
            or any(repr(number) == repr(kind(n)) for n in PLAIN for kind in (int, float))
        ):
            return constant(number, type)
        key = repr(number), type
        if key not in self.found:
            self.found[key] = len(self.given)
            self.given.append(number)
        return scalar(self.found[key], type)


def source(position: int, dtype: np.dtype, is_row: bool) -> Value:
    type = TYPES[dtype]
    return row(position, type) if is_row else element(position, type)


def reduced(step: Step, x: Value) -> Value:
    """A sum is rounded once, from a wider one if there is."""
    out = reduce(step.name, convert(x, F32) if x.type == F16 else x)
    return convert(out, x.type)


def filled(x: Fill, numbers: Numbers) -> Value:
    return numbers.value(x.value, TYPES[x.dtype])
