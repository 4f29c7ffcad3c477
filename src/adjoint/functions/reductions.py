"""Reductions over axes, and functions along one axis."""

import math
from collections import namedtuple
from typing import Any

from .._dtypes import Default, as_numpy, float16, float32, int64, uint64
from .._errors import ArgumentError
from .._tensor import Tensor
from ..primitives import indexing, reductions
from ..primitives.conversions import cast
from ..primitives.shapes import reshape
from ._arguments import Axis, as_axes, as_axis, as_integer, as_tensor, reject

TopK = namedtuple("TopK", ["values", "indices"])


def sum(
    x: Any, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False, **unknown: Any
) -> Tensor:
    """The sum over axes, all if none is named. Integers are summed in 64 bits.

    >>> ad.sum(ad.asarray([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    tensor([4., 6.])
    """
    x, axes = prepared("sum", x, axis, unknown)
    x = widened(x) if dtype is None else cast(x, dtype=as_numpy(dtype))
    return reductions.sum_(x, axis=axes, keepdims=keepdims)


def mean(x: Any, axis: Axis = None, *, keepdims: bool = False, **unknown: Any) -> Tensor:
    """The mean over axes, all if none is named; integers give the default float.

    >>> ad.mean(ad.asarray([1.0, 2.0, 6.0]))
    tensor(3.)
    """
    x, axes = prepared("mean", x, axis, unknown)
    x = as_float(x)
    count = math.prod(x.shape[k] for k in axes)
    if x.data.dtype == float16.dtype:  # a sum overflows where the mean doesn't
        return cast(mean(cast(x, dtype=float32.dtype), axes, keepdims=keepdims), dtype=x.data.dtype)
    return reductions.sum_(x, axis=axes, keepdims=keepdims) / count


def var(
    x: Any, axis: Axis = None, *, correction: float = 0, keepdims: bool = False, **unknown: Any
) -> Tensor:
    """The variance over axes, divided by the number of elements less `correction`.

    >>> ad.var(ad.asarray([1.0, 2.0, 6.0]))
    tensor(4.6667)
    """
    x, axes = prepared("var", x, axis, unknown)
    x = as_float(x)
    count = math.prod(x.shape[k] for k in axes)
    out = reductions.moments(x, axis=axes)[1]
    if correction:
        out = out * (count / (count - correction) if count > correction else math.nan)
    return out if keepdims else reshape(out, shape=dropped(x.shape, axes))


def max(x: Any, axis: Axis = None, *, keepdims: bool = False, **unknown: Any) -> Tensor:
    """The largest element over axes, all if none is named; equals share the gradient.

    >>> ad.max(ad.asarray([[1.0, 5.0], [3.0, 4.0]]), axis=1)
    tensor([5., 4.])
    """
    x, axes = prepared("max", x, axis, unknown)
    some_elements("max", x, axes)
    return reductions.max_(x, axis=axes, keepdims=keepdims)


def argmax(x: Any, axis: int | None = None, *, keepdims: bool = False, **unknown: Any) -> Tensor:
    """The index of the first largest element along an axis, or in the flattened tensor.

    >>> ad.argmax(ad.asarray([1.0, 5.0, 3.0]))
    tensor(1)
    """
    if unknown:
        reject("argmax", unknown)
    x = as_tensor("argmax", x)
    if axis is None:
        some_elements("argmax", x, tuple(range(x.ndim)))
        out = reductions.argmax(reshape(x, shape=(x.size,)), axis=0, keepdims=False)
        return reshape(out, shape=(1,) * x.ndim) if keepdims else out
    axis = as_axis("argmax", axis, x.ndim)
    some_elements("argmax", x, (axis,))
    return reductions.argmax(x, axis=axis, keepdims=keepdims)


def any(x: Any, axis: Axis = None, *, keepdims: bool = False, **unknown: Any) -> Tensor:
    """Whether any element over axes is true.

    >>> ad.any(ad.asarray([False, True]))
    tensor(True)
    """
    x, axes = prepared("any", x, axis, unknown)
    return reductions.any_(x, axis=axes, keepdims=keepdims)


def all(x: Any, axis: Axis = None, *, keepdims: bool = False, **unknown: Any) -> Tensor:
    """Whether all elements over axes are true.

    >>> ad.all(ad.asarray([False, True]))
    tensor(False)
    """
    x, axes = prepared("all", x, axis, unknown)
    return reductions.all_(x, axis=axes, keepdims=keepdims)


def cumulative_sum(x: Any, axis: int | None = None, **unknown: Any) -> Tensor:
    """The running sum along an axis, which may be left out for 1-d tensors.

    >>> ad.cumulative_sum(ad.asarray([1.0, 2.0, 3.0]))
    tensor([1., 3., 6.])
    """
    if unknown:
        reject("cumulative_sum", unknown)
    x = as_tensor("cumulative_sum", x)
    if axis is None and x.ndim != 1:
        raise ArgumentError(f"cumulative_sum: name an axis: the tensor has shape {x.shape}")
    x = widened(x)
    axis = as_axis("cumulative_sum", 0 if axis is None else axis, x.ndim)
    return reductions.cumulative_sum(x, axis=axis, reverse=False)


def softmax(x: Any, axis: int = -1, **unknown: Any) -> Tensor:
    """exp(x) / sum(exp(x)) along an axis, without overflow.

    >>> ad.softmax(ad.asarray([0.0, 0.0]))
    tensor([0.5, 0.5])
    """
    if unknown:
        reject("softmax", unknown)
    x = as_float(as_tensor("softmax", x))
    return reductions.softmax(x, axis=as_axis("softmax", axis, x.ndim))


def log_softmax(x: Any, axis: int = -1, **unknown: Any) -> Tensor:
    """log(softmax(x)) along an axis, without losing digits.

    >>> ad.log_softmax(ad.asarray([0.0, 0.0]))
    tensor([-0.6931, -0.6931])
    """
    if unknown:
        reject("log_softmax", unknown)
    x = as_float(as_tensor("log_softmax", x))
    return reductions.log_softmax(x, axis=as_axis("log_softmax", axis, x.ndim))


def topk(x: Any, k: int, axis: int = -1, *, largest: bool = True, **unknown: Any) -> TopK:
    """The k largest (or smallest) elements along an axis, best first, and their indices.

    >>> ad.topk(ad.asarray([1.0, 5.0, 3.0]), 2)
    TopK(values=tensor([5., 3.]), indices=tensor([1, 2]))
    """
    if unknown:
        reject("topk", unknown)
    x = as_tensor("topk", x)
    axis = as_axis("topk", axis, x.ndim)
    count = as_integer("topk", "k", k)
    if not 0 <= count <= x.shape[axis]:
        raise ArgumentError(
            f"topk: k={k}, but axis {axis} of shape {x.shape} has {x.shape[axis]} elements"
        )
    return TopK(*indexing.topk(x, k=count, axis=axis, largest=largest))


def prepared(function: str, x: Any, axis: Axis, unknown: dict) -> tuple[Tensor, tuple[int, ...]]:
    """The tensor and the axes to reduce."""
    if unknown:
        reject(function, unknown)
    x = as_tensor(function, x)
    return x, as_axes(function, axis, x.ndim)


def widened(x: Tensor) -> Tensor:
    """Integers in the largest dtype of their kind, so that sums don't wrap around."""
    kind = x.data.dtype.kind
    return cast(x, dtype=(uint64 if kind == "u" else int64).dtype) if kind in "biu" else x


def as_float(x: Tensor) -> Tensor:
    """Integers in the default float."""
    return cast(x, dtype=Default.float) if x.data.dtype.kind in "iub" else x


def dropped(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for k, n in enumerate(shape) if k not in axes)


def some_elements(function: str, x: Tensor, axes: tuple[int, ...]) -> None:
    if math.prod(x.shape[k] for k in axes) == 0 and x.size == 0:
        raise ArgumentError(f"{function}: nothing to choose from: shape {x.shape}, axes {axes}")
