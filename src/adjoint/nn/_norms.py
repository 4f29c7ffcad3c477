"""Normalisation over axes, groups, batches: all of them standardise, then scale and shift."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.tensor import Tensor
from .._foundation.errors import ArgumentError, ShapeError
from .._foundation.modes import is_recomputing, no_grad
from ..functions._arguments import as_integer, as_number, as_real, as_shape
from ..functions.elementwise import astype
from ..functions.reductions import mean
from ..functions.shapes import reshape
from ..primitives import normalization
from ..primitives.elementwise import sqrt
from ._operands import as_reals, in_float32, narrowed, widened

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"]

Shape = int | Sequence[int]


@in_float32
def layer_norm(
    x: Any, normalized_shape: Shape, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """x with mean 0 and variance 1 over its last axes, times `weight`, plus `bias`.

    >>> ad.nn.functional.layer_norm(ad.asarray([[1.0, 3.0], [5.0, 9.0]]), 2)
    tensor([[-1.,  1.],
            [-1.,  1.]])
    """
    x, shape, axes = last_axes("layer_norm", x, normalized_shape)
    check_parameters("layer_norm", shape, weight=weight, bias=bias)
    eps = as_number("layer_norm", "eps", eps)
    return scaled_normal(x, weight, bias, axes, eps)


@in_float32
def rms_norm(
    x: Any, normalized_shape: Shape, weight: Any = None, eps: float | None = None
) -> Tensor:
    """x over the root of the mean of its squares over the last axes, times `weight`.

    `eps` is added to that mean; if None, the smallest step from 1 (float16 counts as float32).

    >>> ad.nn.functional.rms_norm(ad.asarray([1.0, 7.0]), 2)
    tensor([0.2, 1.4])
    """
    x, shape, axes = last_axes("rms_norm", x, normalized_shape)
    check_parameters("rms_norm", shape, weight=weight)
    eps = float(np.finfo(x.raw.dtype).eps) if eps is None else as_number("rms_norm", "eps", eps)
    return scaled_normal(x, weight, None, axes, eps, center=False)


@in_float32
def group_norm(
    x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """x (N, C, ...) with mean 0 and variance 1 over each of `num_groups` groups of channels.

    >>> x = ad.reshape(ad.arange(8.0), (1, 4, 2))
    >>> ad.nn.functional.group_norm(x, 2)[0, 0]
    tensor([-1.3416, -0.4472])
    """
    x = channelled("group_norm", x)
    groups = as_integer("group_norm", "num_groups", num_groups)
    channels = x.shape[1]
    if groups < 1 or channels % groups:
        raise ArgumentError(
            f"group_norm: num_groups={groups} must divide the {channels} channels of shape "
            f"{x.shape}"
        )
    check_parameters("group_norm", (channels,), weight=weight, bias=bias)
    eps = as_number("group_norm", "eps", eps)
    grouped = reshape(x, (x.shape[0], groups, math.prod(x.shape[1:]) // groups))
    out = reshape(standardized(grouped, (2,), eps)[0], x.shape)
    return scaled_channels(out, weight, bias)


def batch_norm(
    x: Any,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """x (N, C, ...) with mean 0 and variance 1 in each channel, times `weight`, plus `bias`.

    In training the statistics are the batch's, and the running ones, where given, move towards
    them by `momentum`: these tensors change. Otherwise the running ones are used.

    >>> x, mean, var = ad.asarray([[1.0], [3.0]]), ad.zeros(1), ad.ones(1)
    >>> ad.nn.functional.batch_norm(x, mean, var, training=True)
    tensor([[-1.],
            [ 1.]])
    >>> mean, var
    (tensor([0.2]), tensor([1.1]))
    """
    x = channelled("batch_norm", x)
    shape = (x.shape[1],)
    statistics = {"running_mean": running_mean, "running_var": running_var}
    check_parameters("batch_norm", shape, weight=weight, bias=bias, **statistics)
    eps = as_number("batch_norm", "eps", eps)
    momentum = as_number("batch_norm", "momentum", momentum)
    given = x, running_mean, running_var, weight, bias
    return moving_batch_norm(*given, training=training, momentum=momentum, eps=eps)


def moving_batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Any,
    bias: Any,
    training: bool,
    momentum: float | Tensor,
    eps: float,
) -> Tensor:
    """batch_norm of arguments that are checked; `momentum` may be of a count that isn't known."""
    shape = (x.shape[1],)
    if not training:
        return with_running("batch_norm", x, running_mean, running_var, weight, bias, eps)
    axes = (0, *range(2, x.ndim))
    count = math.prod(x.shape[k] for k in axes)
    if not count:
        return scaled_channels(x, weight, bias)  # nothing to learn from
    if count == 1:
        raise ShapeError(
            f"batch_norm: more than one value per channel is needed in training, got shape "
            f"{x.shape}"
        )
    out, centre, var = standardized(widened(x), axes, eps)
    move(running_mean, reshape(centre, shape), momentum)
    move(running_var, reshape(var, shape), momentum, count / (count - 1))
    return narrowed(scaled_channels(out, weight, bias), x, weight, bias)


def instance_norm(
    x: Any,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """x (N, C, ...) with mean 0 and variance 1 in each channel of each sample.

    The running statistics are treated as in `batch_norm`; `use_input_stats` says which are used.

    >>> ad.nn.functional.instance_norm(ad.asarray([[[1.0, 3.0], [5.0, 9.0]]]))
    tensor([[[-1.,  1.],
             [-1.,  1.]]])
    """
    x = channelled("instance_norm", x)
    shape = (x.shape[1],)
    statistics = {"running_mean": running_mean, "running_var": running_var}
    check_parameters("instance_norm", shape, weight=weight, bias=bias, **statistics)
    eps = as_number("instance_norm", "eps", eps)
    momentum = as_number("instance_norm", "momentum", momentum)
    if not use_input_stats:
        return with_running("instance_norm", x, running_mean, running_var, weight, bias, eps)
    count = math.prod(x.shape[2:])
    if count < 2:
        raise ShapeError(
            f"instance_norm: more than one value per channel and sample is needed, got shape "
            f"{x.shape}"
        )
    out, centre, var = standardized(widened(x), tuple(range(2, x.ndim)), eps)
    move(running_mean, mean(reshape(centre.detach(), x.shape[:2]), 0), momentum)
    move(running_var, mean(reshape(var.detach(), x.shape[:2]), 0), momentum, count / (count - 1))
    return narrowed(scaled_channels(out, weight, bias), x, weight, bias)


def standardized(
    x: Tensor, axes: tuple[int, ...], eps: float, center: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """x with mean 0 and variance 1 over axes, and the statistics it had."""
    return normalization.standardize(x, axis=axes, eps=eps, center=center)


def scaled_normal(
    x: Tensor, weight: Any, bias: Any, axes: tuple[int, ...], eps: float, center: bool = True
) -> Tensor:
    """x with mean 0 and variance 1 over axes, times a weight, plus a bias, where there are such."""
    given = [y for y in (weight, bias) if y is not None]
    alike = all(isinstance(y, Tensor) and y.raw.dtype is x.raw.dtype for y in given)
    if weight is None or not alike:
        return scaled(standardized(x, axes, eps, center)[0], weight, bias)
    options = {"axis": axes, "eps": eps, "center": center}
    return normalization.scaled_standardize(x, weight, bias, **options)[0]


def scaled(x: Tensor, weight: Any, bias: Any) -> Tensor:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def scaled_channels(x: Tensor, weight: Any, bias: Any) -> Tensor:
    """x (N, C, ...) times a weight for each channel, plus a bias; float16 is widened."""
    return scaled(x, per_channel(x, widened(weight)), per_channel(x, widened(bias)))


@in_float32
def with_running(
    function: str,
    x: Tensor,
    running_mean: Any,
    running_var: Any,
    weight: Any,
    bias: Any,
    eps: float,
) -> Tensor:
    """x by given statistics of its channels."""
    if running_mean is None or running_var is None:
        raise ArgumentError(
            f"{function}: without statistics of the input, running_mean and running_var are needed"
        )
    scale = 1 / sqrt(running_var + eps)
    scale = scale if weight is None else scale * weight
    return scaled(x - per_channel(x, running_mean), per_channel(x, scale), per_channel(x, bias))


def move(running: Any, value: Tensor, momentum: float | Tensor, factor: float = 1.0) -> None:
    """Change a running statistic, if there is one: this tensor, and no gradient. A checkpoint that
    runs again has changed it already."""
    if running is not None and not is_recomputing():
        with no_grad():
            value = astype(value.detach(), running.dtype, copy=False)
            kept, taken = 1 - momentum, momentum * factor
            if isinstance(kept, Tensor):  # rounded as numbers are
                kept, taken = (astype(part, running.dtype) for part in (kept, taken))
            running[...] = running * kept + value * taken


def last_axes(
    function: str, x: Any, normalized_shape: Shape
) -> tuple[Tensor, tuple[int, ...], tuple[int, ...]]:
    """The tensor, the shape of its last axes, and these axes."""
    x = as_reals(function, x)
    shape = as_shape(function, normalized_shape)
    if not shape or x.shape[-len(shape) :] != shape:
        raise ShapeError(
            f"{function}: normalized_shape {shape} isn't the end of the shape {x.shape}"
        )
    return x, shape, tuple(range(x.ndim - len(shape), x.ndim))


def channelled(function: str, x: Any) -> Tensor:
    x = as_reals(function, x)
    if x.ndim < 2:
        raise ShapeError(f"{function}: (N, C, ...) is needed, got shape {x.shape}")
    return x


def check_parameters(function: str, shape: tuple[int, ...], **parameters: Any) -> None:
    for name, value in parameters.items():
        if value is not None and (found := as_real(function, value).shape) != shape:
            raise ShapeError(f"{function}: {name} has shape {found}, {shape} is needed")


def per_channel(x: Tensor, value: Any) -> Tensor | None:
    """A value for each channel, in a shape that broadcasts with x (N, C, ...)."""
    return None if value is None else reshape(value, (-1, *(1 for _ in x.shape[2:])))
