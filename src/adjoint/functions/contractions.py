"""Products of matrices, vectors and tensors."""

import math
from collections.abc import Sequence
from typing import Any

from .._core.shape_inference import at_axis, broadcast_shapes
from .._core.tensor import Tensor
from .._foundation.errors import ArgumentError, AxisError, DTypeError, ShapeError
from ..primitives import contractions, conversions
from ..primitives.shapes import reshape, slice_
from ._arguments import as_axis, as_integer, as_tensor, in_common_dtype, reject
from .shapes import concat, without

__all__ = ["cross", "dot", "inner", "kron", "matmul", "outer", "tensordot", "vecdot"]


def matmul(x: Any, y: Any, /) -> Tensor:
    """The matrix product; leading axes broadcast, a 1-d operand is a row or a column; `x @ y`.

    >>> ad.matmul(ad.asarray([[1.0, 2.0], [3.0, 4.0]]), ad.asarray([1.0, 10.0]))
    tensor([21., 43.])
    """
    try:
        x_shape, y_shape = x.raw.shape, y.raw.shape
        rank = len(x_shape)
        if len(y_shape) == 2 and rank > 2 and x_shape[-1] == y_shape[0]:
            return contractions.product_of_rows(x, y)  # so is the gradient of y one product
        if rank > 1 and len(y_shape) > 1:
            return contractions.matmul(x, y)
    except (AttributeError, TypeError):
        pass
    x, y = as_tensor("matmul", x), as_tensor("matmul", y)
    if not x.ndim or not y.ndim:
        raise ShapeError(f"matmul: shapes {x.shape} and {y.shape}: a 0-d operand; use x * y")
    row, column = x.ndim == 1, y.ndim == 1
    left = reshape(x, shape=(1, *x.shape)) if row else x
    right = reshape(y, shape=(*y.shape, 1)) if column else y
    if left.shape[-1] != right.shape[-2]:
        raise ShapeError(
            f"matmul: shapes {x.shape} and {y.shape} don't fit: {left.shape[-1]} columns against "
            f"{right.shape[-2]} rows"
        )
    out = contractions.matmul(left, right)
    shape = list(out.shape)
    if column:
        del shape[-1]
    if row:
        del shape[len(shape) - (1 if column else 2)]
    return reshape(out, shape=tuple(shape)) if row or column else out


def tensordot(x: Any, y: Any, /, *, axes: int | Sequence[Any] = 2, **unknown: Any) -> Tensor:
    """Products summed over axes: the last `axes` of x with the first of y, or those of a pair.

    >>> x, y = ad.ones((2, 3, 4)), ad.ones((4, 3, 5))
    >>> ad.tensordot(x, y, axes=1).shape
    (2, 3, 3, 5)
    >>> ad.tensordot(x, y, axes=((2, 1), (0, 1))).shape
    (2, 5)
    """
    if unknown:
        reject("tensordot", unknown)
    x, y = in_common_dtype("tensordot", x, y)
    first, second = paired_axes(axes, x.shape, y.shape)
    for k, m in zip(first, second, strict=True):
        if x.shape[k] != y.shape[m]:
            raise ShapeError(
                f"tensordot: axis {k} of shape {x.shape} has length {x.shape[k]}, axis {m} of "
                f"shape {y.shape} has length {y.shape[m]}; they must be equal to be summed over"
            )
    left = tuple(range(x.ndim))
    right = [x.ndim + m for m in range(y.ndim)]
    for k, m in zip(first, second, strict=True):
        right[m] = k
    free = (*(k for k in left if k not in first), *(k for k in right if k >= x.ndim))
    return contract((left, tuple(right), free), [x, y])


def paired_axes(axes: Any, x_shape: tuple, y_shape: tuple) -> tuple[tuple, tuple]:
    """The axes of x and of y that tensordot sums over, counted from the front."""
    if not isinstance(axes, (tuple, list)):
        count = as_integer("tensordot", "axes", axes)
        if not 0 <= count <= min(len(x_shape), len(y_shape)):
            raise ArgumentError(
                f"tensordot: axes={count}, but the shapes {x_shape} and {y_shape} have "
                f"{len(x_shape)} and {len(y_shape)} axes"
            )
        return tuple(range(len(x_shape) - count, len(x_shape))), tuple(range(count))
    pair = [part if isinstance(part, (tuple, list)) else (part,) for part in axes]
    if len(pair) != 2 or len(pair[0]) != len(pair[1]):
        raise ArgumentError(
            f"tensordot: axes is a number, or axes of the first and as many of the second, got "
            f"{axes!r}"
        )
    first, second = (
        tuple(as_axis("tensordot", k, len(shape)) for k in part)
        for part, shape in zip(pair, (x_shape, y_shape), strict=True)
    )
    if len(set(first)) < len(first) or len(set(second)) < len(second):
        raise ArgumentError(f"tensordot: axes={axes!r} names an axis twice")
    return first, second


def vecdot(x: Any, y: Any, /, *, axis: int = -1, **unknown: Any) -> Tensor:
    """Inner products of vectors along an axis, the first conjugated; other axes broadcast.

    >>> ad.vecdot(ad.asarray([[1.0, 2.0], [3.0, 4.0]]), ad.asarray([1.0, 10.0]))
    tensor([21., 43.])
    """
    if unknown:
        reject("vecdot", unknown)
    x, y = in_common_dtype("vecdot", x, y)
    axis = common_axis("vecdot", x, y, axis)
    if x.shape[axis] != y.shape[axis]:
        raise ShapeError(
            f"vecdot: axis {axis} of shapes {x.shape} and {y.shape} has lengths {x.shape[axis]} "
            f"and {y.shape[axis]}; they must be equal"
        )
    shapes = [without(x.shape, x.ndim + axis) for x in (x, y)]
    broadcast_shapes("vecdot: the other axes", shapes)
    # Indices count from the last axis, so that those of broadcast axes agree.
    first, second = (tuple(range(x.ndim - 1, -1, -1)) for x in (x, y))
    rest = tuple(k for k in max(first, second, key=len) if k != -1 - axis)
    return contract((first, second, rest), [conjugated(x), y])


def contract(labels: tuple, operands: list[Tensor]) -> Tensor:
    """Sum a product over axes by their labels, as einsum does, which is loaded on first use."""
    from .einsum import contracted

    return contracted(labels, operands)


def conjugated(x: Tensor) -> Tensor:
    return conversions.conj(x) if x.raw.dtype.kind == "c" else x


def common_axis(function: str, x: Tensor, y: Tensor, axis: Any) -> int:
    """An axis that both tensors have, counted from the last, as broadcasting does."""
    number, least = as_integer(function, "axis", axis), min(x.ndim, y.ndim)
    if number >= 0 and x.ndim == y.ndim:
        number -= x.ndim
    if not -least <= number < 0:
        raise AxisError(
            f"{function}: axis {axis} isn't an axis of both shapes {x.shape} and {y.shape}; it "
            "counts from the last: -1 is the last axis of both"
        )
    return number


def dot(x: Any, y: Any, /) -> Tensor:
    """The inner product of two 1-d tensors; `ad.matmul` is for matrices.

    >>> ad.dot(ad.asarray([1.0, 2.0]), ad.asarray([3.0, 4.0]))
    tensor(11.)
    """
    x, y = as_tensor("dot", x), as_tensor("dot", y)
    if x.ndim != 1 or y.ndim != 1:
        instead = "ad.matmul or ad.tensordot" if x.ndim and y.ndim else "x * y"
        raise ShapeError(
            f"dot: two 1-d tensors are needed, shapes are {x.shape} and {y.shape}; use {instead}"
        )
    if x.shape != y.shape:
        raise ShapeError(f"dot: lengths differ: {x.shape[0]} and {y.shape[0]}")
    return matmul(x, y)


def inner(x: Any, y: Any, /) -> Tensor:
    """Products summed over the last axis of both: of all pairs of vectors.

    >>> ad.inner(ad.asarray([[1.0, 2.0], [3.0, 4.0]]), ad.asarray([1.0, 10.0]))
    tensor([21., 43.])
    """
    x, y = in_common_dtype("inner", x, y)
    if not x.ndim or not y.ndim:
        return x * y
    if x.shape[-1] != y.shape[-1]:
        raise ShapeError(
            f"inner: the last axes of shapes {x.shape} and {y.shape} have lengths {x.shape[-1]} "
            f"and {y.shape[-1]}; they must be equal"
        )
    return tensordot(x, y, axes=((-1,), (-1,)))


def outer(x: Any, y: Any, /) -> Tensor:
    """The products of all pairs of elements of two 1-d tensors.

    >>> ad.outer(ad.asarray([1, 2]), ad.asarray([3, 4, 5]))
    tensor([[ 3,  4,  5],
            [ 6,  8, 10]])
    """
    x, y = as_tensor("outer", x), as_tensor("outer", y)
    if x.ndim != 1 or y.ndim != 1:
        raise ShapeError(
            f"outer: two 1-d tensors are needed, shapes are {x.shape} and {y.shape}; use "
            "ad.tensordot(x, y, axes=0)"
        )
    return reshape(x, shape=(x.size, 1)) * y


def kron(x: Any, y: Any, /) -> Tensor:
    """The Kronecker product: each element of x times the whole of y, in one tensor.

    >>> ad.kron(ad.asarray([1, 10]), ad.asarray([1, 2]))
    tensor([ 1,  2, 10, 20])
    """
    x, y = in_common_dtype("kron", x, y)
    ndim = max(x.ndim, y.ndim)
    rows = (*(1 for _ in range(ndim - x.ndim)), *x.shape)
    columns = (*(1 for _ in range(ndim - y.ndim)), *y.shape)
    blocks = reshape(x, shape=tuple(n for k in rows for n in (k, 1)))
    within = reshape(y, shape=tuple(n for k in columns for n in (1, k)))
    return reshape(
        blocks * within, shape=tuple(math.prod(pair) for pair in zip(rows, columns, strict=True))
    )


def cross(x: Any, y: Any, /, *, axis: int = -1, **unknown: Any) -> Tensor:
    """The cross product of vectors of three elements along an axis; other axes broadcast.

    >>> ad.cross(ad.asarray([1.0, 0.0, 0.0]), ad.asarray([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    if unknown:
        reject("cross", unknown)
    x, y = in_common_dtype("cross", x, y)
    if x.raw.dtype.kind == "b":
        raise DTypeError("cross: numbers are needed, got bool")
    axis = common_axis("cross", x, y, axis)
    if x.shape[axis] != 3 or y.shape[axis] != 3:
        raise ShapeError(
            f"cross: axis {axis} must have length 3, shapes are {x.shape} and {y.shape}"
        )
    broadcast_shapes("cross", [x.shape, y.shape])
    return turned(x, axis, 1) * turned(y, axis, 2) - turned(x, axis, 2) * turned(y, axis, 1)


def turned(x: Tensor, axis: int, start: int) -> Tensor:
    """The elements along an axis from `start` on, and then those before it."""
    axis, parts = x.ndim + axis, (slice(start, None), slice(0, start))
    return concat([slice_(x, index=at_axis(axis, part)) for part in parts], axis)
