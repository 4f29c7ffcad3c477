"""Gathers and scatter-adds: the same as NumPy's, bit for bit.

An index out of range sets the status: the NumPy function then raises its error.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from ....kernels import places as templates
from ....kernels.ops import Unsupported
from ...launches import Layout, View
from ...spaces import Ints, steps_in
from ..table import wide
from .maps import as_contiguous, held_in
from .native import BY_DTYPE, BY_SIZE, NativeLowering, Words, chunks_of, kernel_of

WHOLE = slice(None)
COMPONENT = {np.dtype("c8"): np.dtype("f4"), np.dtype("c16"): np.dtype("f8")}
INT64 = np.dtype(np.int64)
CHUNK = 1 << 17  # bytes that a chunk moves
OWNED = 1 << 18  # bytes that a chunk of a scatter owns
PARTS = 64  # chunks of a scatter, at most: each looks at all indices
WIDE = 64  # bytes of a row, from which on it pays that several chunks look at all indices
LANES = 32  # elements of a row, at least, that a chunk is given where rows are split
BAD = "an index is out of range"


class Selection(NamedTuple):
    """An array as (outer, *axes, inner), with indices along the axes."""

    outer: int
    axes: Ints
    inner: int
    shape: Ints  # what is selected


def selection(shape: Ints, spec: tuple, indices: tuple[Layout, ...]) -> Selection:
    """An index whose arrays stand side by side, and whose other entries are whole axes."""
    first = spec.index("array") if indices and all(map(is_index, indices)) else len(spec)
    last = first + len(indices)
    alone = indices and all(entry == "array" for entry in spec[first:last])
    if not alone or any(entry != WHOLE for entry in spec[:first] + spec[last:]):
        raise Unsupported(f"an index {spec}")
    before, axes, after = shape[:first], shape[first:last], shape[last:]
    selected = np.broadcast_shapes(*(i.shape for i in indices))
    return Selection(math.prod(before), axes, math.prod(after), (*before, *selected, *after))


def is_index(x: Layout) -> bool:
    return x.dtype.kind == "i" or (x.dtype.kind == "u" and x.dtype.itemsize < 8)


def combined(to: NativeLowering, indices: tuple[View, ...], axes: Ints) -> View:
    """Indices along several axes as indices along these axes as one."""
    if len(indices) == 1:
        return as_contiguous(to, indices[0], INT64)
    shape = np.broadcast_shapes(*(i.shape for i in indices))
    wide = [as_contiguous(to, i.view(shape, steps_in(i, shape)), INT64) for i in indices]
    out, step = to.temporary(shape, INT64), CHUNK // 8
    words: Words = dict(status=BAD, out=out, total=out.size, step=step)
    words |= {f"index{k}": index for k, index in enumerate(wide)}
    words |= {f"length{k}": length for k, length in enumerate(axes)}
    to.launch(kernel_of(templates.combine, len(axes)), chunks_of(step, out.size), words)
    return out


def units(x: Layout, inner: int) -> tuple[str, int]:
    """Rows of elements as rows of units that machine code can move."""
    size = x.itemsize
    return (BY_SIZE[size], inner) if size in BY_SIZE else ("i64", inner * size // 8)


def index(to: NativeLowering, x: View, *indices: View, spec: tuple) -> None:
    if not x.size or not to.is_contiguous(x):
        raise Unsupported("gathers from what has gaps")
    found = selection(x.shape, spec, indices)
    out = to.result(found.shape, x.dtype)
    if not out.size:
        raise Unsupported("gathers of nothing")
    kind, width = units(x, found.inner)
    places, length = combined(to, indices, found.axes), math.prod(found.axes)
    if width == 1:
        lower_picks(to, x, places, out, Picks(found.outer, places.size, 1, length, 1, 0, 0))
        return
    rows, step = found.outer * places.size, max(1, CHUNK // (x.itemsize * found.inner))
    words: Words = dict(status=BAD, x=x, index=places, out=out, rows=rows, step=step)
    words |= dict(count=places.size, length=length, width=width)
    to.launch(kernel_of(templates.gather, kind), chunks_of(step, rows), words)


class Picks(NamedTuple):
    """out[r, i] = x[r // group, index[r, i] * stride + i * ramp], with r * move before index[r]."""

    rows: int
    width: int
    group: int
    length: int
    stride: int
    ramp: int
    move: int


def lower_picks(to: NativeLowering, x: View, index: View, out: View, picks: Picks) -> None:
    size = max(1, picks.width * 8)
    step, parts = max(1, CHUNK // size), chunks_of(CHUNK, size)
    words: Words = dict(status=BAD, x=x, index=index, out=out, step=step, parts=parts)
    words |= dict(piece=chunks_of(parts, picks.width)) | picks._asdict()
    kernel = kernel_of(templates.pick, BY_SIZE[x.itemsize])
    to.launch(kernel, chunks_of(step, picks.rows) * parts, words)


def scatter(to: NativeLowering, x: View, *indices: View, spec: tuple, shape: Ints) -> None:
    found = selection(shape, spec, indices)
    held = np.dtype(wide(x.dtype))
    real = COMPONENT.get(held, held)
    if real not in BY_DTYPE or x.shape != found.shape or not x.size or not math.prod(shape):
        raise Unsupported(f"a scatter of {x.dtype} {x.shape}")
    result = to.result(shape, x.dtype)
    terms = as_numbers(to, x, held)
    index = combined(to, indices, found.axes)
    length, width = math.prod(found.axes), found.inner * (held.itemsize // real.itemsize)
    size = length * found.inner * held.itemsize
    wanted = size // OWNED if found.inner * held.itemsize >= WIDE else 1
    step = chunks_of(min(PARTS, max(1, wanted)), length)
    parts = chunks_of(step, length)
    group = max(1, CHUNK // size) if parts == 1 else 1
    words: Words = dict(status=BAD, x=terms, index=index, outers=found.outer, group=group)
    words |= dict(count=index.size, length=length, width=width, parts=parts, step=step)
    kernel = kernel_of(templates.scatter, BY_DTYPE[real], width == 1)
    with held_in(to, held, result) as out:
        to.launch(kernel, chunks_of(group, found.outer) * parts, words | dict(out=out))


def as_numbers(to: NativeLowering, x: View, dtype: np.dtype) -> View:
    """x without gaps, in a dtype; complex numbers as pairs of real ones."""
    real = COMPONENT.get(x.dtype)
    if real is None:
        return as_contiguous(to, x, dtype)
    pairs = View((*x.shape, 2), (*x.strides, real.itemsize), real, x.aligned, x.slot, x.offset)
    return as_contiguous(to, pairs)


def take_along_axis(to: NativeLowering, x: View, index: View, *, axis: int) -> None:
    if not to.is_contiguous(x):
        raise Unsupported("gathers from what has gaps")
    lower_along_axis(to, x, index, axis, None)


def lower_along_axis(to: NativeLowering, x: View, index: View, axis: int, out: View | None) -> None:
    """Gather along an axis of x, which has no gaps; into a result of the op if `out` is None."""
    axis %= x.ndim
    before, after, count = x.shape[:axis], x.shape[axis + 1 :], index.shape[axis]
    fits = index.shape == (*before, count, *after) and x.itemsize in BY_SIZE
    if not (fits and is_index(index) and x.size and index.size):
        raise Unsupported(f"a gather of {x.dtype} along an axis")
    out = out or to.result(index.shape, x.dtype)
    places = as_contiguous(to, index, INT64)
    outer, inner, length = math.prod(before), math.prod(after), x.shape[axis]
    if count == inner == 1:
        picks = Picks(1, outer, 1, length, 1, length, 0)
    elif inner == 1:
        picks = Picks(outer, count, 1, length, 1, 0, count)
    else:
        picks = Picks(outer * count, inner, count, length, inner, 1, inner)
    lower_picks(to, x, places, out, picks)


def scatter_along_axis(to: NativeLowering, x: View, index: View, *, axis: int, shape: Ints) -> None:
    axis %= len(shape)
    once = index.shape[axis] == 1
    held = x.dtype if once else np.dtype(wide(x.dtype))
    kind: Any = BY_SIZE.get(x.itemsize) if once else BY_DTYPE.get(held)
    before, after, count = shape[:axis], shape[axis + 1 :], index.shape[axis]
    fits = x.shape == index.shape == (*before, count, *after) and is_index(index)
    if kind is None or not fits or not x.size or not math.prod(shape):
        raise Unsupported(f"a scatter of {x.dtype} along an axis")
    result = to.result(shape, x.dtype)
    terms, places = as_contiguous(to, x, held), as_contiguous(to, index, INT64)
    outer, inner = math.prod(before), math.prod(after)
    size = (shape[axis] + 2 * count) * inner * held.itemsize
    group = max(1, CHUNK // size)
    width = max(LANES, CHUNK * inner // size) if size > 4 * CHUNK else inner
    parts = chunks_of(width, inner)
    words: Words = dict(status=BAD, x=terms, index=places, outers=outer, step=group)
    words |= dict(count=count, length=shape[axis], inner=inner, parts=parts, width=width)
    kernel = kernel_of(templates.scatter_along, kind, once, inner == 1)
    with held_in(to, held, result) as out:
        to.launch(kernel, chunks_of(group, outer) * parts, words | dict(out=out))
