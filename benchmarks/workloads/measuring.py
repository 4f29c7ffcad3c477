"""How a step is timed, and how its results are read."""

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

THREADS = 2
TOTAL_SECONDS, REPEATS = 0.6, 5
OPS_PER_STEP = {"tiny_op": 1000}  # whose time is that of one op

Step = Callable[[], object]


class Look:
    """Reads the results of each step, so that none stays unevaluated, and adds up the first.

    `wrap` makes what is run of a step's function, which may be a compiler's.
    """

    checksum: float | None = None
    wrap: Callable[[Callable], Callable] = staticmethod(lambda function: function)

    def __call__(self, *tensors: Any) -> None:
        arrays = [t.detach().numpy() for t in tensors]
        if self.checksum is None:
            self.add_up(arrays)

    def add_up(self, arrays: Iterable[Any]) -> None:
        self.checksum = float(sum(np.abs(np.asarray(a)).sum(dtype="f8") for a in arrays))


Workload = Callable[[Look], Step]


def measure(
    workloads: Iterable[tuple[str, Workload]], library: str
) -> tuple[dict[str, float], dict[str, float]]:
    """Times and checksums by name; a name that comes several times has the best time of these."""
    times: dict[str, float] = {}
    checksums: dict[str, float] = {}
    for name, workload in workloads:
        look = Look()
        try:
            seconds = best_time(workload(look)) / OPS_PER_STEP.get(name, 1)
        except Exception as error:
            message = f"FAILED {library} {name} {type(error).__name__} {str(error)[:300]}"
            print(" ".join(message.split()), file=sys.stderr)
            continue
        times[name] = min(seconds, times.get(name, seconds))
        if look.checksum is not None:
            checksums.setdefault(name, look.checksum)
    return times, checksums


def best_time(step: Step) -> float:
    """Seconds of a step: the least mean of several repeats, after steps that aren't counted."""
    step()
    step()
    count = max(1, int(TOTAL_SECONDS / REPEATS / max(mean_time(step, 1), 1e-7)))
    return min(mean_time(step, count) for _ in range(REPEATS))


def mean_time(step: Step, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - start) / count
