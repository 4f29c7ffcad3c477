"""Linear maps and look-ups."""

import math
from typing import Any

from .._core.promotion import is_at_hand
from .._core.shape_inference import broadcasts_to
from .._core.tensor import Tensor
from .._foundation.errors import ArgumentError, IndexingError, ShapeError
from .._foundation.modes import is_tracing, mode
from ..backends import widest
from ..functions._arguments import as_integer, as_tensor, in_common_dtype
from ..functions.contractions import matmul
from ..functions.creation import arange
from ..functions.elementwise import astype
from ..functions.indexing import as_indices, taken
from ..functions.reductions import any, max, min
from ..functions.shapes import expand_dims, matrix_transpose, reshape
from ..primitives import contractions, shapes
from ..primitives.elementwise import equal, where
from ._operands import in_float32

__all__ = ["embedding", "linear", "one_hot"]


def linear(x: Any, weight: Any, bias: Any = None) -> Tensor:
    """x @ weight.mT + bias: the weight is (outputs, inputs), or (inputs,) for one output.

    >>> ad.nn.functional.linear(ad.asarray([1.0, 2.0]), ad.asarray([[3.0, 4.0]]), ad.ones(1))
    tensor([12.])
    """
    return of_rows(x, weight, bias) if is_usual(x, weight, bias) else of_any(x, weight, bias)


def is_usual(x: Any, weight: Any, bias: Any) -> bool:
    """Whether these are tensors for which nothing has to be checked or converted."""
    try:
        given, matrix = x.raw, weight.raw
        shape, (outputs, inputs), dtype = given.shape, matrix.shape, given.dtype
        if bias is not None and not (bias.raw.dtype is dtype and bias.raw.shape == (outputs,)):
            return False
        alike = dtype is matrix.dtype and dtype.char in "fd"
        return alike and len(shape) > 1 and shape[-1] == inputs
    except (AttributeError, ValueError):
        return False


def of_rows(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    shape = x.raw.shape
    if len(shape) == 2:
        return contractions.linear(x, weight, bias)
    rows = shapes.reshape(x, shape=(math.prod(shape[:-1]), shape[-1]))
    out = contractions.linear(rows, weight, bias)
    return shapes.reshape(out, shape=(*shape[:-1], out.raw.shape[-1]))


@in_float32
def of_any(x: Any, weight: Any, bias: Any) -> Tensor:
    """linear, of what has to be checked and converted first."""
    given = (x, weight) if bias is None else (x, weight, bias)
    x, weight, *biases = in_common_dtype("linear", *given)
    if weight.ndim not in (1, 2) or x.ndim == 0 or x.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            f"linear: x of shape {x.shape} doesn't go with weight of shape {weight.shape}; "
            "(..., inputs) and (outputs, inputs) are needed"
        )
    bias = biases[0] if biases else None
    outputs = weight.shape[:-1]
    if bias is not None and not broadcasts_to(bias.shape, (*x.shape[:-1], *outputs)):
        raise ShapeError(
            f"linear: bias of shape {bias.shape} doesn't go with weight of shape {weight.shape}"
        )
    if not outputs or (bias is not None and bias.shape != outputs):
        out = matmul(x, matrix_transpose(weight) if outputs else weight)
        return out if bias is None else out + bias
    return of_rows(x, weight, bias) if x.ndim > 1 else of_rows(x[None], weight, bias)[0]


def embedding(indices: Any, weight: Any, padding_idx: int | None = None) -> Tensor:
    """Rows of `weight` at integer indices of any shape; row `padding_idx` gets no gradient.

    >>> ad.nn.functional.embedding(ad.asarray([2, 0]), ad.eye(3))
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    weight = as_tensor("embedding", weight)
    indices = as_indices("embedding", indices, weight)
    if not weight.ndim:
        raise ShapeError("embedding: weight must have rows, got a 0-d tensor")
    rows = taken("embedding", weight, not_negative(indices, weight), 0)
    if padding_idx is None:
        return rows
    row, count = as_integer("embedding", "padding_idx", padding_idx), weight.shape[0]
    if not -count <= row < count:
        raise ArgumentError(
            f"embedding: padding_idx {row} is out of range for weight of shape {weight.shape}"
        )
    is_padding = equal(indices, row % count)
    is_padding = reshape(is_padding, (*indices.shape, *(1 for _ in weight.shape[1:])))
    return where(is_padding, rows.detach(), rows)


def not_negative(indices: Tensor, weight: Tensor) -> Tensor:
    """Indices as they are; negative ones are an error, at once or where the data are."""
    wrong, count = indices < 0, weight.shape[0]
    if not is_at_hand(wrong):  # out of range both ways, then
        return where(wrong & (indices >= -count), indices - count, indices)
    if any(wrong):
        raise IndexingError(
            f"embedding: index {min(indices).item()} is negative; indices from 0 to "
            f"{weight.shape[0] - 1} are needed (for padding, choose a row: padding_idx)"
        )
    return indices


def one_hot(x: Any, num_classes: int = -1) -> Tensor:
    """1 at the place of each class index, 0 elsewhere, along a new last axis.

    The number of classes is one more than the largest index unless given.

    >>> ad.nn.functional.one_hot(ad.asarray([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    x = in_widest(as_indices("one_hot", x))
    classes = as_integer("one_hot", "num_classes", num_classes)
    if classes < 0:
        if not x.size:
            raise ArgumentError("one_hot: num_classes is needed: there are no indices to tell it")
        classes = int(max(x).item()) + 1
    if is_tracing():
        mode.trace.require(lambda: (x >= 0) & (x < classes))
    else:
        wrong = (x < 0) | (x >= classes)
        if any(wrong):
            raise ArgumentError(
                f"one_hot: indices from 0 to {classes - 1} are needed, got {x[wrong][0].item()}"
            )
    found = equal(expand_dims(x, x.ndim), arange(classes, device=x.device))
    return in_widest(found)


def in_widest(x: Tensor) -> Tensor:
    """Integers with the most bits that the device has."""
    return astype(x, widest(x.device, "i"), copy=False)
