"""Reductions over axes, and functions along one axis."""

import math
from typing import Any

from .._core.shape_inference import reduced_shape
from .._core.tensor import Tensor
from .._foundation.dtypes import DefaultDType, as_numpy, float16, float32
from .._foundation.errors import ArgumentError
from ..backends import widest
from ..primitives import products, reductions
from ..primitives.conversions import cast
from ..primitives.elementwise import not_equal
from ..primitives.shapes import pad, reshape
from ._arguments import Axis, as_axes, as_axis, as_number, as_real, as_tensor, reject
from ._marks import method

__all__ = ["all", "any", "argmax", "argmin", "count_nonzero", "cumulative_prod", "cumulative_sum"]
__all__ += ["log_softmax", "logsumexp", "max", "mean", "min", "prod", "softmax", "std", "sum"]
__all__ += ["var"]


@method
def sum(
    x: Any, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False, **unknown: Any
) -> Tensor:
    """The sum over axes, all if none is named. Integers are summed in 64 bits.

    >>> ad.sum(ad.asarray([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    tensor([4., 6.])
    """
    x, axes = prepared("sum", x, axis, unknown)
    return reductions.sum_(widened(x, dtype), axis=axes, keepdims=keepdims)


@method
def prod(
    x: Any, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False, **unknown: Any
) -> Tensor:
    """The product over axes, all if none is named. Integers are multiplied in 64 bits.

    >>> ad.prod(ad.asarray([-2.0, 3.0]))
    tensor(-6.)
    """
    x, axes = prepared("prod", x, axis, unknown)
    return products.prod(widened(x, dtype), axis=axes, keepdims=keepdims)


@method
def mean(x: Any, axis: Axis = None, *, keepdims: bool = False, **unknown: Any) -> Tensor:
    """The mean over axes, all if none is named; integers give the default float.

    >>> ad.mean(ad.asarray([1.0, 2.0, 6.0]))
    tensor(3.)
    """
    x, axes = prepared("mean", x, axis, unknown)
    x = as_float(x)
    count = math.prod(x.shape[k] for k in axes)
    if x.raw.dtype == float16.dtype:  # a sum overflows where the mean doesn't
        return cast(mean(cast(x, dtype=float32.dtype), axes, keepdims=keepdims), dtype=x.raw.dtype)
    return reductions.sum_(x, axis=axes, keepdims=keepdims) / count


@method
def var(
    x: Any, axis: Axis = None, *, correction: float = 0, keepdims: bool = False, **unknown: Any
) -> Tensor:
    """The variance over axes, divided by the number of elements less `correction`.

    >>> ad.var(ad.asarray([1.0, 2.0, 6.0]))
    tensor(4.6667)
    """
    return corrected("var", reductions.moments, x, axis, correction, keepdims, unknown)


def corrected(
    function: str,
    op: Any,
    x: Any,
    axis: Axis,
    correction: float,
    keepdims: bool,
    unknown: dict,
) -> Tensor:
    """Variance or deviation, corrected."""
    x, axes = prepared(function, x, axis, unknown)
    x = as_float(as_real(function, x))
    correction = as_number(function, "correction", correction)
    if x.raw.dtype == float16.dtype:  # which has no room for large counts
        wide = corrected(
            function, op, cast(x, dtype=float32.dtype), axes, correction, keepdims, unknown
        )
        return cast(wide, dtype=x.raw.dtype)
    count = math.prod(x.shape[k] for k in axes)
    out = op(x, axis=axes)[1]
    if correction:
        factor = count / (count - correction) if count > correction else math.nan
        out = out * (math.sqrt(factor) if op is reductions.deviation else factor)
    return out if keepdims else reshape(out, shape=reduced_shape(x.shape, axes, False))


@method
def std(
    x: Any, axis: Axis = None, *, correction: float = 0, keepdims: bool = False, **unknown: Any
) -> Tensor:
    """The standard deviation: the root of `ad.var`. Where it is 0 its gradient is 0.

    >>> ad.std(ad.asarray([1.0, 3.0]))
    tensor(1.)
    """
    return corrected("std", reductions.deviation, x, axis, correction, keepdims, unknown)


@method
def logsumexp(x: Any, axis: Axis = None, *, keepdims: bool = False, **unknown: Any) -> Tensor:
    """log(sum(exp(x))) over axes, all if none is named, without overflow.

    >>> ad.logsumexp(ad.asarray([100.0, 100.0]))
    tensor(100.6931)
    """
    x, axes = prepared("logsumexp", x, axis, unknown)
    x = as_real("logsumexp", x)
    return reductions.logsumexp(as_float(x), axis=axes, keepdims=keepdims)


@method
def max(x: Any, axis: Axis = None, *, keepdims: bool = False, **unknown: Any) -> Tensor:
    """The largest element over axes, all if none is named; equals share the gradient.

    >>> ad.max(ad.asarray([[1.0, 5.0], [3.0, 4.0]]), axis=1)
    tensor([5., 4.])
    """
    x, axes = prepared("max", x, axis, unknown)
    check_some_elements("max", x, axes)
    return reductions.max_(x, axis=axes, keepdims=keepdims)


@method
def min(x: Any, axis: Axis = None, *, keepdims: bool = False, **unknown: Any) -> Tensor:
    """The smallest element over axes, all if none is named; equals share the gradient.

    >>> ad.min(ad.asarray([[1.0, 5.0], [3.0, 4.0]]), axis=1)
    tensor([1., 3.])
    """
    x, axes = prepared("min", x, axis, unknown)
    check_some_elements("min", x, axes)
    return reductions.min_(x, axis=axes, keepdims=keepdims)


@method
def argmax(x: Any, axis: int | None = None, *, keepdims: bool = False, **unknown: Any) -> Tensor:
    """The index of the first largest element along an axis, or in the flattened tensor.

    >>> ad.argmax(ad.asarray([1.0, 5.0, 3.0]))
    tensor(1)
    """
    return position_of("argmax", reductions.argmax, x, axis, keepdims, unknown)


@method
def argmin(x: Any, axis: int | None = None, *, keepdims: bool = False, **unknown: Any) -> Tensor:
    """The index of the first smallest element along an axis, or in the flattened tensor.

    >>> ad.argmin(ad.asarray([4.0, 1.0, 3.0]))
    tensor(1)
    """
    return position_of("argmin", reductions.argmin, x, axis, keepdims, unknown)


def position_of(
    function: str, op: Any, x: Any, axis: int | None, keepdims: bool, unknown: dict
) -> Tensor:
    if unknown:
        reject(function, unknown)
    x = as_tensor(function, x)
    if axis is None:
        check_some_elements(function, x, tuple(range(x.ndim)))
        out = op(reshape(x, shape=(x.size,)), axis=0, keepdims=False)
        return reshape(out, shape=(1,) * x.ndim) if keepdims else out
    axis = as_axis(function, axis, x.ndim)
    check_some_elements(function, x, (axis,))
    return op(x, axis=axis, keepdims=keepdims)


def count_nonzero(x: Any, axis: Axis = None, *, keepdims: bool = False, **unknown: Any) -> Tensor:
    """How many elements over axes aren't zero.

    >>> ad.count_nonzero(ad.asarray([0.0, 5.0, 6.0]))
    tensor(2)
    """
    x, axes = prepared("count_nonzero", x, axis, unknown)
    counted = cast(not_equal(x, 0), dtype=widest(x.device, "i"))
    return reductions.sum_(counted, axis=axes, keepdims=keepdims)


@method
def any(x: Any, axis: Axis = None, *, keepdims: bool = False, **unknown: Any) -> Tensor:
    """Whether any element over axes is true.

    >>> ad.any(ad.asarray([False, True]))
    tensor(True)
    """
    x, axes = prepared("any", x, axis, unknown)
    return reductions.any_(x, axis=axes, keepdims=keepdims)


@method
def all(x: Any, axis: Axis = None, *, keepdims: bool = False, **unknown: Any) -> Tensor:
    """Whether all elements over axes are true.

    >>> ad.all(ad.asarray([False, True]))
    tensor(False)
    """
    x, axes = prepared("all", x, axis, unknown)
    return reductions.all_(x, axis=axes, keepdims=keepdims)


@method
def cumulative_sum(
    x: Any,
    axis: int | None = None,
    *,
    dtype: Any = None,
    include_initial: bool = False,
    **unknown: Any,
) -> Tensor:
    """The running sum along an axis, which may be left out for 1-d tensors.

    >>> ad.cumulative_sum(ad.asarray([1.0, 2.0, 3.0]))
    tensor([1., 3., 6.])
    """
    x, axis = along("cumulative_sum", x, axis, unknown)
    out = reductions.cumulative_sum(widened(x, dtype), axis=axis, reverse=False)
    return preceded(out, axis, 0) if include_initial else out


@method
def cumulative_prod(
    x: Any,
    axis: int | None = None,
    *,
    dtype: Any = None,
    include_initial: bool = False,
    **unknown: Any,
) -> Tensor:
    """The running product along an axis, which may be left out for 1-d tensors.

    >>> ad.cumulative_prod(ad.asarray([1.0, 2.0, 3.0]))
    tensor([1., 2., 6.])
    """
    x, axis = along("cumulative_prod", x, axis, unknown)
    out = products.cumulative_prod(widened(x, dtype), axis=axis, reverse=False)
    return preceded(out, axis, 1) if include_initial else out


def along(function: str, x: Any, axis: int | None, unknown: dict) -> tuple[Tensor, int]:
    """The tensor and the one axis to go along."""
    if unknown:
        reject(function, unknown)
    x = as_tensor(function, x)
    if axis is None and x.ndim != 1:
        raise ArgumentError(f"{function}: name an axis: the tensor has shape {x.shape}")
    return x, as_axis(function, 0 if axis is None else axis, x.ndim)


def preceded(x: Tensor, axis: int, value: int) -> Tensor:
    """x with a value before its first element along an axis."""
    width = tuple((int(k == axis), 0) for k in range(x.ndim))
    return pad(x, pad_width=width, value=value)


@method
def softmax(x: Any, axis: int = -1, **unknown: Any) -> Tensor:
    """exp(x) / sum(exp(x)) along an axis, without overflow.

    >>> ad.softmax(ad.asarray([0.0, 0.0]))
    tensor([0.5, 0.5])
    """
    if unknown:
        reject("softmax", unknown)
    x = as_float(as_tensor("softmax", x))
    return reductions.softmax(x, axis=as_axis("softmax", axis, x.ndim))


@method
def log_softmax(x: Any, axis: int = -1, **unknown: Any) -> Tensor:
    """log(softmax(x)) along an axis, without losing digits.

    >>> ad.log_softmax(ad.asarray([0.0, 0.0]))
    tensor([-0.6931, -0.6931])
    """
    if unknown:
        reject("log_softmax", unknown)
    x = as_float(as_tensor("log_softmax", x))
    return reductions.log_softmax(x, axis=as_axis("log_softmax", axis, x.ndim))


def prepared(function: str, x: Any, axis: Axis, unknown: dict) -> tuple[Tensor, tuple[int, ...]]:
    """The tensor and the axes to reduce."""
    if unknown:
        reject(function, unknown)
    x = as_tensor(function, x)
    return x, as_axes(function, axis, x.ndim)


def widened(x: Tensor, dtype: Any = None) -> Tensor:
    """x in a dtype; if none, integers in the largest of their kind: sums shouldn't wrap around."""
    if dtype is not None:
        return cast(x, dtype=as_numpy(dtype))
    kind = x.raw.dtype.kind
    if kind not in "biu":
        return x
    return cast(x, dtype=widest(x.device, "u" if kind == "u" else "i"))


def as_float(x: Tensor) -> Tensor:
    """Integers in the default float."""
    return cast(x, dtype=DefaultDType.float) if x.raw.dtype.kind in "iub" else x


def check_some_elements(function: str, x: Tensor, axes: tuple[int, ...]) -> None:
    if math.prod(x.shape[k] for k in axes) == 0 and x.size == 0:
        raise ArgumentError(f"{function}: nothing to choose from: shape {x.shape}, axes {axes}")
