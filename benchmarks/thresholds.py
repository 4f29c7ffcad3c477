"""Kernels against NumPy's functions, at the sizes from which kernels are used."""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint._foundation.silence import compute
from adjoint.backends.cpu import NUMPY, thresholds
from adjoint.backends.cpu.dispatch import host_function, mapped
from adjoint.backends.cpu.lowering.ops import NativeOp
from adjoint.backends.cpu.table import HOSTED

from ._common import Report, duration, markdown_table

ONES = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1)}
POOLED = {"kernel": (2, 2), "stride": (2, 2), "padding": ((0, 0), (0, 0))}
SECONDS = 0.005  # of a repeat


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape, np.float32) + np.float32(0.5)


def cases() -> dict[str, tuple[str, str, tuple, dict[str, Any]]]:
    """By title: a threshold, an op, and inputs and attributes whose size is the threshold."""
    rows = floats(thresholds.ELEMENTS // 64, 64)
    side = round(thresholds.PRODUCTS ** (1 / 3))
    index = np.arange(thresholds.GATHERED_BYTES // 256)
    along = np.zeros((thresholds.TAKEN_ALONG // 2, 2), np.int64)
    added = thresholds.ADDED_BYTES // 512
    plane = math.ceil((thresholds.CONVOLUTION / (9 * 64)) ** 0.5)
    images = (floats(1, 8, plane, plane), floats(8, 8, 3, 3))
    mirrored = floats(64, round((thresholds.MIRRORED / 64) ** 0.5), 8)
    return {
        "exp": ("ELEMENTS", "exp", (floats(thresholds.ELEMENTS),), {}),
        "softmax": ("ELEMENTS", "softmax", (rows,), {"axis": 1}),
        "standardize": (
            "STANDARDIZED",
            "standardize",
            (floats(thresholds.STANDARDIZED // 64, 64),),
            {"axis": (1,), "eps": 1e-5, "center": True},
        ),
        "mirrored": ("MIRRORED", "mirrored", (mirrored,), {}),
        "random_bits": (
            "RANDOM_BITS",
            "random_bits",
            (np.arange(4, dtype=np.uint32),),
            {"shape": (thresholds.RANDOM_BITS,)},
        ),
        "inv, 8 x 8": ("EQUATIONS", "inv", (floats(8, 8) + 8 * np.eye(8, dtype="f4"),), {}),
        "matmul": ("PRODUCTS", "matmul", (floats(side, side), floats(side, side)), {}),
        "conv": ("CONVOLUTION", "conv", images, {**ONES, "groups": 1}),
        "max_pool": (
            "POOLED",
            "max_pool",
            (floats(1, 4, 16, thresholds.POOLED // 64),),
            {**POOLED, "dilation": (1, 1)},
        ),
        "window_sum": (
            "WINDOW_SUMS",
            "window_sum",
            (floats(1, 8, 32, thresholds.WINDOW_SUMS // 256),),
            POOLED,
        ),
        "index, rows": (
            "GATHERED_BYTES",
            "index",
            (floats(len(index), 64), index),
            {"spec": ("array",)},
        ),
        "index, elements": (
            "GATHERED_ELEMENTS",
            "index",
            (floats(4096), np.arange(thresholds.GATHERED_ELEMENTS) % 4096),
            {"spec": ("array",)},
        ),
        "take_along_axis": (
            "TAKEN_ALONG",
            "take_along_axis",
            (floats(len(along), 8), along),
            {"axis": 1},
        ),
        "scatter": (
            "ADDED_BYTES",
            "scatter",
            (floats(added, 64), np.arange(added)),
            {"spec": ("array",), "shape": (added, 64)},
        ),
        "cumulative_sum": (
            "RUNNING",
            "cumulative_sum",
            (floats(thresholds.RUNNING // 64, 64),),
            {"axis": 1, "reverse": False},
        ),
        "recurrence": (
            "RECURRENCE",
            "recurrence",
            (floats(4, thresholds.RECURRENCE // 4), floats(4, thresholds.RECURRENCE // 4)),
            {"axis": 1, "reverse": False},
        ),
    }


def kernels_of(op: str, inputs: tuple) -> Callable:
    if op == "exp":
        call = mapped(op, NUMPY[op], inputs[0].dtype)
        return lambda x: call([x])[0]
    return host_function(op, NUMPY[op]) if op in HOSTED else NativeOp(op, None)


def seconds(function: Callable, inputs: tuple, attrs: dict[str, Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        function(*inputs, **attrs)
    return (time.perf_counter() - start) / count


def run(rounds: int) -> Report:
    """Time both, alternated, and compare the best times."""
    figures, rows = {}, []
    for title, (threshold, op, inputs, attrs) in cases().items():
        both = (kernels_of(op, inputs), NUMPY[op])
        once = compute(seconds, both[0], inputs, attrs, 2)
        count = max(3, int(SECONDS / max(once, 1e-6)))
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(10 * rounds):
            for function, kept in zip(both, times, strict=True):
                kept.append(compute(seconds, function, inputs, attrs, count))
        best, plain = min(times[0]), min(times[1])
        figures[title] = {"threshold": threshold, "kernel": best, "numpy": plain}
        rows.append([title, threshold, duration(best), duration(plain), f"{best / plain:.2f}"])
    table = markdown_table(["op", "threshold", "kernel", "NumPy", "ratio"], rows)
    print(table)
    return Report(figures, markdown=table)
