"""Spans of time, added up by what they belong to."""

from collections.abc import Iterable
from typing import NamedTuple

from .._foundation.spans import Span

COMPUTING = frozenset({"forward", "backward", "step", "compiled", "compile", "wait", "python"})
PLACES = frozenset({"region", "pass"})
# What ops are for that a backward pass calls by itself, not in a rule.
ENGINE = {"add": "accumulate", "sum": "unbroadcast"}

Key = tuple[str, str]


class Row(NamedTuple):
    """What was done under a name: how often, and for how long.

    `kind` says when: "forward", "backward", "recompute" (a checkpoint's function, run again),
    "step" (of an optimizer), "compiled" (in a function of `ad.compile`), "compile", "wait", or
    "python" (garbage collection); or it is a "region", a "pass", or the device on which a program
    ran. `bytes` were written: results that aren't views.
    """

    name: str
    kind: str
    calls: int
    seconds: float
    bytes: int


class Placed:
    """A span between others. `outer`: the innermost one around it that isn't a region; `key`: its
    row. `own`: its ns, without those of computing spans in it. `counts`: it is a call of its own,
    and not a part of what is around it."""

    __slots__ = ("counts", "key", "outer", "own", "span")

    def __init__(self, span: Span, around: list["Placed"]) -> None:
        self.span = span
        self.outer = next((x for x in reversed(around) if x.span.kind != "region"), None)
        self.key = self.row()
        self.counts = self.outer is None or self.key != self.outer.key or span.kind != "forward"
        self.own = 0
        if span.kind in COMPUTING:
            self.own = span.end - span.start
            owner = next((x for x in reversed(around) if x.span.kind in COMPUTING), None)
            if owner is not None:
                owner.own -= self.own

    def encloses(self, other: Span) -> bool:
        return self.span.thread == other.thread and other.start < self.span.end

    def row(self) -> Key:
        name, kind = self.span.name, self.span.kind
        if kind != "forward" or self.outer is None:
            return name, kind
        around = self.outer.span.kind
        if around == "recompute":
            return name, "recompute"
        return (ENGINE.get(name, name), "backward") if around == "pass" else self.outer.key


def placed(spans: list[Span]) -> list[Placed]:
    """The spans of each thread in the order in which they began, outer ones first."""
    numbered = sorted(enumerate(spans), key=lambda x: (x[1].thread, x[1].start, -x[1].end, -x[0]))
    out: list[Placed] = []
    around: list[Placed] = []
    for _, span in numbered:
        while around and not around[-1].encloses(span):
            around.pop()
        out.append(Placed(span, around))
        around.append(out[-1])
    return out


def rows(spans: Iterable[Placed]) -> list[Row]:
    """What ops, rules and the like took, without what others took in them."""
    totals: dict[Key, list[int]] = {}
    for x in spans:
        if x.span.kind in COMPUTING:
            total = totals.setdefault(x.key, [0, 0, 0])
            total[0] += x.counts
            total[1] += x.own
            total[2] += x.span.bytes if x.counts else 0
    return [Row(*key, calls, ns / 1e9, size) for key, (calls, ns, size) in totals.items()]


def regions(spans: Iterable[Placed]) -> list[Row]:
    """What regions and backward passes took in all; one in another of its name counts with it."""
    totals: dict[Key, list[int]] = {}
    ends: dict[tuple[int, Key], int] = {}
    for x in spans:
        span = x.span
        if span.kind in PLACES:
            total = totals.setdefault(x.key, [0, 0])
            total[0] += 1
            if ends.get((span.thread, x.key), 0) <= span.start:
                ends[span.thread, x.key] = span.end
                total[1] += span.end - span.start
    return [Row(*key, calls, ns / 1e9, 0) for key, (calls, ns) in totals.items()]


def busy(spans: Iterable[Span]) -> float:
    """For how many seconds anything computed, in any thread."""
    total = last = 0
    for span in sorted(spans, key=lambda span: span.start):
        if span.kind in COMPUTING and span.end > last:
            total += span.end - max(last, span.start)
            last = span.end
    return total / 1e9
