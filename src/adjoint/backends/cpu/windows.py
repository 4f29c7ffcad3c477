"""Convolution and pooling of any number of spatial axes, on NumPy: windows are strided views."""

import math
from itertools import product

import numpy as np
from numpy.lib.stride_tricks import as_strided

Ints = tuple[int, ...]


def padded(x: np.ndarray, padding: Ints, value: float = 0) -> np.ndarray:
    """x with `value` around its spatial axes."""
    if not any(padding):
        return x
    widths = [(0, 0), (0, 0), *((p, p) for p in padding)]
    return np.pad(x, widths, constant_values=value)


def window_view(x: np.ndarray, size: Ints, kernel: Ints, stride: Ints, dilation: Ints):
    """A view (N, C, *kernel, *size): element k of the window at output position i."""
    n, c, *spatial = x.strides
    steps = [s * d for s, d in zip(spatial, dilation, strict=True)]
    moves = [s * t for s, t in zip(spatial, stride, strict=True)]
    return as_strided(x, (*x.shape[:2], *kernel, *size), (n, c, *steps, *moves), writeable=False)


def columns(x: np.ndarray, size: Ints, kernel: Ints, stride, padding, dilation, groups: int):
    """The windows as matrices (N, groups, C / groups * kernel, positions)."""
    view = window_view(padded(x, padding), size, kernel, stride, dilation)
    rows = x.shape[1] // groups * math.prod(kernel)
    return view.reshape(x.shape[0], groups, rows, math.prod(size))


def by_group(g: np.ndarray, groups: int) -> np.ndarray:
    """(N, O, *size) as (N, groups, O / groups, positions)."""
    n, channels, *size = g.shape
    return g.reshape(n, groups, channels // groups, math.prod(size))


def output_size(x_shape: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints) -> Ints:
    sizes = zip(x_shape[2:], kernel, stride, padding, dilation, strict=True)
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sizes)


def conv(x, w, bias=None, *, stride, padding, dilation, groups):
    kernel = w.shape[2:]
    size = output_size(x.shape, kernel, stride, padding, dilation)
    cols = columns(x, size, kernel, stride, padding, dilation, groups)
    out = np.matmul(w.reshape(groups, w.shape[0] // groups, cols.shape[2]), cols)
    out = out.reshape(x.shape[0], w.shape[0], *size)
    if bias is not None:
        out += bias.reshape(-1, *(1 for _ in size))
    return out


def conv_input(g, w, *, x_shape, stride, padding, dilation, groups):
    """What conv's output gradient g says of its input: the columns, added back in place."""
    kernel, size = w.shape[2:], g.shape[2:]
    rows = x_shape[1] // groups * math.prod(kernel)
    matrix = w.reshape(groups, w.shape[0] // groups, rows).swapaxes(-1, -2)
    cols = np.matmul(matrix, by_group(g, groups)).reshape(*x_shape[:2], *kernel, *size)
    spatial = [n + 2 * p for n, p in zip(x_shape[2:], padding, strict=True)]
    out = np.zeros((*x_shape[:2], *spatial), g.dtype)
    for offset in product(*map(range, kernel)):
        place = tuple(
            slice(k * d, k * d + s * (n - 1) + 1, s)
            for k, d, s, n in zip(offset, dilation, stride, size, strict=True)
        )
        out[(..., *place)] += cols[(slice(None), slice(None), *offset)]
    inside = tuple(slice(p, p + n) for p, n in zip(padding, x_shape[2:], strict=True))
    return out[(..., *inside)]


def conv_weight(x, g, *, w_shape, stride, padding, dilation, groups):
    """What conv's output gradient g says of its weight."""
    cols = columns(x, g.shape[2:], w_shape[2:], stride, padding, dilation, groups)
    out = np.matmul(by_group(g, groups), cols.swapaxes(-1, -2)).sum(axis=0)
    return out.reshape(w_shape)


def max_pool(x, *, kernel, stride, padding):
    """The largest element of each window, and its flat index in the image (the first of equals)."""
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    size = output_size(x.shape, kernel, stride, padding, (1,) * len(kernel))
    ones = (1,) * len(kernel)
    steps = [math.prod(x.shape[2 + axis + 1 :]) for axis in range(len(kernel))]
    position = flat_offsets(kernel, ones, (0,) * len(kernel), steps).reshape(-1)
    corner = flat_offsets(size, stride, padding, steps).reshape(-1)

    view = window_view(padded(x, padding, lowest), size, kernel, stride, ones)
    windows = view.reshape(*x.shape[:2], len(position), len(corner))
    best = windows.argmax(axis=2)
    if any(padding):
        best = inside_image(best, x, size, kernel, stride, padding)
    out = np.take_along_axis(windows, best[:, :, None], axis=2)
    indices = position[best] + corner
    shape = (*x.shape[:2], *size)
    return out.reshape(shape), indices.reshape(shape)


def flat_offsets(counts: Ints, stride: Ints, padding: Ints, steps: list[int]) -> np.ndarray:
    """Flat image offset of each position of a grid that starts in the padding."""
    axes = [
        (np.arange(n) * s - p) * step
        for n, s, p, step in zip(counts, stride, padding, steps, strict=True)
    ]
    grids = np.meshgrid(*axes, indexing="ij")
    return sum(grids[1:], start=grids[0])


def inside_image(best, x, size, kernel, stride, padding):
    """Where a window holds nothing above the padding's value, its first element in the image."""
    image = padded(np.ones((1, 1, *x.shape[2:]), bool), padding, 0)
    valid = window_view(image, size, kernel, stride, (1,) * len(kernel))
    valid = valid.reshape(math.prod(kernel), math.prod(size))
    chosen = valid[best, np.arange(valid.shape[1])]
    return np.where(chosen, best, valid.argmax(axis=0))
