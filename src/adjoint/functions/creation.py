"""Tensors from data and from nothing."""

from typing import Any

import numpy as np

from .. import backends
from .._apply import lift
from .._dtypes import Default, as_numpy, int64
from .._errors import ArgumentError, DTypeError
from .._tensor import Tensor, wrap
from ..primitives import creation as ops
from ..primitives.conversions import cast
from ._arguments import as_shape


def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    device: str | None = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor from numbers, nested lists, a NumPy array or a tensor; shares memory where it can.

    Python floats become the default float dtype; everything else keeps its own.

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
    if raw is not x.data.dtype:
        if copy is False:
            raise ArgumentError(f"asarray: {x.dtype.name} to {raw} needs a copy, but copy=False")
        x = cast(x, dtype=raw)
    elif copy or requires_grad:
        x = wrap(x.data)  # tensors are values: sharing the memory is as good as a copy
    return ask_for_grad(x, requires_grad)


def ask_for_grad(x: Tensor, requires_grad: bool) -> Tensor:
    return x.requires_grad_() if requires_grad else x


def host_array(obj: Any, dtype: np.dtype | None, copy: bool | None) -> np.ndarray:
    """A NumPy array of a dtype that adjoint has."""
    if isinstance(obj, (np.ndarray, np.generic)):
        array = np.array(obj, dtype, copy=copy)
        as_numpy(array.dtype)
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    if copy is False:
        raise ArgumentError(f"asarray: {type(obj).__name__} can't be shared; leave copy=False out")
    refuse_tensors(obj)
    try:
        array = np.array(obj)
    except ValueError:
        raise ArgumentError("asarray: the nested lists aren't all of one length") from None
    if array.dtype.kind not in "biufc":
        raise DTypeError(f"asarray: {type(obj).__name__} of {array.dtype} isn't numeric data")
    if dtype is None:
        dtype = as_numpy({"f": float, "c": complex}.get(array.dtype.kind, array.dtype))
    return array.astype(dtype, copy=False) if dtype != array.dtype else array


def refuse_tensors(obj: Any) -> None:
    """Tensors in lists would silently lose their graph."""
    if isinstance(obj, (list, tuple)):
        for item in obj:
            if isinstance(item, Tensor):
                raise DTypeError("asarray: a list of tensors: join them with ad.stack or ad.concat")
            refuse_tensors(item)


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
    raw = as_numpy(type(fill_value) if dtype is None else dtype)
    out = ops.full(shape=as_shape("full", shape), value=fill_value, dtype=raw, device=device)
    return ask_for_grad(out, requires_grad)


def zeros(
    shape: Any, *, dtype: Any = None, device: str = "cpu", requires_grad: bool = False
) -> Tensor:
    """A tensor of zeros.

    >>> ad.zeros((2,))
    tensor([0., 0.])
    """
    return full(shape, 0, dtype=dtype or float, device=device, requires_grad=requires_grad)


def ones(
    shape: Any, *, dtype: Any = None, device: str = "cpu", requires_grad: bool = False
) -> Tensor:
    """A tensor of ones.

    >>> ad.ones((2,))
    tensor([1., 1.])
    """
    return full(shape, 1, dtype=dtype or float, device=device, requires_grad=requires_grad)


def full_like(x: Tensor, fill_value: Any, *, dtype: Any = None) -> Tensor:
    """A tensor filled with one value, of the shape, dtype and device of x.

    >>> ad.full_like(ad.ones((2,)), 7)
    tensor([7., 7.])
    """
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=x.device)


def zeros_like(x: Tensor, *, dtype: Any = None) -> Tensor:
    """Zeros, of the shape, dtype and device of x.

    >>> ad.zeros_like(ad.ones((2,)))
    tensor([0., 0.])
    """
    return full_like(x, 0, dtype=dtype)


def ones_like(x: Tensor, *, dtype: Any = None) -> Tensor:
    """Ones, of the shape, dtype and device of x.

    >>> ad.ones_like(ad.zeros((2,)))
    tensor([1., 1.])
    """
    return full_like(x, 1, dtype=dtype)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: Any = None,
    device: str = "cpu",
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
    return ops.arange(start=start, stop=stop, step=step, dtype=raw, device=device)


def eye(
    n_rows: int, n_cols: int | None = None, *, k: int = 0, dtype: Any = None, device: str = "cpu"
) -> Tensor:
    """Ones on the k-th diagonal, zeros elsewhere.

    >>> ad.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    columns = n_rows if n_cols is None else n_cols
    raw = as_numpy(dtype or float)
    return ops.eye(rows=n_rows, columns=columns, k=k, dtype=raw, device=device)
