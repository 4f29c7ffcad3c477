"""Compiled functions: what a call, a launch, a captured tensor and another batch size cost; and the
workloads of `benchmarks.workloads`, compiled, against eager adjoint, PyTorch and JAX."""

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import adjoint as ad

from ._common import Report, duration, markdown_table
from ._machine import described
from ._ratios import Row, footnote
from .peers import PEERS, Measurements, peer_times, wrong_gradients

CAPTURED = 400
LAUNCHES = 200
nn, F = ad.nn, ad.nn.functional


def run(rounds: int) -> Report:
    figures: dict[str, Any] = costs(rounds)
    for name, seconds in figures.items():
        print(f"{name:32} {duration(seconds)}")
    ours, *others = sides = measured(rounds)
    rows = [Row(name, times, peer_times(name, others)) for name, times in ours.times.items()]
    figures["workloads"] = {row.workload: row.figures() for row in rows}
    problems = [line for one in sides for line in one.remarks if line.startswith("FAILED")]
    problems += [line for one in others for line in wrong_gradients(ours, one)]
    for row in rows:
        ratio = row.ratio("adjoint")
        if ratio and ratio.best > 1:
            problems.append(f"{row.workload} takes {ratio} of eager's time")
    problems = [f"compiled: {problem}" for problem in problems]
    return Report(figures, problems, table(rows, [one.library for one in others], rounds))


def table(rows: list[Row], libraries: list[str], rounds: int) -> str:
    """Ratios to all libraries, which are also printed."""
    head = ["workload", "compiled", *(f"/ {TITLES[library]}" for library in libraries)]
    body = [
        [f"`{row.workload}`", duration(min(row.seconds))]
        + [str(row.ratio(library) or "") for library in libraries]
        for row in rows
    ]
    print(*(" ".join(f"{cell:>18}" for cell in line) for line in (head, *body)), sep="\n")
    return f"{markdown_table(head, body)}\n{footnote(rounds)} {described()}.\n"


def costs(rounds: int) -> dict[str, float]:
    """Seconds of calls, launches, captured tensors and another batch size."""
    tiny = ad.compile(lambda x: x + 1.0)
    return {
        "call of one tiny op": best(lambda: tiny(SMALL), rounds),
        "the same, eager": best(lambda: SMALL + 1.0, rounds),
        "each further launch": each_launch(rounds),
        f"{CAPTURED} captured tensors": captured(rounds),
        "another batch size": another_batch(),
    }


TITLES = {"adjoint": "eager", "torch": "PyTorch", "jax": "jax.jit"}


def measured(rounds: int) -> list[Measurements]:
    """Each library in processes of its own, alternated; compiled functions first."""
    installed = [name for name in PEERS if importlib.util.find_spec(name)]
    sides = [Measurements(name) for name in ("compiled", "adjoint", *installed)]
    for _ in range(rounds):
        for side in sides:
            side.add_round()
    return sides


SMALL = ad.ones(3)


def best(call: Callable[[], Any], rounds: int) -> float:
    """The least time of a call, of many batches."""
    call()
    start = time.perf_counter()
    call()
    count = max(1, int(2e-3 / (time.perf_counter() - start + 1e-7)))
    times = []
    for _ in range(40 * rounds):
        start = time.perf_counter()
        for _ in range(count):
            call()
        times.append((time.perf_counter() - start) / count)
    return min(times)


def each_launch(rounds: int) -> float:
    """Host time of a launch: what a longer list of products of a number takes, without the
    products."""

    def product(x: ad.Tensor, count: int) -> ad.Tensor:
        for _ in range(count):
            x = x @ x
        return x

    x = ad.ones((1, 1), dtype=ad.float64)
    few, many = (ad.compile(lambda x, n=n: product(x, n)) for n in (2, 2 + LAUNCHES))
    return (best(lambda: many(x), rounds) - best(lambda: few(x), rounds)) / LAUNCHES


def captured(rounds: int) -> float:
    """Time of 400 captured tensors, with the kernels that add them, some 20 each."""
    tensors = [ad.ones((16,)) for _ in range(CAPTURED)]

    def total(x: ad.Tensor, count: int) -> ad.Tensor:
        for tensor in tensors[:count]:
            x = x + tensor
        return x

    few, many = (ad.compile(lambda x, n=n: total(x, n)) for n in (1, CAPTURED))
    x = ad.ones((16,))
    both = [best(lambda f=f: f(x), rounds) for f in (few, many)]
    return both[1] - both[0]


def another_batch() -> float:
    """A training step's first call with another batch size."""
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = ad.optim.Adam(model.parameters())

    @ad.compile
    def step(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    times = []
    for size in (128, 96, 100, 72, 40):
        x, y = ad.zeros((size, 64)), ad.zeros((size,), dtype=ad.int64)
        start = time.perf_counter()
        step(x, y)
        times.append(time.perf_counter() - start)
    return min(times[1:])
