"""Pooling of 1-d and 2-d images by kernels, where they are large enough to gain from it.

Each function takes what the NumPy function of its name takes, and passes on to it what it doesn't
take itself. Sums are made in the same order, so they are the same.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ....kernels import pooling as templates
from ....kernels.pooling import Wide
from ....kernels.template import VECTOR
from .. import windows as reference
from ..jit.addresses import address
from ..jit.memory import empty
from .machine_code import BY_DTYPE, chunks_of, kernel_of, run_kernel

Ints = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]
CHUNK = 1 << 14  # elements that a chunk reads
LONGEST = 8  # elements along W of a window that vectors are used for
INT64 = np.dtype(np.int64)


class PooledAxis(NamedTuple):
    """An axis of an image, and the windows along it."""

    size: int
    count: int
    kernel: int
    stride: int
    padding: int
    dilation: int


def axes(shape: Ints, count: Ints, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints):
    """H and W of images of shape (N, C, H, W) or (N, C, W), None for others."""
    parts = zip(shape[2:], count, kernel, stride, padding, dilation, strict=True)
    found = [PooledAxis(n, many, k, s, before, d) for n, many, k, s, (before, _), d in parts]
    if len(found) == 1:
        found.insert(0, PooledAxis(1, 1, 1, 1, 0, 1))
    return found if len(found) == 2 else None


def whole(axis: PooledAxis) -> tuple[int, int]:
    """The windows that lie entirely in the image: the first, and the one after the last."""
    first = chunks_of(axis.stride, axis.padding)
    room = axis.size - 1 + axis.padding - (axis.kernel - 1) * axis.dilation
    return first, min(axis.count, room // axis.stride + 1)


def vectors(first: int, last: int, itemsize: int) -> int:
    """How many of so many outputs are computed together; 0: each by itself."""
    fitting = [n for n in (16, 8, 4) if n <= last - first and n * itemsize <= VECTOR]
    return fitting[0] if fitting else 0


@functools.lru_cache(1024)
def all_reach(axis: PooledAxis) -> bool:
    """Whether every window has an element of the image."""
    starts = (i * axis.stride - axis.padding for i in range(axis.count))
    return all(
        any(0 <= start + k * axis.dilation < axis.size for k in range(axis.kernel))
        for start in starts
    )


def run(
    template: Callable, x: np.ndarray, outs: list[np.ndarray], axes: list[PooledAxis], inside: Ints
) -> None:
    """Run a kernel; `inside` says which outputs are computed as vectors."""
    high, across = axes
    first, last = inside
    lanes = vectors(first, last, x.itemsize) if across.kernel <= LONGEST else 0
    wide = Wide(across.kernel, across.stride, across.dilation, lanes)
    images = math.prod(x.shape[:2])
    step = max(1, CHUNK // (high.size * across.size))
    words = [address(x), *map(address, outs), images, step, high.size, across.size]
    words += [high.count, across.count, high.kernel, high.stride, high.dilation, high.padding]
    words += [across.padding, *((first, last) if lanes else (0, 0))]
    run_kernel(kernel_of(template, BY_DTYPE[x.dtype], wide), words, chunks_of(step, images))


def max_pool(
    x: np.ndarray, *, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> tuple[np.ndarray, np.ndarray]:
    size = reference.output_size(x.shape, kernel, stride, padding, dilation)
    found = axes(x.shape, size, kernel, stride, padding, dilation)
    fits = math.prod(x.shape[2:]) < 1 << 31 and math.prod(size) >= math.prod(kernel)
    if found and x.size and x.dtype.kind == "f" and fits and all(map(all_reach, found)):
        terms = np.ascontiguousarray(reference.widened(x))
        out = empty((*x.shape[:2], *size), terms.dtype)
        places = empty(out.shape, INT64)
        run(templates.max_pool, terms, [out, places], found, whole(found[1]))
        return out.astype(x.dtype, copy=False), places
    return reference.max_pool(x, kernel=kernel, stride=stride, padding=padding, dilation=dilation)


def window_sum(x: np.ndarray, *, kernel: Ints, stride: Ints, padding: Pairs) -> np.ndarray:
    ones = (1,) * len(kernel)
    size = reference.output_size(x.shape, kernel, stride, padding, ones)
    found = axes(x.shape, size, kernel, stride, padding, ones)
    if found and is_in_order(x, found):
        terms = np.ascontiguousarray(reference.widened(x))
        out = empty((*x.shape[:2], *size), terms.dtype)
        run(templates.window_sum, terms, [out], found, whole(found[1]))
        return out.astype(x.dtype, copy=False)
    return reference.window_sum(x, kernel=kernel, stride=stride, padding=padding)


def window_spread(
    x: np.ndarray, *, shape: Ints, kernel: Ints, stride: Ints, padding: Pairs
) -> np.ndarray:
    found = axes(shape, x.shape[2:], kernel, stride, padding, (1,) * len(kernel))
    if found and is_in_order(x, found):
        terms = np.ascontiguousarray(reference.widened(x))
        out = empty(shape, terms.dtype)
        run(templates.window_spread, terms, [out], found, spread_inside(found[1]))
        return out.astype(x.dtype, copy=False)
    return reference.window_spread(x, shape=shape, kernel=kernel, stride=stride, padding=padding)


def is_in_order(x: np.ndarray, axes: list[PooledAxis]) -> bool:
    """Whether the NumPy function adds the terms of a sum one after the other."""
    return x.dtype.kind == "f" and x.size > 0 and all(a.size and a.count >= a.kernel for a in axes)


def spread_inside(axis: PooledAxis) -> tuple[int, int]:
    """Of places as far apart as windows, those all of whose windows there are, and of which all
    places up to the next are in the image."""
    if axis.stride not in (1, 2, 4):
        return 0, 0
    first = max(chunks_of(axis.stride, axis.padding), chunks_of(axis.stride, axis.kernel) - 1)
    return first, min(axis.count, (axis.size + axis.padding) // axis.stride)
