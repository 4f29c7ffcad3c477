"""Losses of class scores: cross-entropy and negative log-likelihood."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.promotion import is_at_hand, placed_indices
from .._core.tensor import Tensor
from .._foundation.dtypes import canonical
from .._foundation.errors import ArgumentError, DTypeError, IndexingError, ShapeError
from .._foundation.modes import is_tracing, mode
from ..functions._arguments import as_integer, as_number, as_real, as_tensor
from ..functions.elementwise import astype
from ..functions.indexing import take, take_along_axis
from ..functions.reductions import any, log_softmax, max, mean, sum
from ..functions.shapes import expand_dims, reshape, squeeze
from ..primitives import losses
from ..primitives.elementwise import equal, logical_and, not_equal, where
from ._operands import as_reals, in_float32
from ._reduction import check_reduction, reduced

__all__ = ["cross_entropy", "nll_loss"]


@in_float32
def cross_entropy(
    x: Any,
    target: Any,
    weight: Any = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The loss of logits (N, C, ...) or (C,) against class indices, or probabilities of x's shape.

    `weight` is a factor for each class; the mean over class indices is the weighted one. Targets
    that are `ignore_index` don't count. `label_smoothing` mixes the target with equal
    probabilities.

    >>> logits = ad.asarray([[0.0, 0.0]])
    >>> ad.nn.functional.cross_entropy(logits, ad.asarray([1]))
    tensor(0.6931)
    """
    x, target, axis = scores("cross_entropy", x, target, reduction)
    label_smoothing = as_number("cross_entropy", "label_smoothing", label_smoothing)
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError(
            f"cross_entropy: label_smoothing {label_smoothing} isn't between 0 and 1"
        )
    factors = class_weights("cross_entropy", weight, x, axis)
    if target.shape == x.shape and target.dtype.kind == "float":
        if label_smoothing:
            target = target * (1 - label_smoothing) + label_smoothing / x.shape[axis]
        logs = log_softmax(x, axis=axis)
        logs = logs if factors is None else logs * factors
        return reduced(-sum(logs * target, axis=axis), reduction)
    picked = Picked("cross_entropy", x, target, axis, factors, ignore_index)
    loss = picked.reduced(picked.losses(losses.cross_entropy), reduction)
    if not label_smoothing:
        return loss
    logs = log_softmax(x, axis=axis)
    rest = logs if factors is None else logs * factors
    evenly = picked.reduced(picked.masked(-sum(rest, axis=axis)), reduction)
    return loss * (1 - label_smoothing) + evenly * (label_smoothing / x.shape[axis])


@in_float32
def nll_loss(
    x: Any,
    target: Any,
    weight: Any = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """The loss of log-probabilities (N, C, ...) or (C,) against class indices.

    `weight` and `ignore_index` are those of `cross_entropy`.

    >>> logs = ad.log(ad.asarray([[0.25, 0.75]]))
    >>> ad.nn.functional.nll_loss(logs, ad.asarray([0]))
    tensor(1.3863)
    """
    x, target, axis = scores("nll_loss", x, target, reduction)
    factors = class_weights("nll_loss", weight, x, axis)
    picked = Picked("nll_loss", x, target, axis, factors, ignore_index)
    losses = picked.losses(lambda logs, target, axis: -take_along_axis(logs, target, axis))
    return picked.reduced(losses, reduction)


def scores(function: str, x: Any, target: Any, reduction: str) -> tuple[Tensor, Tensor, int]:
    """The scores and targets, and the axis of the classes."""
    check_reduction(function, reduction)
    x = as_reals(function, x)
    if isinstance(target, np.ndarray) and target.dtype.kind in "iu":
        target = placed_indices(canonical(target), x.device)
    target = as_tensor(function, target)
    if x.ndim == 0:
        raise ShapeError(f"{function}: scores (N, C, ...) or (C,) are needed, got a 0-d tensor")
    return x, target, 0 if x.ndim == 1 else 1


def class_weights(function: str, weight: Any, x: Tensor, axis: int) -> Tensor | None:
    """A factor for each class, in a shape that broadcasts with x."""
    if weight is None:
        return None
    weight = as_real(function, weight)
    if weight.shape != (x.shape[axis],):
        raise ShapeError(
            f"{function}: weight has shape {weight.shape}, {(x.shape[axis],)} is needed for scores "
            f"of shape {x.shape}"
        )
    return reshape(astype(weight, x.dtype, copy=False), (-1, *(1 for _ in x.shape[axis + 1 :])))


class Picked:
    """Scores at target classes, the weights there, and which targets are ignored.

    Where nothing is ignored or weighted, no op is spent on either.
    """

    def __init__(
        self,
        function: str,
        scores: Tensor,
        target: Tensor,
        axis: int,
        factors: Tensor | None,
        ignore_index: int,
    ) -> None:
        check_classes(function, scores, target, axis)
        ignore_index = as_integer(function, "ignore_index", ignore_index)
        self.function, self.scores, self.axis = function, scores, axis
        self.kept: Tensor | None = None
        if may_ignore(function, scores.shape[axis], target, ignore_index):
            self.kept = not_equal(target, ignore_index)
            target = where(self.kept, target, 0)
        self.target = expand_dims(target, axis)
        self.weights = None
        if factors is not None:
            self.weights = self.masked(take(reshape(factors, (-1,)), target, axis=0))

    def masked(self, losses: Tensor) -> Tensor:
        return losses if self.kept is None else where(self.kept, losses, 0)

    def losses(self, loss_at: Callable[..., Tensor]) -> Tensor:
        """The loss of each target; the class axis stays where nothing else has its shape."""
        try:
            losses = loss_at(self.scores, self.target, axis=self.axis)
        except IndexError:
            raise IndexingError(
                f"{self.function}: class indices from 0 to {self.scores.shape[self.axis] - 1} are "
                f"needed for scores of shape {self.scores.shape}, got {max(self.target).item()}"
            ) from None
        if self.kept is None and self.weights is None:
            return losses
        losses = self.masked(squeeze(losses, self.axis))
        return losses if self.weights is None else losses * self.weights

    def reduced(self, losses: Tensor, reduction: str) -> Tensor:
        """The weighted mean, the sum, or the losses themselves."""
        if reduction == "none":
            return losses if losses.ndim < self.scores.ndim else squeeze(losses, self.axis)
        if reduction == "sum":
            return sum(losses)
        if self.weights is not None:
            return sum(losses) / sum(self.weights)
        if self.kept is not None:
            return sum(losses) / sum(astype(self.kept, losses.dtype))
        return mean(losses)


def check_classes(function: str, x: Tensor, target: Tensor, axis: int) -> None:
    expected = (*x.shape[:axis], *x.shape[axis + 1 :])
    if target.dtype.kind not in ("int", "uint"):
        raise DTypeError(
            f"{function}: target must be class indices of an integer dtype, or (cross_entropy) "
            f"probabilities of shape {x.shape}; got {target.dtype.name} of shape {target.shape}"
        )
    if target.shape != expected:
        raise ShapeError(
            f"{function}: scores of shape {x.shape} need class indices of shape {expected}, got "
            f"{target.shape}"
        )


def may_ignore(function: str, classes: int, target: Tensor, ignore_index: int) -> bool:
    """Whether targets may be `ignore_index`; other negative ones raise."""
    if target.dtype.kind == "uint" and ignore_index < 0:
        return False
    if is_tracing():
        mode.trace.require(lambda: (target >= 0) | equal(target, ignore_index))
    if not is_at_hand(target):
        return True
    if ignore_index >= 0:
        ignored = equal(target, ignore_index)
        refuse_negative(function, classes, target, target < 0)
        return bool(any(ignored))
    negative = target < 0
    if not any(negative):
        return False
    refuse_negative(function, classes, target, logical_and(negative, target != ignore_index))
    return True


def refuse_negative(function: str, classes: int, target: Tensor, wrong: Tensor) -> None:
    if any(wrong):
        raise ArgumentError(
            f"{function}: class indices from 0 to {classes - 1} are needed, got "
            f"{target[wrong][0].item()}"
        )
