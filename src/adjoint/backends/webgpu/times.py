"""How long the GPU takes for each program, by its own clock: see `ad.launch_times`."""

from collections import defaultdict
from typing import Any

from ..._foundation.errors import DeviceError
from ..._foundation.spans import observed
from .programs import Program

MOST = 256  # launches of one submission: device.LAUNCHES

# A program, and from when to when it ran: in seconds, which are 0 when its submission was done.
TimedRun = tuple[str, float, float]


class Times:
    """Each launch gets a compute pass of its own, which writes two times. It shows the programs,
    the one that took longest first. Within another one's `with` block both get all times."""

    def __init__(self, device: Any) -> None:
        if "timestamp-query" not in device.features:
            raise DeviceError(f"{device.name}: this adapter has no timestamp-query, so no times")
        self.device = device
        self.outer: Times | None = None
        self.seconds: dict[str, float] = defaultdict(float)
        self.launches: dict[str, int] = defaultdict(int)
        self.pending: list[str] = []
        self.tick = seconds_of_a_tick(device)
        usage = device.library.BufferUsage
        self.queries = device.handle.create_query_set(type="timestamp", count=2 * MOST)
        self.buffer = device.handle.create_buffer(
            size=16 * MOST, usage=usage.QUERY_RESOLVE | usage.COPY_SRC
        )

    def __enter__(self) -> "Times":
        self.device.submit()
        self.outer, self.device.times = self.device.times, self
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self.device.submit()
        finally:
            self.leave()

    def leave(self) -> None:
        """Get no more times; others that do, from other threads' blocks, go on."""
        if self.device.times is self:
            self.device.times = self.outer
            return
        inner = self.device.times
        while inner.outer is not self:
            inner = inner.outer
        inner.outer = self.outer

    def of_launch(self, program: Program) -> dict[str, Any]:
        """Where the compute pass of a launch writes its times."""
        place = 2 * len(self.pending)
        self.pending.append(program.name)
        return {
            "query_set": self.queries,
            "beginning_of_pass_write_index": place,
            "end_of_pass_write_index": place + 1,
        }

    def resolve(self, encoder: Any) -> None:
        if self.pending:
            encoder.resolve_query_set(self.queries, 0, 2 * len(self.pending), self.buffer, 0)

    def collect(self) -> None:
        """Take note of what a submission took."""
        if not self.pending:
            return
        read = observed("times", "wait", self.device.queue.read_buffer)
        data = read(self.buffer, 0, 16 * len(self.pending)).cast("Q")
        last = max(data[1::2])
        times = [(tick - last) * self.tick for tick in data]
        self.add(list(zip(self.pending, times[::2], times[1::2], strict=True)))
        self.pending = []

    def add(self, runs: list[TimedRun]) -> None:
        """Add up what the programs of a submission took."""
        for name, start, end in runs:
            self.seconds[name] += end - start
            self.launches[name] += 1
        if self.outer is not None:
            self.outer.add(runs)

    def __str__(self) -> str:
        rows = sorted(self.seconds.items(), key=lambda row: -row[1])
        lines = [f"{'program':28} {'launches':>9} {'ms':>10}"]
        lines += [f"{n:28} {self.launches[n]:9} {seconds * 1e3:10.3f}" for n, seconds in rows]
        return "\n".join(lines)


def seconds_of_a_tick(device: Any) -> float:
    """wgpu gives times in the GPU's own unit, and says what it is only below its Python API."""
    from wgpu.backends.wgpu_native import lib

    period: Any = lib.wgpuQueueGetTimestampPeriod  # type: ignore[attr-defined]
    return period(device.queue._internal) * 1e-9
