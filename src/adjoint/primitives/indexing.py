"""Index ops: elements go to or come from places that are data.

An advanced index is a `spec`, a tuple of ints, slices, None and "array", and one integer tensor per
"array". Out of range is an error of the backend.
"""

from .. import op
from .._dtypes import int64
from .._shapes import Shape
from .creation import arange, full
from .elementwise import equal, where
from .shapes import indexed_shape, reshape


def zeros_of(g, shape: Shape):
    """Zeros like g, of another shape."""
    return full(shape=shape, value=0, dtype=g.data.dtype, device=g.device)


def last_written(g, indices: tuple, spec: tuple):
    """g[index] where an assignment's value stayed, 0 where a later duplicate overwrote it."""
    taken = index(g, *indices, spec=spec)
    if not indices:
        return taken
    number = arange(start=0, stop=taken.size, step=1, dtype=int64.dtype, device=g.device)
    number = reshape(number, shape=taken.shape)
    nobody = full(shape=g.shape, value=-1, dtype=int64.dtype, device=g.device)
    owner = index(assign(nobody, number, *indices, spec=spec), *indices, spec=spec)
    return where(equal(owner, number), taken, 0)


index = op.index(
    "index",
    "The elements at an advanced index.",
    inputs="x *indices",
    attrs="spec",
    promotes="x",
    linear=True,
    shape=lambda x_shape, indices_shapes, spec: indexed_shape(x_shape, spec, indices_shapes),
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
    x=lambda g, index, axis: take_along_axis(g, index, axis=axis),
)
topk = op.index(
    "topk",
    "The k largest or smallest elements along an axis, and their indices.",
    outputs="values",
    aux="indices",
    attrs="k axis largest",
    dtype="x int64",
    shape=lambda x_shape, k, axis: ((*x_shape[:axis], k, *x_shape[axis + 1 :]),) * 2,
    x=lambda g, indices, x_shape, axis: scatter_along_axis(g, indices, axis=axis, shape=x_shape),
)
searchsorted = op.index(
    "searchsorted",
    "Where values would go in a sorted 1-d tensor: before equals, or after them.",
    inputs="x values",
    attrs="after",
    dtype="int64",
    shape=lambda values_shape: values_shape,
    differentiable=False,
)
unique = op.index(
    "unique",
    "Of a 1-d tensor's distinct elements: where each first occurs, which of them each element is, "
    "and how often each occurs.",
    inputs="x",
    outputs="indices inverse counts",
    dtype="int64",
    dynamic_shape=True,
    differentiable=False,
)
nonzero = op.index(
    "nonzero",
    "The indices of elements that aren't zero, one row per axis.",
    inputs="x",
    dtype="int64",
    dynamic_shape=True,
    differentiable=False,
)
