"""Functions of neural networks: compositions, and what people look for under this name."""

from typing import Any

from .._errors import ArgumentError, DTypeError, ShapeError
from .._modes import is_tracing
from .._tensor import Tensor
from ..functions._arguments import as_tensor
from ..functions.indexing import take, take_along_axis
from ..functions.neural import conv2d as conv2d
from ..functions.neural import max_pool2d as max_pool2d
from ..functions.reductions import any, mean, sum
from ..functions.reductions import log_softmax as log_softmax
from ..functions.reductions import softmax as softmax
from ..functions.shapes import expand_dims, squeeze
from ..primitives.elementwise import relu as relu
from ..primitives.elementwise import sigmoid as sigmoid
from ..primitives.elementwise import tanh as tanh


def cross_entropy(x: Any, target: Any, *, reduction: str = "mean") -> Tensor:
    """The loss of logits (N, C, ...) or (C,) against class indices, or probabilities of x's shape.

    >>> logits = ad.asarray([[0.0, 0.0]])
    >>> ad.nn.functional.cross_entropy(logits, ad.asarray([1]))
    tensor(0.6931)
    """
    x, target = as_tensor("cross_entropy", x), as_tensor("cross_entropy", target)
    if x.ndim == 0:
        raise ShapeError("cross_entropy: logits (N, C, ...) or (C,) are needed, got a 0-d tensor")
    axis = 0 if x.ndim == 1 else 1
    logs = log_softmax(x, axis=axis)
    if target.shape == x.shape and target.dtype.kind == "float":
        losses = -sum(logs * target, axis=axis)
    else:
        _check_classes(x, target, axis)
        losses = -take_along_axis(logs, expand_dims(target, axis), axis)
        losses = squeeze(losses, axis) if reduction == "none" else losses
    if reduction == "none":
        return losses
    if reduction not in ("mean", "sum"):
        raise ArgumentError(f"cross_entropy: reduction {reduction!r} isn't 'mean', 'sum' or 'none'")
    return mean(losses) if reduction == "mean" else sum(losses)


def _check_classes(x: Tensor, target: Tensor, axis: int) -> None:
    expected = (*x.shape[:axis], *x.shape[axis + 1 :])
    if target.dtype.kind not in ("int", "uint"):
        raise DTypeError(
            f"cross_entropy: target must be class indices of an integer dtype, or probabilities of "
            f"shape {x.shape}; got {target.dtype.name} of shape {target.shape}"
        )
    if target.shape != expected:
        raise ShapeError(
            f"cross_entropy: logits of shape {x.shape} need class indices of shape {expected}, got "
            f"{target.shape}"
        )
    negative = target < 0
    if not is_tracing() and any(negative):
        raise ArgumentError(
            f"cross_entropy: class indices from 0 to {x.shape[axis] - 1} are needed, got "
            f"{target[negative][0].item()}"
        )


def embedding(indices: Any, weight: Any) -> Tensor:
    """Rows of `weight` at integer indices of any shape.

    >>> ad.nn.functional.embedding(ad.asarray([2, 0]), ad.eye(3))
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    return take(weight, indices, axis=0)
