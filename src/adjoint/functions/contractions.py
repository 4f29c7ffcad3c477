"""Products of matrices and vectors."""

from typing import Any

from .._errors import ShapeError
from .._tensor import Tensor
from ..primitives import contractions
from ..primitives.shapes import reshape
from ._arguments import as_tensor


def matmul(x: Any, y: Any) -> Tensor:
    """The matrix product; leading axes broadcast, a 1-d operand is a row or a column; `x @ y`.

    >>> ad.matmul(ad.asarray([[1.0, 2.0], [3.0, 4.0]]), ad.asarray([1.0, 10.0]))
    tensor([21., 43.])
    """
    try:
        if len(x.data.shape) > 1 and len(y.data.shape) > 1:
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
