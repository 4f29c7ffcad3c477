"""Groups in the kernel language."""

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from .._trace.recording import Traced
from ..backends.cpu.lowering.expressions import Expression
from ..backends.cpu.lowering.targets import host_features
from ..kernels.language import Kernel, Value
from .describing import Numbers, described, filled, number_type, reduced, source
from .draft import Fill
from .units import REDUCTIONS, Unit

CHAIN = 24  # values of a kernel that is more than a few operations
NEAREST, NEAR = 1 << 8, 1 << 15  # elements of arrays that stay in the nearest caches


class GroupKernel(NamedTuple):
    expression: Expression
    sources: list[tuple[Any, bool]]  # values that it reads, and whether once for each row
    numbers: list[Any]


def described_group(unit: Unit, outputs: list[Traced]) -> GroupKernel:
    """The kernel of a group that gives `outputs`."""
    numbers = Numbers()
    sources: dict[tuple[Any, bool], Value] = {}
    values: dict[Traced, Value] = {}

    def read(x: Any, is_row: bool) -> Value | None:
        if x is None:
            return None
        if type(x) is Fill:
            return filled(x, numbers)
        if x in values:
            return values[x]
        is_row = is_row and unit.axes is not None
        if (x, is_row) not in sources:
            sources[x, is_row] = source(len(sources), x.dtype, is_row)
        return sources[x, is_row]

    for step in unit.steps:
        out = step.results[0]
        inputs: list[Any] = [
            read(x, out in unit.rows and step.name not in REDUCTIONS) for x in step.inputs
        ]
        if step.name in REDUCTIONS:
            values[out] = reduced(step, inputs[0])
        elif step.op.kind == "movement":
            values[out] = inputs[0]
        else:
            attrs = {key: number_of(value, numbers, inputs) for key, value in step.attrs.items()}
            values[out] = described(step, inputs, attrs)
    expression = expression_of(tuple(values[x] for x in outputs), vectors(unit))
    order = sorted(sources.items(), key=lambda item: item[1].detail)
    return GroupKernel(expression, [key for key, _ in order], numbers.given)


def number_of(value: Any, numbers: Numbers, inputs: list[Any]) -> Any:
    if value is None or isinstance(value, np.dtype):
        return value
    return numbers.value(value, number_type(inputs))


def vectors(unit: Unit) -> int:
    """How many vectors of registers should go side by side. Where memory isn't what is waited for,
    long chains of operations take two thirds of the time with two of them, a little less with four,
    for which arrays should be small (AVX-512; with 16 registers they would be spilled)."""
    size = math.prod(unit.shape or ())
    if unit.axes is not None or size > NEAR or "avx512f" not in host_features():
        return 1
    return 4 if size <= NEAREST else 2


@functools.lru_cache(4096)
def expression_of(outputs: tuple[Value, ...], vectors: int) -> Expression:
    expression = Expression(Kernel(outputs))
    if len(expression.kernel.values) >= CHAIN:
        expression.lanes *= vectors
    return expression
