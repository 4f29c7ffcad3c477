"""Checks and normal forms of arguments that many functions share."""

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, ParamSpec, TypeVar

import numpy as np

from .. import backends
from .._core.promotion import (
    beside_tensors,
    check_devices,
    common_dtype,
    constant,
    dtype_of_scalar,
    placed,
    to_dtype,
)
from .._core.tensor import Tensor
from .._foundation.dtypes import RANK, SCALAR_RANK, as_numpy, canonical, weak
from .._foundation.errors import (
    ArgumentError,
    AxisError,
    DTypeError,
    GradientError,
    KeywordError,
    RangeError,
    ShapeError,
)
from .._foundation.modes import is_grad_enabled
from .._foundation.numbers import Number
from .._foundation.silence import compute

VOCABULARY = {
    "dim": "axis",
    "dims": "axis",
    "keepdim": "keepdims",
    "ddof": "correction",
    "unbiased": "correction",
    "start_dim": "start_axis",
    "end_dim": "end_axis",
    "diagonal": "k",
    "map_location": "device",
}
# What PyTorch has, and is to be left out here.
ABSENT = {
    "inplace": "tensors are values, and there is no in-place form",
    "enable_nested_tensor": "there are no nested tensors",
    "mask_check": "there are no nested tensors",
    "capturable": "ad.compile takes any step",
    "differentiable": "a step has no gradient",
    "foreach": "a step is one call for all parameters by itself",
    "fused": "a step is one call for all parameters by itself",
    "max_norm": "vectors aren't scaled when they are looked up",
    "norm_type": "vectors aren't scaled when they are looked up",
    "scale_grad_by_freq": "gradients aren't scaled by how often an index occurs",
    "sparse": "gradients are dense",
    "weights_only": "reading runs no code",
}
Axis = int | Sequence[int] | None
P = ParamSpec("P")
T = TypeVar("T")


def reject(function: str, unknown: dict[str, Any]) -> NoReturn:
    """Say which keyword is wrong, and what PyTorch's name for it is called here."""
    name = next(iter(unknown))
    hint = f"; adjoint calls it {VOCABULARY[name]}=" if name in VOCABULARY else ""
    if name in ABSENT:
        hint = f": {ABSENT[name]}; leave it out"
    if name == "out":
        hint = f"; results are new tensors (for NumPy's function, use ad.{function})"
    raise KeywordError(f"{function}: there is no argument {name}={hint}")


def shape_first(name: str, second: str = "") -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function whose first argument is a shape refuse lengths one by one: zeros(2, 3).

    `second` is what the second number would be otherwise.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if len(args) > 1 and type(args[0]) is int and type(args[1]) is int:
                lengths = tuple(itertools.takewhile(lambda n: type(n) is int, args))
                other = f", or {second}={args[1]} if that is meant" if second else ""
                raise KeywordError(
                    f"{name}: a shape is one tuple: write ad.{name}({lengths}){other}"
                )
            return function(*args, **kwargs)

        return call

    return decorate


def as_tensor(function: str, x: Any) -> Tensor:
    """A tensor from a tensor, a NumPy array or a Python number."""
    if isinstance(x, Tensor):
        return x
    if type(x) in SCALAR_RANK:
        device = backends.DefaultDevice.name
        return constant(x, dtype_of_scalar(x, device), device)
    if isinstance(x, (np.ndarray, np.generic)):
        return placed(host_array(x, None, None), backends.DefaultDevice.name)
    raise DTypeError(
        f"{function}: a tensor is needed, got {type(x).__name__}; convert it with ad.asarray"
    )


def is_elsewhere(x: Tensor, device: str) -> bool:
    """Whether a tensor isn't on a device, which may have several names."""
    return device != x.device and backends.backend(device).DEVICE != x.device


def as_real(function: str, x: Any) -> Tensor:
    x = as_tensor(function, x)
    if x.raw.dtype.kind == "c":
        raise DTypeError(f"{function}: real numbers are needed, got {x.dtype.name}")
    return x


def undifferentiated(function: str, x: Tensor) -> Tensor:
    if x.requires_grad and is_grad_enabled():
        raise GradientError(
            f"{function} has no gradient yet; use x.detach() or ad.no_grad() for its value"
        )
    return x


def tensor_or_number(function: str, x: Any) -> Any:
    """A tensor, or a Python number as it is."""
    return x if type(x) in SCALAR_RANK else as_tensor(function, x)


def in_common_dtype(function: str, *operands: Any) -> list[Tensor]:
    """Tensors of the dtype that operands promote to; Python numbers follow the tensors, and NumPy
    scalars, too."""
    given = [tensor_or_number(function, x) for x in beside_tensors(operands)]
    dtype = common_dtype(function, given)
    device = next((x.device for x in given if isinstance(x, Tensor)), backends.DefaultDevice.name)
    return [
        to_dtype(x, dtype) if isinstance(x, Tensor) else constant(x, dtype, device) for x in given
    ]


def as_tensor_like(function: str, x: Tensor, value: Any) -> Tensor:
    """A tensor of x's dtype, on x's device; what isn't of a smaller or the same kind is refused."""
    if isinstance(value, np.generic):
        value = weak(value)
    if type(value) in SCALAR_RANK and SCALAR_RANK[type(value)] <= RANK[x.raw.dtype.kind]:
        return constant(value, x.raw.dtype, x.device)
    value = as_tensor(function, value)
    if RANK[value.raw.dtype.kind] > RANK[x.raw.dtype.kind]:
        raise DTypeError(
            f"{function}: {value.dtype.name} values don't fit into a tensor of {x.dtype.name}; "
            "cast one of them with ad.astype"
        )
    check_devices(function, [x, value])
    return to_dtype(value, x.raw.dtype)


def host_array(
    obj: Any, dtype: np.dtype | None, copy: bool | None, device: str = "cpu"
) -> np.ndarray:
    """A NumPy array, of a dtype that adjoint has, from array-like or Python data. Python's integers
    get the widest that the device has."""
    if not isinstance(obj, (list, tuple, range)) and type(obj) not in SCALAR_RANK:
        array = foreign_array(obj)
        try:
            out = compute(np.array, array, dtype, copy=copy)
            if copy is False and not out.dtype.isnative:
                raise ValueError("another byte order")
            return canonical(out)
        except ValueError:
            target = dtype or array.dtype.newbyteorder("=")
            raise ArgumentError(
                f"asarray: {array.dtype.str} to {target} needs a copy, but copy=False"
            ) from None
    if copy is False:
        raise ArgumentError(f"asarray: {type(obj).__name__} can't be shared; leave copy=False out")
    arrays_inside = has_arrays(obj)
    try:
        array = compute(np.array, obj, dtype)
    except OverflowError:
        raise RangeError(f"asarray: a number is out of range for {dtype}") from None
    except (ValueError, TypeError):
        raise ArgumentError(
            "asarray: the data isn't numbers in nested lists of equal lengths"
        ) from None
    if array.dtype.kind == "O" and all(isinstance(item, int) for item in array.flat):
        raise RangeError("asarray: an integer needs more than 64 bits")
    if array.dtype.kind not in "biufc":
        raise DTypeError(f"asarray: {type(obj).__name__} of {array.dtype} isn't numeric data")
    if dtype is None and array.dtype.kind in "iu" and not arrays_inside:
        array = narrowed(array, backends.widest(device, "i"))
    if dtype is None and array.dtype.kind in "fc" and not arrays_inside:
        default = as_numpy(float if array.dtype.kind == "f" else complex)
        array = compute(array.astype, default, copy=False)
    return canonical(array)


def narrowed(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Integers in a dtype that may have fewer bits, if they fit."""
    if array.dtype.itemsize <= dtype.itemsize:
        return array
    limits = np.iinfo(dtype)
    if array.size and not limits.min <= array.min() <= array.max() <= limits.max:
        raise RangeError(f"asarray: an integer is out of range for {dtype}")
    return array.astype(dtype)


def foreign_array(obj: Any) -> np.ndarray:
    """Another library's array as NumPy's: by its own protocols, by DLPack, or as a buffer."""
    if isinstance(obj, (np.ndarray, np.generic)):
        return np.asarray(obj)
    try:
        by_dlpack = hasattr(obj, "__dlpack__") and not hasattr(obj, "__array__")
        array = np.from_dlpack(obj) if by_dlpack else np.asarray(obj)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise ArgumentError(f"asarray: {type(obj).__name__} can't be converted: {error}") from error
    if array.dtype.kind not in "biufc":
        raise DTypeError(f"asarray: {type(obj).__name__} of {array.dtype} isn't numeric data")
    return array


def has_arrays(obj: Any) -> bool:
    """Whether arrays, which know their dtypes, are among the items of nested lists."""
    if isinstance(obj, (list, tuple)):
        return True in [has_arrays(item) for item in obj]
    return hasattr(obj, "__array__")


def has_tensors(obj: Any) -> bool:
    """Whether tensors are among the items of nested lists."""
    if isinstance(obj, (list, tuple)):
        return True in [has_tensors(item) for item in obj]
    return isinstance(obj, Tensor)


def as_integer(function: str, name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except (TypeError, ShapeError):
        got = f"a tensor of shape {value.shape}" if isinstance(value, Tensor) else repr(value)
        raise DTypeError(f"{function}: {name} must be an integer, got {got}") from None


def as_count(function: str, name: str, value: Any, least: int = 1) -> int:
    """An integer that isn't too small."""
    if isinstance(value, bool):
        raise DTypeError(f"{function}: {name} must be an integer, got {value}")
    number = as_integer(function, name, value)
    if number < least:
        raise ArgumentError(f"{function}: {name}={number} must be at least {least}")
    return number


def check_no_module(function: str, name: str, value: Any) -> None:
    """A module stands where its parameters are wanted."""
    if hasattr(value, "named_parameters"):
        raise DTypeError(
            f"{function}: {name} must be tensors, got a {type(value).__name__}; pass "
            "model.parameters()"
        )


def as_number(function: str, name: str, value: Any) -> float:
    """A Python float, or a setting that is being recorded. A tensor is refused: it may want a
    gradient, which it wouldn't get."""
    number = weak(value)
    if isinstance(number, (int, float)):
        return float(number)
    if isinstance(number, Number):
        return number  # type: ignore[return-value]
    raise DTypeError(f"{function}: {name} must be a Python number, got {value!r}")


def as_integers(function: str, name: str, value: Any) -> list[int]:
    """Integers from one, or from a list, a 1-d array or tensor of them."""
    if isinstance(value, (np.ndarray, Tensor)) and len(value.shape) == 1:
        value = value.tolist()
    given = value if isinstance(value, (tuple, list)) else (value,)
    return [as_integer(function, name, n) for n in given]


def as_axis(function: str, axis: Any, ndim: int) -> int:
    """One axis, counted from the front."""
    number = as_integer(function, "axis", axis)
    if not -ndim <= number < ndim:
        raise AxisError(f"{function}: axis {number} is out of range for {ndim} axes")
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
