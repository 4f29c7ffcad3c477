"""Units: steps that are done together, and how large their kernels are."""

import math
from typing import Any, NamedTuple

from .._trace.recording import Step, Traced
from ..kernels.language import TYPES, Type, Value, element, walk
from ..kernels.ops import OPS, Unsupported
from .describing import described
from .draft import traced

MOST_VALUES = 500  # of a kernel: LLVM's time grows faster than they do
MOST_ARRAYS = 24
REDUCTIONS = ("sum", "max", "min")


class Member(NamedTuple):
    """What a step is in a group: how many values its kernel has more, whether the result is one for
    each row, and the axes that rows have since then."""

    size: int
    is_row: bool = False
    axes: tuple[int, ...] | None = None


class Unit:
    """Steps that are done together. `shape`: of the space that a group walks over, else None."""

    def __init__(self, number: int, shape: tuple[int, ...] | None) -> None:
        self.number = number
        self.bit = 1 << number if number >= 0 else 0
        self.shape = shape
        self.axes: tuple[int, ...] | None = None  # along which rows run
        self.steps: list[Step] = []
        self.values: dict[Traced, None] = {}
        self.inputs: dict[Traced, None] = {}
        self.size = 0  # values of the kernel
        self.rows: set[Traced] = set()  # values that are one for each row
        self.run = 0.0  # of a checkpoint's function, that the first step was in
        self.before = 0  # the units that it depends on, as bits
        self.joined: Unit | None = None  # the unit that has all of its steps now

    @property
    def is_group(self) -> bool:
        return self.shape is not None

    def add(self, step: Step, member: Member) -> None:
        self.run = self.run if self.steps else step.run
        self.steps.append(step)
        self.values |= dict.fromkeys(step.results)
        self.inputs |= dict.fromkeys(x for x in traced(step.inputs) if x not in self.values)
        self.size += member.size
        self.axes = member.axes or self.axes
        if member.is_row:
            self.rows.update(step.results)

    @property
    def small(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of what there is once for each row: with ones where rows run, and without."""
        assert self.shape is not None and self.axes is not None
        kept = [(k, 1 if k in self.axes else n) for k, n in enumerate(self.shape)]
        return tuple(n for _, n in kept), tuple(n for k, n in kept if k not in self.axes)

    def take(self, other: "Unit") -> None:
        """Have all steps of another group."""
        self.become(self.steps + other.steps)
        self.size += other.size
        self.axes = self.axes or other.axes
        self.rows |= other.rows
        other.joined = self

    def become(self, steps: list[Step]) -> None:
        self.steps = sorted(steps, key=when)
        self.values = {x: None for step in steps for x in step.results}
        inputs = (x for step in self.steps for x in traced(step.inputs))
        self.inputs = {x: None for x in inputs if x not in self.values}

    def __repr__(self) -> str:
        head = f"rows of {self.shape} along {self.axes}" if self.axes else f"{self.shape}"
        lines = [f"group over {head}:"] if self.is_group else []
        return "\n".join([*lines, *(f"  {step}" for step in self.steps)])


def alone(step: Step) -> Unit:
    """An elementwise step as a group of its own."""
    unit = Unit(-1, step.results[0].shape)
    unit.add(step, Member(0))
    return unit


def present(unit: Unit) -> Unit:
    """The unit that has a unit's steps now."""
    while unit.joined is not None:
        unit = unit.joined
    return unit


def when(step: Step) -> int:
    """The place of a step in the recording."""
    return int(step.results[0].name)


def is_reduction(step: Step) -> bool:
    x = step.inputs[0] if step.inputs else None
    return (
        step.name in REDUCTIONS
        and type(x) is Traced
        and x.dtype in TYPES
        and x.dtype.kind == "f"
        and math.prod(x.shape) > 0
    )


def axes_of(step: Step) -> tuple[int, ...]:
    axis, rank = step.attrs["axis"], len(step.inputs[0].shape)
    axes = range(rank) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return tuple(sorted(k % rank for k in axes))


weights: dict[Any, int | None] = {}


def weight(step: Step) -> int | None:
    """Values of a kernel that computes a step; None where there is none."""
    op = step.op
    if op.kind != "elementwise" or step.name not in OPS or not op.single_result:
        return None
    if step.results[0].device != "cpu" or not traced(step.inputs):
        return None
    types = tuple(None if x is None else TYPES.get(x.dtype) for x in step.inputs)
    if any(x is not None and t is None for x, t in zip(step.inputs, types, strict=True)):
        return None
    key = op.name, types, step.results[0].dtype
    if key not in weights:
        inputs = [None if t is None else element(k, t) for k, t in enumerate(types)]
        weights[key] = values_of(step, inputs)
    return weights[key]


def values_of(step: Step, inputs: list[Value | None]) -> int | None:
    attrs = {k: v for k, v in step.attrs.items() if k != "device"}
    try:
        out = described(step, inputs, attrs)
    except (Unsupported, TypeError):
        return None
    types: list[Type] = [out.type]
    return len(walk([out])) if types[0].dtype == step.results[0].dtype else None
