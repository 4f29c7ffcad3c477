"""Schedule: the order of units, which decides how much memory a program needs."""

import itertools
from collections.abc import Callable, Mapping, Sequence

from .._trace.recording import Step, Traced
from .draft import Draft, nbytes, traced
from .layouts import MOVES, Buffer, Place, moved, room, whole
from .units import Unit, when


def scheduled(units: list[Unit], lives: "Lives") -> list[Unit]:
    """Units after those that they depend on: as late as others need them, or as their first steps
    were recorded, whichever needs less memory."""
    keys: list[Callable[[Unit], int]] = [lambda u: when(u.steps[-1]), lambda u: when(u.steps[0])]
    orders = [after_needs(sorted(units, key=key)) for key in keys]
    return min(orders, key=lambda order: lives.peak([unit.steps for unit in order]))


def after_needs(units: list[Unit]) -> list[Unit]:
    """Units in this order, but that those which one needs come before it, and ops that aren't ours
    in the order in which they were recorded."""
    made_by = {x: unit for unit in units for x in unit.values}
    foreign = [unit for unit in units if unit.steps[0].op.is_self_made]
    foreign.sort(key=lambda unit: when(unit.steps[0]))
    former = dict(zip(foreign[1:], foreign, strict=False))
    out: dict[Unit, None] = {}
    for unit in units:
        stack = [unit]
        while stack:
            needs = (former.get(stack[-1]), *(made_by.get(x) for x in stack[-1].inputs))
            waiting = [one for one in needs if one is not None and one not in out]
            if waiting:
                stack += reversed(waiting)
            else:
                out[stack.pop()] = None
    return list(out)


class Lives:
    """When values of a draft have memory of their own, in an order of parts: steps that are done
    together, after which what is read for the last time is freed. What outlives the run is left
    out. `places` are those of values that no step makes."""

    def __init__(self, draft: Draft, places: Mapping[Traced, Place] = {}) -> None:
        found = dict(places)
        self.views: set[Traced] = set()  # as steps of their own
        for step in draft.steps:
            seen = None
            if step.name in MOVES and traced(step.inputs):
                x = step.inputs[0]
                seen = moved(step, found.get(x) or unknown(x))
            if seen is not None:
                self.views.add(step.results[0])
                found[step.results[0]] = seen
        self.kept = traced(draft.wanted)

    def spans(self, parts: Sequence[Sequence[Step]]) -> dict[Traced, tuple[int, int]]:
        """The first and the last part that need the memory of a value."""
        base: dict[Traced, Traced] = {}
        first: dict[Traced, int] = {}
        last: dict[Traced, int] = {}
        for k, part in enumerate(parts):
            own = {x for step in part for x in step.results}
            inputs = [x for step in part for x in traced(step.inputs) if x not in own]
            if len(part) == 1 and part[0].results[0] in self.views:
                base[part[0].results[0]] = base.get(inputs[0], inputs[0])
                own = set()
            first |= dict.fromkeys(own, k)
            last |= dict.fromkeys((base.get(x, x) for x in inputs), k)
            last |= dict.fromkeys(own if len(part) == 1 else (), k)
        outlive = {base.get(x, x) for x in self.kept}
        return {x: (k, last[x]) for x, k in first.items() if x in last and x not in outlive}

    def sizes(self, parts: Sequence[Sequence[Step]]) -> list[int]:
        """The bytes that each part needs, and that wait for later ones meanwhile."""
        changes = [0] * (len(parts) + 1)
        for x, (first, last) in self.spans(parts).items():
            changes[first] += room(nbytes(x))
            changes[last + 1] -= room(nbytes(x))
        return list(itertools.accumulate(changes))[:-1]

    def peak(self, parts: Sequence[Sequence[Step]]) -> int:
        return max(self.sizes(parts), default=0)


def unknown(x: Traced) -> Place:
    return whole(Buffer("scratch", nbytes(x)), x.shape, x.dtype)
