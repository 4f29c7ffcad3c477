"""Movement ops: elements go to places that are known beforehand. All are linear."""

import itertools
from collections.abc import Sequence

from .. import op
from .._core.shape_inference import Shape, at_axis, broadcast_shapes


def indexed_shape(shape: Shape, spec: tuple, index_shapes: tuple[Shape, ...] = ()) -> Shape:
    """The shape of x[index] for an index of ints, slices, None and "array", as NumPy has it.

    Index arrays broadcast, and their axes stand where the first of them stood, or first of all if a
    slice is between them. Ints count as arrays if there is one.
    """
    advanced = [k for k, e in enumerate(spec) if isinstance(e, (int, str))] if index_shapes else []
    together = bool(advanced) and advanced == list(range(advanced[0], advanced[-1] + 1))
    block = broadcast_shapes("index", list(index_shapes))
    out: list[int] = [] if together or not advanced else list(block)
    axis = 0
    for k, entry in enumerate(spec):
        if together and k == advanced[0]:
            out.extend(block)
        if entry is None or entry is Ellipsis:
            out.extend([1] if entry is None else [])
            continue
        if isinstance(entry, slice):
            out.append(len(range(*entry.indices(shape[axis]))))
        axis += 1
    return (*out, *shape[axis:])


def concat_vjp(g, xs_shapes: tuple[Shape, ...], axis: int, needs: tuple[bool, ...]):
    """The pieces of g that came from the concatenated inputs."""
    ends = list(itertools.accumulate(shape[axis] for shape in xs_shapes))
    return [
        slice_(g, index=at_axis(axis, slice(end - shape[axis], end))) if need else None
        for end, shape, need in zip(ends, xs_shapes, needs, strict=True)
    ]


def inverse(axes: Shape) -> Shape:
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


def concat_shape(xs_shapes: tuple[Shape, ...], axis: int) -> Shape:
    first = xs_shapes[0]
    length = sum(shape[axis] for shape in xs_shapes)
    return (*first[:axis], length, *first[axis + 1 :])


def padded_shape(x_shape: Shape, pad_width: tuple) -> Shape:
    return tuple(b + n + a for n, (b, a) in zip(x_shape, pad_width, strict=True))


def unpad(g, shape: Shape, pad_width: tuple):
    bounds = zip(shape, pad_width, strict=True)
    return slice_(g, index=tuple(slice(before, before + n) for n, (before, _) in bounds))


def with_rank(x, rank: int):
    """x, whose first axis is a batch's, with `rank` axes after that: ones are put between."""
    missing = rank + 1 - len(x.shape)
    return reshape(x, shape=(x.shape[0], *(1,) * missing, *x.shape[1:])) if missing > 0 else x


def lined_up(batched: Sequence[bool], operands: Sequence) -> list:
    """Operands that broadcast, those of a batch with ones after its axis where they are shorter."""
    pairs = list(zip(operands, batched, strict=True))
    rank = max(len(x.shape) - one for x, one in pairs if hasattr(x, "shape"))
    return [with_rank(x, rank) if one else x for x, one in pairs]


reshape = op.movement(
    "reshape",
    "The elements in another shape.",
    attrs="shape",
    linear=True,
    shape=lambda shape: shape,
    batch="leading",
    x=lambda g, x_shape: reshape(g, shape=x_shape),
)
permute_dims = op.movement(
    "permute_dims",
    "The axes in another order.",
    attrs="axes",
    linear=True,
    shape=lambda x_shape, axes: tuple(x_shape[axis] for axis in axes),
    batch="leading",
    x=lambda g, axes: permute_dims(g, axes=inverse(axes)),
)
matrix_transpose = op.movement(
    "matrix_transpose",
    "The last two axes exchanged.",
    linear=True,
    shape=lambda x_shape: (*x_shape[:-2], x_shape[-1], x_shape[-2]),
    batch="leading",
    x=lambda g: matrix_transpose(g),
)
concat = op.movement(
    "concat",
    "Joined along an axis.",
    inputs="*xs",
    attrs="axis",
    linear=True,
    shape=concat_shape,
    batch="leading",
    vjp=concat_vjp,
)
pad = op.movement(
    "pad",
    "A value put around the tensor.",
    attrs="pad_width value",
    shape=padded_shape,
    batch="leading",
    x=lambda g, x_shape, pad_width: unpad(g, x_shape, pad_width),
)
slice_ = op.movement(
    "slice",
    "A part of the tensor, by a basic index without ellipsis.",
    attrs="index",
    linear=True,
    shape=lambda x_shape, index: indexed_shape(x_shape, index),
    batch="leading",
    x=lambda g, x_shape, index: place(g, index=index, shape=x_shape),
)
place = op.movement(
    "place",
    "Zeros of a shape, with x at a basic index: the adjoint of slicing.",
    attrs="index shape",
    linear=True,
    shape=lambda shape: shape,
    batch="leading",
    x=lambda g, index: slice_(g, index=index),
)
