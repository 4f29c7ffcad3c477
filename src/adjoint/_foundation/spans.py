"""Spans of time, noted in the logs of the profiles that are on in a thread: see `ad.profile`.

Whoever has something to note asks first if `mode.word` has PROFILE, at best once for many things:
what isn't looked at costs nothing.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .blocks import Block, all_of, ends
from .modes import PROFILE, Switch, mode

clock = time.perf_counter_ns


class Span(NamedTuple):
    """What took from `start` to `end`, in ns, in a thread.

    `kind`: an op that ran "forward", a rule or the like that ran "backward", a "step" of an
    optimizer, a launch of a "compiled" function, a kernel that was made ("compile"), waiting for a
    device ("wait"). These compute; others say where that happened: in a backward "pass", a
    checkpoint's "recompute", a "region" of the user's. `arrays`: dtypes and shapes of what was
    given. `bytes`: what was written.
    """

    name: str
    kind: str
    start: int
    end: int
    thread: int
    arrays: tuple[tuple[np.dtype, tuple[int, ...]], ...] = ()
    bytes: int = 0


class Log:
    """What a profile has seen: spans of its threads, in the order in which they ended.

    `meet` is called with the class of arrays that aren't NumPy's before something is done to them.
    """

    def __init__(self, meet: Callable[[type], None]) -> None:
        self.meet = meet
        self.spans: list[Span] = []
        self.threads = {threading.get_ident(): threading.current_thread().name}
        self.start = clock()
        self.end: int | None = None

    def add(self, span: Span) -> None:
        if self.end is not None:
            set_logs(tuple(log for log in mode.logs if log is not self))
        elif span.start >= self.start:
            if span.thread not in self.threads:
                self.threads[span.thread] = threading.current_thread().name
            self.spans.append(span)


def set_logs(logs: tuple[Log, ...]) -> None:
    """Let this thread note in these logs from now on."""
    mode.logs = logs
    mode.word = mode.word | PROFILE if logs else mode.word & ~PROFILE


class Shared(Block):
    """Within it a thread notes in the logs of another thread too: of the one that made it."""

    def __init__(self, logs: tuple[Log, ...] | None = None) -> None:
        self.logs: tuple[Log, ...] = mode.logs if logs is None else logs

    def __enter__(self) -> None:
        logs = (*mode.logs, *(log for log in self.logs if log not in mode.logs))
        end = restored_logs()
        ends.stack += (end,)
        mode.logs, mode.word = logs, mode.word | PROFILE if logs else mode.word


def restored_logs(*more: tuple) -> Callable[[], Any]:
    """A function that gives this thread the logs that it has now, and then makes more calls."""
    logs, word = (setattr, mode, "logs", mode.logs), (setattr, mode, "word", mode.word)
    return all_of([logs, word, *more])


class region:
    """Within it, what a profile sees belongs together, under a name; without a profile, nothing.

    >>> with ad.profile(quiet=True) as p:
    ...     with ad.profile.region("prepare"):
    ...         x = ad.ones(3) + 1
    >>> [(row.name, row.calls) for row in p.regions]
    [('prepare', 1)]
    """

    def __init__(self, name: str, kind: str = "region") -> None:
        self.name, self.kind = name, kind
        self.starts: list[int | None] = []

    def __enter__(self) -> None:
        self.starts.append(clock() if mode.word & PROFILE else None)

    def __exit__(self, *exception: object) -> None:
        start = self.starts.pop()
        if start is not None:
            note(self.name, self.kind, start, clock())


class unseen(Switch):
    """Within it nothing is noted, also where a profile is on."""

    clears = PROFILE


def note(
    name: str, kind: str, start: int, end: int, given: Iterable = (), made: Iterable = ()
) -> None:
    """Write into all logs what took how long, of which raw arrays it made which."""
    given = list(arrays_in(given))
    there = {id(None), *(id(holder(x)) for x in given)}
    written = sum(x.nbytes for x in arrays_in(made) if id(holder(x)) not in there)
    arrays = tuple((x.dtype, x.shape) for x in given)
    note_span(name, kind, start, end, arrays, written)


def note_span(
    name: str, kind: str, start: int, end: int, arrays: tuple = (), bytes: int = 0
) -> None:
    """Write a span of this thread into all logs."""
    span = Span(name, kind, start, end, threading.get_ident(), arrays, bytes)
    for log in mode.logs:
        log.add(span)


def timed(name: str, kind: str, function: Callable) -> Callable:
    """A function on raw arrays, noted whenever it is called."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if args and type(args[0]) is not np.ndarray:
            for log in mode.logs:
                log.meet(type(args[0]))
        start = clock()
        out = function(*args, **kwargs)
        note(name, kind, start, clock(), args, (out,))
        return out

    return call


def observed(name: str, kind: str, function: Callable) -> Callable:
    """The function itself, or `timed` if a profile is on."""
    return timed(name, kind, function) if mode.word & PROFILE else function


class TimedWrites:
    """A backend, of which what writes into arrays is noted."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)

    def compute_into(self, array: Any, op: str, other: Any) -> bool:
        start = clock()
        done = self.backend.compute_into(array, op, other)
        if done:
            note(op, "forward", start, clock(), [other], [array])
        return done

    def axpy(self, array: Any, other: Any, alpha: float) -> None:
        start = clock()
        self.backend.axpy(array, other, alpha)
        note("add_scaled", "forward", start, clock(), [other], [array])

    def write(self, array: Any, value: Any, spec: tuple, indices: list) -> None:
        start = clock()
        self.backend.write(array, value, spec, indices)
        note("assign", "forward", start, clock(), [value], [array])


def arrays_in(values: Iterable) -> Iterator[Any]:
    """The raw arrays among values, and in tuples and lists among them."""
    for x in values:
        if isinstance(x, tuple | list):
            yield from arrays_in(x)
        elif hasattr(x, "nbytes") and hasattr(x, "dtype"):
            yield x


def holder(array: Any) -> Any:
    """What has an array's elements: a view has none of its own. None for numbers without memory."""
    while getattr(array, "base", None) is not None:
        array = array.base
    return getattr(array, "memory", array) if getattr(array, "number", None) is None else None
