"""The steps of an LSTM on the CPU: a matrix product and one kernel for all the rest of each."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import backends
from .._foundation.silence import computing
from ..kernels import recurrent
from ..kernels.language import TYPES

cpu: Any = backends.backend("cpu")
FLOATS = (np.dtype("f4"), np.dtype("f8"))
GATES = 4


@functools.cache
def launcher(kernel: Callable, dtype: np.dtype) -> Any:
    return cpu.launcher(kernel(TYPES[dtype]))


def are_served(arrays: tuple) -> bool:
    """Whether there are kernels for arrays of these dtypes."""
    dtype = arrays[0].dtype
    return dtype in FLOATS and all(x.dtype == dtype for x in arrays) and cpu.has_kernels()


def by_gate(x: np.ndarray) -> np.ndarray:
    """x (..., gates * H) as (gates, ..., H)."""
    *others, size = x.shape
    count = len(others)
    return x.reshape(*others, GATES, size // GATES).transpose(count, *range(count), count + 1)


def order(length: int, reverse: bool) -> range:
    return range(length - 1, -1, -1) if reverse else range(length)


@computing
def lstm(x: np.ndarray, h: np.ndarray, c: np.ndarray, w: np.ndarray, reverse: bool) -> tuple:
    """States, cells and gates of all steps, from the input's share in the gates."""
    dtype, (length, n, size) = x.dtype, x.shape
    run, product, turned = launcher(recurrent.lstm_step, dtype), cpu.FUNCTIONS["matmul"], w.T
    out, cells = (cpu.empty((length, n, size // GATES), dtype) for _ in range(2))
    gates = cpu.empty(x.shape, dtype)
    inputs, outputs = by_gate(x), by_gate(gates)
    for t in order(length, reverse):
        own = by_gate(product(h, turned))
        run.map([*inputs[:, t], *own, c], (), [*outputs[:, t], cells[t], out[t]])
        h, c = out[t], cells[t]
    return out, cells, gates


@computing
def lstm_gradient(
    dout: np.ndarray,
    dcells: np.ndarray,
    c: np.ndarray,
    w: np.ndarray,
    cells: np.ndarray,
    gates: np.ndarray,
    reverse: bool,
) -> tuple:
    """The gradients of what entered the gates, and of the first state and cell."""
    dtype, length = gates.dtype, len(gates)
    run, product = launcher(recurrent.lstm_step_gradient, dtype), cpu.FUNCTIONS["matmul"]
    dx = cpu.empty(gates.shape, dtype)
    saved, outputs = by_gate(gates), by_gate(dx)
    dh, dc, following = np.zeros((len(c), len(w[0])), dtype), np.zeros_like(c), np.empty_like(c)
    steps = [*order(length, not reverse)]
    for t, earlier in zip(steps, [*steps[1:], None], strict=True):
        former = c if earlier is None else cells[earlier]
        arrays = [dout[t], dh, dc, dcells[t], *saved[:, t], cells[t], former]
        run.map(arrays, (), [*outputs[:, t], following])
        dc, following = following, dc
        dh = product(dx[t], w)
    return dx, dh, dc
