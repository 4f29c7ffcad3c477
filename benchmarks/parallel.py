"""Backward of independent branches of matrix products, by two threads against one.

With a BLAS that has one thread the branches run at once; with its default threads the products keep
all cores busy as it is, and the engine must not be in their way.
"""

import os
import time

import numpy as np

import adjoint as ad

from ._common import Report, output

BRANCHES, LENGTH, SIZE = 8, 4, 512
VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
LEAST = {"one BLAS thread": 1.4, "default BLAS threads": 0.95}


def run(rounds: int) -> Report:
    """The best of each, in processes of their own in which serial and parallel alternate."""
    default = {k: v for k, v in os.environ.items() if k not in VARIABLES}
    settings = {
        "one BLAS thread": default | dict.fromkeys(VARIABLES, "1"),
        "default BLAS threads": default,
    }
    figures, problems = {}, []
    for name, env in settings.items():
        printed = [
            [float(word) for word in output("-m", "benchmarks.parallel", env=env).split()]
            for _ in range(rounds)
        ]
        serial, parallel = (min(column) for column in zip(*printed, strict=True))
        figures[name] = serial / parallel
        print(
            f"{name:>22}: {serial * 1e3:6.1f} ms by one thread, {parallel * 1e3:6.1f} by two: "
            f"{figures[name]:.2f} times as fast (at least {LEAST[name]})"
        )
        if figures[name] < LEAST[name]:
            problems.append(f"parallel: {figures[name]:.2f} with {name}")
    return Report(figures, problems)


def measure() -> list[float]:
    """The best time of a backward pass by one thread, and by two."""
    rng = np.random.default_rng(0)
    shape = (BRANCHES, LENGTH, SIZE, SIZE)
    weights = [
        [ad.tensor(w, requires_grad=True) for w in branch]
        for branch in rng.standard_normal(shape).astype("f4") / 20
    ]
    x = ad.tensor(rng.standard_normal((SIZE, SIZE)).astype("f4"))
    times: list[list[float]] = [[], []]
    for _ in range(10):
        for k, workers in enumerate((1, 2)):
            loss = sum(through(branch, x).sum() for branch in weights)
            start = time.perf_counter()
            ad.gradients(loss, workers=workers)  # type: ignore[arg-type]
            times[k].append(time.perf_counter() - start)
    return [min(column) for column in times]


def through(weights: list[ad.Tensor], x: ad.Tensor) -> ad.Tensor:
    for w in weights:
        x = x @ w
    return x


if __name__ == "__main__":
    print(*measure())
