"""Running sums, products and recurrences by kernels, where arrays are large enough to gain from it.

Each function takes what the NumPy function of its name takes, and passes on to it what it doesn't
take itself. The results are the same, bit for bit.
"""

import math
from collections.abc import Callable

import numpy as np

from ....kernels import running as templates
from .. import reductions as reference
from ..jit.addresses import address
from ..jit.memory import empty
from .machine_code import BY_DTYPE, chunks_of, kernel_of, run_kernel

CHUNK = 1 << 14  # elements of a chunk


def computed(template: Callable, arrays: list[np.ndarray], axis: int, reverse: bool) -> np.ndarray:
    """The arrays have one shape and dtype."""
    dtype, shape = arrays[0].dtype, arrays[0].shape
    held = np.float64 if dtype == np.float16 else dtype
    arrays = [np.ascontiguousarray(x, held) for x in arrays]
    out = empty(shape, arrays[0].dtype)
    length, inner = shape[axis], math.prod(shape[axis + 1 :])
    outer, width = math.prod(shape[:axis]), min(inner, templates.LANES)
    parts = chunks_of(width, inner)
    group = max(1, CHUNK // (length * inner))
    if inner == 1:
        group = chunks_of(templates.SIDE_BY_SIDE, group) * templates.SIDE_BY_SIDE
    words = [*map(address, arrays), address(out), outer, group, length, inner, parts, width]
    words += [length - 1, -1] if reverse else [0, 1]
    chunks = chunks_of(group, outer) * parts
    run_kernel(kernel_of(template, BY_DTYPE[out.dtype], inner == 1), words, chunks)
    return out.astype(dtype, copy=False)


def can_take(x: np.ndarray) -> bool:
    return x.size > 0 and (x.dtype in BY_DTYPE or x.dtype == np.float16)


def cumulative_sum(x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
    if can_take(x):
        return computed(templates.cumulative_sum, [x], axis, reverse)
    return reference.cumulative_sum(x, axis=axis, reverse=reverse)


def cumulative_prod(x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
    if can_take(x):
        return computed(templates.cumulative_prod, [x], axis, reverse)
    return reference.cumulative_prod(x, axis=axis, reverse=reverse)


def recurrence(a: np.ndarray, b: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
    alike = a.shape == b.shape and a.dtype == b.dtype and b.dtype.kind == "f"
    if alike and can_take(b):
        return computed(templates.recurrence, [a, b], axis, reverse)
    return reference.recurrence(a, b, axis=axis, reverse=reverse)


def scaled_recurrence(
    a: np.ndarray, b: np.ndarray, n: np.ndarray, *, axis: int, reverse: bool
) -> tuple[np.ndarray, np.ndarray]:
    return reference.scaled_recurrence(a, b, n, axis=axis, reverse=reverse, plain=recurrence)
