"""Running sums, products and recurrences: the same results as NumPy's, bit for bit."""

import math
from collections.abc import Callable

import numpy as np

from ....kernels import running as templates
from ....kernels.ops import Unsupported
from ...launches import View
from .maps import as_contiguous, held_in
from .native import BY_DTYPE, NativeLowering, Words, chunks_of, kernel_of

CHUNK = 1 << 14  # elements of a chunk
HALF, DOUBLE = np.dtype(np.float16), np.dtype(np.float64)


def lower_running(
    to: NativeLowering, template: Callable, axis: int, reverse: bool, **arrays: View
) -> None:
    """The arrays have one shape and dtype."""
    first = next(iter(arrays.values()))
    dtype, shape = first.dtype, first.shape
    held = DOUBLE if dtype == HALF else dtype
    if not first.size or not shape or held not in BY_DTYPE:
        raise Unsupported(f"what runs along an axis of {dtype} {shape}")
    axis %= len(shape)
    result = to.result(shape, dtype)
    sources = {name: as_contiguous(to, x, held) for name, x in arrays.items()}
    length, inner = shape[axis], math.prod(shape[axis + 1 :])
    outer, width = math.prod(shape[:axis]), min(inner, templates.LANES)
    parts = chunks_of(width, inner)
    group = max(1, CHUNK // (length * inner))
    if inner == 1:
        group = chunks_of(templates.SIDE_BY_SIDE, group) * templates.SIDE_BY_SIDE
    words: Words = dict(outer=outer, group=group, length=length, inner=inner)
    words |= dict(parts=parts, width=width)
    words |= dict(first=length - 1 if reverse else 0, move=-1 if reverse else 1)
    kernel = kernel_of(template, BY_DTYPE[held], inner == 1)
    with held_in(to, held, result) as out:
        to.launch(kernel, chunks_of(group, outer) * parts, words | sources | dict(out=out))


def cumulative_sum(to: NativeLowering, x: View, *, axis: int, reverse: bool) -> None:
    lower_running(to, templates.cumulative_sum, axis, reverse, x=x)


def cumulative_prod(to: NativeLowering, x: View, *, axis: int, reverse: bool) -> None:
    lower_running(to, templates.cumulative_prod, axis, reverse, x=x)


def recurrence(to: NativeLowering, a: View, b: View, *, axis: int, reverse: bool) -> None:
    if a.shape != b.shape or a.dtype != b.dtype or b.dtype.kind != "f":
        raise Unsupported("a recurrence of different arrays, or of integers")
    lower_running(to, templates.recurrence, axis, reverse, a=a, b=b)
