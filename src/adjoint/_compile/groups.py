"""Groups: steps that share an iteration space become one kernel.

A group walks over one shape. Its members are elementwise steps of that shape; reductions of its
values along one choice of axes, after which it goes row by row; and what is done to the results of
those, once for each row or again for each element. It may have several outputs. Other steps stand
alone, but for a product and its addition to another one.

No unit may depend on itself: a step joins a group only if nothing that it needs depends on the
group in another way. What a checkpoint computes again doesn't join what was there before.
"""

import math
from collections import Counter
from collections.abc import Container, Iterable, Iterator

from .._trace.recording import Step, Traced
from ..backends.cpu.lowering.expressions import CHUNK
from .draft import Draft, nbytes, traced
from .schedule import Lives, scheduled
from .sinking import sink
from .units import (
    MOST_ARRAYS,
    MOST_VALUES,
    Member,
    Unit,
    alone,
    axes_of,
    is_reduction,
    present,
    weight,
)

ROUNDS = 4  # of smaller groups, after which there are none
SERIAL = 1 << 15  # elements, below which one thread does it anyway


class Grouping:
    """Units of a draft's steps, as they are found."""

    def __init__(self, draft: Draft, frugal: bool, apart: Container[Traced]) -> None:
        self.frugal = frugal
        self.apart = apart
        self.units: list[Unit] = []
        self.unit_of: dict[Traced, Unit] = {}
        self.latest: Unit | None = None  # of an op that isn't ours
        self.readers: dict[Traced, list[Unit]] = {}  # groups that read a value from outside
        self.wanted = set(traced(draft.wanted))
        self.uses = Counter(x for step in draft.steps for x in traced(step.inputs))

    def add(self, step: Step) -> None:
        unit, member = self.place_for(step)
        unit.add(step, member)
        for x in traced(step.inputs):
            if x not in unit.values:
                self.readers.setdefault(x, []).append(unit)
        self.unit_of |= dict.fromkeys(step.results, unit)
        self.depend(unit, self.behind(step, unit) | self.kept_before(step, unit))
        for other in self.candidates(step) if step.results[0] not in self.apart else ():
            if unit.is_group and other is not unit and self.can_join(unit, other):
                self.join(unit, other)

    def place_for(self, step: Step) -> tuple[Unit, Member]:
        """The unit that a step joins, or a new one, and what it is there."""
        product = self.added_product(step)
        if product is not None:
            return product, Member(0)
        for unit in self.candidates(step) if step.results[0] not in self.apart else ():
            member = self.fits(unit, step)
            if member is not None:
                return unit, member
        return self.begun(step)

    def added_product(self, step: Step) -> Unit | None:
        """The unit of the later one of two products, if a step adds them up and nobody else needs
        them: it can be added to the earlier one where that is. In a group of sums all of its
        products would wait for the last one."""
        if step.name != "add" or len(set(traced(step.inputs))) < 2:
            return None
        units = [self.unit_of.get(x) for x in step.inputs]
        if any(u is None or u.is_group or u.steps[0].name != "matmul" for u in units):
            return None
        for x in step.inputs:
            alike = x.shape == step.results[0].shape and x.dtype == step.results[0].dtype
            if not alike or self.uses[x] > 1 or x in self.wanted:
                return None
        later = max((u for u in units if u is not None), key=lambda u: u.number)
        return later if len(later.steps) == 1 else None

    def begun(self, step: Step) -> tuple[Unit, Member]:
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
                joins = unit.is_group and unit.steps[0].results[0] not in self.apart
                if joins and (unit is own or unit.shape == x.shape):
                    found[unit.number] = unit
        return [found[k] for k in sorted(found, reverse=True)]

    def behind(self, step: Step, unit: Unit) -> int:
        """The units that a step depends on, apart from the one that it is in."""
        out = 0
        for x in traced(step.inputs):
            if x not in unit.values and (own := self.unit_of.get(x)) is not None:
                out |= own.before | own.bit
        return out

    def kept_before(self, step: Step, unit: Unit) -> int:
        """The units that come before an op of a user's own, or an exchange with other processes:
        those ops may do more than give results, so they keep their order."""
        if not step.op.is_self_made:
            return 0
        former, self.latest = self.latest, unit
        return 0 if former is None else former.before | former.bit

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
        if unit.run != other.run or unit.size + other.size > MOST_VALUES:
            return False
        if self.holds_up(unit, other.before, other.inputs) or self.holds_up(
            other, unit.before, unit.inputs
        ):
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

    def fits(self, unit: Unit, step: Step) -> Member | None:
        """What a step would be in a group; None if it can't join."""
        behind, inputs = self.behind(step, unit), traced(step.inputs)
        if step.run not in (0, unit.run) or behind & unit.bit:
            return None
        if self.holds_up(unit, behind, inputs):
            return None
        member = joined(unit, step)
        if member is None or unit.size + member.size > MOST_VALUES:
            return None
        found = len(unit.inputs) + len(inputs) + len(unit.values) + 1
        if found > MOST_ARRAYS and self.arrays(unit, alone(step)) > MOST_ARRAYS:
            return None
        return member

    def holds_up(self, unit: Unit, before: int, inputs: Iterable[Traced]) -> bool:
        """Whether a frugal group shouldn't wait for the units of `before`: what it alone reads, and
        what would wait with it, is more than those of its values that `inputs` has."""
        if not self.frugal or not before & ~unit.before & ~unit.bit:
            return False
        reads = Counter(x for step in unit.steps for x in traced(step.inputs))
        alone = (x for x in unit.inputs if x in self.unit_of and reads[x] == self.uses[x])
        return sum(map(nbytes, alone)) > sum(nbytes(x) for x in inputs if x in unit.values)

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
            or x in self.wanted
            or any(present(one) not in (unit, other) for one in self.readers.get(x, ()))
        ]
        return len(inputs) + len(outputs)


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
    if step.name in ("spread", "broadcast_to", "reshape") and step.inputs[0] in unit.rows:
        if result.shape == unit.shape and step.name != "reshape":
            # One for each row, seen from each element; along other axes there may be as many.
            return Member(0) if before_filling(step) == unit.small[0] else None
        if result.shape in unit.small:
            return Member(0, True)
    return None


def before_filling(step: Step) -> tuple[int, ...]:
    """The shape of what is spread or broadcast, with ones for the axes along which it is equal."""
    x, shape = step.inputs[0], step.results[0].shape
    if step.name == "spread":
        return tuple(1 if k in step.attrs["axis"] else n for k, n in enumerate(shape))
    return (1,) * (len(shape) - len(x.shape)) + x.shape


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


def is_shared(shape: tuple[int, ...], axes: tuple[int, ...]) -> bool:
    """Whether there are rows enough for all threads; a long one is better reduced in parts."""
    size = math.prod(shape)
    length = math.prod(shape[k] for k in axes)
    return bool(axes) and (size < SERIAL or (length < CHUNK and size // length >= 64))


def group(draft: Draft, lives: Lives, limit: int) -> Iterator[list[Unit]]:
    """Units in an order in which they can be done; others that need less memory, as long as these
    are asked for. Where values that wait for them need more than `limit` bytes, groups are smaller:
    first frugal, then without the steps of those that have to do with what is there when most is.
    """
    found = grouped(draft, lives, frugal=False)
    if lives.peak(parts(found)) > limit:
        found = min(found, grouped(draft, lives, frugal=True), key=lambda x: lives.peak(parts(x)))
    yield found
    apart: set[Traced] = set()
    for _ in range(ROUNDS):
        apart |= {step.results[0] for unit in at_peak(found, lives) for step in unit.steps}
        found = grouped(draft, lives, frugal=True, apart=apart)
        if lives.peak(parts(found)) <= limit:
            yield found
    yield grouped(draft, lives, frugal=True, apart={step.results[0] for step in draft.steps})


def parts(units: list[Unit]) -> list[list[Step]]:
    return [unit.steps for unit in units]


def at_peak(units: list[Unit], lives: Lives) -> set[Unit]:
    """Units that make or read what is there when most is."""
    sizes = lives.sizes(parts(units))
    k = sizes.index(max(sizes))
    there = {x for x, (first, last) in lives.spans(parts(units)).items() if first <= k <= last}
    return {u for u in units if not there.isdisjoint(u.inputs) or not there.isdisjoint(u.values)}


def grouped(
    draft: Draft, lives: Lives, frugal: bool, apart: Container[Traced] = frozenset()
) -> list[Unit]:
    """`apart`: the first results of steps that are in no group."""
    found = Grouping(draft, frugal, apart)
    for step in draft.steps:
        found.add(step)
    units = [unit for unit in found.units if unit.joined is None]
    return sink(scheduled(units, lives), draft, apart)
