"""Index ops: elements go to or come from places that are data.

An advanced index is a `spec`, a tuple of ints, slices, None and "array", and one integer tensor per
"array". Out of range is an error of the backend.
"""

import math
from typing import NamedTuple

from .. import op
from .._core.shape_inference import Shape
from ..backends import widest
from .creation import counting, full
from .elementwise import (
    add,
    equal,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    minimum,
    not_equal,
    subtract,
    where,
)
from .reductions import repeated
from .shapes import indexed_shape, inverse, permute_dims, reshape, with_rank


def zeros_of(g, shape: Shape):
    """Zeros like g, of another shape."""
    return full(shape=shape, value=0, dtype=g.raw.dtype, device=g.device)


def last_written(g, indices: tuple, spec: tuple):
    """g[index] where an assignment's value stayed, 0 where a later duplicate overwrote it."""
    taken = index(g, *indices, spec=spec)
    if not indices:
        return taken
    number = reshape(counting(taken.size, g.device), shape=taken.shape)
    nobody = full(shape=g.shape, value=-1, dtype=widest(g.device, "i"), device=g.device)
    owner = index(assign(nobody, number, *indices, spec=spec), *indices, spec=spec)
    return where(equal(owner, number), taken, 0)


class Places(NamedTuple):
    """An index for all examples of a batch at once, whose axis is the first of the tensor.

    `order`: the axes of what it selects, as one index for each example would have them.
    """

    spec: tuple
    indices: list
    order: Shape


def batched_places(size: int, rank: int, spec: tuple, indices: tuple, batched: tuple) -> Places:
    """For a tensor of `rank` axes besides that of the batch, which it has."""
    block = max((len(i.shape) - one for i, one in zip(indices, batched, strict=True)), default=0)
    before, others = axes_around(rank, spec, bool(indices))
    if True not in batched:
        axes = list(range(1 + block + others))
        if before is None:  # what the arrays select comes first of all
            axes = [block, *range(block), *axes[block + 1 :]]
        return Places((slice(None), *spec), list(indices), tuple(axes))
    device = indices[0].device
    number = counting(size, device)
    number = reshape(number, shape=(size, *(1,) * block))
    start = 1 + block + (before or 0)
    order = (0, *range(1 + block, start), *range(1, 1 + block), *range(start, 1 + block + others))
    return Places(("array", *spec), [number, *with_ranks(block, indices, batched)], order)


def axes_around(rank: int, spec: tuple, arrays: bool) -> tuple[int | None, int]:
    """How many axes stand before what index arrays select (None: that goes first), and how many
    besides it."""
    advanced = [k for k, e in enumerate(spec) if isinstance(e, (int, str))] if arrays else []
    together = not advanced or advanced == list(range(advanced[0], advanced[-1] + 1))
    kept = [entry is None or isinstance(entry, slice) for entry in spec]
    taken = sum(isinstance(entry, (int, str, slice)) for entry in spec)
    before = sum(kept[: advanced[0]]) if advanced else 0
    return before if together else None, sum(kept) + rank - taken


def with_ranks(rank: int, indices: tuple, batched: tuple) -> list:
    return [with_rank(i, rank) if one else i for i, one in zip(indices, batched, strict=True)]


def turned(x, order: Shape):
    return x if order == tuple(range(len(order))) else permute_dims(x, axes=order)


def index_batch(size: int, batched: tuple[bool, ...], x, *indices, spec):
    if batched[0]:
        places = batched_places(size, len(x.shape) - 1, spec, indices, batched[1:])
        return turned(index(x, *places.indices, spec=places.spec), places.order)
    block = max(len(i.shape) - one for i, one in zip(indices, batched[1:], strict=True))
    out = index(x, *with_ranks(block, indices, batched[1:]), spec=spec)
    before, _ = axes_around(len(x.shape), spec, True)
    axes = list(range(len(out.shape)))
    return turned(out, (axes.pop(before or 0), *axes))


def scatter_batch(size: int, batched: tuple[bool, ...], x, *indices, spec, shape):
    x = x if batched[0] else repeated(x, size)
    places = batched_places(size, len(shape), spec, indices, batched[1:])
    x = turned(x, inverse(places.order))
    return scatter(x, *places.indices, spec=places.spec, shape=(size, *shape))


def assign_batch(size: int, batched: tuple[bool, ...], x, v, *indices, spec):
    x, v = (z if one else repeated(z, size) for z, one in zip((x, v), batched, strict=False))
    places = batched_places(size, len(x.shape) - 1, spec, indices, batched[2:])
    return assign(x, turned(v, inverse(places.order)), *places.indices, spec=places.spec)


def take_along_axis_batch(size: int, batched: tuple[bool, ...], x, places, *, axis):
    if batched[0]:
        places = places if batched[1] else repeated(places, size)
        return take_along_axis(x, places, axis=axis + 1)
    # One table for all examples: an index leads back to it, and not to one for each of them.
    counts = places.shape[1:]
    ranges = [numbered(counts, k, x.device) for k in range(len(counts))]
    indices = [places if k == axis else each for k, each in enumerate(ranges)]
    return index(x, *indices, spec=("array",) * len(counts))


def numbered(shape: Shape, axis: int, device: str):
    """0, 1, 2 ... along an axis."""
    number = counting(shape[axis], device)
    return reshape(number, shape=tuple(n if k == axis else 1 for k, n in enumerate(shape)))


def searchsorted_batch(size: int, batched: tuple[bool, ...], x, values, *, after):
    if not batched[0]:
        return searchsorted(x, values, after=after)
    if x.raw.dtype.kind not in "iuf":
        return NotImplemented
    shape = values.shape if batched[1] else (size, *values.shape)
    v = values if batched[1] else repeated(values, size)
    v = reshape(v, shape=(size, math.prod(shape[1:])))
    return reshape(bisected(x, v, after), shape=shape)


def bisected(x, v, after: bool):
    """How many elements of each sorted row of x stand before each element of the row of v."""
    length = x.shape[1]
    count = full(shape=v.shape, value=0, dtype=widest(x.device, "i"), device=x.device)
    for power in reversed(range(length.bit_length())):
        more = add(count, 1 << power)
        last = take_along_axis(x, subtract(minimum(more, length), 1), axis=1)
        stands_before = logical_not(precedes(v, last)) if after else precedes(last, v)
        count = where(logical_and(less_equal(more, length), stands_before), more, count)
    return count


def precedes(x, y):
    """Whether x comes before y in sorted order, where NaNs are last."""
    if x.raw.dtype.kind != "f":
        return less(x, y)
    return logical_or(less(x, y), logical_and(equal(x, x), not_equal(y, y)))


index = op.index(
    "index",
    "The elements at an advanced index.",
    inputs="x *indices",
    attrs="spec",
    promotes="x",
    linear=True,
    shape=lambda x_shape, indices_shapes, spec: indexed_shape(x_shape, spec, indices_shapes),
    batch=index_batch,
    x=lambda g, x_shape, indices, spec: scatter(g, *indices, spec=spec, shape=x_shape),
)
scatter = op.index(
    "scatter",
    "Zeros with x added at an index, once for each time an index occurs: the adjoint of indexing.",
    inputs="x *indices",
    attrs="spec shape",
    promotes="x",
    linear=True,
    shape=lambda shape: shape,
    batch=scatter_batch,
    x=lambda g, indices, spec: index(g, *indices, spec=spec),
)
assign = op.index(
    "assign",
    "x with v put at an index; of duplicates the last stays.",
    inputs="x v *indices",
    attrs="spec",
    promotes="x v",
    linear=True,
    shape=lambda x_shape: x_shape,
    batch=assign_batch,
    x=lambda g, v_shape, indices, spec: assign(g, zeros_of(g, v_shape), *indices, spec=spec),
    v=lambda g, indices, spec: last_written(g, indices, spec),
)
take_along_axis = op.index(
    "take_along_axis",
    "The elements at indices along an axis.",
    inputs="x index",
    attrs="axis",
    promotes="x",
    linear=True,
    shape=lambda index_shape: index_shape,
    batch=take_along_axis_batch,
    x=lambda g, x_shape, index, axis: scatter_along_axis(g, index, axis=axis, shape=x_shape),
)
scatter_along_axis = op.index(
    "scatter_along_axis",
    "Zeros with x added at indices along an axis: the adjoint of take_along_axis.",
    inputs="x index",
    attrs="axis shape",
    promotes="x",
    linear=True,
    shape=lambda shape: shape,
    batch="leading",
    x=lambda g, index, axis: take_along_axis(g, index, axis=axis),
)
topk = op.index(
    "topk",
    "The k largest or smallest elements along an axis, and their indices.",
    outputs="values",
    aux="indices",
    attrs="k axis largest",
    dtype="x index",
    shape=lambda x_shape, k, axis: ((*x_shape[:axis], k, *x_shape[axis + 1 :]),) * 2,
    batch="leading",
    x=lambda g, indices, x_shape, axis: scatter_along_axis(g, indices, axis=axis, shape=x_shape),
)
searchsorted = op.index(
    "searchsorted",
    "Where values would go in a sorted 1-d tensor: before equals, or after them.",
    inputs="x values",
    attrs="after",
    dtype="index",
    shape=lambda values_shape: values_shape,
    batch=searchsorted_batch,
    differentiable=False,
)
unique = op.index(
    "unique",
    "Of a 1-d tensor's distinct elements: where each first occurs, which of them each element is, "
    "and how often each occurs.",
    inputs="x",
    outputs="indices inverse counts",
    dtype="index",
    dynamic_shape=True,
    differentiable=False,
)
nonzero = op.index(
    "nonzero",
    "The indices of elements that aren't zero, one row per axis.",
    inputs="x",
    dtype="index",
    dynamic_shape=True,
    differentiable=False,
)
