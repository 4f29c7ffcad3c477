"""Gathers and scatter-adds by kernels, where arrays are large enough to gain from it.

Each function takes what the NumPy function of its name takes, and gives the same, bit for bit. It
passes on to that what it doesn't take: other layouts, small arrays, and an index out of range, so
that the error is the same too.
"""

import math
from typing import NamedTuple

import numpy as np

from ....kernels import places as templates
from .. import indexing as reference
from .. import thresholds
from ..jit.addresses import address
from ..jit.memory import empty
from ..table import wide
from .machine_code import BY_DTYPE, BY_SIZE, chunks_of, kernel_of, run_kernel

WHOLE = slice(None)
COMPONENT = {np.dtype("c8"): np.dtype("f4"), np.dtype("c16"): np.dtype("f8")}
CHUNK = 1 << 17  # bytes that a chunk moves
OWNED = 1 << 18  # bytes that a chunk of a scatter owns
PARTS = 64  # chunks of a scatter, at most: each looks at all indices
WIDE = 64  # bytes of a row, from which on it pays that several chunks look at all indices
LANES = 32  # elements of a row, at least, that a chunk is given where rows are split


class View(NamedTuple):
    """An array as (outer, *axes, inner), with indices along the axes."""

    outer: int
    axes: tuple[int, ...]
    inner: int
    shape: tuple[int, ...]  # what is selected


def view(shape: tuple[int, ...], spec: tuple, indices: tuple[np.ndarray, ...]) -> View | None:
    """An index whose arrays stand side by side, and whose other entries are whole axes."""
    first = spec.index("array")
    last = first + len(indices)
    alone = all(entry == "array" for entry in spec[first:last])
    if not alone or any(entry != WHOLE for entry in spec[:first] + spec[last:]):
        return None
    before, axes, after = shape[:first], shape[first:last], shape[last:]
    selected = np.broadcast_shapes(*(i.shape for i in indices))
    return View(math.prod(before), axes, math.prod(after), (*before, *selected, *after))


def is_index(x: np.ndarray) -> bool:
    return x.dtype.kind == "i" or (x.dtype.kind == "u" and x.dtype.itemsize < 8)


def flat(indices: tuple[np.ndarray, ...], axes: tuple[int, ...]) -> np.ndarray | None:
    """Indices along several axes as indices along these axes as one; None: one is out of range."""
    if len(indices) == 1:
        return np.ascontiguousarray(indices[0], np.int64)
    shape = np.broadcast_shapes(*(i.shape for i in indices))
    indices = tuple(np.ascontiguousarray(np.broadcast_to(i, shape), np.int64) for i in indices)
    out = np.empty(shape, np.int64)
    step = CHUNK // 8
    words = [0, address(out), out.size, step]
    for index, length in zip(indices, axes, strict=True):
        words += [address(index), length]
    words = run_kernel(kernel_of(templates.combine, len(axes)), words, chunks_of(step, out.size))
    return None if words[templates.BAD] else out


def units(x: np.ndarray, inner: int) -> tuple[str, int]:
    """Rows of elements as rows of units that machine code can move."""
    size = x.dtype.itemsize
    return (BY_SIZE[size], inner) if size in BY_SIZE else ("i64", inner * size // 8)


def index(x: np.ndarray, *indices: np.ndarray, spec: tuple) -> np.ndarray:
    out = gathered(x, indices, spec) if indices and x.flags.c_contiguous and x.size else None
    return reference.index(x, *indices, spec=spec) if out is None else out


def gathered(x: np.ndarray, indices: tuple[np.ndarray, ...], spec: tuple) -> np.ndarray | None:
    if max(i.size for i in indices) * x.nbytes < thresholds.GATHERED_BYTES:
        return None
    found = view(x.shape, spec, indices) if all(map(is_index, indices)) else None
    if found is None:
        return None
    kind, width = units(x, found.inner)
    count = math.prod(found.shape)
    if (
        count < thresholds.GATHERED_ELEMENTS
        if width == 1
        else count * x.itemsize < thresholds.GATHERED_BYTES
    ):
        return None
    index = flat(indices, found.axes)
    if index is None:
        return None
    out = empty(found.shape, x.dtype)
    axis = math.prod(found.axes)
    if width == 1:
        return picked(x, index, out, Picks(found.outer, index.size, 1, axis, 1, 0, 0))
    rows, step = found.outer * index.size, max(1, CHUNK // (x.itemsize * found.inner))
    words = [0, address(x), address(index), address(out), rows, step, index.size, axis, width]
    words = run_kernel(kernel_of(templates.gather, kind), words, chunks_of(step, rows))
    return None if words[templates.BAD] else out


class Picks(NamedTuple):
    """out[r, i] = x[r // group, index[r, i] * stride + i * ramp], with r * move before index[r]."""

    count: int
    width: int
    group: int
    axis: int
    stride: int
    ramp: int
    move: int


def picked(x: np.ndarray, index: np.ndarray, out: np.ndarray, rows: Picks) -> np.ndarray | None:
    size = max(1, rows.width * 8)
    step = max(1, CHUNK // size)
    parts = chunks_of(CHUNK, size)
    piece = chunks_of(parts, rows.width)
    words = [0, address(x), address(index), address(out)]
    words += [rows.count, step, rows.width, parts, piece, *rows[2:]]
    chunks = chunks_of(step, rows.count) * parts
    words = run_kernel(kernel_of(templates.pick, BY_SIZE[x.itemsize]), words, chunks)
    return None if words[templates.BAD] else out


def scatter(x: np.ndarray, *indices: np.ndarray, spec: tuple, shape: tuple[int, ...]) -> np.ndarray:
    out, size = None, math.prod(shape)
    if indices and x.size and size and x.nbytes + size * x.itemsize >= thresholds.ADDED_BYTES:
        out = scattered(x, indices, spec, shape)
    return reference.scatter(x, *indices, spec=spec, shape=shape) if out is None else out


def scattered(
    x: np.ndarray, indices: tuple[np.ndarray, ...], spec: tuple, shape: tuple[int, ...]
) -> np.ndarray | None:
    terms = np.ascontiguousarray(x, wide(x.dtype))
    real = COMPONENT.get(terms.dtype, terms.dtype)
    fits = real in BY_DTYPE and all(map(is_index, indices))
    found = view(shape, spec, indices) if fits else None
    index = None
    if found is not None and x.shape == found.shape:
        index = flat(indices, found.axes)
    if found is None or index is None:
        return None
    out = empty(shape, terms.dtype)
    axis, width = math.prod(found.axes), found.inner * (terms.itemsize // real.itemsize)
    size = axis * found.inner * out.itemsize
    wanted = size // OWNED if found.inner * out.itemsize >= WIDE else 1
    step = chunks_of(min(PARTS, max(1, wanted)), axis)
    parts = chunks_of(step, axis)
    group = max(1, CHUNK // size) if parts == 1 else 1
    words = [0, address(terms), address(index), address(out)]
    words += [found.outer, group, index.size, axis, width, parts, step]
    chunks = chunks_of(group, found.outer) * parts
    words = run_kernel(kernel_of(templates.scatter, BY_DTYPE[real], width == 1), words, chunks)
    return None if words[templates.BAD] else out.astype(x.dtype, copy=False)


def take_along_axis(x: np.ndarray, index: np.ndarray, *, axis: int) -> np.ndarray:
    out = None
    if index.size >= thresholds.TAKEN_ALONG and x.size and x.flags.c_contiguous and is_index(index):
        out = taken_along(x, index, axis)
    return reference.take_along_axis(x, index, axis=axis) if out is None else out


def taken_along(x: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray | None:
    before, after, count = x.shape[:axis], x.shape[axis + 1 :], index.shape[axis]
    if x.itemsize not in BY_SIZE or index.shape != (*before, count, *after):
        return None
    out = empty(index.shape, x.dtype)
    places = np.ascontiguousarray(index, np.int64)
    outer, inner, length = math.prod(before), math.prod(after), x.shape[axis]
    if count == inner == 1:
        return picked(x, places, out, Picks(1, outer, 1, length, 1, length, 0))
    if inner == 1:
        return picked(x, places, out, Picks(outer, count, 1, length, 1, 0, count))
    return picked(x, places, out, Picks(outer * count, inner, count, length, inner, 1, inner))


def scatter_along_axis(
    x: np.ndarray, index: np.ndarray, *, axis: int, shape: tuple[int, ...]
) -> np.ndarray:
    out = None
    if x.size and math.prod(shape) * x.itemsize >= thresholds.ADDED_BYTES and is_index(index):
        out = scattered_along(x, index, axis, shape)
    if out is None:
        return reference.scatter_along_axis(x, index, axis=axis, shape=shape)
    return out


def scattered_along(
    x: np.ndarray, index: np.ndarray, axis: int, shape: tuple[int, ...]
) -> np.ndarray | None:
    once = index.shape[axis] == 1
    terms = np.ascontiguousarray(x, None if once else wide(x.dtype))
    kind = BY_SIZE.get(x.itemsize) if once else BY_DTYPE.get(terms.dtype)
    before, after, count = shape[:axis], shape[axis + 1 :], index.shape[axis]
    if kind is None or not x.shape == index.shape == (*before, count, *after):
        return None
    out = empty(shape, terms.dtype)
    places = np.ascontiguousarray(index, np.int64)
    outer, inner = math.prod(before), math.prod(after)
    size = (shape[axis] + 2 * count) * inner * out.itemsize
    group = max(1, CHUNK // size)
    width = max(LANES, CHUNK * inner // size) if size > 4 * CHUNK else inner
    parts = chunks_of(width, inner)
    words = [0, address(terms), address(places), address(out)]
    words += [outer, group, count, shape[axis], inner, parts, width]
    chunks = chunks_of(group, outer) * parts
    words = run_kernel(kernel_of(templates.scatter_along, kind, once, inner == 1), words, chunks)
    return None if words[templates.BAD] else out.astype(x.dtype, copy=False)
