"""Memory: one arena for all that is only needed during a run."""

from collections.abc import Iterable
from typing import Any

from .._trace.recording import Step, Traced
from ..backends.launches import ALIGNMENT
from .draft import nbytes, traced
from .layouts import MOVES, Buffer
from .lowering import Launched, Lowerer


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
    """Give all scratch memory an offset in the arena; returns the bytes of that.

    The largest come first, each at the lowest place that is free all the time.
    """
    own = [b for b in buffers if b.kind == "scratch" and b.first >= 0]
    placed: list[Buffer] = []
    for buffer in sorted((b for b in own if b.shared is None), key=lambda b: -b.nbytes):
        start = 0
        beside = [b for b in placed if b.first <= buffer.last and buffer.first <= b.last]
        for other in sorted(beside, key=lambda b: b.offset):
            if other.offset - start >= buffer.nbytes:
                break
            start = max(start, aligned(other.offset + other.nbytes))
        buffer.offset = start
        placed.append(buffer)
    for buffer in own:
        buffer.offset = root(buffer).offset
    return max((aligned(b.offset + b.nbytes) for b in placed), default=0)


def aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def eager_peak(steps: list[Step], kept: Iterable[Traced], items: Iterable[Any]) -> int:
    """Bytes that eager code needs at most for recorded steps beside what is kept at the end, if it
    frees each result after its last use; of `items` it needs the scratch memory of ops."""
    base: dict[Traced, Traced] = {}
    last: dict[Traced, int] = {}
    for k, step in enumerate(steps):
        inputs = traced(step.inputs)
        if step.op.name in MOVES and inputs:
            base[step.results[0]] = base.get(inputs[0], inputs[0])
        last |= dict.fromkeys((base.get(x, x) for x in (*inputs, *step.results)), k)
    outlive = {base.get(x, x) for x in kept}
    scratch = {item.steps[-1].results[0]: item.scratch for item in items if len(item.steps) == 1}
    live = peak = 0
    freed: dict[int, int] = {}
    for k, step in enumerate(steps):
        for x in step.results:
            if x not in base and x not in outlive:
                live += aligned(nbytes(x))
                freed[last[x]] = freed.get(last[x], 0) + aligned(nbytes(x))
        peak = max(peak, live + scratch.get(step.results[0], 0))
        live -= freed.get(k, 0)
    return peak
