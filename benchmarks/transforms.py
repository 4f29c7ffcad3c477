"""Hessians against torch.func, and what directional derivatives cost beside the function itself."""

import importlib
import importlib.util
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

import adjoint as ad

from ._common import Report

N = 200
MOST = 1.2
RNG = np.random.default_rng(0)
DATA = {
    "rows": RNG.standard_normal((400, N)).astype("f4"),
    "inputs": RNG.standard_normal((32, 8)).astype("f4"),
}
POINT = (0.3 * RNG.standard_normal(N)).astype("f4")


def rosenbrock(xp: ModuleType, data: dict) -> Callable:
    return lambda x: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def logistic(xp: ModuleType, data: dict) -> Callable:
    return lambda x: xp.logaddexp(data["rows"] @ x, x.sum() * 0).sum()


def network(xp: ModuleType, data: dict) -> Callable:
    def loss(p: Any) -> Any:
        h = xp.tanh(data["inputs"] @ p[:128].reshape((8, 16)))
        h = xp.tanh(h @ p[128:192].reshape((16, 4)))
        return xp.square(h @ p[192:196].reshape((4, 1))).mean()

    return loss


def elementwise(xp: ModuleType, data: dict) -> Callable:
    return lambda x: (xp.sin(x) * xp.exp(x * 0.1) + xp.tanh(x * x)).sum()


FUNCTIONS = (rosenbrock, logistic, network, elementwise)


def run(rounds: int) -> Report:
    """Both libraries in this process, alternated; the minimum of each."""
    ours = {key: ad.asarray(value) for key, value in DATA.items()}
    costs = {f.__name__: relative_costs(f(ad, ours), rounds) for f in FUNCTIONS}
    print(f"{'times the function:':>20} {'grad':>7} {'jvp':>7} {'hvp':>7}")
    for name, cost in costs.items():
        print(f"{name:>20} " + " ".join(f"{c:7.1f}" for c in cost))
    if importlib.util.find_spec("torch") is None:
        print("PyTorch isn't installed: no comparison of Hessians")
        return Report({"costs": costs})
    ratios = {f.__name__: hessian_ratio(f, ours, rounds) for f in FUNCTIONS}
    print(f"{'hessian / torch.func:':>21} " + ", ".join(f"{k} {r:.2f}" for k, r in ratios.items()))
    problems = [f"transforms: hessian of {k} {r:.2f}" for k, r in ratios.items() if r > MOST]
    return Report({"costs": costs, "hessian_ratios": ratios}, problems)


def relative_costs(f: Callable, rounds: int) -> list[float]:
    x, t = ad.asarray(POINT), ad.ones(N)
    calls = [
        lambda: f(x),
        lambda: ad.grad(f)(x),
        lambda: ad.jvp(f, (x,), (t,)),
        lambda: ad.hvp(f, (x,), (t,)),
    ]
    alone, *others = best(calls, 20 * rounds)
    return [other / alone for other in others]


def hessian_ratio(function: Callable, ours: dict, rounds: int) -> float:
    torch: Any = importlib.import_module("torch")
    theirs = {key: torch.tensor(value) for key, value in DATA.items()}
    x, y = ad.asarray(POINT), torch.tensor(POINT)
    mine, other = ad.hessian(function(ad, ours)), torch.func.hessian(function(torch, theirs))
    np.testing.assert_allclose(mine(x).numpy(), other(y).numpy(), atol=1e-3, rtol=1e-3)
    one, two = best([lambda: mine(x), lambda: other(y)], 10 * rounds)
    return one / two


def best(calls: list[Callable], times: int) -> list[float]:
    """The shortest time of each call; they take turns."""
    found = [float("inf")] * len(calls)
    for _ in range(times):
        for k, call in enumerate(calls):
            start = time.perf_counter()
            call()
            found[k] = min(found[k], time.perf_counter() - start)
    return found
