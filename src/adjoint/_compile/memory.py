"""Memory: one arena for all that is only needed during a run."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .._trace.recording import Step
from .layouts import Buffer, room, up_to
from .lowering import Launched, Lowerer
from .schedule import Lives


def note_uses(to: Lowerer) -> None:
    """Note from which item to which each buffer is needed."""
    for number, item in enumerate(to.items):
        for buffer in item.buffers:
            if buffer.first < 0:
                buffer.first = number
            buffer.last = number


def take_over(to: Lowerer) -> None:
    """Let results be written over operands that nobody needs any more."""
    taken: set[Buffer] = set()
    for number, item in enumerate(to.items):
        if not isinstance(item, Launched):
            continue
        launch, *others = item.launches
        own, given = item.own, len(item.places) - len(item.own) - len(launch.scratch)
        for result, operand in () if others else launch.overwrites:
            new, (old, offset) = own[result], item.places[operand]
            free = old.kind == new.kind == "scratch" and not offset and old not in taken
            free = free and item.buffers[:given].count(old) == 1 and old.last == number
            fresh = new.first == number and new.shared is None and root(new) is not root(old)
            if free and fresh and old.nbytes == new.nbytes:
                new.shared = old
                taken.add(old)
                root(old).last = max(root(old).last, new.last)


def root(buffer: Buffer) -> Buffer:
    while buffer.shared is not None:
        buffer = buffer.shared
    return buffer


def place_scratch(buffers: Iterable[Buffer]) -> int:
    """Give all scratch memory an offset in the arena; returns the bytes of that. Of some orders in
    which buffers look for a place the best is mended: those that end too high look first."""
    own = [b for b in buffers if b.kind == "scratch" and b.first >= 0]
    roots = [b for b in own if b.shared is None]
    least = most_at_once(roots)
    orders = [sorted(roots, key=key) for key in ORDERS]
    best = order = min(orders, key=place_in_order)
    size = place_in_order(best)
    for _ in range(MENDINGS if size > least else 0):
        place_in_order(order)
        order = sorted(order, key=lambda b: b.offset + room(b.nbytes) <= least)
        if (found := place_in_order(order)) < size:
            best, size = order, found
            if size <= least:
                break
    place_in_order(best)
    for buffer in own:
        buffer.offset = root(buffer).offset
    return size


def most_at_once(buffers: Iterable[Buffer]) -> int:
    """The bytes of those that are needed at one time, each with what is lost behind it."""
    changes: dict[int, int] = {}
    for b in buffers:
        changes[b.first] = changes.get(b.first, 0) + room(b.nbytes)
        changes[b.last + 1] = changes.get(b.last + 1, 0) - room(b.nbytes)
    return max(itertools.accumulate(changes[k] for k in sorted(changes)), default=0)


MENDINGS = 16
ORDERS: list[Callable[[Buffer], Any]] = [
    lambda b: -b.nbytes,
    lambda b: (b.first - b.last) * b.nbytes,
    lambda b: (b.first - b.last, -b.nbytes),
]


def place_in_order(buffers: list[Buffer]) -> int:
    """Put each buffer at the lowest place that is free all the time; the bytes of all."""
    placed: list[Buffer] = []
    for buffer in buffers:
        start = 0
        beside = [b for b in placed if b.first <= buffer.last and buffer.first <= b.last]
        for other in sorted(beside, key=lambda b: b.offset):
            if other.offset - start >= buffer.nbytes:
                break
            start = max(start, up_to(buffer.alignment, other.offset + other.nbytes))
        buffer.offset = start
        placed.append(buffer)
    return max((b.offset + room(b.nbytes) for b in placed), default=0)


def eager_peak(steps: Sequence[Step], lives: Lives, items: Iterable[Any] = ()) -> int:
    """Bytes that eager code needs at most for recorded steps, with the scratch memory of ops that
    items have too."""
    scratch = {item.steps[-1].results[0]: item.scratch for item in items if item.steps}
    sizes = zip(steps, lives.sizes([[step] for step in steps]), strict=True)
    return max((size + scratch.get(step.results[-1], 0) for step, size in sizes), default=0)
