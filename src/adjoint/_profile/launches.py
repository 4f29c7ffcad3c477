"""What GPUs' own clocks say about programs, while a profile is on."""

from typing import Any, NamedTuple

from .._foundation.spans import clock
from ..backends.webgpu.times import TimedRun, Times


class Run(NamedTuple):
    """A program that ran on a device, in ns of the host's clock."""

    device: str
    program: str
    start: int
    end: int


class Launches(Times):
    """Times that are kept one by one.

    The clocks of a GPU and of the host have nothing in common: the end of a submission is taken to
    be when the host learns of it.
    """

    def __init__(self, device: Any, runs: list[Run]) -> None:
        super().__init__(device)
        self.runs = runs

    def add(self, launches: list[TimedRun]) -> None:
        now = clock()
        super().add(launches)
        for program, start, end in launches:
            times = now + round(start * 1e9), now + round(end * 1e9)
            self.runs.append(Run(self.device.name, program, *times))
