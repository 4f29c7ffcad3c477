"""Shapes: the same elements, arranged in another way."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .._core.shape_inference import at_axis, broadcasts_to
from .._core.shape_inference import broadcast_shapes as shapes_broadcast
from .._core.tensor import Tensor
from .._foundation.errors import ArgumentError, ShapeError
from ..primitives import reductions, shapes
from ._arguments import as_axes, as_axis, as_integers, as_shape, as_tensor, in_common_dtype, reject
from ._marks import method, property_named, single_method, spread_method

__all__ = ["broadcast_arrays", "broadcast_shapes", "broadcast_to", "concat", "expand_dims"]
__all__ += ["matrix_transpose", "moveaxis", "permute_dims", "reshape", "split", "squeeze", "stack"]
__all__ += ["swapaxes", "transpose", "unstack"]

Axes = int | Sequence[int]


@spread_method("reshape")
def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Tensor:
    """The elements in another shape; one length may be -1 and is worked out.

    Tensors are values, so a copy is never needed; `copy=False` asks that none is made.

    >>> ad.reshape(ad.arange(6), (2, -1))
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    x = as_tensor("reshape", x)
    out = shapes.reshape(x, shape=completed(x, shape))
    arrays = out.raw, x.raw
    if copy is False and x.size and type(x.raw) is np.ndarray and not np.may_share_memory(*arrays):
        raise ArgumentError(
            f"reshape: {x.shape} to {out.shape} needs a copy because of the order in memory; leave "
            "copy=False out"
        )
    return out


def completed(x: Tensor, shape: Any) -> tuple[int, ...]:
    """A shape for x's elements, with a length of -1 worked out."""
    wanted = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    unknown = [k for k, n in enumerate(wanted) if n == -1]
    if len(unknown) > 1:
        raise ShapeError(f"reshape: only one length can be -1, got {wanted}")
    known = as_shape("reshape", [1 if n == -1 else n for n in wanted])
    rest = math.prod(known)
    if len(unknown) == 1 and rest and x.size % rest == 0:
        known = tuple(x.size // rest if k == unknown[0] else n for k, n in enumerate(known))
    if math.prod(known) != x.size or (unknown and not rest):
        raise ShapeError(
            f"reshape: {x.size} elements of shape {x.shape} don't fit into shape {wanted}"
        )
    return known


@spread_method("permute", "permute_dims")
def permute_dims(x: Any, /, axes: Sequence[int]) -> Tensor:
    """The axes in another order.

    >>> ad.permute_dims(ad.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    order = (axes,) if isinstance(axes, int) else tuple(axes)
    return permuted("permute_dims", as_tensor("permute_dims", x), order)


def permuted(function: str, x: Tensor, order: Sequence[Any]) -> Tensor:
    found = tuple(as_axis(function, k, x.ndim) for k in order)
    if sorted(found) != list(range(x.ndim)):
        raise ArgumentError(
            f"{function}: axes {tuple(order)} must name each of the {x.ndim} axes of shape "
            f"{x.shape} once"
        )
    return shapes.permute_dims(x, axes=found)


@property_named("mT")
def matrix_transpose(x: Any, /) -> Tensor:
    """The last two axes exchanged; `x.mT`.

    >>> ad.matrix_transpose(ad.zeros((4, 2, 3))).shape
    (4, 3, 2)
    """
    x = as_tensor("matrix_transpose", x)
    if x.ndim < 2:
        raise ShapeError(f"matrix_transpose: at least 2 axes are needed, shape is {x.shape}")
    return shapes.matrix_transpose(x)


@single_method(
    "to exchange two axes is x.swapaxes({1}, {2}); an order of all is x.permute_dims({0})"
)
def transpose(x: Any, /, axes: Sequence[int] | None = None) -> Tensor:
    """The axes in reverse order, or in the order given; `x.T` for matrices.

    >>> ad.transpose(ad.zeros((2, 3, 4))).shape
    (4, 3, 2)
    """
    x = as_tensor("transpose", x)
    return permuted("transpose", x, tuple(range(x.ndim))[::-1] if axes is None else axes)


@property_named("T")
def transposed_matrix(x: Tensor) -> Tensor:
    """The transpose of a matrix."""
    if x.ndim != 2:
        raise ShapeError(f"T: for matrices; shape is {x.shape}: use x.mT or ad.permute_dims")
    return transpose(x)


@method
def broadcast_to(x: Any, /, shape: Any) -> Tensor:
    """The tensor repeated along axes of length 1 and new leading axes.

    >>> ad.broadcast_to(ad.asarray([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    x = as_tensor("broadcast_to", x)
    wanted = as_shape("broadcast_to", shape)
    if not broadcasts_to(x.shape, wanted):
        raise ShapeError(f"broadcast_to: shape {x.shape} doesn't broadcast to {wanted}")
    return reductions.broadcast_to(x, shape=wanted)


@method
def swapaxes(x: Any, /, axis1: int, axis2: int) -> Tensor:
    """Two axes exchanged.

    >>> ad.swapaxes(ad.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    x = as_tensor("swapaxes", x)
    order = list(range(x.ndim))
    first, second = (as_axis("swapaxes", axis, x.ndim) for axis in (axis1, axis2))
    order[first], order[second] = second, first
    return shapes.permute_dims(x, axes=tuple(order))


@method
def moveaxis(x: Any, source: Axes, destination: Axes, /) -> Tensor:
    """Axes moved to other positions; the rest stay in order.

    >>> ad.moveaxis(ad.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    x = as_tensor("moveaxis", x)
    sources, places = (
        [as_axis("moveaxis", axis, x.ndim) for axis in as_integers("moveaxis", "an axis", axes)]
        for axes in (source, destination)
    )
    if not len(sources) == len(places) == len(set(sources)) == len(set(places)):
        raise ArgumentError(
            f"moveaxis: source {source} and destination {destination} must name equally many axes, "
            "each once"
        )
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return shapes.permute_dims(x, axes=tuple(order))


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that shapes broadcast to.

    >>> ad.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return shapes_broadcast("broadcast_shapes", [as_shape("broadcast_shapes", s) for s in shapes])


def broadcast_arrays(*arrays: Any) -> tuple[Tensor, ...]:
    """Tensors broadcast to their common shape.

    >>> [x.shape for x in ad.broadcast_arrays(ad.zeros((2, 1)), ad.zeros(3))]
    [(2, 3), (2, 3)]
    """
    tensors = [as_tensor("broadcast_arrays", x) for x in arrays]
    shape = shapes_broadcast("broadcast_arrays", [x.shape for x in tensors])
    return tuple(reductions.broadcast_to(x, shape=shape) for x in tensors)


@method
def expand_dims(x: Any, /, axis: Axes = 0, **unknown: Any) -> Tensor:
    """New axes of length 1, where the result has them.

    >>> ad.expand_dims(ad.zeros((2, 3)), 1).shape
    (2, 1, 3)
    """
    if unknown:
        reject("expand_dims", unknown)
    x = as_tensor("expand_dims", x)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    axes = as_axes("expand_dims", axis, x.ndim + count)
    rest = iter(x.shape)
    return shapes.reshape(
        x, shape=tuple(1 if k in axes else next(rest) for k in range(x.ndim + count))
    )


@method
def squeeze(x: Any, /, axis: Axes | None = None, **unknown: Any) -> Tensor:
    """Axes of length 1 taken away; all of them if none is named.

    >>> ad.squeeze(ad.zeros((2, 1, 3)), 1).shape
    (2, 3)
    """
    if unknown:
        reject("squeeze", unknown)
    x = as_tensor("squeeze", x)
    if axis is None:
        axis = tuple(k for k, n in enumerate(x.shape) if n == 1)
    axes = as_axes("squeeze", axis, x.ndim)
    for k in axes:
        if x.shape[k] != 1:
            raise ShapeError(f"squeeze: axis {k} of shape {x.shape} has length {x.shape[k]}, not 1")
    return shapes.reshape(x, shape=tuple(n for k, n in enumerate(x.shape) if k not in axes))


def concat(xs: Sequence[Any], axis: int | None = 0, **unknown: Any) -> Tensor:
    """Tensors joined along an axis that they have; `axis=None` flattens them first.

    >>> ad.concat([ad.asarray([1, 2]), ad.asarray([3])])
    tensor([1, 2, 3])
    """
    if unknown:
        reject("concat", unknown)
    tensors = joinable("concat", xs)
    if axis is None:
        tensors, axis = [shapes.reshape(x, shape=(x.size,)) for x in tensors], 0
    axis = as_axis("concat", axis, tensors[0].ndim)
    first = without(tensors[0].shape, axis)
    for position, x in enumerate(tensors):
        if x.ndim != tensors[0].ndim or without(x.shape, axis) != first:
            raise ShapeError(
                f"concat: tensor 0 has shape {tensors[0].shape}, tensor {position} has {x.shape}; "
                f"all axes but {axis} must be equal"
            )
    return shapes.concat(*tensors, axis=axis)


def joinable(function: str, xs: Sequence[Any]) -> list[Tensor]:
    """Tensors of one dtype, and at least one."""
    given = list(xs)
    if not given:
        raise ArgumentError(f"{function}: at least one tensor is needed")
    return in_common_dtype(function, *given)


def without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def stack(xs: Sequence[Any], axis: int = 0, **unknown: Any) -> Tensor:
    """Tensors of one shape joined along a new axis.

    >>> ad.stack([ad.asarray([1, 2]), ad.asarray([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    if unknown:
        reject("stack", unknown)
    tensors = joinable("stack", xs)
    if len({x.shape for x in tensors}) > 1:
        raise ShapeError(f"stack: shapes differ: {', '.join(str(x.shape) for x in tensors)}")
    axis = as_axis("stack", axis, tensors[0].ndim + 1)
    return shapes.concat(*[expand_dims(x, axis) for x in tensors], axis=axis)


def unstack(x: Any, /, axis: int = 0, **unknown: Any) -> tuple[Tensor, ...]:
    """The pieces along an axis, without that axis.

    >>> ad.unstack(ad.asarray([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))
    """
    if unknown:
        reject("unstack", unknown)
    x = as_tensor("unstack", x)
    axis = as_axis("unstack", axis, x.ndim)
    return tuple(shapes.slice_(x, index=at_axis(axis, k)) for k in range(x.shape[axis]))


@method
def split(x: Any, /, indices_or_sections: Any, axis: int = 0, **unknown: Any) -> tuple[Tensor, ...]:
    """The tensor cut along an axis: into equal parts, or before each of some indices.

    >>> ad.split(ad.asarray([1, 2, 3, 4]), 2)
    (tensor([1, 2]), tensor([3, 4]))
    >>> ad.split(ad.asarray([1, 2, 3, 4]), [1])
    (tensor([1]), tensor([2, 3, 4]))
    """
    if unknown:
        reject("split", unknown)
    x = as_tensor("split", x)
    axis = as_axis("split", axis, x.ndim)
    bounds = [0, *cuts(indices_or_sections, x.shape[axis]), x.shape[axis]]
    pieces = [slice(start, stop) for start, stop in pairwise(bounds)]
    return tuple(shapes.slice_(x, index=at_axis(axis, piece)) for piece in pieces)


def cuts(indices_or_sections: Any, length: int) -> list[int]:
    """The positions to cut at."""
    if not isinstance(indices_or_sections, int):
        given = as_integers("split", "indices_or_sections", indices_or_sections)
        return [max(0, length + k) if k < 0 else min(k, length) for k in given]
    sections = indices_or_sections
    if sections < 1 or length % sections:
        raise ArgumentError(f"split: {length} elements don't make {sections} equal parts")
    return [length // sections * k for k in range(1, sections)]
