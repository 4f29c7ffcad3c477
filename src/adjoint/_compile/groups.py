"""Groups: steps that share an iteration space become one kernel.

A group walks over one shape. Its members are elementwise steps of that shape; reductions of its
values along one choice of axes, after which it goes row by row; and what is done to the results of
those, once for each row or again for each element. It may have several outputs.

No unit may depend on itself: a step joins a group only if nothing that it needs depends on the
group in another way.
"""

import math
from typing import Any, NamedTuple

from .._trace.recording import Step, Traced
from ..backends.cpu.lowering.expressions import CHUNK
from ..kernels.language import TYPES, Type, Value, element, walk
from ..kernels.ops import OPS, Unsupported
from .describing import described
from .draft import Draft, traced

MOST_VALUES = 500  # of a kernel: LLVM's time grows faster than they do
MOST_ARRAYS = 24
REDUCTIONS = ("sum", "max", "min")
SERIAL = 1 << 15  # elements, below which one thread does it anyway


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
        self.before = 0  # the units that it depends on, as bits
        self.joined: Unit | None = None  # the unit that has all of its steps now

    @property
    def is_group(self) -> bool:
        return self.shape is not None

    def add(self, step: Step, member: "Member") -> None:
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
        self.steps = sorted(self.steps + other.steps, key=when)
        self.values |= other.values
        inputs = self.inputs | other.inputs
        self.inputs = {x: None for x in inputs if x not in self.values}
        self.size += other.size
        self.axes = self.axes or other.axes
        self.rows |= other.rows
        other.joined = self

    def __repr__(self) -> str:
        head = f"rows of {self.shape} along {self.axes}" if self.axes else f"{self.shape}"
        lines = [f"group over {head}:"] if self.is_group else []
        return "\n".join([*lines, *(f"  {step}" for step in self.steps)])


class Grouping:
    """Units of a draft's steps, as they are found."""

    def __init__(self, inner: set[Traced]) -> None:
        self.units: list[Unit] = []
        self.unit_of: dict[Traced, Unit] = {}
        self.readers: dict[Traced, list[Unit]] = {}  # groups that read a value from outside
        self.inner = inner  # values that members of one group alone may need

    def add(self, step: Step) -> None:
        for unit in self.candidates(step):
            member = self.fits(unit, step)
            if member is not None:
                break
        else:
            unit, member = self.begun(step)
        unit.add(step, member)
        for x in traced(step.inputs):
            if x not in unit.values:
                self.readers.setdefault(x, []).append(unit)
        self.unit_of |= dict.fromkeys(step.results, unit)
        self.depend(unit, self.behind(step, unit))
        for other in self.candidates(step):
            if unit.is_group and other is not unit and self.can_join(unit, other):
                self.join(unit, other)

    def begun(self, step: Step) -> tuple[Unit, "Member"]:
        """A unit of its own."""
        unit, member = Unit(len(self.units), None), Member(0)
        size = weight(step)
        if size is not None:
            unit.shape, member = step.results[0].shape, Member(size)
        elif is_reduction(step) and is_shared(step.inputs[0].shape, axes_of(step)):
            unit.shape, member = step.inputs[0].shape, Member(1, True, axes_of(step))
        self.units.append(unit)
        return unit, member

    def candidates(self, step: Step) -> list[Unit]:
        """Groups that have to do with a step's inputs, the latest first."""
        found = {}
        for x in traced(step.inputs):
            own = self.unit_of.get(x)
            for unit in (*([own] if own else []), *self.readers.get(x, ())[-2:]):
                unit = present(unit)
                # A number is nothing that groups have in common.
                if unit.is_group and (unit is own or unit.shape == x.shape):
                    found[unit.number] = unit
        return [found[k] for k in sorted(found, reverse=True)]

    def behind(self, step: Step, unit: Unit) -> int:
        """The units that a step depends on, apart from the one that it is in."""
        out = 0
        for x in traced(step.inputs):
            if x not in unit.values and (own := self.unit_of.get(x)) is not None:
                out |= own.before | own.bit
        return out

    def depend(self, unit: Unit, before: int) -> None:
        """Have a unit, and all that depend on it, depend on others."""
        if before & ~unit.before:
            unit.before |= before
            bit = unit.bit
            for other in self.units if len(unit.steps) > 1 else ():  # of a new one nothing does
                if other.before & bit:
                    other.before |= before

    def can_join(self, unit: Unit, other: Unit) -> bool:
        """Whether two groups can be one: they walk over the same space, and nothing between them
        depends on one and is needed by the other."""
        if unit.shape != other.shape or (unit.axes or other.axes) != (other.axes or unit.axes):
            return False
        if unit.size + other.size > MOST_VALUES:
            return False
        if self.arrays(unit, other) > MOST_ARRAYS:
            return False
        if other.rows and not all(reads_along(other, x) for x in unit.inputs):
            return False
        if unit.rows and not all(reads_along(unit, x) for x in other.inputs):
            return False
        for between in self.units:
            if between.joined is None and between is not unit and between is not other:
                after_one = between.before & (unit.bit | other.bit)
                if after_one and (unit.before | other.before) & between.bit:
                    return False
        return True

    def join(self, unit: Unit, other: Unit) -> None:
        unit.take(other)
        self.unit_of |= dict.fromkeys(other.values, unit)
        both = unit.bit | other.bit
        unit.before = (unit.before | other.before) & ~both
        for one in self.units:
            if one.joined is None and one.before & both:
                one.before = (one.before | unit.before | unit.bit) & ~other.bit

    def fits(self, unit: Unit, step: Step) -> "Member | None":
        """What a step would be in a group; None if it can't join."""
        if self.behind(step, unit) & unit.bit:
            return None
        member = joined(unit, step)
        if member is None or unit.size + member.size > MOST_VALUES:
            return None
        found = len(unit.inputs) + len(traced(step.inputs)) + len(unit.values) + 1
        if found > MOST_ARRAYS and self.arrays(unit, alone(step)) > MOST_ARRAYS:
            return None
        return member

    def arrays(self, unit: Unit, other: Unit) -> int:
        """How many arrays two groups would have together, as far as it is known: inputs, and values
        that are needed outside."""
        values = unit.values | other.values
        inputs = {x for x in (*unit.inputs, *other.inputs) if x not in values}
        used = {x for step in (*unit.steps, *other.steps) for x in traced(step.inputs)}
        outputs = [
            x
            for x in values
            if x not in used
            or x not in self.inner
            or any(present(one) not in (unit, other) for one in self.readers.get(x, ()))
        ]
        return len(inputs) + len(outputs)


def alone(step: Step) -> Unit:
    """A step that isn't in a unit yet, as one."""
    unit = Unit(-1, None)
    unit.add(step, Member(0))
    return unit


class Member(NamedTuple):
    """What a step is in a group: how many values its kernel has more, whether the result is one for
    each row, and the axes that rows have since then."""

    size: int
    is_row: bool = False
    axes: tuple[int, ...] | None = None


def joined(unit: Unit, step: Step) -> Member | None:
    """What a step would be in a group; None if it doesn't walk over the same space."""
    result = step.results[0]
    if is_reduction(step):
        return joined_reduction(unit, step)
    size = weight(step)
    if size is not None:
        if result.shape != unit.shape:
            return joined_row(unit, step, size)
        along = all(reads_along(unit, x) for x in traced(step.inputs))
        return Member(size) if along else None
    if step.op.name in ("spread", "broadcast_to", "reshape") and step.inputs[0] in unit.rows:
        if result.shape == unit.shape and step.op.name != "reshape":
            return Member(0)  # one for each row, seen from each element
        if result.shape in unit.small:
            return Member(0, True)
    return None


def joined_row(unit: Unit, step: Step, size: int) -> Member | None:
    """The same for a step on what there is once for each row."""
    inputs, shape = traced(step.inputs), step.results[0].shape
    if unit.axes is None or shape not in unit.small or unit.rows.isdisjoint(inputs):
        return None
    for x in inputs:
        if x.shape != shape or (x in unit.values and x not in unit.rows):
            return None
    return Member(size, True)


def joined_reduction(unit: Unit, step: Step) -> Member | None:
    x, axes = step.inputs[0], axes_of(step)
    if x.shape != unit.shape or x in unit.rows or unit.axes not in (None, axes):
        return None
    return Member(1, True, axes) if unit.axes or is_shared(x.shape, axes) else None


def reads_along(unit: Unit, x: Traced) -> bool:
    """Whether a member can read a value: of rows only as they lie below the elements."""
    return x not in unit.rows or x.shape == unit.small[0]


def is_reduction(step: Step) -> bool:
    x = step.inputs[0] if step.inputs else None
    return (
        step.op.name in REDUCTIONS
        and type(x) is Traced
        and x.dtype in TYPES
        and x.dtype.kind == "f"
        and math.prod(x.shape) > 0
    )


def axes_of(step: Step) -> tuple[int, ...]:
    axis, rank = step.attrs["axis"], len(step.inputs[0].shape)
    axes = range(rank) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return tuple(sorted(k % rank for k in axes))


def is_shared(shape: tuple[int, ...], axes: tuple[int, ...]) -> bool:
    """Whether there are rows enough for all threads; a long one is better reduced in parts."""
    size = math.prod(shape)
    length = math.prod(shape[k] for k in axes)
    return bool(axes) and (size < SERIAL or (length < CHUNK and size // length >= 64))


weights: dict[Any, int | None] = {}


def weight(step: Step) -> int | None:
    """Values of a kernel that computes a step; None where there is none."""
    op = step.op
    if op.kind != "elementwise" or op.name not in OPS or not op.single_result:
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


def group(draft: Draft) -> list[Unit]:
    """Units in an order in which they can be done."""
    found = Grouping({x for step in draft.steps for x in step.results} - set(traced(draft.wanted)))
    for step in draft.steps:
        found.add(step)
    return ordered([unit for unit in found.units if unit.joined is None])


def present(unit: Unit) -> Unit:
    """The unit that has a unit's steps now."""
    while unit.joined is not None:
        unit = unit.joined
    return unit


def when(step: Step) -> int:
    """The place of a step in the recording."""
    return int(step.results[0].name)


def ordered(units: list[Unit]) -> list[Unit]:
    """Units after those that they depend on, otherwise as their first steps were recorded."""
    done, out, waiting = 0, [], list(units)
    while waiting:
        rest = []
        for unit in waiting:
            if unit.before & ~done:
                rest.append(unit)
            else:
                done |= unit.bit
                out.append(unit)
        assert len(rest) < len(waiting)
        waiting = rest
    return out
