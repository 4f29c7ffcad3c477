"""Standardising on NumPy, in blocks of rows that stay in the cache."""

import math
from collections.abc import Callable

import numpy as np

from .reductions import centred
from .table import lowered

BLOCK = 1 << 15  # elements
Axes = tuple[int, ...]


@lowered("normalization", least="STANDARDIZED")
def standardize(x, *, axis, eps, center):
    """x with mean 0 and variance 1 over axes; the mean and variance it had, axes kept as ones."""
    small = tuple(1 if k in axis else n for k, n in enumerate(x.shape))
    mean, var = np.zeros(small, x.dtype), np.zeros(small, x.dtype)
    means, variances = mean.reshape(-1, 1), var.reshape(-1, 1)

    def standardized(rows: slice, x: np.ndarray) -> np.ndarray:
        means[rows], out, _ = centred(x, (1,), x.dtype) if center else (0, x.copy(), 0)
        variances[rows] = dot(out, out) / np.array(x.shape[1], x.dtype)
        out /= np.sqrt(variances[rows] + np.array(eps, x.dtype))
        return out

    return by_blocks(standardized, axis, x), mean, var


@lowered("normalization", least="STANDARDIZED")
def scaled_standardize(x, weight, bias, *, axis, eps, center):
    normal, _, var = standardize(x, axis=axis, eps=eps, center=center)
    out = normal * weight
    return out if bias is None else np.add(out, bias, out), normal, var


@lowered("normalization", least="STANDARDIZED")
def standardize_gradient(dout, dmean, dvar, out, var, *, axis, eps, center):
    """Gradient of standardize with respect to its input."""
    scale = np.sqrt(var.reshape(-1, 1) + np.array(eps, var.dtype))
    shift = dmean.reshape(-1, 1) * scale
    slope = 2 * dvar.reshape(-1, 1) * np.square(scale)

    def gradient(rows: slice, dout: np.ndarray, out: np.ndarray) -> np.ndarray:
        count = np.array(out.shape[1], out.dtype)
        result = out * ((dot(dout, out) - slope[rows]) / count)
        np.subtract(dout, result, result)
        if center:
            result -= (np.add.reduce(dout, axis=1, keepdims=True) - shift[rows]) / count
        result /= scale[rows]
        return result

    return by_blocks(gradient, axis, dout, out)


def by_blocks(function: Callable, axis: Axes, *arrays: np.ndarray) -> np.ndarray:
    """An array like the first, from a function of some rows of each at a time.

    Rows run along the axes that are reduced; the function is told which they are.
    """
    result = np.empty(arrays[0].shape, arrays[0].dtype)
    target, *sources = (rows_first(x, axis) for x in (result, *arrays))
    rows = math.prod(target.shape[1 : target.ndim - len(axis)])
    elements = math.prod(target.shape[target.ndim - len(axis) :])
    step = max(1, BLOCK // max(rows * elements, 1))
    for start in range(0, len(target), step):
        parts = [source[start : start + step] for source in sources]
        count = len(parts[0]) * rows
        block = slice(start * rows, start * rows + count)
        matrix = function(block, *(part.reshape(count, elements) for part in parts))
        target[start : start + step] = matrix.reshape(parts[0].shape)
    return result


def rows_first(x: np.ndarray, axis: Axes) -> np.ndarray:
    """x with the axes that are reduced behind the others; these are one if they come first."""
    kept = tuple(k for k in range(x.ndim) if k not in axis)
    if kept == tuple(range(len(kept))):
        return x.reshape(math.prod(x.shape[: len(kept)]), *x.shape[len(kept) :])
    return x.transpose((*kept, *axis))


def dot(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Inner products of rows. Long ones are added up pairwise: BLAS would lose digits."""
    if x.shape[1] <= BLOCK:
        return np.vecdot(x, y)[:, None]
    return np.add.reduce(x * y, axis=1, keepdims=True)
