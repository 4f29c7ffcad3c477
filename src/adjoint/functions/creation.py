"""Tensors from data and from nothing."""

from typing import Any

from .. import backends
from .._dtypes import Default, as_numpy, int64
from .._errors import ArgumentError, DeviceError, DTypeError
from .._operands import lift
from .._tensor import Tensor
from ..primitives import creation as ops
from ..primitives.conversions import cast
from ..primitives.shapes import reshape
from ._arguments import as_shape, host_array


def asarray(
    obj: Any,
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
    array = host_array(obj, None if dtype is None else as_numpy(dtype), copy)
    data = backends.backend(device or "cpu").from_numpy(array)
    return ask_for_grad(lift(data), requires_grad)


def tensor(
    data: Any, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor from a copy of the data.

    >>> ad.tensor([1.0, 2.0], requires_grad=True)
    tensor([1., 2.], requires_grad=True)
    """
    if isinstance(data, Tensor):
        data = data.detach()
    return asarray(data, dtype=dtype, device=device, copy=True, requires_grad=requires_grad)


def from_tensor(
    x: Tensor, dtype: Any, device: str | None, copy: bool | None, requires_grad: bool
) -> Tensor:
    raw = x.data.dtype if dtype is None else as_numpy(dtype)
    if device is not None and device != x.device:
        backends.backend(device)
        raise DeviceError(
            f"asarray: moving a tensor from {x.device} to {device} isn't possible yet"
        )
    if raw is not x.data.dtype:
        if copy is False:
            raise ArgumentError(f"asarray: {x.dtype.name} to {raw} needs a copy, but copy=False")
        x = cast(x, dtype=raw)
    elif requires_grad:
        x = x.detach()
    elif copy:  # tensors are values: sharing the memory is as good as a copy
        x = reshape(x, shape=x.shape)
    return ask_for_grad(x, requires_grad)


def ask_for_grad(x: Tensor, requires_grad: bool) -> Tensor:
    return x.requires_grad_() if requires_grad else x


def full(
    shape: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: str = "cpu",
    requires_grad: bool = False,
) -> Tensor:
    """A tensor filled with one value.

    >>> ad.full((2,), 7.0)
    tensor([7., 7.])
    """
    return filled("full", shape, fill_value, dtype, device, requires_grad)


def filled(
    function: str, shape: Any, value: Any, dtype: Any, device: str, requires_grad: bool
) -> Tensor:
    if isinstance(value, Tensor):
        raise DTypeError(
            f"{function}: fill_value must be a Python number, not a Tensor; use ad.broadcast_to"
        )
    raw = as_numpy(type(value) if dtype is None else dtype)
    out = ops.full(shape=as_shape(function, shape), value=value, dtype=raw, device=device)
    return ask_for_grad(out, requires_grad)


def zeros(
    shape: Any, *, dtype: Any = None, device: str = "cpu", requires_grad: bool = False
) -> Tensor:
    """A tensor of zeros.

    >>> ad.zeros((2,))
    tensor([0., 0.])
    """
    return filled("zeros", shape, 0, dtype or float, device, requires_grad)


def ones(
    shape: Any, *, dtype: Any = None, device: str = "cpu", requires_grad: bool = False
) -> Tensor:
    """A tensor of ones.

    >>> ad.ones((2,))
    tensor([1., 1.])
    """
    return filled("ones", shape, 1, dtype or float, device, requires_grad)


def full_like(
    x: Tensor, fill_value: Any, *, dtype: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor filled with one value, of the shape, dtype and device of x.

    >>> ad.full_like(ad.ones((2,)), 7)
    tensor([7., 7.])
    """
    return filled("full_like", x.shape, fill_value, dtype or x.dtype, x.device, requires_grad)


def zeros_like(x: Tensor, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros, of the shape, dtype and device of x.

    >>> ad.zeros_like(ad.ones((2,)))
    tensor([0., 0.])
    """
    return full_like(x, 0, dtype=dtype, requires_grad=requires_grad)


def ones_like(x: Tensor, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones, of the shape, dtype and device of x.

    >>> ad.ones_like(ad.zeros((2,)))
    tensor([1., 1.])
    """
    return full_like(x, 1, dtype=dtype, requires_grad=requires_grad)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: Any = None,
    device: str = "cpu",
    requires_grad: bool = False,
) -> Tensor:
    """Numbers from start (0 if only one is given) up to, but without, stop.

    >>> ad.arange(3)
    tensor([0, 1, 2])
    """
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ArgumentError("arange: step must not be 0")
    whole = all(isinstance(number, int) for number in (start, stop, step))
    raw = as_numpy(dtype) if dtype is not None else int64.dtype if whole else Default.float
    out = ops.arange(start=start, stop=stop, step=step, dtype=raw, device=device)
    return ask_for_grad(out, requires_grad)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    *,
    k: int = 0,
    dtype: Any = None,
    device: str = "cpu",
    requires_grad: bool = False,
) -> Tensor:
    """Ones on the k-th diagonal, zeros elsewhere.

    >>> ad.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    rows, columns = as_shape("eye", (n_rows, n_rows if n_cols is None else n_cols))
    out = ops.eye(rows=rows, columns=columns, k=k, dtype=as_numpy(dtype or float), device=device)
    return ask_for_grad(out, requires_grad)
