"""A profile as Chrome's trace format, which Perfetto and chrome://tracing open."""

import os
from collections.abc import Iterable, Iterator
from typing import Any

from .._foundation.spans import Log
from .rows import Placed

PLAIN = frozenset({"forward", "step", "region", "pass"})  # kinds that a name needn't tell


def trace(log: Log, spans: Iterable[Placed], runs: Iterable[Any]) -> dict[str, Any]:
    """All events: a track for each thread, in the order in which they came, and for each GPU."""
    runs = list(runs)
    tracks: dict[Any, str] = dict(log.threads)
    tracks |= {run.device: f"{run.device} (its own clock)" for run in runs}
    numbers = {track: number for number, track in enumerate(tracks)}
    events = [
        *titles(tracks),
        *(event(log, x, numbers[x.span.thread]) for x in spans),
        *(timed(log, x.program, x.device, x.start, x.end, numbers[x.device]) for x in runs),
    ]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def titles(tracks: dict[Any, str]) -> Iterator[dict[str, Any]]:
    yield title("process_name", 0, "adjoint")
    for number, name in enumerate(tracks.values()):
        yield title("thread_name", number, name)


def title(what: str, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": os.getpid(), "tid": track, "args": {"name": name}}


def event(log: Log, x: Placed, track: int) -> dict[str, Any]:
    span, (name, kind) = x.span, x.key
    if not x.counts:  # a part of what is around it, under its own name
        name, kind = span.name, "part"
    shown = name if kind in PLAIN or kind == "part" else f"{name} ({kind})"
    out = timed(log, shown, kind, span.start, span.end, track)
    arrays = [f"{dtype.name}{list(shape)}" for dtype, shape in span.arrays]
    out["args"] = {"inputs": arrays, "bytes": span.bytes} if arrays or span.bytes else {}
    return out


def timed(log: Log, name: str, kind: str, start: int, end: int, track: int) -> dict[str, Any]:
    """A complete event; times are in µs since the profile began."""
    begin, length = (start - log.start) / 1e3, (end - start) / 1e3
    where = {"pid": os.getpid(), "tid": track}
    return {"ph": "X", "name": name, "cat": kind, "ts": begin, "dur": length, **where}
