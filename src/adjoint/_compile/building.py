"""Building a program: all passes, one after the other."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from .._trace.recording import Traced
from ..backends.launches import Layout
from .draft import Draft, nbytes, traced
from .groups import group
from .layouts import Buffer, Place
from .lowering import Launched, Lowerer, batched
from .memory import eager_peak, note_uses, place_scratch, take_over
from .running import Code, Update, listing
from .schedule import Lives
from .simplify import simplify
from .units import Unit
from .updating import final_units


class Sources(NamedTuple):
    """Where values come from that no step makes.

    `objects`: values that tensors have, and their layouts. `count`: addresses that come before the
    program's own. `numbers`: settings. `lent`: arrays that others may write to between runs.
    """

    objects: list[tuple[Traced, Layout]]
    count: int
    numbers: list[Traced]
    lent: dict[Traced, np.ndarray]

    def places(self) -> dict[Traced, Place]:
        cells = Buffer("number", 8 * len(self.numbers))
        places = {x: Place(cells, (), (), x.dtype, 8 * k) for k, x in enumerate(self.numbers)}
        for k, (value, x) in enumerate(self.objects):
            buffer = Buffer("object", nbytes(value), k)
            places[value] = Place(buffer, x.shape, x.strides, x.dtype, 0, x.aligned)
        return places


class Built(NamedTuple):
    """A program, and what passes made on the way to it."""

    code: Code
    outputs: list[Place]  # of each wanted value, in order
    updated: dict[int, int]  # wanted values that are written over objects: their numbers
    draft: Draft
    units: list[Unit]
    items: list[Any]
    eager_peak: int = 0  # bytes that eager code needs at most


def build(
    draft: Draft,
    sources: Sources,
    overwritable: dict[int, int],
    log: Callable[[str, Any], None] = lambda *_: None,
) -> Built:
    """`overwritable`: of wanted values that objects are to have, the numbers of these. `log` is
    told what each pass made. Fewer values wait for each other where a program would need more
    memory than eager code."""
    log("record", draft)
    lives = Lives(draft, sources.places())
    least: Built | None = None
    for simple, units in plans(draft, sources, eager_peak(draft.steps, lives)):
        built = lowered(simple, units, sources, overwritable, log)
        peak = eager_peak(draft.steps, lives, built.items)
        if least is None or built.code.arena < least.code.arena:
            least = built._replace(eager_peak=peak)
        if built.code.arena <= peak:
            break
    assert least is not None
    log("simplify", least.draft)
    log("groups", least.units)
    return least


def plans(draft: Draft, sources: Sources, limit: int) -> Iterator[tuple[Draft, list[Unit]]]:
    """Simpler drafts and their units, the fastest first; later ones need less memory."""
    for joins_equal in (True, False):
        simple = simplify(draft, joins_equal)
        for units in group(simple, Lives(simple, sources.places()), limit):
            yield simple, units


def lowered(
    draft: Draft,
    units: list[Unit],
    sources: Sources,
    overwritable: dict[int, int],
    log: Callable[[str, Any], None],
) -> Built:
    places = sources.places()
    final, updated = final_units(draft, units, places, overwritable)
    updates = {draft.wanted[w]: over(places[sources.objects[k][0]], k) for w, k in updated.items()}
    factors = Counter(step.inputs[1] for step in draft.steps if step.name == "matmul")
    to = Lowerer(places, updates, factors)
    for value, array in (draft.constants | sources.lent).items():
        to.places[value] = to.constant(array)
    needed = outputs_of(draft, units)
    for number, unit in enumerate(unit for unit in units if unit not in final):
        log("lower", f"{number} of {len(units)}")
        to.add(unit, needed[unit])
    count = len(to.items)
    outputs = [updates[x] if w in updated else finish(to, x) for w, x in enumerate(draft.wanted)]
    copy_early(to, count)
    start = len(to.items)
    for unit in final:
        to.add(unit, needed[unit])
    to.items[start:] = batched(to.items[start:])
    note_uses(to)
    take_over(to)
    arena = place_scratch(to.buffers)
    results = {x.buffer: x for x in reversed(outputs) if x.buffer.kind == "result"}
    used = (x.buffer for x in outputs)
    slots = slots_of(chain(*(item.buffers for item in to.items), used), sources.count)
    count = 1 + max(slots.values(), default=sources.count)
    code = Code(
        segments(to.items[:start], slots, count),
        listing(to.items[start:], slots, count) if to.items[start:] else None,
        sources.count,
        slots,
        arena,
        [x.dtype for x in sources.numbers],
        list(results.values()),
        [Update(k, outputs[w]) for w, k in updated.items()],
        to.constants,
    )
    return Built(code, outputs, updated, draft, units, to.items)


def over(x: Place, number: int) -> Place:
    """Where an object's new value is written."""
    return x._replace(buffer=Buffer("update", x.buffer.nbytes, number))


def outputs_of(draft: Draft, units: list[Unit]) -> dict[Unit, list[Traced]]:
    """The values of each unit that others need, or that are wanted."""
    needed = set(traced(draft.wanted))
    for unit in units:
        needed.update(unit.inputs)
    return {unit: [x for x in unit.values if x in needed] for unit in units}


def finish(to: Lowerer, x: Any) -> Place:
    """Where a wanted value is at the end of a run, in memory of its own."""
    place = to.place(x)
    former = to.finished.get(place.buffer)
    if place.is_whole and (place.buffer.kind == "host" or (former and former.is_whole)):
        return place
    if place.buffer.kind == "scratch" and is_dense(place):
        place.buffer.kind = "result"
        to.finished[place.buffer] = place
        return place
    out = to.new(x)
    out.buffer.kind = "result"
    to.finished[out.buffer] = out
    to.copy(place, out)
    return out


def copy_early(to: Lowerer, count: int) -> None:
    """Make the copies behind the first items as soon as what they read is there, so that it needn't
    wait for the end."""
    items, copies = to.items[:count], to.items[count:]
    written: dict[Buffer, int] = {}
    for number, item in enumerate(items):
        written |= dict.fromkeys(item.own if isinstance(item, Launched) else item.buffers, number)
    behind: dict[int, list[Any]] = {}
    for copy in copies:
        behind.setdefault(written.get(copy.buffers[0], count - 1), []).append(copy)
    pairs = enumerate(items)
    to.items[:] = behind.get(-1, []) + [x for k, item in pairs for x in (item, *behind.get(k, ()))]


def is_dense(x: Place) -> bool:
    """Whether elements lie one after the other from the start of the buffer on, in some order."""
    order = sorted(range(len(x.shape)), key=lambda k: -x.strides[k])
    shape, strides = (tuple(one[k] for k in order) for one in (x.shape, x.strides))
    return x._replace(shape=shape, strides=strides).is_whole


def slots_of(buffers: Iterable[Buffer], objects: int) -> dict[Buffer, int]:
    """The place of each buffer's address: those of objects come first, then that of the arena."""
    slots: dict[Buffer, int] = {}
    following = itertools.count(objects + 1).__next__
    for buffer in dict.fromkeys(buffers):
        if buffer.kind in ("object", "scratch"):
            slots[buffer] = buffer.number if buffer.kind == "object" else objects
        else:
            slots[buffer] = following()
    return slots


def segments(items: list[Any], slots: dict[Buffer, int], count: int) -> list[Any]:
    """Launches that follow each other as listings, between host steps."""
    out: list[Any] = []
    run: list[Launched] = []
    for item in [*items, None]:
        if isinstance(item, Launched):
            run.append(item)
            continue
        if run:
            out.append(listing(run, slots, count))
            run = []
        if item is not None:
            out.append(item)
    return out
