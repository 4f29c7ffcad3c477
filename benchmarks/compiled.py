"""Times of compiled functions: a call, a launch, captured tensors, another batch size; and whole
functions, compiled and eager."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad

from ._common import Report, duration, markdown_table

CAPTURED = 400
LAUNCHES = 200
nn, F = ad.nn, ad.nn.functional


def run(rounds: int) -> Report:
    tiny = ad.compile(lambda x: x + 1.0)
    figures = {
        "call of one tiny op": best(lambda: tiny(SMALL), rounds),
        "the same, eager": best(lambda: SMALL + 1.0, rounds),
        "each further launch": each_launch(rounds),
        f"{CAPTURED} captured tensors": captured(rounds),
        "another batch size": another_batch(),
    }
    for name, (function, args) in functions().items():
        compiled = ad.compile(function)
        figures[f"{name}, compiled"], figures[f"{name}, eager"] = alternated(
            lambda f=compiled, a=args: f(*a), lambda f=function, a=args: f(*a), rounds
        )
    for name, seconds in figures.items():
        print(f"{name:32} {duration(seconds)}")
    rows = [[name, duration(seconds)] for name, seconds in figures.items()]
    return Report(figures, markdown=markdown_table(["what", "time"], rows))


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


def alternated(one: Callable[[], Any], other: Callable[[], Any], rounds: int) -> tuple:
    pairs = [(best(one, 1), best(other, 1)) for _ in range(rounds)]
    return tuple(map(min, zip(*pairs, strict=True)))


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


def functions() -> dict[str, tuple[Callable, tuple]]:
    """Gradients of functions of many small ops, and of a few large ones."""
    rng = np.random.default_rng(0)

    def drawn(*shape: int) -> ad.Tensor:
        return ad.asarray(rng.standard_normal(shape).astype(np.float32)) * 0.1

    inputs = drawn(50, 16, 32)

    def recurrent(w: ad.Tensor, u: ad.Tensor) -> ad.Tensor:
        h = ad.zeros((16, 64))
        for x in inputs:
            h = ad.tanh(h @ w + x @ u)
        return h.sum()

    def chain(x: ad.Tensor) -> ad.Tensor:
        for _ in range(100):
            x = ad.tanh(x * 1.001)
        return x.sum()

    return {
        "chain of 100 tanh": (ad.grad(chain), (drawn(64),)),
        "recurrent network": (ad.grad(recurrent, argnums=(0, 1)), (drawn(64, 64), drawn(32, 64))),
        "softmax, backward": (
            lambda x, g: ad.vjp(lambda x: F.softmax(x, axis=-1), x)[1](g),
            (drawn(2048, 512), drawn(2048, 512)),
        ),
    }
