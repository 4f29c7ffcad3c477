"""What may be written over: parameters and other tensors whose new values groups compute last."""

from collections import Counter

from .._trace.recording import Traced
from .draft import Draft, traced
from .layouts import Place
from .units import Unit


def final_units(
    draft: Draft, units: list[Unit], places: dict[Traced, Place], overwritable: dict[int, int]
) -> tuple[list[Unit], dict[int, int]]:
    """Groups that can write over what was there: at the end, as nothing else needs their outputs,
    nor what they write over. And which wanted values those are."""
    unit_of = {value: unit for unit in units for value in unit.values}
    old_of = {p.buffer.number: x for x, p in places.items() if p.buffer.kind == "object"}
    roots = roots_of(units, places)
    times = Counter(traced(draft.wanted))
    returned = {roots.get(x) for x in times}
    chosen: dict[int, Unit] = {}
    for w, k in overwritable.items():
        x, old = draft.wanted[w], old_of[k]
        unit = unit_of.get(x) if type(x) is Traced else None
        if unit is None or unit.shape != x.shape or unit.axes is not None or k in returned:
            continue
        if (
            times[x] == 1
            and places[old].is_contiguous
            and (old.shape, old.dtype) == (x.shape, x.dtype)
        ):
            chosen[w] = unit
    while True:  # a unit goes to the end with all of its outputs, and alone reads what it replaces
        last = set(chosen.values())
        outputs = {draft.wanted[w] for w in chosen}
        needed = {x for unit in units for x in unit.inputs if x not in unit.values} | set(times)
        bad = {unit for unit in last if any(x in needed and x not in outputs for x in unit.values)}
        bad |= {unit_of[x] for x in outputs if any(x in unit.inputs for unit in units)}
        for w, unit in chosen.items():
            old = old_of[overwritable[w]]
            for other in last:
                for x in other.inputs:
                    if roots.get(x) == overwritable[w] and (other is not unit or x is not old):
                        bad.add(unit)
        if not bad:
            return [u for u in units if u in last], {w: overwritable[w] for w in chosen}
        chosen = {w: unit for w, unit in chosen.items() if unit not in bad}


def roots_of(units: list[Unit], places: dict[Traced, Place]) -> dict[Traced, int]:
    """The objects in whose memory values may lie."""
    roots = {x: p.buffer.number for x, p in places.items() if p.buffer.kind == "object"}
    for unit in units:
        for step in unit.steps:
            if step.op.kind == "movement" and step.inputs[0] in roots:
                roots[step.results[0]] = roots[step.inputs[0]]
    return roots
