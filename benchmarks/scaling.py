"""How data-parallel training scales: a model on paper, checked with a few ranks on this machine.

The model, with all that it assumes, is in `_scaling_model.py`. Two ranks measure the exchange of
gradients by plain mpi4py: all-to-all of parts, sums, all-gather. Two sizes give latency and
bandwidth, and the model predicts the other sizes, and steps with buckets. Each exchange takes other
memory, as the buckets of a step do. Ranks on one machine talk through its memory: what is checked
is how costs add up, not a network. Compute is a wait, as that of a GPU is for the CPU.

`python -m benchmarks.scaling docs/scaling.svg` draws the picture in docs/.
"""

import importlib.util
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from ._common import ROOT, Report
from ._plot import COLORS, STYLE, Axis, rule, text
from ._scaling_model import (
    ADDING,
    ALGORITHMS,
    FORWARD,
    MODELS,
    NETWORKS,
    Model,
    Network,
    bucket_count,
    even_bucket,
    parts,
    step,
)

RANKS = tuple(2**k for k in range(3, 11))
SHOWN = 8, 64, 1024  # ranks in shorter tables
BUCKETS = tuple(1e6 * n for n in (1, 2, 4, 8, 16, 25))
BUCKET = 4e6
SIZES = tuple(2**k for k in range(12, 26))  # bytes
FITTED = 2**16, 2**22
FIT = 1.5  # times too much or too little, at most, for sizes between those
GRADIENT = MODELS[1]  # what the ranks here exchange in buckets
COMPUTES = (0.0, 0.01, GRADIENT.compute)  # seconds: alone, the network is slower, compute is
MOST_PIECES = 100  # of one size, in a round

WIDTH, HEIGHT = 780, 440
LEFT, TOP, BOTTOM = 56, 140, 384
PANEL, GAP = 320, 60
HOW = {
    "overlapped": "4 MB, overlapped",
    "not": "4 MB, not overlapped",
    "with_it": "best bucket, overlapped",
}
STROKES = {"overlapped": "", "not": ' stroke-dasharray="7 5"', "with_it": ' stroke-dasharray="1 4"'}


def run(rounds: int) -> Report:
    reason = missing()
    if reason:
        print(f"only the model, nothing is measured: {reason}")
        figures, problems = {}, []
    else:
        figures, problems = check(rounds)
    show_algorithms()
    figures |= {"efficiency": efficiencies(), "even_bucket": even_buckets()}
    return Report(figures, problems)


def missing() -> str:
    if not importlib.util.find_spec("mpi4py"):
        return "mpi4py isn't installed"
    return "" if mpiexec() else "there is no mpiexec"


def mpiexec() -> str | None:
    """The one next to this interpreter, or on the path."""
    beside = str(Path(sys.executable).parent)
    return shutil.which("mpiexec", path=os.pathsep.join([beside, os.environ["PATH"]]))


def on_ranks(p: int, what: str, rounds: int) -> dict[float, Any]:
    """The figures that rank 0 of p prints, by sizes in bytes."""
    program = [sys.executable, "-m", "benchmarks.scaling", what, str(rounds)]
    process = subprocess.run(
        [str(mpiexec()), "-n", str(p), *program], cwd=ROOT, capture_output=True, text=True
    )
    if process.returncode:
        raise SystemExit(f"{what} on {p} ranks failed:\n{process.stderr}")
    return {float(size): found for size, found in json.loads(process.stdout).items()}


# The model against ranks on this machine.


def check(rounds: int) -> tuple[dict[str, Any], list[str]]:
    two, four = (on_ranks(p, "sizes", rounds) for p in (2, 4))
    memory = fit(two)
    between = show_sizes(two, four, memory)
    figures = {"latency": memory.latency, "bandwidth": memory.bandwidth, "exchange": two}
    buckets = on_ranks(2, "buckets", rounds)
    show_buckets(buckets, memory)
    show_sums()
    problems = [
        f"scaling: {size / 1024:.0f} KB predicted as {ratio:.2f} of the measured time"
        for size, ratio in between.items()
        if not 1 / FIT <= ratio <= FIT
    ]
    return {**figures, "exchange_4_ranks": four, "buckets": buckets}, problems


def fit(seconds: dict[float, float]) -> Network:
    """Latency and bandwidth with which the model is right for two sizes on two ranks."""
    small, large = FITTED
    per_byte = (seconds[large] - seconds[small]) / (large - small)
    latency = (seconds[small] - per_byte * small) / 2
    return Network("this machine's memory", latency, 1 / per_byte, adding=math.inf)


def show_sizes(
    two: dict[float, float], four: dict[float, float], memory: Network
) -> dict[float, float]:
    """Print all sizes, and return predicted / measured of those between the fitted ones."""
    shared = max(1.0, 4 / cores())
    print("an exchange on 2 ranks, and on 4 as information: µs measured, predicted, ratio")
    ratios = {}
    for size in SIZES:
        predicted = parts(2, size, memory), shared * parts(4, size, memory)
        ratios[size] = predicted[0] / two[size], predicted[1] / four[size]
        print(
            f"{size // 1024:8,} KB {two[size] * 1e6:8.0f} {predicted[0] * 1e6:8.0f}"
            f" {ratios[size][0]:6.2f} {four[size] * 1e6:10.0f} {predicted[1] * 1e6:8.0f}"
            f" {ratios[size][1]:6.2f}"
        )
    between = {size: ratios[size][0] for size in SIZES if FITTED[0] < size < FITTED[1]}
    print(
        f"fitted at {FITTED[0] // 1024} and {FITTED[1] // 1024:,} KB: "
        f"{memory.latency * 1e6:.1f} µs a message, {memory.bandwidth / 1e9:.1f} GB/s, sums included"
    )
    print(f"4 ranks have {cores()} cores: predicted {shared:g} times as long")
    print(f"predicted / measured: {spread(between.values())} between those sizes (at most {FIT})")
    for k, p in enumerate((2, 4)):
        print(f"predicted / measured: {spread(found[k] for found in ratios.values())} on {p} ranks")
    return between


def spread(ratios: Iterable[float]) -> str:
    low, *_, high = sorted(ratios)
    return f"{low:.2f} to {high:.2f}"


def cores() -> int:
    return os.cpu_count() or 1


def show_buckets(measured: dict[float, list[float]], memory: Network) -> None:
    waits = ", ".join(f"{compute * 1e3:.0f}" for compute in COMPUTES)
    print(
        f"{GRADIENT.nbytes / 1e6:.0f} MB of gradients in buckets on 2 ranks, overlapped with a "
        f"compute of {waits} ms: ms measured, predicted"
    )
    predicted = {bucket: predict(bucket, memory) for bucket in BUCKETS}
    for bucket in BUCKETS:
        pairs = zip(measured[bucket], predicted[bucket], strict=True)
        cells = "".join(f"{found * 1e3:9.1f} {wanted * 1e3:7.1f}" for found, wanted in pairs)
        print(f"{bucket / 1e6:8.0f} MB{cells}")
    for words, steps in (("measured", measured), ("of the model", predicted)):
        best = ", ".join(
            f"{min(BUCKETS, key=column(steps, k)) / 1e6:.0f}" for k in range(len(COMPUTES))
        )
        print(f"best bucket {words}, in MB: {best}")


def predict(bucket: float, memory: Network) -> list[float]:
    count = bucket_count(GRADIENT.nbytes, bucket)
    exchange = parts(2, GRADIENT.nbytes / count, memory)
    return [step(compute, count, exchange) for compute in COMPUTES]


def column(steps: dict[float, list[float]], k: int) -> Callable[[float], float]:
    return lambda bucket: steps[bucket][k]


def show_sums() -> None:
    speeds = ", ".join(f"{adding(p) / 1e9:.0f}" for p in SHOWN)
    print(f"sums of the parts of {SHOWN} ranks here: {speeds} GB/s (the model: {ADDING / 1e9:.0f})")


def adding(p: int) -> float:
    """Bytes per second of the sum of p parts of a bucket, which aren't in the cache."""
    received = np.ones((p, int(BUCKET) // 4 // p), np.float32)
    other = np.ones(25_000_000, np.float32)
    times = []
    for _ in range(5):
        other += 1
        start = time.perf_counter()
        add_in_order(received)
        times.append(time.perf_counter() - start)
    return received.nbytes / min(times)


# The model for many ranks.


def show_algorithms() -> None:
    print(f"all-reduce of {BUCKET / 1e6:.0f} MB in the model, ms on {SHOWN} ranks")
    for network in NETWORKS:
        for name, cost in ALGORITHMS.items():
            cells = "".join(f"{cost(p, BUCKET, network) * 1e3:9.2f}" for p in SHOWN)
            print(f"{network.name:>25} {name:>10} {cells}")


def efficiencies() -> dict[str, dict[str, dict[int, dict[str, float]]]]:
    """Figures for each model, network and number of ranks, which are printed, too."""
    figures = {model.name: {n.name: {} for n in NETWORKS} for model in MODELS}
    for model in MODELS:
        print(
            f"{model.name}: % of perfect scaling with {BUCKET / 1e6:.0f} MB, overlapped and not; "
            "the best bucket in MB, and % with it"
        )
        print(" " * 7 + "".join(f"{network.name:>26}" for network in NETWORKS))
        for p in RANKS:
            for network in NETWORKS:
                figures[model.name][network.name][p] = scaled(model, p, network)
            cells = (figures[model.name][network.name][p] for network in NETWORKS)
            print(f"{p:7,}" + "".join(map(shown_scaled, cells)))
    return figures


def scaled(model: Model, p: int, network: Network) -> dict[str, float]:
    best = max(BUCKETS, key=lambda bucket: model.efficiency(p, network, bucket))
    return {
        "overlapped": model.efficiency(p, network, BUCKET),
        "not": model.efficiency(p, network, BUCKET, overlap=False),
        "best_bucket": best,
        "with_it": model.efficiency(p, network, best),
    }


def shown_scaled(found: dict[str, float]) -> str:
    first, second = f"{100 * found['overlapped']:9.1f}", f"{100 * found['not']:6.1f}"
    return f"{first}{second}{found['best_bucket'] / 1e6:4.0f} {100 * found['with_it']:6.1f}"


def even_buckets() -> dict[str, dict[int, float]]:
    """Buckets whose bytes take as long as their latency, for each network; printed, too."""
    figures = {n.name: {p: even_bucket(p, n) for p in RANKS} for n in NETWORKS}
    print(f"MB whose exchange takes as long as its latency, on {SHOWN} ranks")
    for name, found in figures.items():
        print(f"{name:>25} " + "".join(f"{found[p] / 1e6:9.2f}" for p in SHOWN))
    return figures


# The picture.


def picture() -> str:
    """Efficiency over ranks: a panel for each model, a color for each network."""
    title = "Efficiency of data-parallel training, on paper"
    names = zip(NETWORKS, COLORS, strict=True)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        text(LEFT, 26, title, "start", ' class="title"'),
        *(key(n % 2, n // 2, network.name, color, "") for n, (network, color) in enumerate(names)),
        *(key(2, n, words, "#888", STROKES[how]) for n, (how, words) in enumerate(HOW.items())),
        text((LEFT + WIDTH - GAP) / 2, HEIGHT - 12, "ranks"),
    ]
    for n, model in enumerate((MODELS[0], MODELS[-1])):
        drawn += panel(model, LEFT + n * (PANEL + GAP))
    return "\n".join([*drawn, "</svg>"]) + "\n"


def key(column: int, row: int, words: str, color: str, stroke: str) -> str:
    x, y = LEFT + (0, 220, 440)[column], 50 + 20 * row
    return line(f"{x},{y - 4} {x + 26},{y - 4}", color, stroke) + text(x + 34, y, words, "start")


def panel(model: Model, left: float) -> list[str]:
    x = Axis([float(p) for p in RANKS], left, left + PANEL)
    drawn = [text(left + PANEL / 2, TOP - 12, f"{model.name} of compute")]
    for p in RANKS:
        drawn.append(rule(x.at(p), TOP, x.at(p), BOTTOM))
        drawn.append(text(x.at(p), BOTTOM + 20, f"{p}"))
    for percent in range(0, 101, 20):
        drawn.append(rule(left, height(percent / 100), left + PANEL, height(percent / 100)))
        drawn.append(text(left - 8, height(percent / 100) + 4, f"{percent} %", "end"))
    for network, color in zip(NETWORKS, COLORS, strict=True):
        found = {p: scaled(model, p, network) for p in RANKS}
        for how in HOW:
            points = " ".join(f"{x.at(p):.1f},{height(f[how]):.1f}" for p, f in found.items())
            drawn.append(line(points, color, STROKES[how]))
    return drawn


def height(efficiency: float) -> float:
    return BOTTOM - efficiency * (BOTTOM - TOP)


def line(points: str, color: str, stroke: str) -> str:
    return f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2.5"{stroke}/>'


# What each rank runs.


def on_rank(what: str, rounds: int) -> None:
    from mpi4py import MPI

    found = MEASURES[what](MPI.COMM_WORLD, rounds)
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps(found))


def measure_sizes(comm: Any, rounds: int) -> dict[float, float]:
    """The best time of the slowest rank to exchange arrays of each size."""
    best = dict.fromkeys(SIZES, math.inf)
    for _ in range(rounds):
        for size in SIZES:
            pieces = divided(size // 4, comm.size)[:MOST_PIECES]
            received = np.empty_like(pieces[0])
            for piece in pieces:
                comm.Barrier()
                start = time.perf_counter()
                average(comm, piece, received)
                best[size] = min(best[size], slowest(comm, start))
    return dict(best)


def measure_buckets(comm: Any, rounds: int) -> dict[float, list[float]]:
    """The best time of a step for each size of buckets, with each compute."""
    best = {bucket: [math.inf] * len(COMPUTES) for bucket in BUCKETS}
    with ThreadPoolExecutor(1) as helper:
        for _ in range(2 * rounds):
            for bucket, found in best.items():
                count = bucket_count(GRADIENT.nbytes, bucket)
                pieces = divided(int(GRADIENT.nbytes) // 4 // count, comm.size)
                for k, compute in enumerate(COMPUTES):
                    found[k] = min(found[k], one_step(comm, helper, pieces, compute))
    return best


def one_step(
    comm: Any, helper: ThreadPoolExecutor, pieces: list[np.ndarray], compute: float
) -> float:
    """Seconds of a step that hands each piece to the helper when backward has completed it."""
    received = np.empty_like(pieces[0])
    comm.Barrier()
    start = time.perf_counter()
    exchanges = []
    for k, piece in enumerate(pieces, 1):
        ready = start + compute * (FORWARD + (1 - FORWARD) * k / len(pieces))
        time.sleep(max(0.0, ready - time.perf_counter()))
        exchanges.append(helper.submit(average, comm, piece, received))
    for exchange in exchanges:
        exchange.result()
    return slowest(comm, start)


def average(comm: Any, x: np.ndarray, received: np.ndarray) -> None:
    """Replace x by its mean over the ranks."""
    comm.Alltoall(x, received)
    own = add_in_order(received.reshape(comm.size, -1))
    own /= comm.size
    comm.Allgather(own, x)


def add_in_order(received: np.ndarray) -> np.ndarray:
    out, *others = received
    for part in others:
        out += part
    return out


def divided(length: int, p: int) -> list[np.ndarray]:
    """Gradients in pieces of a length that p ranks can share."""
    length -= length % p
    gradient = np.ones(int(GRADIENT.nbytes) // 4, np.float32)
    return [gradient[k : k + length] for k in range(0, gradient.size - length + 1, length)]


def slowest(comm: Any, start: float) -> float:
    """Seconds since the start, on the rank that took longest."""
    return max(comm.allgather(time.perf_counter() - start))


MEASURES = {"sizes": measure_sizes, "buckets": measure_buckets}

if __name__ == "__main__":
    if sys.argv[1] in MEASURES:
        on_rank(sys.argv[1], int(sys.argv[2]))
    else:
        Path(sys.argv[1]).write_text(picture())
