"""Contractions: linear in each input, so closed under differentiation."""

from .. import op
from .._errors import ShapeError
from .._shapes import Shape, broadcast_shapes
from .shapes import matrix_transpose


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


matmul = op.contraction(
    "matmul",
    "Matrix product of at least 2-d tensors; see `ad.matmul`.",
    shape=matmul_shape,
    x=lambda g, y: matmul(g, matrix_transpose(y)),
    y=lambda g, x: matmul(matrix_transpose(x), g),
)
