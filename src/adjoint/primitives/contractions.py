"""Contractions: linear in each input, so closed under differentiation."""

import math

from .. import op
from .._core.shape_inference import Shape, broadcast_shapes
from .._foundation.errors import ShapeError
from .reductions import sum_
from .shapes import lined_up, matrix_transpose, reshape


def matmul_shape(x_shape: Shape, y_shape: Shape) -> Shape:
    if x_shape[-1] != y_shape[-2]:
        raise ShapeError(
            f"matmul: shapes {x_shape} and {y_shape} don't fit: the last axis of the first has "
            f"length {x_shape[-1]}, the second-to-last of the second {y_shape[-2]}"
        )
    try:
        batch = broadcast_shapes("matmul", [x_shape[:-2], y_shape[:-2]])
    except ShapeError:
        raise ShapeError(
            f"matmul: the batch axes of shapes {x_shape} and {y_shape} don't broadcast: "
            f"{x_shape[:-2]} and {y_shape[:-2]}; lengths must be equal or 1"
        ) from None
    return (*batch, x_shape[-2], y_shape[-1])


def matmul_batch(size: int, batched: tuple[bool, ...], x, y):
    """One product of large matrices where one operand is a matrix that all examples share.

    From the left only for vectors: else the result's layout would slow down what comes after it.
    """
    if not batched[1] and len(y.shape) == 2:
        return product_of_rows(x, y)
    if not batched[0] and len(x.shape) == 2 and y.shape[-1] == 1:
        return matrix_transpose(product_of_rows(matrix_transpose(y), matrix_transpose(x)))
    return matmul(*lined_up(batched, (x, y)))


def product_of_rows(x, y):
    """x @ y for many matrices x and one matrix y."""
    rows = reshape(x, shape=(math.prod(x.shape[:-1]), x.shape[-1]))
    return reshape(matmul(rows, y), shape=(*x.shape[:-1], y.shape[-1]))


def linear_batch(size: int, batched: tuple[bool, ...], x, weight, bias):
    """One product of many rows if all examples have the same weights."""
    if batched == (True, False, False):
        rows = reshape(x, shape=(math.prod(x.shape[:-1]), x.shape[-1]))
        return reshape(linear(rows, weight, bias), shape=(*x.shape[:-1], weight.shape[0]))
    out = matmul(*lined_up(batched[:2], (x, matrix_transpose(weight))))
    if bias is None:
        return out
    return out + (reshape(bias, shape=(size, 1, bias.shape[1])) if batched[2] else bias)


linear = op.contraction(
    "linear",
    "x @ weight.mT + bias, for a matrix x; see `ad.nn.functional.linear`.",
    inputs="x weight bias?",
    shape=lambda x_shape, weight_shape: (x_shape[0], weight_shape[0]),
    batch=linear_batch,
    x=lambda g, weight: matmul(g, weight),
    weight=lambda g, x: matmul(matrix_transpose(g), x),
    bias=lambda g: sum_(g, axis=(0,), keepdims=False),
)
matmul = op.contraction(
    "matmul",
    "Matrix product of at least 2-d tensors; see `ad.matmul`.",
    shape=matmul_shape,
    batch=matmul_batch,
    x=lambda g, y: matmul(g, matrix_transpose(y)),
    y=lambda g, x: matmul(matrix_transpose(x), g),
)
