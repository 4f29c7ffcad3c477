"""A long chain of small ops: the time per op must not grow with the number of ops."""

import sys
import time
from itertools import pairwise

import adjoint as ad

from ._common import Report, output

SIZES = (300_000, 3_000_000)
PHASES = ("build", "backward", "release")
LIMIT = 1.3


def run(rounds: int) -> Report:
    """Measure both sizes in processes of their own, alternated, and compare the best of each."""
    times: dict[int, list[list[float]]] = {size: [] for size in SIZES}
    for _ in range(rounds):
        for size in SIZES:
            printed = output("-m", "benchmarks.chain", str(size))
            times[size].append([float(word) for word in printed.split()])
    best = {size: min(times[size], key=sum) for size in SIZES}
    return report(best)


def report(best: dict[int, list[float]]) -> Report:
    print(f"{'ops':>10} {'ns per op':>10} " + " ".join(f"{phase:>10}" for phase in PHASES))
    for size, phases in best.items():
        print(f"{size:10,} " + " ".join(f"{t * 1e9:10.0f}" for t in (sum(phases), *phases)))
    small, large = (sum(phases) for phases in best.values())
    ratio = large / small
    print(f"ratio {ratio:.2f} (at most {LIMIT})")
    figures = {f"seconds_per_op_{size}": sum(phases) for size, phases in best.items()}
    problems = [f"chain: ratio {ratio:.2f} is over {LIMIT}"] if ratio > LIMIT else []
    return Report({**figures, "ratio": ratio}, problems)


def measure(size: int) -> list[float]:
    """Seconds per op of each phase."""
    x = ad.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    marks = [time.perf_counter()]
    y = x
    for _ in range(size):
        y = y * 1.0
    total = y.sum()
    marks.append(time.perf_counter())
    total.backward()
    marks.append(time.perf_counter())
    del y, total
    marks.append(time.perf_counter())
    return [(end - start) / size for start, end in pairwise(marks)]


if __name__ == "__main__":
    measure(1000)  # so that nothing is done for the first time below
    print(*measure(int(sys.argv[1])))
