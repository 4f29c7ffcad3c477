"""Pooling of 1-d and 2-d images. Sums are made in the order of the NumPy functions, so they are the
same."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ....kernels import pooling as templates
from ....kernels.ops import Unsupported
from ....kernels.pooling import Wide
from ....kernels.text import VECTOR
from ...launches import View
from ...spaces import Ints, Pairs, window_count
from .maps import as_contiguous, held_in
from .native import FLOATS, NativeLowering, Words, chunks_of, kernel_of

CHUNK = 1 << 14  # elements that a chunk reads
LONGEST = 8  # elements along W of a window that vectors are used for
INT64, HALF, SINGLE = (np.dtype(name) for name in ("i8", "f2", "f4"))
POOLED = {HALF, *FLOATS}


class PooledAxis(NamedTuple):
    """An axis of an image, and the windows along it."""

    size: int
    count: int
    kernel: int
    stride: int
    padding: int
    dilation: int


def axes(
    shape: Ints, count: Ints, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> list[PooledAxis]:
    """H and W of images of shape (N, C, H, W) or (N, C, W)."""
    parts = zip(shape[2:], count, kernel, stride, padding, dilation, strict=True)
    found = [PooledAxis(n, many, k, s, before, d) for n, many, k, s, (before, _), d in parts]
    if len(found) == 1:
        found.insert(0, PooledAxis(1, 1, 1, 1, 0, 1))
    if len(found) != 2:
        raise Unsupported(f"pooling of shape {shape}")
    return found


def whole(axis: PooledAxis) -> tuple[int, int]:
    """The windows that lie entirely in the image: the first, and the one after the last."""
    first = chunks_of(axis.stride, axis.padding)
    room = axis.size - 1 + axis.padding - (axis.kernel - 1) * axis.dilation
    return first, min(axis.count, room // axis.stride + 1)


def vectors(first: int, last: int, itemsize: int) -> int:
    """How many of the outputs from first to last are computed together; 0: each by itself."""
    fitting = [n for n in (16, 8, 4) if n <= last - first and n * itemsize <= VECTOR]
    return fitting[0] if fitting else 0


def all_reach(axis: PooledAxis) -> bool:
    """Whether every window has an element of the image."""
    starts = (i * axis.stride - axis.padding for i in range(axis.count))
    return all(
        any(0 <= start + k * axis.dilation < axis.size for k in range(axis.kernel))
        for start in starts
    )


def lower_windows(
    to: NativeLowering,
    template: Callable,
    x: View,
    outs: dict[str, View],
    axes: list[PooledAxis],
    inside: Ints,
) -> None:
    """Launch a kernel on images; `inside` says which outputs are computed as vectors. float16 is
    computed as float32: the first output is then converted."""
    high, across = axes
    (name, result), *others = outs.items()
    terms = as_contiguous(to, x, SINGLE if x.dtype == HALF else x.dtype)
    first, last = inside
    lanes = vectors(first, last, terms.itemsize) if across.kernel <= LONGEST else 0
    wide = Wide(across.kernel, across.stride, across.dilation, lanes)
    images = math.prod(x.shape[:2])
    step = max(1, CHUNK // (high.size * across.size))
    words: Words = dict(x=terms, images=images, step=step, h=high.size, w=across.size)
    words |= dict(rows=high.count, columns=across.count, kernel=high.kernel, stride=high.stride)
    words |= dict(dilation=high.dilation, top=high.padding, left=across.padding)
    words |= dict(first=first if lanes else 0, last=last if lanes else 0)
    kernel = kernel_of(template, FLOATS[terms.dtype], wide)
    with held_in(to, terms.dtype, result) as out:
        to.launch(kernel, chunks_of(step, images), words | {name: out} | dict(others))


def max_pool(
    to: NativeLowering, x: View, *, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> None:
    size = window_count(x.shape, kernel, stride, padding, dilation)
    found = axes(x.shape, size, kernel, stride, padding, dilation)
    fits = math.prod(x.shape[2:]) < 1 << 31 and min(size) > 0
    if not (x.size and x.dtype in POOLED and fits and all(map(all_reach, found))):
        raise Unsupported(f"max_pool of {x.dtype} {x.shape}")
    values, places = (to.result((*x.shape[:2], *size), dtype) for dtype in (x.dtype, INT64))
    outs = {"values": values, "places": places}
    lower_windows(to, templates.max_pool, x, outs, found, whole(found[1]))


def window_sum(to: NativeLowering, x: View, *, kernel: Ints, stride: Ints, padding: Pairs) -> None:
    ones = (1,) * len(kernel)
    size = window_count(x.shape, kernel, stride, padding, ones)
    found = axes(x.shape, size, kernel, stride, padding, ones)
    check_order(x, found)
    out = to.result((*x.shape[:2], *size), x.dtype)
    lower_windows(to, templates.window_sum, x, {"out": out}, found, whole(found[1]))


def window_spread(
    to: NativeLowering, x: View, *, shape: Ints, kernel: Ints, stride: Ints, padding: Pairs
) -> None:
    found = axes(shape, x.shape[2:], kernel, stride, padding, (1,) * len(kernel))
    check_order(x, found)
    out = to.result(shape, x.dtype)
    lower_windows(to, templates.window_spread, x, {"out": out}, found, spread_inside(found[1]))


def check_order(x: View, axes: list[PooledAxis]) -> None:
    """Refuse windows whose terms the NumPy function doesn't add one after the other."""
    in_order = all(a.size and a.count >= a.kernel for a in axes)
    if x.dtype not in POOLED or not x.size or not in_order:
        raise Unsupported(f"sums of windows of {x.dtype} {x.shape}")


def spread_inside(axis: PooledAxis) -> tuple[int, int]:
    """Of places as far apart as windows, those all of whose windows there are, and of which all
    places up to the next are in the image."""
    if axis.stride not in (1, 2, 4):
        return 0, 0
    first = max(chunks_of(axis.stride, axis.padding), chunks_of(axis.stride, axis.kernel) - 1)
    return first, min(axis.count, (axis.size + axis.padding) // axis.stride)
