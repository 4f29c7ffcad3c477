"""Tensors from data and from nothing."""

from typing import Any

import numpy as np

from .. import backends
from .._core.promotion import dtype_of_scalar, lift
from .._core.tensor import Tensor
from .._foundation.caller_warnings import warn
from .._foundation.dtypes import DefaultDType, as_numpy
from .._foundation.errors import ArgumentError, LostGraphWarning, ShapeError
from .._foundation.modes import is_grad_enabled, is_tracing
from ..primitives import creation as ops
from ..primitives.conversions import cast
from ..primitives.devices import move
from ..primitives.reductions import broadcast_to
from ..primitives.shapes import reshape
from ._arguments import (
    as_integer,
    as_shape,
    as_tensor,
    has_tensors,
    host_array,
    in_common_dtype,
    is_elsewhere,
    shape_first,
)
from ._marks import method
from .shapes import stack

__all__ = ["arange", "asarray", "copy", "empty", "empty_like", "eye", "full", "full_like"]
__all__ += ["linspace", "meshgrid", "ones", "ones_like", "tensor", "zeros", "zeros_like"]


def asarray(
    obj: Any,
    /,
    *,
    dtype: Any = None,
    device: str | None = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor from numbers, nested lists, a NumPy array or a tensor; shares memory where it can.

    Python floats become the default float dtype; everything else keeps its own. Where memory is
    shared with a NumPy array, writing to that array later changes the tensor, and values that it
    saved for backward too; `ad.tensor` copies.

    >>> ad.asarray([[1.0, 2.0], [3.0, 4.0]])
    tensor([[1., 2.],
            [3., 4.]])
    """
    if isinstance(obj, Tensor):
        return from_tensor(obj, dtype, device, copy, requires_grad)
    if has_tensors(obj):
        return from_tensor(stacked(obj), dtype, device, None, requires_grad)
    device = device or backends.DefaultDevice.name
    if copy is False and backends.backend(device).Array is not np.ndarray:
        raise ArgumentError(f"asarray: memory can't be shared with {device}; leave copy=False out")
    array = host_array(obj, None if dtype is None else as_numpy(dtype), copy, device)
    data = backends.backend(device).from_numpy(array)
    return ask_for_grad(lift(data), requires_grad)


@method
def copy(x: Any, /) -> Tensor:
    """A tensor of its own with the values of x: writing into either never changes the other.

    Gradients flow through it. Memory is shared until one of them is written to.

    >>> x = ad.asarray([1.0, 2.0])
    >>> y = ad.copy(x)
    >>> y[0] = 5.0
    >>> x, y
    (tensor([1., 2.]), tensor([5., 2.]))
    """
    return asarray(x, copy=True)


def stacked(items: Any) -> Tensor:
    """Nested lists of tensors and numbers as one tensor, which keeps their gradients."""
    parts = [stacked(item) if isinstance(item, (list, tuple)) else item for item in items]
    return stack(in_common_dtype("asarray", *parts))


def tensor(
    data: Any, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor from a copy of the data; of tensors that require grad only the values are copied.

    >>> ad.tensor([1.0, 2.0], requires_grad=True)
    tensor([1., 2.], requires_grad=True)
    """
    if has_tensors(data):
        source = data if isinstance(data, Tensor) else stacked(data)
        if dtype is None or as_numpy(dtype).kind == "f":  # others have no gradients anyway
            warn_of_lost_graph("tensor", source, "use ad.asarray or ad.stack")
        data = source.detach()
    return asarray(data, dtype=dtype, device=device, copy=True, requires_grad=requires_grad)


def warn_of_lost_graph(function: str, x: Tensor, instead: str) -> None:
    if wants_grad(x):
        warn(
            f"{function}: values are taken without their graph, so that no gradient flows to the "
            f"tensors that were given, which require grad; {instead}, or pass x.detach() if that "
            "is meant",
            LostGraphWarning,
        )


def as_leaf(function: str, x: Tensor) -> Tensor:
    """x's values as a leaf that requires grad."""
    warn_of_lost_graph(function, x, "leave requires_grad=True out")
    return x.detach().requires_grad_()


def from_tensor(
    x: Tensor, dtype: Any, device: str | None, copy: bool | None, requires_grad: bool
) -> Tensor:
    raw = x.raw.dtype if dtype is None else as_numpy(dtype)
    if device is not None and is_elsewhere(x, device):
        if copy is False:
            raise ArgumentError(f"asarray: {x.device} to {device} needs a copy, but copy=False")
        x = move(cast(x, dtype=raw), device=device, source=x.device)
    if raw is not x.raw.dtype:
        if copy is False:
            raise ArgumentError(f"asarray: {x.dtype.name} to {raw} needs a copy, but copy=False")
        x = cast(x, dtype=raw)
    elif copy:  # tensors are values: sharing the memory is as good as a copy
        x = reshape(x, shape=x.shape)
    return as_leaf("asarray", x) if requires_grad else x._value()


def ask_for_grad(x: Tensor, requires_grad: bool) -> Tensor:
    return x.requires_grad_() if requires_grad else x


def full(
    shape: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor filled with one value.

    >>> ad.full((2,), 7.0)
    tensor([7., 7.])
    """
    return filled("full", shape, fill_value, dtype, device, requires_grad)


def filled(
    function: str, shape: Any, value: Any, dtype: Any, device: str | None, requires_grad: bool
) -> Tensor:
    sizes = as_shape(function, shape)
    if isinstance(value, Tensor):
        out = repeated(function, from_tensor(value, dtype, device, None, False), sizes)
        return as_leaf(function, out) if requires_grad else out
    if isinstance(value, (np.generic, np.ndarray)) and not value.ndim:
        value, dtype = value.item(), value.dtype if dtype is None else dtype
    device = device or backends.DefaultDevice.name
    raw = dtype_of_scalar(value, device) if dtype is None else as_numpy(dtype)
    out = ops.full(shape=sizes, value=value, dtype=raw, device=device)
    return ask_for_grad(out, requires_grad)


def repeated(function: str, value: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A 0-d tensor everywhere in a shape; it keeps its gradient."""
    if value.ndim:
        raise ShapeError(f"{function}: fill_value must be 0-d, its shape is {value.shape}")
    return broadcast_to(value, shape=shape)


@shape_first("zeros")
def zeros(
    shape: Any, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of zeros.

    >>> ad.zeros((2,))
    tensor([0., 0.])
    """
    return filled("zeros", shape, 0, dtype or float, device, requires_grad)


@shape_first("ones")
def ones(
    shape: Any, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of ones.

    >>> ad.ones((2,))
    tensor([1., 1.])
    """
    return filled("ones", shape, 1, dtype or float, device, requires_grad)


@shape_first("empty")
def empty(
    shape: Any,
    *,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor whose values don't matter: zeros, which the system hands out as fast as nothing.

    >>> ad.empty((2, 3)).shape
    (2, 3)
    """
    return filled("empty", shape, 0, dtype or float, device, requires_grad)


def full_like(
    x: Any,
    /,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor filled with one value, of the shape, dtype and device of x.

    >>> ad.full_like(ad.ones((2,)), 7)
    tensor([7., 7.])
    """
    x = as_tensor("full_like", x)
    dtype, device = dtype or x.dtype, device or x.device
    return filled("full_like", x.shape, fill_value, dtype, device, requires_grad)


def zeros_like(
    x: Any, /, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Zeros, of the shape, dtype and device of x.

    >>> ad.zeros_like(ad.ones((2,)))
    tensor([0., 0.])
    """
    return full_like(x, 0, dtype=dtype, device=device, requires_grad=requires_grad)


def ones_like(
    x: Any, /, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Ones, of the shape, dtype and device of x.

    >>> ad.ones_like(ad.zeros((2,)))
    tensor([1., 1.])
    """
    return full_like(x, 1, dtype=dtype, device=device, requires_grad=requires_grad)


def empty_like(
    x: Any, /, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor whose values don't matter, of the shape, dtype and device of x.

    >>> ad.empty_like(ad.zeros((2,))).shape
    (2,)
    """
    return full_like(x, 0, dtype=dtype, device=device, requires_grad=requires_grad)


def arange(
    start: float | Tensor,
    /,
    stop: float | Tensor | None = None,
    step: float | Tensor = 1,
    *,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers from start (0 if only one is given) up to, but without, stop; gradients flow to
    start and step.

    >>> ad.arange(3)
    tensor([0, 1, 2])
    """
    if stop is None:
        start, stop = 0, start
    ends: list[Any] = [start, step]
    numbers: list[Any] = [start, stop, step]
    start, stop, step = (x.item() if hasattr(x, "item") else x for x in numbers)
    if step == 0:
        raise ArgumentError("arange: step must not be 0")
    whole = all(isinstance(number, int) for number in (start, stop, step))
    device = device or backends.DefaultDevice.name
    default = backends.widest(device, "i") if whole else DefaultDType.float
    raw = default if dtype is None else as_numpy(dtype)
    out = ops.arange(start=start, stop=stop, step=step, dtype=raw, device=device)
    if raw.kind == "f" and any(map(wants_grad, ends)):
        first, by = (in_dtype(x, raw, device) for x in ends)
        out = first + by * ops.arange(start=0, stop=out.size, step=1, dtype=raw, device=device)
    return as_leaf("arange", out) if requires_grad else out


def wants_grad(x: Any) -> bool:
    return isinstance(x, Tensor) and x.requires_grad and is_grad_enabled()


def in_dtype(x: Any, dtype: np.dtype, device: str) -> Any:
    """A tensor in a dtype and on a device; numbers as they are."""
    return from_tensor(x, dtype, device, None, False) if isinstance(x, Tensor) else x


def linspace(
    start: complex | Tensor,
    stop: complex | Tensor,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: str | None = None,
    endpoint: bool = True,
    requires_grad: bool = False,
) -> Tensor:
    """`num` evenly spaced numbers from start to stop, which is left out if `endpoint` is false;
    gradients flow to both.

    >>> ad.linspace(0, 1, 5)
    tensor([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    if as_integer("linspace", "num", num) < 0:
        raise ArgumentError(f"linspace: num can't be negative, got {num}")
    ends: list[Any] = [start, stop]
    tensors = [x for x in ends if isinstance(x, Tensor)]
    kinds = [x.raw.dtype.kind if isinstance(x, Tensor) else np.asarray(x).dtype.kind for x in ends]
    raw = as_numpy((complex if "c" in kinds else float) if dtype is None else dtype)
    device = device or backends.DefaultDevice.name
    options = {"num": num, "endpoint": bool(endpoint), "dtype": raw, "device": device}
    varies = any(map(wants_grad, tensors)) or (tensors and is_tracing())
    if varies and raw.kind in "fc":
        first, last = (in_dtype(x, raw, device) for x in ends)
        out = between(first, last, ops.linspace(start=0, stop=1, **options))
    else:
        first, last = (x.detach().numpy() if isinstance(x, Tensor) else x for x in ends)
        out = ops.linspace(start=first, stop=last, **options)
    return as_leaf("linspace", out) if requires_grad else out


def between(start: Any, stop: Any, parts: Tensor) -> Tensor:
    """Numbers at parts of the way from start to stop, along a new first axis."""
    axes = max(np.ndim(start), np.ndim(stop))
    parts = reshape(parts, shape=(*parts.shape, *(1,) * axes))
    return start * (1 - parts) + stop * parts  # which is exact at both ends


def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinates on a grid: each 1-d tensor broadcast along the axes of the others.

    With indexing "xy" the first tensor runs along axis 1, with "ij" along axis 0.

    >>> [x.tolist() for x in ad.meshgrid(ad.asarray([1, 2]), ad.asarray([3, 4]))]
    [[[1, 2], [1, 2]], [[3, 3], [4, 4]]]
    """
    tensors = [as_tensor("meshgrid", x) for x in arrays]
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"meshgrid: indexing is 'xy' or 'ij', got {indexing!r}")
    if any(x.ndim > 1 for x in tensors):
        raise ShapeError(f"meshgrid: 1-d tensors are needed, got {[x.shape for x in tensors]}")
    axes = list(range(len(tensors)))
    if indexing == "xy":
        axes[:2] = reversed(axes[:2])  # its own inverse: what goes where, and what comes from where
    shape = tuple(tensors[axis].size for axis in axes)
    return tuple(along(x, axis, shape) for x, axis in zip(tensors, axes, strict=True))


def along(x: Tensor, axis: int, shape: tuple[int, ...]) -> Tensor:
    """A 1-d tensor along one axis of a shape, repeated along the others."""
    line = tuple(n if k == axis else 1 for k, n in enumerate(shape))
    return broadcast_to(reshape(x, shape=line), shape=shape)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones on the k-th diagonal, zeros elsewhere.

    >>> ad.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    rows, columns = as_shape("eye", (n_rows, n_rows if n_cols is None else n_cols))
    raw, device = as_numpy(dtype or float), device or backends.DefaultDevice.name
    out = ops.eye(rows=rows, columns=columns, k=k, dtype=raw, device=device)
    return ask_for_grad(out, requires_grad)
