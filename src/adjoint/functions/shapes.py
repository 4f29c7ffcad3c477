"""Shapes: the same elements, arranged in another way."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._errors import ArgumentError, DTypeError, ShapeError
from .._operands import promoted
from .._shapes import broadcast_shapes as shapes_broadcast
from .._shapes import broadcasts_to
from .._tensor import Tensor
from ..primitives import reductions, shapes
from ._arguments import as_axes, as_axis, as_shape, as_tensor, reject


def reshape(x: Any, shape: Any, *more: int) -> Tensor:
    """The elements in another shape; one length may be -1 and is worked out.

    >>> ad.reshape(ad.arange(6), (2, -1))
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    x = as_tensor("reshape", x)
    wanted = (shape, *more) if more or not isinstance(shape, (tuple, list)) else tuple(shape)
    unknown = [k for k, n in enumerate(wanted) if n == -1]
    if len(unknown) > 1:
        raise ShapeError(f"reshape: only one length can be -1, got {tuple(wanted)}")
    known = as_shape("reshape", [1 if n == -1 else n for n in wanted])
    rest = math.prod(known)
    if len(unknown) == 1 and rest and x.size % rest == 0:
        known = tuple(x.size // rest if k == unknown[0] else n for k, n in enumerate(known))
    if math.prod(known) != x.size or (unknown and not rest):
        raise ShapeError(
            f"reshape: {x.size} elements of shape {x.shape} don't fit into shape {tuple(wanted)}"
        )
    return shapes.reshape(x, shape=known)


def permute_dims(x: Any, axes: Sequence[int], *more: int) -> Tensor:
    """The axes in another order.

    >>> ad.permute_dims(ad.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    order = (axes, *more) if more or isinstance(axes, int) else tuple(axes)
    return permuted("permute_dims", as_tensor("permute_dims", x), order)


def permuted(function: str, x: Tensor, order: Sequence[Any]) -> Tensor:
    found = tuple(as_axis(function, k, x.ndim) for k in order)
    if sorted(found) != list(range(x.ndim)):
        raise ArgumentError(
            f"{function}: axes {tuple(order)} must name each of the {x.ndim} axes of shape "
            f"{x.shape} once"
        )
    return shapes.permute_dims(x, axes=found)


def matrix_transpose(x: Any) -> Tensor:
    """The last two axes exchanged; `x.mT`.

    >>> ad.matrix_transpose(ad.zeros((4, 2, 3))).shape
    (4, 3, 2)
    """
    x = as_tensor("matrix_transpose", x)
    if x.ndim < 2:
        raise ShapeError(f"matrix_transpose: at least 2 axes are needed, shape is {x.shape}")
    return shapes.matrix_transpose(x)


def transpose(x: Any, axes: Sequence[int] | None = None) -> Tensor:
    """The axes in reverse order, or in the order given; `x.T` for matrices.

    >>> ad.transpose(ad.zeros((2, 3, 4))).shape
    (4, 3, 2)
    """
    x = as_tensor("transpose", x)
    return permuted("transpose", x, tuple(range(x.ndim))[::-1] if axes is None else axes)


def broadcast_to(x: Any, shape: Any) -> Tensor:
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


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that shapes broadcast to.

    >>> ad.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return shapes_broadcast("broadcast_shapes", [as_shape("broadcast_shapes", s) for s in shapes])


def expand_dims(x: Any, axis: int = 0, **unknown: Any) -> Tensor:
    """A new axis of length 1.

    >>> ad.expand_dims(ad.zeros((2, 3)), 1).shape
    (2, 1, 3)
    """
    if unknown:
        reject("expand_dims", unknown)
    x = as_tensor("expand_dims", x)
    axis = as_axis("expand_dims", axis, x.ndim + 1)
    return shapes.reshape(x, shape=(*x.shape[:axis], 1, *x.shape[axis:]))


def squeeze(x: Any, axis: int | tuple[int, ...] | None = None, **unknown: Any) -> Tensor:
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
    tensors = [as_tensor("concat", x) for x in xs]
    if not tensors:
        raise ArgumentError("concat: at least one tensor is needed")
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
    return shapes.concat(*promoted(shapes.concat.op, tensors), axis=axis)


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
    tensors = [as_tensor("stack", x) for x in xs]
    if not tensors:
        raise ArgumentError("stack: at least one tensor is needed")
    if len({x.shape for x in tensors}) > 1:
        raise ShapeError(f"stack: shapes differ: {', '.join(str(x.shape) for x in tensors)}")
    axis = as_axis("stack", axis, tensors[0].ndim + 1)
    return concat([expand_dims(x, axis) for x in tensors], axis)


def unstack(x: Any, axis: int = 0, **unknown: Any) -> tuple[Tensor, ...]:
    """The pieces along an axis, without that axis.

    >>> ad.unstack(ad.asarray([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))
    """
    if unknown:
        reject("unstack", unknown)
    x = as_tensor("unstack", x)
    axis = as_axis("unstack", axis, x.ndim)
    before = tuple(slice(None) for _ in range(axis))
    return tuple(shapes.slice_(x, index=(*before, k)) for k in range(x.shape[axis]))


def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: float = 0) -> Tensor:
    """The tensor with `constant_values` around it; widths as in `numpy.pad`.

    >>> ad.pad(ad.asarray([1, 2]), (1, 2))
    tensor([0, 1, 2, 0, 0])
    """
    x = as_tensor("pad", x)
    if mode != "constant":
        raise ArgumentError(f"pad: mode {mode!r} isn't available; only 'constant' is")
    if isinstance(constant_values, float) and x.data.dtype.kind in "iub":
        raise DTypeError(f"pad: {constant_values} doesn't fit into a tensor of {x.dtype.name}")
    return shapes.pad(x, pad_width=each_axis(pad_width, x.shape), value=constant_values)


def each_axis(pad_width: Any, shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """(before, after) for each axis, from an int, a pair, or a pair per axis."""
    widths = np.asarray(pad_width)
    try:
        pairs = np.broadcast_to(widths, (len(shape), 2)).tolist()
    except ValueError:
        pairs = [(-1, -1)]
    if widths.dtype.kind not in "iu" or any(min(pair) < 0 for pair in pairs):
        raise ArgumentError(
            f"pad: pad_width {pad_width!r} must be an int, a pair, or a pair for each of the "
            f"{len(shape)} axes of shape {shape}, none negative"
        )
    return tuple((before, after) for before, after in pairs)


def flip(x: Any, axis: int | Sequence[int] | None = None, **unknown: Any) -> Tensor:
    """The order of the elements reversed along axes, all if none is named.

    >>> ad.flip(ad.asarray([1, 2, 3]))
    tensor([3, 2, 1])
    """
    if unknown:
        reject("flip", unknown)
    x = as_tensor("flip", x)
    axes = as_axes("flip", axis, x.ndim)
    steps = (slice(None, None, -1) if k in axes else slice(None) for k in range(x.ndim))
    return shapes.slice_(x, index=tuple(steps))
