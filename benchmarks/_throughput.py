"""Single ops on 4 million elements, in adjoint, NumPy and PyTorch.

`python -m benchmarks._throughput` prints {op: {dtype: {library: seconds}}}. The libraries take
turns, with a few calls in a row each: threads of the one that was before may still be spinning in
the first of them.
"""

import importlib
import importlib.util
import json
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad

from .workloads.measuring import THREADS

SHAPE = (2000, 2000)
DTYPES = ("float32", "float64")
TURNS, IN_A_ROW = 4, 3

UNARY = (
    "negative abs square sqrt reciprocal exp expm1 log log1p log2 log10 sin cos tan asin acos "
    "atan sinh cosh tanh asinh atanh floor sign isnan sigmoid relu erf"
)
BINARY = "add multiply divide maximum pow atan2 hypot remainder less"
REDUCTIONS = "sum max mean argmax"

NOT_IN_NUMPY = {"sigmoid", "relu", "erf"}
TORCH_NAMES = {"max": "amax"}

Call = Callable[[], Any]


def cases() -> dict[str, tuple[str, int, dict[str, int]]]:
    """By label: the name of the function, how many arrays it takes, and its axis if it has one."""
    found = {name: (name, 1, {}) for name in UNARY.split()}
    found |= {name: (name, 2, {}) for name in BINARY.split()}
    for name in REDUCTIONS.split():
        found[name] = (name, 1, {})
        found |= {f"{name} axis={axis}": (name, 1, {"axis": axis}) for axis in (0, 1)}
    return found


def measure() -> dict[str, dict[str, dict[str, float]]]:
    libraries = tables()
    rng = np.random.default_rng(0)
    times: dict[str, dict[str, dict[str, float]]] = {}
    for dtype in DTYPES:
        arrays = [rng.uniform(0.05, 0.95, SHAPE).astype(dtype) for _ in range(2)]
        inputs = {name: [make(a) for a in arrays] for name, (make, _) in libraries.items()}
        for label, (function, count, axis) in cases().items():
            calls = {
                name: call
                for name, (_, find) in libraries.items()
                if (call := find(function, inputs[name][:count], axis))
            }
            check(label, calls)
            times.setdefault(label, {})[dtype] = best(calls)
    return times


def tables() -> dict[str, tuple[Callable, Callable]]:
    """By library: how an array of it is made, and how a function of it is called."""
    found = {"adjoint": (ad.asarray, of_adjoint), "numpy": (np.asarray, of_numpy)}
    if importlib.util.find_spec("torch"):
        torch: Any = importlib.import_module("torch")
        torch.set_num_threads(THREADS)
        found["torch"] = (torch.tensor, of_torch)
    return found


def of_adjoint(name: str, inputs: list, axis: dict[str, int]) -> Call:
    function = getattr(ad, name)
    return lambda: function(*inputs, **axis)


def of_numpy(name: str, inputs: list, axis: dict[str, int]) -> Call | None:
    if name in NOT_IN_NUMPY:
        return None
    function = getattr(np, name)
    return lambda: function(*inputs, **axis)


def of_torch(name: str, inputs: list, axis: dict[str, int]) -> Call:
    torch: Any = importlib.import_module("torch")
    function = getattr(torch, TORCH_NAMES.get(name, name))
    named = {"dim": axis["axis"]} if axis else {}
    return lambda: function(*inputs, **named)


def check(label: str, calls: dict[str, Call]) -> None:
    expected, *others = (np.asarray(call()) for call in calls.values())
    for other in others:
        np.testing.assert_allclose(expected, other, rtol=1e-3, err_msg=label)


def best(calls: dict[str, Call]) -> dict[str, float]:
    found = dict.fromkeys(calls, math.inf)
    for _ in range(TURNS):
        for name, call in calls.items():
            found[name] = min(found[name], *(seconds(call) for _ in range(IN_A_ROW)))
    return found


def seconds(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    print(json.dumps(measure()))
