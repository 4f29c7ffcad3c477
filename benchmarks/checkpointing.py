"""A chain of equal layers with and without checkpoints: peak memory, and time.

`python -m benchmarks.checkpointing docs/checkpointing.svg` also draws the picture in docs/.
"""

import math
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np

import adjoint as ad

from ._common import Report
from ._plot import Line, log_log

LENGTHS = (16, 64, 256)
ROWS, WIDTH = 4096, 64  # an activation is 64 times as large as the parameters of a layer
MOST_TIME = 1.5
GROWTH = {"plain": 1.0, "checkpointed": 0.5}
TOLERANCE = 0.1


class Chain:
    """n layers relu(x @ w), run forward and backward."""

    def __init__(self, n: int) -> None:
        rng = np.random.default_rng(0)
        weights = [rng.standard_normal((WIDTH, WIDTH)).astype("f4") / 6 for _ in range(n)]
        self.weights = [ad.tensor(w, requires_grad=True) for w in weights]
        self.layers = [lambda x, w=w: ad.relu(x @ w) for w in self.weights]
        self.x = ad.tensor(rng.standard_normal((ROWS, WIDTH)).astype("f4"))

    def plain(self) -> None:
        x = self.x
        for layer in self.layers:
            x = layer(x)
        x.sum().backward()

    def checkpointed(self) -> None:
        segments = math.isqrt(len(self.layers))
        ad.checkpoint_sequential(self.layers, segments, self.x).sum().backward()

    def seconds(self, kind: str) -> float:
        self.forget()
        start = time.perf_counter()
        getattr(self, kind)()
        return time.perf_counter() - start

    def peak(self, kind: str) -> int:
        """The most bytes that were in use at once, beyond the parameters and the input."""
        self.forget()
        tracemalloc.start()
        getattr(self, kind)()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    def forget(self) -> None:
        for w in self.weights:
            w.grad = None


def run(rounds: int) -> Report:
    """Peak bytes of both kinds for each length, and the ratio of the best times, alternated."""
    peaks: dict[str, list[float]] = {kind: [] for kind in GROWTH}
    ratios: list[float] = []
    print(f"{'layers':>6} {'plain MB':>10} {'checkpointed MB':>16} {'time ratio':>11}")
    for n in LENGTHS:
        chain = Chain(n)
        times = [[chain.seconds(kind) for kind in GROWTH] for _ in range(3 * rounds)]
        plain, checkpointed = (min(column) for column in zip(*times, strict=True))
        for kind, found in peaks.items():
            found.append(chain.peak(kind) / 1e6)
        ratios.append(checkpointed / plain)
        print(
            f"{n:6} {peaks['plain'][-1]:10.1f} {peaks['checkpointed'][-1]:16.1f} {ratios[-1]:11.2f}"
        )
    growth = {kind: exponent(found) for kind, found in peaks.items()}
    print("growth: " + ", ".join(f"{kind} n^{e:.2f}" for kind, e in growth.items()))
    problems = [
        f"checkpointing: peak memory, {kind}, grows as n^{growth[kind]:.2f}, not n^{wanted}"
        for kind, wanted in GROWTH.items()
        if abs(growth[kind] - wanted) > TOLERANCE
    ]
    if max(ratios) > MOST_TIME:
        problems.append(f"checkpointing: {max(ratios):.2f} times the plain time")
    return Report({"megabytes": peaks, "time_ratios": ratios, "growth": growth}, problems)


def exponent(peaks: list[float]) -> float:
    return float(np.polyfit(np.log(LENGTHS), np.log(peaks), 1)[0])


def picture(report: Report) -> str:
    labels = {"plain": "plain", "checkpointed": "√n checkpoints"}
    lines = [
        Line(f"{labels[kind]}, n^{report.figures['growth'][kind]:.2f}", list(LENGTHS), peaks)
        for kind, peaks in report.figures["megabytes"].items()
    ]
    return log_log("Peak memory of a chain of layers", "layers", "megabytes", lines)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture(run(3)))
