"""Building a program: all passes, one after the other."""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._trace.recording import Traced
from .draft import Draft, Fill, nbytes, traced
from .groups import Unit, group
from .layouts import Buffer, Place, whole
from .listing import Listing
from .lowering import HostStep, Launched, Lowerer, batched
from .memory import note_uses, place_scratch, take_over
from .program import Code, Update
from .simplify import simplify


class Object(NamedTuple):
    """A value that is read from a tensor at each run: where it lies, by the tensor's number."""

    value: Traced
    place: Place


class Built(NamedTuple):
    """A program, and what passes made on the way to it."""

    code: Code
    outputs: list[Place]  # of each wanted value, in order
    updated: dict[int, int]  # wanted values that are written over objects: their numbers
    draft: Draft
    units: list[Unit]
    items: list[Any]


def build(
    draft: Draft,
    objects: list[tuple[Traced, Any]],
    lent: dict[Traced, np.ndarray],
    count: int,
    numbers: list[Traced],
    overwritable: dict[int, int],
    log: Callable[[str, Any], None] = lambda *_: None,
) -> Built:
    """`objects`: values that tensors have, and their layouts; `lent`: arrays that stay where they
    are, and whose elements may change between runs; `count`: how many addresses
    come before the program's own. `overwritable`: for wanted values
    that become those of an object: its number. `log` is told what each pass made."""
    log("record", draft)
    draft = simplify(draft)
    log("simplify", draft)
    units = group(draft)
    log("groups", units)
    places = {
        value: Place(Buffer("object", nbytes(value), k), value.shape, layout.strides, value.dtype)
        for k, (value, layout) in enumerate(objects)
    }
    cells = Buffer("number", 8 * len(numbers))
    places |= {
        value: Place(cells, (), (), value.dtype, 8 * k) for k, value in enumerate(numbers)
    }
    final, updated = final_units(draft, units, places, overwritable)
    updates = {draft.wanted[w]: update_place(places, objects, k) for w, k in updated.items()}
    factors = Counter(step.inputs[1] for step in draft.steps if step.op.name == "matmul")
    to = Lowerer(places, updates, factors)
    for value, array in (draft.constants | lent).items():
        to.places[value] = to.constant(array)
    needed = outputs_of(draft, units)
    for unit in units:
        if unit not in final:
            to.add(unit, needed[unit])
    outputs = [
        None if w in updated else finish(to, x) for w, x in enumerate(draft.wanted)
    ]
    start = len(to.items)
    for unit in final:
        to.add(unit, needed[unit])
    to.items[start:] = batched(to.items[start:])
    note_uses(to, ())
    take_over(to)
    arena = place_scratch(to.buffers)
    outputs_places = [updates[x] if out is None else out for x, out in zip(draft.wanted, outputs, strict=True)]
    code = assembled(to, start, count, arena, outputs_places, numbers, updated, draft)
    return Built(code, outputs_places, updated, draft, units, to.items)


def update_place(places: dict, objects: list, k: int) -> Place:
    value = objects[k][0]
    return places[value]._replace(buffer=Buffer("update", nbytes(value), k))


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
        if times[x] == 1 and places[old].is_contiguous and (old.shape, old.dtype) == (x.shape, x.dtype):
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


def outputs_of(draft: Draft, units: list[Unit]) -> dict[Unit, list[Traced]]:
    """The values of each unit that others need, or that are wanted."""
    needed = set(traced(draft.wanted))
    for unit in units:
        needed.update(unit.inputs)
    return {unit: [x for x in unit.values if x in needed] for unit in units}


def finish(to: Lowerer, x: Any) -> Place:
    """Where a wanted value is at the end of a run, in memory of its own."""
    place = to.place(x)
    if place.is_whole and place.buffer.kind in ("result", "host"):
        return place
    if place.buffer.kind == "scratch" and is_dense(place):
        place.buffer.kind = "result"
        return place
    out = whole(to.scratch(nbytes(x)), x.shape, x.dtype)
    out.buffer.kind = "result"
    to.copy(place, out)
    return out


def is_dense(x: Place) -> bool:
    """Whether elements lie one after the other from the start of the buffer on, in some order."""
    order = sorted(range(len(x.shape)), key=lambda k: -x.strides[k])
    turned = x._replace(
        shape=tuple(x.shape[k] for k in order), strides=tuple(x.strides[k] for k in order)
    )
    return turned.is_whole


def assembled(
    to: Lowerer,
    start: int,
    objects: int,
    arena: int,
    outputs: list[Place],
    numbers: list[Traced],
    updated: dict[int, int],
    draft: Draft,
) -> Code:
    slots: dict[Buffer, int] = {}
    count = objects + 1

    def slot(buffer: Buffer) -> None:
        nonlocal count
        if buffer.kind == "object":
            slots[buffer] = buffer.number
        elif buffer.kind == "scratch":
            slots[buffer] = objects
        elif buffer not in slots:
            slots[buffer] = count
            count += 1

    for item in to.items:
        places = item.places if isinstance(item, Launched) else [
            (x.buffer, 0) for x in (*item.inputs, *item.outputs) if isinstance(x, Place)
        ]
        for buffer, _ in places:
            slot(buffer)
    results = {}
    for place in outputs:
        slot(place.buffer)
        if place.buffer.kind == "result":
            results.setdefault(place.buffer, place)
    segments: list[Any] = []
    run: list[Launched] = []
    for item in [*to.items[:start], None]:
        if isinstance(item, Launched):
            run.append(item)
            continue
        if run:
            segments.append(Listing(run, slots, count))
            run = []
        if isinstance(item, HostStep):
            segments.append(item)
    final = Listing(to.items[start:], slots, count) if to.items[start:] else None
    updates = [Update(k, outputs[w]) for w, k in updated.items()]
    cells = [x.dtype for x in numbers]
    return Code(segments, final, objects, slots, arena, cells, list(results.values()), updates, to.constants)


__all__ = ["Built", "Fill", "Object", "build", "np"]
