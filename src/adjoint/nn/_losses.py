"""Losses of numbers, probabilities and distances. Targets get gradients too."""

import math
from typing import Any

import numpy as np

from .._core.promotion import is_at_hand
from .._core.shape_inference import broadcast_shapes, broadcasts_to
from .._core.tensor import Tensor
from .._foundation.errors import ArgumentError, ShapeError
from .._foundation.modes import is_tracing, mode
from ..functions._arguments import as_number, as_real, in_common_dtype
from ..functions.elementwise import softplus
from ..functions.reductions import any, sum
from ..functions.shapes import expand_dims
from ..primitives.elementwise import (
    abs,
    equal,
    exp,
    log,
    logical_not,
    maximum,
    minimum,
    relu,
    square,
    where,
)
from ._distances import cosine, distance
from ._operands import in_common_float, in_float32
from ._reduction import check_reduction, operands, reduced

__all__ = ["binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss"]
__all__ += ["gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss"]
__all__ += ["margin_ranking_loss", "mse_loss", "poisson_nll_loss", "smooth_l1_loss"]
__all__ += ["triplet_margin_loss"]


@in_float32
def mse_loss(x: Any, target: Any, *, reduction: str = "mean") -> Tensor:
    """The squared difference.

    >>> ad.nn.functional.mse_loss(ad.asarray([1.0, 2.0]), ad.asarray([1.0, 4.0]))
    tensor(2.)
    """
    x, target = operands("mse_loss", x, target, reduction)
    return reduced(square(x - target), reduction)


@in_float32
def l1_loss(x: Any, target: Any, *, reduction: str = "mean") -> Tensor:
    """The absolute difference.

    >>> ad.nn.functional.l1_loss(ad.asarray([1.0, 2.0]), ad.asarray([1.0, 4.0]))
    tensor(1.)
    """
    x, target = operands("l1_loss", x, target, reduction)
    return reduced(abs(x - target), reduction)


@in_float32
def huber_loss(x: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """Half the squared difference up to `delta`, and from there on a straight line.

    >>> ad.nn.functional.huber_loss(ad.asarray([1.0, 2.0]), ad.asarray([2.0, 5.0]))
    tensor(1.5)
    """
    x, target = operands("huber_loss", x, target, reduction)
    delta = as_number("huber_loss", "delta", delta)
    if not delta > 0:
        raise ArgumentError(f"huber_loss: delta={delta} must be above 0")
    return reduced(bent(x - target, delta), reduction)


@in_float32
def smooth_l1_loss(x: Any, target: Any, *, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """The absolute difference, rounded off below `beta`: huber_loss / beta.

    >>> ad.nn.functional.smooth_l1_loss(ad.asarray([1.0, 2.0]), ad.asarray([2.0, 5.0]))
    tensor(1.5)
    """
    x, target = operands("smooth_l1_loss", x, target, reduction)
    beta = as_number("smooth_l1_loss", "beta", beta)
    if beta < 0:
        raise ArgumentError(f"smooth_l1_loss: beta={beta} must not be negative")
    losses = abs(x - target) if beta == 0 else bent(x - target, beta) / beta
    return reduced(losses, reduction)


def bent(difference: Tensor, delta: float) -> Tensor:
    """Half the square up to delta, and from there on a straight line."""
    size = abs(difference)
    return where(size < delta, 0.5 * square(difference), delta * (size - 0.5 * delta))


@in_float32
def binary_cross_entropy(
    x: Any, target: Any, weight: Any = None, *, reduction: str = "mean"
) -> Tensor:
    """The loss of probabilities against probabilities, mostly 0 or 1; logarithms end at -100.

    >>> ad.nn.functional.binary_cross_entropy(ad.asarray([0.5, 0.0]), ad.asarray([1.0, 0.0]))
    tensor(0.3466)
    """
    x, target = operands("binary_cross_entropy", x, target, reduction)
    if is_tracing():
        mode.trace.require(lambda: (x >= 0) & (x <= 1))
    elif is_at_hand(x) and any(logical_not((x >= 0) & (x <= 1))):
        raise ArgumentError(
            "binary_cross_entropy: x must be probabilities between 0 and 1; for other numbers "
            "there is binary_cross_entropy_with_logits"
        )
    losses = -(target * bounded_log(x) + (1 - target) * bounded_log(1 - x))
    return reduced(weighted("binary_cross_entropy", losses, weight), reduction)


def bounded_log(x: Tensor) -> Tensor:
    """log(x), at least -100; without gradient there, and where 1 / x would overflow."""
    zero = equal(x, 0)
    other = where(zero, 1, x)
    normal = x >= float(np.finfo(x.raw.dtype).tiny)
    logs = log(where(normal, other, other.detach()))
    return where(zero, -100, maximum(logs, -100))


@in_float32
def binary_cross_entropy_with_logits(
    x: Any,
    target: Any,
    weight: Any = None,
    *,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Tensor:
    """The loss of sigmoid(x) against probabilities, without overflow.

    `pos_weight` is a factor of the part of the target that is 1.

    >>> x, target = ad.asarray([0.0, 1000.0]), ad.asarray([1.0, 1.0])
    >>> ad.nn.functional.binary_cross_entropy_with_logits(x, target)
    tensor(0.3466)
    """
    function = "binary_cross_entropy_with_logits"
    x, target = operands(function, x, target, reduction)
    positive = softplus(-x)
    if pos_weight is not None:
        factor = fitting(function, "pos_weight", pos_weight, x)
        positive = positive * ((factor - 1) * target + 1)
    return reduced(weighted(function, (1 - target) * x + positive, weight), reduction)


def weighted(function: str, losses: Tensor, weight: Any) -> Tensor:
    return losses if weight is None else losses * fitting(function, "weight", weight, losses)


def fitting(function: str, name: str, value: Any, x: Tensor) -> Tensor:
    """A factor for x, in the dtype that both promote to."""
    value = as_real(function, in_common_dtype(function, x, value)[1])
    if not broadcasts_to(value.shape, x.shape):
        raise ShapeError(
            f"{function}: {name} of shape {value.shape} doesn't broadcast to x's {x.shape}"
        )
    return value


@in_float32
def kl_div(x: Any, target: Any, *, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """The divergence of log-probabilities x from probabilities: target * (log(target) - x).

    With `log_target` the target is logarithms too. "mean" is over all elements, "batchmean" over
    the first axis only, as the definition has it.

    >>> x, target = ad.log(ad.asarray([[0.5, 0.5]])), ad.asarray([[0.0, 1.0]])
    >>> ad.nn.functional.kl_div(x, target, reduction="batchmean")
    tensor(0.6931)
    """
    x, target = operands("kl_div", x, target, reduction, "batchmean")
    if log_target:
        losses = exp(target) * (target - x)
    else:
        absent = target <= 0
        known = log(where(absent, 1, target))
        losses = target * (where(absent, 0, known) - x)
    if reduction != "batchmean":
        return reduced(losses, reduction)
    if x.ndim == 0:
        raise ShapeError("kl_div: reduction='batchmean' needs a batch axis, got a 0-d tensor")
    return sum(losses) / x.shape[0]


@in_float32
def poisson_nll_loss(
    x: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    *,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """The loss of (logarithms of) rates against counts; `full` adds Stirling's term.

    >>> ad.nn.functional.poisson_nll_loss(ad.asarray([0.0]), ad.asarray([2.0]))
    tensor(1.)
    """
    x, target = operands("poisson_nll_loss", x, target, reduction)
    eps = as_number("poisson_nll_loss", "eps", eps)
    losses = exp(x) - target * x if log_input else x - target * log(x + eps)
    if full:
        large = target > 1
        count = where(large, target, 1)
        stirling = count * log(count) - count + 0.5 * log(2 * math.pi * count)
        losses = losses + where(large, stirling, 0)
    return reduced(losses, reduction)


@in_float32
def gaussian_nll_loss(
    x: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """The loss of means against numbers, for normal distributions of variance `var`.

    `var` has x's shape, or x's without or with 1 as the last axis. Below `eps` it counts as `eps`,
    but keeps its gradient. `full` adds the constant log(2 pi) / 2.

    >>> x, target, var = ad.asarray([1.0]), ad.asarray([3.0]), ad.asarray([1.0])
    >>> ad.nn.functional.gaussian_nll_loss(x, target, var)
    tensor(2.)
    """
    x, target = operands("gaussian_nll_loss", x, target, reduction)
    x, target, var = in_common_float("gaussian_nll_loss", x, target, var)
    eps = as_number("gaussian_nll_loss", "eps", eps)
    if var.ndim == x.ndim - 1 and var.shape == x.shape[:-1]:
        var = expand_dims(var, -1)
    if not broadcasts_to(var.shape, x.shape):
        raise ShapeError(
            f"gaussian_nll_loss: var of shape {var.shape} doesn't go with x's {x.shape}"
        )
    if is_tracing():
        mode.trace.require(lambda: logical_not(var < 0))
    elif is_at_hand(var) and any(var < 0):
        raise ArgumentError("gaussian_nll_loss: a variance in var is negative")
    var = var + (maximum(var, eps) - var).detach()
    losses = 0.5 * (log(var) + square(x - target) / var)
    return reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)


@in_float32
def hinge_embedding_loss(
    x: Any, target: Any, margin: float = 1.0, *, reduction: str = "mean"
) -> Tensor:
    """x where the target is 1, and what it lacks to `margin` where the target is -1.

    >>> ad.nn.functional.hinge_embedding_loss(ad.asarray([0.5, 0.75]), ad.asarray([1.0, -1.0]))
    tensor(0.375)
    """
    x, target = operands("hinge_embedding_loss", x, target, reduction)
    margin = as_number("hinge_embedding_loss", "margin", margin)
    alike = where(equal(target, -1), 0, x)
    apart = where(equal(target, 1), 0, relu(margin - x))
    return reduced(alike + apart, reduction)


@in_float32
def margin_ranking_loss(
    x1: Any, x2: Any, target: Any, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """What target * (x1 - x2) lacks to `margin`; the target is 1 or -1.

    >>> x1, x2, target = ad.asarray([1.0]), ad.asarray([3.0]), ad.asarray([1.0])
    >>> ad.nn.functional.margin_ranking_loss(x1, x2, target)
    tensor(2.)
    """
    check_reduction("margin_ranking_loss", reduction)
    x1, x2, target = in_common_float("margin_ranking_loss", x1, x2, target)
    broadcast_shapes("margin_ranking_loss", [x1.shape, x2.shape, target.shape])
    margin = as_number("margin_ranking_loss", "margin", margin)
    return reduced(relu(margin - target * (x1 - x2)), reduction)


@in_float32
def cosine_embedding_loss(
    x1: Any, x2: Any, target: Any, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """1 - cosine of vectors (N, D) where the target is 1, what it exceeds `margin` where it is -1.

    >>> x1, x2 = ad.asarray([[1.0, 0.0]]), ad.asarray([[3.0, 4.0]])
    >>> ad.nn.functional.cosine_embedding_loss(x1, x2, ad.asarray([1]))
    tensor(0.4)
    """
    check_reduction("cosine_embedding_loss", reduction)
    target = as_real("cosine_embedding_loss", target)
    margin = as_number("cosine_embedding_loss", "margin", margin)
    similarity = cosine("cosine_embedding_loss", x1, x2, -1, 1e-8)
    if target.shape != similarity.shape:
        raise ShapeError(
            "cosine_embedding_loss: a target for each pair is needed: shape "
            f"{similarity.shape}, got {target.shape}"
        )
    alike = where(equal(target, 1), 1 - similarity, 0)
    apart = where(equal(target, -1), relu(similarity - margin), 0)
    return reduced(alike + apart, reduction)


@in_float32
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    *,
    reduction: str = "mean",
) -> Tensor:
    """How much nearer than `margin` vectors are to negatives, compared with positives.

    `swap` takes the distance between positive and negative where it is smaller.

    >>> a, b, c = (ad.asarray([[x]]) for x in (0.0, 1.0, 1.5))
    >>> ad.nn.functional.triplet_margin_loss(a, b, c)
    tensor(0.5)
    """
    check_reduction("triplet_margin_loss", reduction)
    function = "triplet_margin_loss"
    anchor, positive, negative = in_common_float(function, anchor, positive, negative)
    margin = as_number(function, "margin", margin)
    near = distance(function, anchor, positive, p, eps)
    far = distance(function, anchor, negative, p, eps)
    if swap:
        far = minimum(far, distance(function, positive, negative, p, eps))
    return reduced(relu(margin + near - far), reduction)
