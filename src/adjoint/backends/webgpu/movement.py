"""Elements seen in another order or shape: views, without a copy wherever strides can say it."""

import math
import operator
from collections.abc import Sequence

from ..spaces import steps_in
from .arrays import Array, Ints, contiguous
from .launcher import contiguous_copy
from .table import entry


@entry
def reshape(x, *, shape):
    strides = strides_in_shape(x, shape)
    if strides is None:
        return contiguous_copy(x).view(shape, contiguous(shape), 0)
    return x.view(shape, strides)


def strides_in_shape(x: Array, shape: Ints) -> Ints | None:
    """The strides that show x in another shape, or None where it takes a copy.

    Axes of both shapes are walked along together; where a group of the one has as many elements as
    a group of the other, those of the first must follow each other without a gap.
    """
    if x.number is not None or not x.size or x.is_contiguous:
        return contiguous(shape)
    old = [(n, s) for n, s in zip(x.shape, x.strides, strict=True) if n != 1]
    strides = [0] * len(shape)
    new = [k for k, n in enumerate(shape) if n != 1]
    while new:
        axes = [new.pop()]
        count = shape[axes[0]]
        size, step = old.pop()
        first = step
        while count != size:
            if count < size:
                axes.append(new.pop())
                count *= shape[axes[-1]]
            else:
                n, s = old.pop()
                if s != first * size:
                    return None
                size *= n
        for k in axes:
            strides[k] = step
            step *= shape[k]
    return tuple(strides)


@entry
def permute_dims(x, *, axes):
    return x.view(tuple([x.shape[k] for k in axes]), tuple([x.strides[k] for k in axes]))


@entry
def matrix_transpose(x):
    (*batch, n, m), (*steps, p, q) = x.shape, x.strides
    return x.view((*batch, m, n), (*steps, q, p))


@entry
def broadcast_to(x, *, shape):
    return x.view(shape, steps_in(x, shape))


@entry
def spread(x, *, axis, shape):
    kept = tuple([1 if k in axis else n for k, n in enumerate(shape)])
    return broadcast_to(reshape(x, shape=kept), shape=shape)


@entry
def slice_(x, *, index):
    shape, strides, offset = sliced(x.shape, x.strides, index)
    return x.view(shape, strides, x.offset + offset)


def sliced(shape: Ints, strides: Ints, index: Sequence) -> tuple[Ints, Ints, int]:
    """The shape and strides of what an index of slices, integers and None takes, and where it
    starts."""
    sizes, steps, offset, axis = [], [], 0, 0
    for item in index:
        if item is None:
            sizes.append(1)
            steps.append(0)
            continue
        n, step = shape[axis], strides[axis]
        axis += 1
        if isinstance(item, slice):
            start, stop, jump = item.indices(n)
            count = max(0, math.ceil((stop - start) / jump))
            sizes.append(count)
            steps.append(step * jump)
            offset += start * step if count else 0
            continue
        place = operator.index(item)
        if not -n <= place < n:
            raise IndexError(f"index {place} is out of bounds for axis {axis - 1} with size {n}")
        offset += place % n * step
    return (*sizes, *shape[axis:]), (*steps, *strides[axis:]), offset
