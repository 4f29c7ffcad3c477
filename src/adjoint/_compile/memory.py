"""Memory: one arena for all that is only needed during a run."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .._trace.recording import Step, Traced
from .layouts import Buffer, room, up_to
from .lowering import Launched, Lowerer
from .schedule import peak


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
    """Give all scratch memory an offset in the arena; returns the bytes of that: the least of some
    orders in which buffers look for a place."""
    own = [b for b in buffers if b.kind == "scratch" and b.first >= 0]
    roots = [b for b in own if b.shared is None]
    orders = [sorted(roots, key=key) for key in ORDERS]
    least = min(orders, key=place_in_order)
    size = place_in_order(least)
    for buffer in own:
        buffer.offset = root(buffer).offset
    return size


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


def eager_peak(steps: Sequence[Step], kept: Iterable[Traced], items: Iterable[Any]) -> int:
    """Bytes that eager code needs at most for recorded steps, with the scratch memory of ops that
    items have too."""
    scratch = {item.steps[-1].results[0]: item.scratch for item in items if item.steps}
    return peak([[step] for step in steps], kept, scratch)
