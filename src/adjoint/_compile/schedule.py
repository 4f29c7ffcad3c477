"""Schedule: the order of units, which decides how much memory a program needs."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from .._trace.recording import Step, Traced
from .draft import Draft, nbytes, traced
from .layouts import MOVES, room
from .units import Unit, when


def scheduled(units: list[Unit], draft: Draft) -> list[Unit]:
    """Units after those that they depend on: as late as others need them, or as their first steps
    were recorded, whichever needs less memory."""
    kept = traced(draft.wanted)
    keys: list[Callable[[Unit], int]] = [lambda u: when(u.steps[-1]), lambda u: when(u.steps[0])]
    orders = [after_needs(sorted(units, key=key)) for key in keys]
    return min(orders, key=lambda order: peak([unit.steps for unit in order], kept))


def after_needs(units: list[Unit]) -> list[Unit]:
    """Units in this order, but that those which one needs come before it."""
    made_by = {x: unit for unit in units for x in unit.values}
    out: dict[Unit, None] = {}
    for unit in units:
        stack = [unit]
        while stack:
            needs = (made_by.get(x) for x in stack[-1].inputs)
            waiting = [one for one in needs if one is not None and one not in out]
            if waiting:
                stack += reversed(waiting)
            else:
                out[stack.pop()] = None
    return list(out)


def peak(
    parts: Sequence[Sequence[Step]], kept: Iterable[Traced], scratch: Mapping[Traced, int] = {}
) -> int:
    """Bytes of memory that steps need at most, if those of a part are done together and values
    freed after their last use; what is kept at the end is left out. `scratch`: what those parts
    need for themselves whose last results these are."""
    base: dict[Traced, Traced] = {}  # of views
    last: dict[Traced, int] = {}
    for k, part in enumerate(parts):
        own = {x for step in part for x in step.results}
        inputs = [x for step in part for x in traced(step.inputs) if x not in own]
        if len(part) == 1 and part[0].name in MOVES and inputs:
            base[part[0].results[0]] = base.get(inputs[0], inputs[0])
        last |= dict.fromkeys((base.get(x, x) for x in inputs), k)
    outlive = {base.get(x, x) for x in kept}
    live = most = 0
    freed: dict[int, int] = {}
    for k, part in enumerate(parts):
        for x in (x for step in part for x in step.results):
            until = last.get(x, -1 if len(part) > 1 else k)
            if x not in base and x not in outlive and until >= 0:
                live += room(nbytes(x))
                freed[until] = freed.get(until, 0) + room(nbytes(x))
        most = max(most, live + scratch.get(part[-1].results[0], 0))
        live -= freed.get(k, 0)
    return most
