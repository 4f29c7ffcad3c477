"""Checks and normal forms of arguments that many functions share."""

import operator
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from .._dtypes import RANK, SCALAR_RANK, as_numpy, canonical, of_scalar
from .._errors import ArgumentError, DTypeError, KeywordError, ShapeError
from .._operands import check_devices, constant, lift, to_dtype
from .._tensor import Tensor

VOCABULARY = {"dim": "axis", "keepdim": "keepdims", "dims": "axis"}
Axis = int | Sequence[int] | None


def reject(function: str, unknown: dict[str, Any]) -> NoReturn:
    """Say which keyword is wrong, and what PyTorch's name for it is called here."""
    name = next(iter(unknown))
    hint = f"; adjoint calls it {VOCABULARY[name]}=" if name in VOCABULARY else ""
    raise KeywordError(f"{function}: there is no argument {name}={hint}")


def as_tensor(function: str, x: Any) -> Tensor:
    """A tensor from a tensor, a NumPy array or a Python number."""
    if isinstance(x, Tensor):
        return x
    if type(x) in SCALAR_RANK:
        return lift(np.array(x, of_scalar(x)))
    if isinstance(x, (np.ndarray, np.generic)):
        return lift(host_array(x, None, None))
    raise DTypeError(
        f"{function}: a tensor is needed, got {type(x).__name__}; convert it with ad.asarray"
    )


def as_tensor_like(function: str, x: Tensor, value: Any) -> Tensor:
    """A tensor of x's dtype, on x's device; what isn't of a smaller or the same kind is refused."""
    if type(value) in SCALAR_RANK and SCALAR_RANK[type(value)] <= RANK[x.data.dtype.kind]:
        return constant(value, x.data.dtype)
    value = as_tensor(function, value)
    if RANK[value.data.dtype.kind] > RANK[x.data.dtype.kind]:
        raise DTypeError(
            f"{function}: {value.dtype.name} values don't fit into a tensor of {x.dtype.name}; "
            "cast one of them with ad.astype"
        )
    check_devices(function, [x, value])
    return to_dtype(value, x.data.dtype)


def host_array(obj: Any, dtype: np.dtype | None, copy: bool | None) -> np.ndarray:
    """A NumPy array, of a dtype that adjoint has, from NumPy or Python data."""
    if isinstance(obj, (np.ndarray, np.generic)):
        try:
            return canonical(np.array(obj, dtype, copy=copy))
        except ValueError:
            raise ArgumentError(
                f"asarray: {obj.dtype} to {dtype} needs a copy, but copy=False"
            ) from None
    if copy is False:
        raise ArgumentError(f"asarray: {type(obj).__name__} can't be shared; leave copy=False out")
    numpy_inside = refuse_tensors(obj)
    try:
        array = np.array(obj, dtype)
    except OverflowError:
        raise ArgumentError(f"asarray: a number is out of range for {dtype}") from None
    except (ValueError, TypeError):
        raise ArgumentError(
            "asarray: the data isn't numbers in nested lists of equal lengths"
        ) from None
    if array.dtype.kind not in "biufc":
        raise DTypeError(f"asarray: {type(obj).__name__} of {array.dtype} isn't numeric data")
    if dtype is None and array.dtype.kind in "fc" and not numpy_inside:
        array = array.astype(as_numpy(float if array.dtype.kind == "f" else complex), copy=False)
    return canonical(array)


def refuse_tensors(obj: Any) -> bool:
    """Refuse tensors in lists, which would lose their graph; whether NumPy data is among them."""
    if isinstance(obj, Tensor):
        raise DTypeError("asarray: a list of tensors: join them with ad.stack or ad.concat")
    if isinstance(obj, (list, tuple)):
        found = [refuse_tensors(item) for item in obj]
        return True in found
    return isinstance(obj, (np.ndarray, np.generic))


def as_integer(function: str, name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise DTypeError(f"{function}: {name} must be an integer, got {value!r}") from None


def as_axis(function: str, axis: Any, ndim: int) -> int:
    """One axis, counted from the front."""
    number = as_integer(function, "axis", axis)
    if not -ndim <= number < ndim:
        raise ArgumentError(f"{function}: axis {number} is out of range for {ndim} axes")
    return number % ndim


def as_axes(function: str, axis: Axis, ndim: int) -> tuple[int, ...]:
    """Axes counted from the front, sorted; None means all."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(sorted(as_axis(function, k, ndim) for k in given))
    if len(set(axes)) < len(axes):
        raise ArgumentError(f"{function}: axis {axis} names an axis twice")
    return axes


def as_shape(function: str, shape: Any) -> tuple[int, ...]:
    """A shape as a tuple of ints; an int is a shape of one axis."""
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    try:
        out = tuple(operator.index(n) for n in sizes)
    except TypeError:
        raise DTypeError(f"{function}: a shape is integers, got {shape!r}") from None
    if any(n < 0 for n in out):
        raise ShapeError(f"{function}: a shape has no negative lengths, got {out}")
    return out


def as_pair(function: str, name: str, value: Any, least: int) -> tuple[int, int]:
    """Two ints from an int or a pair."""
    try:
        given = value if isinstance(value, (tuple, list)) else (value, value)
        first, second = (operator.index(n) for n in given)
    except (TypeError, ValueError):
        first = second = least - 1
    if min(first, second) < least:
        raise ArgumentError(
            f"{function}: {name} must be an integer of at least {least}, or a pair of them, got "
            f"{value!r}"
        )
    return first, second
