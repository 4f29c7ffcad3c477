"""`ad.profile`, as users see it."""

import gc
import json
import os
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from .. import backends
from .._files import source_of
from .._files.replacing import replacing
from .._foundation.blocks import Block, ends
from .._foundation.errors import ArgumentError
from .._foundation.formatting import show_bytes, show_seconds, table
from .._foundation.modes import PROFILE, mode
from .._foundation.spans import Log, Shared, clock, region, restored_logs
from . import chrome
from .garbage import Collections
from .rows import Placed, Row, busy, placed, regions, rows

ORDERS: dict[str, Callable[[Row], Any]] = {
    "time": lambda row: -row.seconds,
    "calls": lambda row: -row.calls,
    "bytes": lambda row: -row.bytes,
    "name": lambda row: (row.name, row.kind),
}
LONGEST_TABLE = 30
ELSEWHERE = {"export_chrome_trace": "p.save_trace(path)", "key_averages": "p.table()"}
COLUMNS = ("calls", "time", "each", "share")


class profile(Block):
    """Within it, everything that is computed is timed; at the end a table by op is printed.

    `quiet`: print nothing; `print(p)` does it later. `gpu_times`: let GPUs say how long programs
    take, where they have a clock; they run one by one then.

    >>> w = ad.ones((64, 8), requires_grad=True)
    >>> with ad.profile(quiet=True) as p:
    ...     ad.tanh(ad.ones((32, 64)) @ w).sum().backward()
    >>> print(p.table(sort_by="name"))
    op      pass      calls ... time ... each ... share ... bytes
    full    forward       2 ...
    matmul  backward      1 ... 2.0 KiB
    matmul  forward       1 ... 1.0 KiB
    ...
    """

    region = region

    def __init__(self, *, quiet: bool = False, gpu_times: bool = True) -> None:
        self._quiet, self._gpu_times = quiet, gpu_times
        self._log: Log | None = None
        self._observers = ExitStack()  # of GPUs
        self._met: set[type] = set()
        self._meeting = threading.Lock()
        self._runs: list[Any] = []
        self._error: BaseException | None = None  # that was being handled when it began

    if not TYPE_CHECKING:  # else every name would be right

        def __getattr__(self, name: str) -> Any:
            hint = f"; here it is {ELSEWHERE[name]}" if name in ELSEWHERE else ""
            raise AttributeError(f"a profile has no attribute {name!r}{hint}", name=name)

    def __enter__(self) -> "profile":
        if self._log is not None:
            raise ArgumentError("profile: it runs once; make another one by ad.profile()")
        self._log = Log(self._meet)
        self._error = sys.exception()
        try:
            for arrays in list(backends.LOADED):
                self._meet(arrays)
            note, callbacks = Collections(self._log).note, gc.callbacks
            end = restored_logs((callbacks.remove, note), (self._end,))
            logs = (*mode.logs, self._log)
            self._log.start = clock()
        except BaseException:
            self._observers.close()
            raise
        ends.stack += (end,)
        callbacks += (note,)
        mode.logs, mode.word = logs, mode.word | PROFILE
        return self

    def _end(self) -> None:
        log = self._begun()
        with self._meeting:
            self._gpu_times = False  # threads that go on bring no more of them
        try:
            self._observers.close()
        finally:
            log.end = clock()
        if not self._quiet and sys.exception() is self._error:
            print(self)

    def _meet(self, arrays: type) -> None:
        """Take the times of the GPU that these arrays are on."""
        gpu = getattr(arrays, "gpu", None)
        if gpu is None or arrays in self._met or "timestamp-query" not in gpu.features:
            return
        with self._meeting:
            if self._gpu_times and arrays not in self._met:
                from .launches import Launches

                self._met.add(arrays)
                self._observers.enter_context(Launches(gpu, self._runs))

    def in_this_thread(self) -> Shared:
        """For a `with` block in another thread: what is computed there is timed too.

        A profile sees the thread in which it began and those that help its backward passes.

        >>> import threading
        >>> def work():
        ...     with p.in_this_thread():
        ...         ad.exp(ad.ones(3))
        >>> with ad.profile(quiet=True) as p:
        ...     thread = threading.Thread(target=work)
        ...     thread.start()
        ...     thread.join()
        >>> "exp" in [row.name for row in p.rows]
        True
        """
        return Shared((self._begun(),))

    @property
    def seconds(self) -> float:
        """How long it took, or takes up to now, in all."""
        log = self._begun()
        return ((clock() if log.end is None else log.end) - log.start) / 1e9

    @property
    def outside(self) -> float:
        """For how many seconds no op ran: Python, and the profile itself."""
        return max(self.seconds - busy(self._begun().spans), 0.0)

    @property
    def rows(self) -> list[Row]:
        """What ops took, forward and backward apart, the longest first."""
        return sorted(rows(self._placed()), key=ORDERS["time"])

    @property
    def regions(self) -> list[Row]:
        """What regions and backward passes took, all that was done in them included."""
        return sorted(regions(self._placed()), key=ORDERS["time"])

    @property
    def programs(self) -> list[Row]:
        """What programs took on GPUs, by their own clocks; `kind` is the device."""
        found: dict[tuple[str, str], list[int]] = {}
        for run in list(self._runs):
            found.setdefault((run.program, run.device), []).append(run.end - run.start)
        made = [Row(*key, len(times), sum(times) / 1e9, 0) for key, times in found.items()]
        return sorted(made, key=ORDERS["time"])

    def table(self, sort_by: str = "time", limit: int | None = LONGEST_TABLE) -> str:
        """What took how long, as text: ops, then regions, then programs of GPUs.

        `sort_by` is "time", "calls", "bytes" or "name"; at most `limit` lines are shown of each.
        `each` is the time of a call, `share` the part of the whole, `bytes` what was written:
        results that aren't views. An op that is made of ops has their time. Outside ops is Python's
        time, and the profile's own.
        """
        if sort_by not in ORDERS:
            raise ArgumentError(f"table: sort_by is one of {', '.join(ORDERS)}; got {sort_by!r}")
        if limit is not None and (type(limit) is not int or limit < 1):
            raise ArgumentError(f"table: limit is at least 1, or None for all; got {limit!r}")
        seconds, outside = self.seconds, self.outside
        sections = (
            (self.rows, ("op", "pass", *COLUMNS, "bytes")),
            (self.regions, ("region", "kind", *COLUMNS)),
            (self.programs, ("program", "device", *COLUMNS)),
        )
        ops, *others = (
            section(sorted(found, key=ORDERS[sort_by]), header, limit, seconds)
            for found, header in sections
        )
        of_all = f"{show_seconds(outside)} of {show_seconds(seconds)}"
        lines = [*ops, f"outside ops: {of_all}, {share(outside, seconds)}"]
        return "\n".join([*lines, *(line for part in others if part for line in ("", *part))])

    def __repr__(self) -> str:
        return "<profile that hasn't begun>" if self._log is None else self.table()

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a file that Perfetto (ui.perfetto.dev) and chrome://tracing show as a timeline.

        >>> import json, pathlib, tempfile
        >>> with ad.profile(quiet=True) as p:
        ...     y = ad.exp(ad.ones(3))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "trace.json")
        ...     p.save_trace(file)
        ...     events = json.loads(file.read_text())["traceEvents"]
        >>> events[-1]["name"], events[-1]["args"]
        ('exp', {'inputs': ['float32[3]'], 'bytes': 12})
        """
        source = source_of("save_trace", path)
        text = json.dumps(chrome.trace(self._begun(), self._placed(), list(self._runs)))
        with replacing(source) as file:
            file.write(text.encode())

    def _placed(self) -> list[Placed]:
        return placed(list(self._begun().spans))

    def _begun(self) -> Log:
        if self._log is None:
            raise ArgumentError("profile: it hasn't begun; use it as `with ad.profile() as p:`")
        return self._log


def section(found: list[Row], header: tuple[str, ...], limit: int | None, whole: float) -> list:
    """The lines of a part of the table; none where nothing was found."""
    if not found:
        return []
    width, hidden = len(header), len(found[limit:]) if limit else 0
    lines = [header, *(cells(row, whole)[:width] for row in found[:limit])]
    more = [f"... {hidden} more ..."] if hidden else []
    return [*table(lines, range(2, width)), *more]


def cells(row: Row, whole: float) -> tuple[str, ...]:
    each = row.seconds / max(row.calls, 1)
    times = show_seconds(row.seconds), show_seconds(each), share(row.seconds, whole)
    return row.name, row.kind, str(row.calls), *times, show_bytes(row.bytes)


def share(seconds: float, whole: float) -> str:
    return f"{100 * seconds / whole if whole else 0:.1f} %"
