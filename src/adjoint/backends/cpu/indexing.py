"""Elements moved to or from places that are data, on NumPy."""

import math

import numpy as np

from .table import entry, lowered, wide

ROW = 32  # elements that are added as one row, from which on that is faster than one by one


def complete(spec, indices):
    """The index that NumPy takes: `spec` with its "array" entries filled in."""
    arrays = iter(indices)
    return tuple(next(arrays) if isinstance(entry, str) else entry for entry in spec)


@lowered("places", least="PLACES")
def index(x, *indices, spec):
    return x[complete(spec, indices)]


@lowered("places", least="PLACES")
def scatter(x, *indices, spec, shape):
    index = complete(spec, indices)
    if math.prod(shape[len(spec) :]) >= ROW:
        out = np.zeros(shape, wide(x.dtype))
        np.add.at(out, index, x)  # x has the index's shape: NumPy 2.4 misreads others
        return out.astype(x.dtype, copy=False)
    return added_at(shape, [np.broadcast_to(line, shape)[index] for line in axis_lines(shape)], x)


def axis_lines(shape):
    """For each axis, the positions along it, in a shape that broadcasts with the others."""
    return [np.arange(n).reshape((-1,) + (1,) * (len(shape) - 1 - k)) for k, n in enumerate(shape)]


def added_at(shape, positions, x):
    """Zeros with x added at positions, one array for each axis. NumPy is fast if all is flat."""
    out = np.zeros(math.prod(shape), wide(x.dtype))
    steps = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    places = sum(k * step for k, step in zip(positions, steps, strict=True))
    np.add.at(out, np.broadcast_to(places, x.shape).reshape(-1), x.reshape(-1))
    return out.reshape(shape).astype(x.dtype, copy=False)


@entry
def assign(x, v, *indices, spec):
    out = x.copy()
    out[complete(spec, indices)] = v
    return out


def along(index, axis):
    """The full index behind an index along one axis."""
    places = axis_lines(index.shape)
    places[axis] = index
    return tuple(places)


@lowered("places", least="PLACES")
def take_along_axis(x, index, *, axis):
    return x[along(index, axis)]


@lowered("places", least="PLACES")
def scatter_along_axis(x, index, *, axis, shape):
    if index.shape[axis] == 1:  # nothing can occur twice
        out = np.zeros(shape, x.dtype)
        out[along(index, axis)] = x
        return out
    if index.size and not -shape[axis] <= index.min() <= index.max() < shape[axis]:
        raise IndexError(f"an index is out of bounds for axis {axis} with size {shape[axis]}")
    index = index.astype(np.int64, copy=False)
    return added_at(shape, along(np.where(index < 0, index + shape[axis], index), axis), x)


@entry
def searchsorted(x, values, *, after):
    return np.searchsorted(x, values, "right" if after else "left")


@entry
def unique(x):
    """Every NaN is distinct, as it isn't equal to itself."""
    return np.unique(x, True, True, True, equal_nan=False)[1:]


@entry
def nonzero(x):
    return np.stack(np.nonzero(x))
