"""Sinking: values that a later group alone needs are computed there, where fewer bytes wait for it.

Backward passes need factors such as 1 - h * h, which join the group of h, as they walk over the
same space. Where h waits in memory anyway, they are better computed from it later.
"""

import math
from collections.abc import Container, Iterator

from .._trace.recording import Traced
from .draft import Draft, nbytes, traced
from .units import MOST_ARRAYS, MOST_VALUES, Unit, weight, when

MOST_STEPS = 24  # that are looked at for one value


class Sinking:
    """Who makes values, and who reads them, as steps move between units."""

    def __init__(self, units: list[Unit], draft: Draft) -> None:
        self.place = {unit: k for k, unit in enumerate(units)}
        self.unit_of = {x: unit for unit in units for x in unit.values}
        self.wanted = set(traced(draft.wanted))
        self.made_by = {x: step for step in draft.steps for x in step.results}
        self.readers: dict[Traced, set[Traced]] = {}  # results of the steps that read a value
        for step in draft.steps:
            for x in traced(step.inputs):
                self.readers.setdefault(x, set()).add(step.results[0])

    def sink_into(self, unit: Unit) -> None:
        """Let a group compute what it alone needs."""
        waiting = [*unit.inputs]
        while waiting:
            moved = self.best(unit, waiting.pop())
            self.move(moved, unit)
            waiting += [x for y in moved for x in self.inputs(y)]

    def best(self, unit: Unit, x: Traced) -> set[Traced]:
        """The values that a group should compute in order to have x: those that save most."""
        best: set[Traced] = set()
        most, found = 0, set()
        for y in self.behind(unit, x):
            found.add(y)
            saved = self.saved(found, unit)
            if saved > most and self.fits(found, unit):
                best, most = found.copy(), saved
        return best

    def behind(self, unit: Unit, x: Traced) -> Iterator[Traced]:
        """Values that x depends on in its group, with x, and that nobody else needs."""
        source = self.unit_of.get(x)
        if source is None or source is unit or source.shape != unit.shape:
            return
        found: set[Traced] = set()
        waiting = {x}
        while waiting and len(found) < MOST_STEPS:
            y = max(waiting, key=lambda y: when(self.made_by[y]))
            waiting.discard(y)
            inputs = self.inputs(y)
            if self.is_needed_by(unit, y, found) and source.rows.isdisjoint(inputs):
                yield y
                found.add(y)
                waiting |= inputs & source.values.keys()

    def is_needed_by(self, unit: Unit, x: Traced, found: set[Traced]) -> bool:
        """Whether nothing needs an element of x but a group, and values that are found."""
        if x in self.wanted or x.shape != unit.shape or weight(self.made_by[x]) is None:
            return False
        return all(self.unit_of[reader] is unit for reader in self.readers[x] - found)

    def inputs(self, x: Traced) -> set[Traced]:
        return set(traced(self.made_by[x].inputs))

    def saved(self, values: set[Traced], unit: Unit) -> float:
        """What a group saves if it computes these values: bytes, times units that they wait."""
        here, before = self.place[unit], unit.inputs.keys()
        needed = set().union(*map(self.inputs, values)) - values - before
        added = sum(nbytes(x) * max(0, here - self.last_use(x, values)) for x in needed)
        return (
            sum(nbytes(x) * (here - self.place[self.unit_of[x]]) for x in values & before) - added
        )

    def last_use(self, x: Traced, values: set[Traced]) -> float:
        """The last unit that needs x, or a view of it, for something else than these values."""
        if x not in self.made_by or x in self.wanted:
            return math.inf
        last = self.place[self.unit_of[x]]
        for reader in self.readers.get(x, set()) - values:
            last = max(last, self.place[self.unit_of[reader]])
            if self.made_by[reader].op.kind == "movement":
                last = max(last, self.last_use(reader, values))
        return last

    def fits(self, values: set[Traced], unit: Unit) -> bool:
        size = unit.size + sum(weight(self.made_by[x]) or 0 for x in values)
        together = values | unit.values.keys()
        inputs = set().union(*map(self.inputs, together)) - together
        outputs = {x for x in together if x in self.wanted or self.readers[x] - together}
        return size <= MOST_VALUES and len(inputs) + len(outputs) <= MOST_ARRAYS

    def move(self, values: set[Traced], unit: Unit) -> None:
        if values:
            source = self.unit_of[min(values, key=lambda x: when(self.made_by[x]))]
            steps = [self.made_by[x] for x in values]
            size = sum(weight(step) or 0 for step in steps)
            source.become([step for step in source.steps if step.results[0] not in values])
            unit.become(unit.steps + steps)
            source.size, unit.size = source.size - size, unit.size + size
            self.unit_of |= dict.fromkeys(values, unit)


def sink(units: list[Unit], draft: Draft, apart: Container[Traced] = frozenset()) -> list[Unit]:
    """The same steps, some of them in later groups, but not in what begins with one of `apart`."""
    sinking = Sinking(units, draft)
    for unit in reversed(units):
        if unit.is_group and unit.steps and unit.steps[0].results[0] not in apart:
            sinking.sink_into(unit)
    return [unit for unit in units if unit.steps]
