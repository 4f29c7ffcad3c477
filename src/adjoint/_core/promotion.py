"""What ops are given: operands of any kind become tensors of one dtype on one device."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import backends
from .._foundation.dtypes import (
    SCALAR_RANK,
    DefaultDType,
    canonical,
    of_scalar,
    promote,
    promote_scalar,
    weak,
)
from .._foundation.errors import DeviceError, DTypeError, RangeError, TraceError
from .._foundation.modes import TRACE, mode
from .._foundation.numbers import Number
from .._foundation.silence import compute
from .declaration import Op
from .tensor import Tensor, describe, wrap

# The op that casts, entered where it is declared: promotion is the one op that dispatch needs.
casting: list[Callable] = []


def beside_tensors(operands: Sequence[Any]) -> Sequence[Any]:
    """The operands, NumPy scalars as Python numbers if a tensor is among them: np.sqrt(8), which is
    float64, doesn't widen a float32 network."""
    for x in operands:
        if isinstance(x, np.generic):
            found = any(isinstance(other, Tensor) for other in operands)
            return [weak(other) for other in operands] if found else operands
    return operands


def as_operand(op: Op, position: int, operand: Any) -> Any:
    """A tensor or a Python scalar, or None for an optional input."""
    if isinstance(operand, Tensor) or type(operand) in SCALAR_RANK:
        return operand
    if isinstance(operand, (np.ndarray, np.generic)):
        return placed(canonical(np.asarray(operand)), backends.DefaultDevice.name)
    if operand is None and op.input_name(position) in op.optional:
        return None
    raise DTypeError(
        f"{op.name}: tensors and Python numbers are needed, got {type(operand).__name__}; "
        "convert it with ad.asarray"
    )


def promoted(op: Op, operands: list) -> list:
    """The operands, with those that promote together cast to their common dtype.

    Python scalars stay, unless there is no tensor among them that could carry the dtype.
    """
    if of_one_float_dtype(operands):
        return operands
    chosen = {
        k for k, x in enumerate(operands) if x is not None and op.input_name(k) in op.promotes
    }
    if not chosen:
        return operands
    together = [operands[k] for k in sorted(chosen)]
    dtype = common_dtype(op.name, together)
    tensors = [x for x in operands if isinstance(x, Tensor)]
    device = tensors[0].device if tensors else backends.DefaultDevice.name
    narrow = on_device(dtype, device)
    if narrow is not dtype and any(x.raw.dtype.kind == "u" for x in tensors):
        kinds = " and ".join(sorted({x.dtype.name for x in tensors}))
        raise DTypeError(
            f"{op.name}: {kinds} have no common dtype on {device}; cast one with ad.astype"
        )
    dtype = narrow
    if op.floats and dtype.kind in "iub":
        dtype = DefaultDType.float
    if not any(isinstance(x, Tensor) for x in together):
        return [constant(x, dtype, device) if k in chosen else x for k, x in enumerate(operands)]
    return [to_dtype(x, dtype) if k in chosen else x for k, x in enumerate(operands)]


def of_one_float_dtype(operands: list) -> bool:
    """Whether there is nothing to promote, which is so almost always."""
    first = operands[0]
    if not isinstance(first, Tensor) or first.raw.dtype.kind != "f":
        return False
    dtype = first.raw.dtype
    for x in operands:
        if x.raw.dtype is not dtype if isinstance(x, Tensor) else type(x) not in (float, int):
            return False
    return True


def common_dtype(name: str, operands: list) -> np.dtype:
    """The dtype that tensors and Python scalars promote to."""
    dtypes = [x.raw.dtype for x in operands if isinstance(x, Tensor)]
    scalars = [x for x in operands if not isinstance(x, Tensor)]
    dtype = (dtypes or [of_scalar(scalars[0])])[0]
    for other in dtypes[1:]:
        dtype = promote(name, dtype, other)
    return functools.reduce(promote_scalar, scalars, dtype)


def on_device(dtype: np.dtype, device: str) -> np.dtype:
    """A dtype that Python integers have got, or what comes nearest to it on a device."""
    widest = backends.widest(device, "i")
    return widest if dtype.kind == "i" and dtype.itemsize > widest.itemsize else dtype


def dtype_of_scalar(value: Any, device: str) -> np.dtype:
    """The dtype that a Python scalar has by itself, on a device."""
    return on_device(of_scalar(value), device)


def constant(value: Any, dtype: np.dtype, device: str) -> Tensor:
    """A 0-d tensor from a Python scalar."""
    if isinstance(value, Number) and mode.word & TRACE:
        return mode.trace.lift_number(value, dtype, device)
    try:
        array = compute(np.array, value, dtype)
    except OverflowError:
        raise RangeError(f"{value!r} is out of range for {dtype}; use a larger dtype") from None
    return placed(array, device)


def placed(array: np.ndarray, device: str) -> Tensor:
    """A tensor on a device, from values on the host."""
    return lift(backends.backend(device).from_numpy(array))


def placed_indices(array: np.ndarray, device: str) -> Tensor:
    """Indices on a device, in a dtype that it has: as they are places in an array, none is lost."""
    widest = backends.widest(device, "i")
    fits = array.dtype.kind == "b" or widest == backends.WIDEST["i"]
    if fits:
        return placed(array, device)
    limits = np.iinfo(widest)  # what is beyond them is out of range, and stays so
    return placed(np.clip(array, limits.min, limits.max).astype(widest), device)


def lift(data: Any) -> Tensor:
    """A tensor around new data; while a function is traced, a constant of the trace."""
    return mode.trace.constant(data) if mode.word & TRACE else wrap(data)


def to_dtype(operand: Any, dtype: np.dtype) -> Any:
    if not isinstance(operand, Tensor) or operand.raw.dtype is dtype:
        return operand
    return casting[0](operand, dtype=dtype)


def is_at_hand(x: Tensor) -> bool:
    """Whether values can be looked at right away: in a trace there are none, and a GPU would have
    to be waited for."""
    return not mode.word & TRACE and type(x.raw) is np.ndarray


def check_devices(function: str, tensors: list[Tensor]) -> None:
    """All tensors have values, and are on one device."""
    for tensor in tensors:
        if type(tensor.raw) not in backends.LOADED and not mode.word & TRACE:
            raise TraceError.escaped(function)
    devices = {tensor.device: tensor for tensor in tensors}
    if len(devices) > 1:
        what = " and ".join(f"{describe(x)} on {d}" for d, x in devices.items())
        raise DeviceError(
            f"{function}: all tensors must be on one device, got {what}; use x.to(...)"
        )
