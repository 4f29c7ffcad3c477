"""What the first call of a kernel costs beyond a later one: python -m benchmarks._first_calls.

Prints {what is called: [seconds, how many kernels were compiled]}. LLVM, the threads and the pool
of memory have started before. Kernels that are in the directory ADJOINT_CACHE_DIR, which must be
set, are read; others are compiled, and are there afterwards.
"""

import json
import os
import time
from collections.abc import Callable
from functools import partial

import adjoint as ad

from .workloads.inputs import Draws

F = ad.nn.functional
LATER_CALLS = 5

Call = Callable[[], object]


def forward(function: Callable, *args: object) -> Callable[[], Call]:
    return lambda: partial(function, *args)


def backward(function: Callable, *args: ad.Tensor) -> Callable[[], Call]:
    """Each call has a graph of its own, which isn't part of its time."""

    def prepare() -> Call:
        leaves = [x.detach().requires_grad_() for x in args]
        y = function(*leaves)
        return partial(y.backward, ad.ones_like(y))

    return prepare


def calls() -> dict[str, Callable[[], Call]]:
    draws = Draws()
    rows, table = ad.asarray(draws.normal(512, 512)), ad.asarray(draws.normal(1000, 128))
    ids = ad.asarray(draws.integers(1000, 4096))
    images = ad.asarray(draws.normal(4, 32, 32, 32))
    filters = ad.asarray(draws.normal(64, 32, 3, 3))
    taps = partial(F.conv2d, padding=1)
    return {
        "tanh": forward(ad.tanh, rows),
        "tanh, backward": backward(ad.tanh, rows),
        "erf": forward(ad.erf, rows),
        "a row added to each row": forward(ad.add, rows, rows[0]),
        "product of a transposed": forward(ad.multiply, rows, rows.T),
        "sum": forward(ad.sum, rows),
        "maximum of columns": forward(partial(ad.max, axis=0), rows),
        "cumulative_sum": forward(partial(ad.cumulative_sum, axis=1), rows),
        "softmax": forward(partial(F.softmax, axis=-1), rows),
        "softmax, backward": backward(partial(F.softmax, axis=-1), rows),
        "layer_norm": forward(lambda x: F.layer_norm(x, (512,)), rows),
        "layer_norm, backward": backward(lambda x: F.layer_norm(x, (512,)), rows),
        "embedding": forward(F.embedding, ids, table),
        "embedding, backward": backward(partial(F.embedding, ids), table),
        "max_pool2d": forward(partial(F.max_pool2d, kernel_size=2), images),
        "conv2d": forward(taps, images, filters),
        "conv2d, backward": backward(taps, images, filters),
        "random.normal": forward(ad.random.normal, (512, 512)),
    }


def measure() -> dict[str, tuple[float, int]]:
    prepared = calls()
    ad.exp(ad.ones((512, 512))).numpy()
    return {name: first_call(prepare) for name, prepare in prepared.items()}


def first_call(prepare: Callable[[], Call]) -> tuple[float, int]:
    call = prepare()
    before = kernels_on_disk()
    first = seconds(call)
    compiled = kernels_on_disk() - before
    later = min(seconds(prepare()) for _ in range(LATER_CALLS))
    return max(0.0, first - later), compiled


def kernels_on_disk() -> int:
    return len(os.listdir(os.environ["ADJOINT_CACHE_DIR"]))


def seconds(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    print(json.dumps(measure()))
