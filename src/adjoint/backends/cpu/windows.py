"""Convolution and pooling of any number of spatial axes, on NumPy: windows are strided views."""

import math
from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..spaces import Ints, Pairs, window_count
from .movement import pad
from .table import lowered

BLOCK = 1 << 19  # elements


def widened(x: np.ndarray) -> np.ndarray:
    """float16 as float32: sums of products need its digits and its range, and BLAS has it."""
    return x.astype(np.float32) if x.dtype == np.float16 else x


def padded(x: np.ndarray, padding: Pairs, value: float = 0) -> np.ndarray:
    """x with `value` around its spatial axes."""
    if not any(before > 0 or after > 0 for before, after in padding):
        return x
    widths = [(0, 0), (0, 0), *((before, max(after, 0)) for before, after in padding)]
    return pad(x, pad_width=widths, value=value)


def window_view(x: np.ndarray, size: Ints, kernel: Ints, stride: Ints, dilation: Ints):
    """A view (N, C, *kernel, *size): element k of the window at output position i."""
    n, c, *spatial = x.strides
    steps = [s * d for s, d in zip(spatial, dilation, strict=True)]
    moves = [s * t for s, t in zip(spatial, stride, strict=True)]
    return as_strided(x, (*x.shape[:2], *kernel, *size), (n, c, *steps, *moves), writeable=False)


def at_offset(offset: Ints, size: Ints, stride: Ints, dilation: Ints) -> tuple:
    """The index of one element of every window."""
    places = zip(offset, dilation, stride, size, strict=True)
    return (..., *(slice(k * d, k * d + s * (n - 1) + 1, s) for k, d, s, n in places))


def columns(view: np.ndarray, groups: int) -> np.ndarray:
    """Windows (N, C, *kernel, *size) as matrices (N, groups, C / groups * kernel, positions)."""
    images, channels = view.shape[:2]
    count = (view.ndim - 2) // 2
    rows = channels // groups * math.prod(view.shape[2 : 2 + count])
    return view.reshape(images, groups, rows, math.prod(view.shape[2 + count :]))


def filter_matrix(w: np.ndarray, groups: int) -> np.ndarray:
    """Filters (O, C / groups, *kernel) as matrices (groups, O / groups, C / groups * kernel)."""
    return w.reshape(groups, w.shape[0] // groups, math.prod(w.shape[1:]))


def by_group(g: np.ndarray, groups: int) -> np.ndarray:
    """(N, O, *size) as (N, groups, O / groups, positions)."""
    n, channels, *size = g.shape
    return g.reshape(n, groups, channels // groups, math.prod(size))


def few_images(count: int, size: int) -> Iterator[slice]:
    """Parts of a batch that are small enough for their windows to stay in the cache."""
    step = max(1, BLOCK // max(size, 1))
    return (slice(start, start + step) for start in range(0, count, step))


@lowered("convolution", least="CONVOLVED")
def conv(x, w, bias=None, *, stride, padding, dilation, groups):
    dtype, kernel = x.dtype, w.shape[2:]
    x, w = widened(x), widened(w)
    size = window_count(x.shape, kernel, stride, padding, dilation)
    view = window_view(padded(x, padding), size, kernel, stride, dilation)
    matrix = filter_matrix(w, groups)
    out = np.empty((x.shape[0], *matrix.shape[:2], math.prod(size)), x.dtype)
    for part in few_images(len(x), math.prod(view.shape[1:])):
        np.matmul(matrix, columns(view[part], groups), out[part])
    out = out.reshape(x.shape[0], w.shape[0], *size)
    if bias is not None:
        out += bias.reshape(-1, *(1 for _ in size))
    return out.astype(dtype, copy=False)


@lowered("convolution", least="CONVOLVED")
def conv_input(g, w, *, x_shape, stride, padding, dilation, groups):
    """Gradient of conv with respect to its input, given the gradient g of its output: columns are
    added to the places that they were taken from."""
    dtype, kernel, size = g.dtype, w.shape[2:], g.shape[2:]
    g, w = widened(g), widened(w)
    matrix = filter_matrix(w, groups).swapaxes(-1, -2)
    spatial = [b + n + max(a, 0) for n, (b, a) in zip(x_shape[2:], padding, strict=True)]
    out = np.zeros((*x_shape[:2], *spatial), g.dtype)
    offsets = list(product(*map(range, kernel)))
    for part in few_images(len(g), x_shape[1] * math.prod(kernel) * math.prod(size)):
        cols = np.matmul(matrix, by_group(g[part], groups))
        cols = cols.reshape(len(cols), x_shape[1], len(offsets), *size)
        for number, offset in enumerate(offsets):
            out[part][at_offset(offset, size, stride, dilation)] += cols[:, :, number]
    inside = tuple(slice(b, b + n) for (b, _), n in zip(padding, x_shape[2:], strict=True))
    return out[(..., *inside)].astype(dtype, copy=False)


@lowered("convolution", least="CONVOLVED")
def conv_weight(x, g, *, w_shape, stride, padding, dilation, groups):
    """Gradient of conv with respect to its weight, given the gradient g of its output."""
    dtype, x, g = g.dtype, widened(x), widened(g)
    view = window_view(padded(x, padding), g.shape[2:], w_shape[2:], stride, dilation)
    out = np.zeros((groups, w_shape[0] // groups, math.prod(w_shape[1:])), g.dtype)
    for part in few_images(len(x), math.prod(view.shape[1:])):
        cols = columns(view[part], groups)
        out += np.matmul(by_group(g[part], groups), cols.swapaxes(-1, -2)).sum(axis=0)
    return out.reshape(w_shape).astype(dtype, copy=False)


@lowered("pooling", least="POOLED")
def max_pool(x, *, kernel, stride, padding, dilation):
    """The largest element of each window, and its flat index in the image (the first of equals)."""
    size = window_count(x.shape, kernel, stride, padding, dilation)
    if math.prod(size) < math.prod(kernel):
        return largest_by_window(x, size, kernel, stride, padding, dilation)
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    image = padded(x, padding, lowest)
    offsets = list(product(*map(range, kernel)))
    parts = [image[at_offset(offset, size, stride, dilation)] for offset in offsets]
    out = parts[0].copy()
    for part in parts[1:]:
        np.maximum(out, part, out=out)

    in_image = None
    if image is not x:
        ones = padded(np.ones((1, 1, *x.shape[2:]), bool), padding)
        in_image = [ones[at_offset(offset, size, stride, dilation)] for offset in offsets]
    best = first_equal(out, parts, in_image)
    steps = [math.prod(x.shape[3 + axis :]) for axis in range(len(kernel))]
    position = flat_offsets(kernel, dilation, (0,) * len(kernel), steps).reshape(-1)
    corner = flat_offsets(size, stride, [before for before, _ in padding], steps)
    return out, position.take(best) + corner


def largest_by_window(x, size: Ints, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints):
    """The same, one window after the other: for few large ones."""
    out = np.empty((*x.shape[:2], *size), x.dtype)
    indices = np.empty(out.shape, np.int64)
    numbers = np.arange(math.prod(x.shape[2:])).reshape(x.shape[2:])
    for position in product(*map(range, size)):
        starts = [
            i * s - before for i, s, (before, _) in zip(position, stride, padding, strict=True)
        ]
        inside = [
            slice(start % d if start < 0 else start, max(start + d * (k - 1) + 1, 0), d)
            for start, k, d in zip(starts, kernel, dilation, strict=True)
        ]
        places = numbers[tuple(inside)].reshape(-1)
        part = x[(..., *inside)].reshape(*x.shape[:2], len(places))
        best = part.argmax(axis=2)
        out[(..., *position)] = np.take_along_axis(part, best[..., None], 2)[..., 0]
        indices[(..., *position)] = places[best]
    return out, indices


def first_equal(out: np.ndarray, parts: list, allowed: list | None) -> np.ndarray:
    """The number of the first of the parts, where it is allowed, that has out's value (or NaN).

    That is the number of parts before it that all miss it.
    """
    best = np.zeros(out.shape, np.uint8 if len(parts) <= 256 else np.int64)
    has_nan = out.dtype.kind == "f" and np.isnan(out).any()
    missed = np.ones(out.shape, bool)
    for number, part in enumerate(parts[:-1]):
        miss = part != out
        if has_nan:
            miss &= ~np.isnan(part)
        if allowed is not None:
            miss |= ~allowed[number]
        missed &= miss
        best += missed
    return best


def flat_offsets(counts: Ints, stride: Ints, padding, steps: list[int]) -> np.ndarray:
    """Flat image offset of each position of a grid that starts in the padding."""
    axes = [
        (np.arange(n) * s - p) * step
        for n, s, p, step in zip(counts, stride, padding, steps, strict=True)
    ]
    grids = np.meshgrid(*axes, indexing="ij", sparse=True)
    return sum(grids[1:], start=grids[0])


@lowered("pooling", least="WINDOW_SUMS")
def window_sum(x, *, kernel, stride, padding):
    """Sums over windows, one axis after the other."""
    out = padded(x, padding)
    out = widened(out)
    for axis, (k, s) in enumerate(zip(kernel, stride, strict=True), 2):
        out = summed_along(out, axis, k, s)
    return out.astype(x.dtype, copy=out is x)


def summed_along(x: np.ndarray, axis: int, kernel: int, stride: int) -> np.ndarray:
    """Sums of `kernel` neighbours along an axis, by the fewer of: elements, windows."""
    count = (x.shape[axis] - kernel) // stride + 1
    before = (slice(None),) * axis
    if count < kernel:
        starts = range(0, count * stride, stride)
        parts = [x[(*before, slice(i, i + kernel))].sum(axis, keepdims=True) for i in starts]
        return np.concatenate(parts, axis)
    last = stride * (count - 1) + 1
    out = x[(*before, slice(0, last, stride))].copy()
    for k in range(1, kernel):
        out += x[(*before, slice(k, k + last, stride))]
    return out


@lowered("pooling", least="POOLED")
def window_spread(x, *, shape, kernel, stride, padding):
    """Gradient of window_sum, given the gradient x of its output, one axis after the other."""
    out = widened(x)
    places = zip(shape[2:], kernel, stride, padding, strict=True)
    for axis, (n, k, s, (before, after)) in enumerate(places, 2):
        out = spread_along(out, axis, k, s, before + n + after)
        out = out[(*(slice(None) for _ in range(axis)), slice(before, before + n))]
    return out.astype(x.dtype, copy=out is x)


def spread_along(x: np.ndarray, axis: int, kernel: int, stride: int, length: int) -> np.ndarray:
    """Each element added to `kernel` neighbours of a longer axis."""
    count = x.shape[axis]
    before = (slice(None),) * axis
    out = np.zeros((*x.shape[:axis], length, *x.shape[axis + 1 :]), x.dtype)
    if count < kernel:
        for i in range(count):
            start = i * stride
            out[(*before, slice(start, start + kernel))] += x[(*before, slice(i, i + 1))]
        return out
    last = stride * (count - 1) + 1
    for k in range(kernel):
        out[(*before, slice(k, k + last, stride))] += x
    return out
