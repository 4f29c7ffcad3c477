"""What a function was asked for: checked parameters, the shape, dtype and device of the result."""

from typing import Any, NamedTuple

import numpy as np

from .. import backends
from .._core.promotion import beside_tensors, check_devices, to_dtype
from .._core.shape_inference import broadcast_shapes, broadcasts_to
from .._core.tensor import Tensor, describe
from .._foundation.dtypes import (
    SCALAR_RANK,
    DefaultDType,
    as_numpy,
    float16,
    float32,
    promote,
    show,
)
from .._foundation.errors import ArgumentError, DTypeError, GradientError, ShapeError
from .._foundation.modes import is_grad_enabled, is_tracing, mode
from ..functions._arguments import as_shape, as_tensor
from ..functions.creation import ask_for_grad
from ..primitives.elementwise import logical_and
from ..primitives.reductions import all_
from ._generator import Generator, default


class Draw(NamedTuple):
    """Which numbers are wanted, and from where."""

    generator: Generator
    shape: tuple[int, ...]
    dtype: np.dtype
    device: str

    @property
    def working(self) -> "Draw":
        """The same numbers in the dtype that they are computed in: float16 has too few digits."""
        return self._replace(dtype=float32.dtype) if self.dtype is float16.dtype else self

    def finished(self, out: Tensor, requires_grad: bool = False) -> Tensor:
        return ask_for_grad(to_dtype(out, self.dtype), requires_grad)


class Options(NamedTuple):
    """The arguments that all functions have."""

    shape: Any
    dtype: Any
    device: str | None
    generator: Generator | None


def float_draw(function: str, options: Options, **parameters: Any) -> tuple[Draw, list[Any]]:
    """A draw of floats, and its parameters: Python numbers or tensors."""
    given = beside_tensors([*parameters.values()])
    values = [as_parameter(function, name, x) for name, x in zip(parameters, given, strict=True)]
    tensors = [x for x in values if isinstance(x, Tensor)]
    dtype = float_dtype(function, options.dtype, tensors)
    return draw_of(function, options, values, dtype), values


def draw_of(function: str, options: Options, values: list[Any], dtype: np.dtype) -> Draw:
    """A draw of a known dtype, of the shape that was asked for, or that the parameters have."""
    if not isinstance(options.generator, Generator | None):
        kind = type(options.generator).__name__
        raise DTypeError(f"{function}: generator must be an ad.random.Generator, not {kind}")
    tensors = [x for x in values if isinstance(x, Tensor)]
    check_devices(function, tensors)
    device = options.device or next((x.device for x in tensors), backends.DefaultDevice.name)
    shape = drawn_shape(function, options.shape, [x.shape for x in tensors])
    return Draw(options.generator or default, shape, dtype, device)


def drawn_shape(function: str, shape: Any, given: list[tuple[int, ...]]) -> tuple[int, ...]:
    together = broadcast_shapes(function, given)
    if shape is None:
        return together
    wanted = as_shape(function, shape)
    if not broadcasts_to(together, wanted):
        raise ShapeError(
            f"{function}: parameters of shape {together} don't broadcast to the shape {wanted} "
            "that was asked for"
        )
    return wanted


def as_parameter(function: str, name: str, value: Any) -> Any:
    """A Python number, or a tensor of real numbers."""
    if type(value) in SCALAR_RANK and not isinstance(value, complex):
        return value
    try:
        tensor = as_tensor(function, value)
    except DTypeError:
        tensor = None
    if tensor is None or tensor.raw.dtype.kind == "c":
        what = type(value).__name__ if tensor is None else tensor.dtype.name
        raise DTypeError(
            f"{function}: {name} must be a real number or a tensor of them, not {what}"
        )
    return tensor


def float_dtype(function: str, dtype: Any, tensors: list[Tensor]) -> np.dtype:
    """The float dtype that was asked for, or that the parameters have, or the default one."""
    if dtype is not None:
        raw = as_numpy(dtype)
        if raw.kind != "f":
            raise DTypeError(f"{function}: a float dtype is needed, got {show(raw)}")
        return raw
    given = [x.raw.dtype for x in tensors if x.raw.dtype.kind == "f"]
    if not given:
        return DefaultDType.float
    out = given[0]
    for other in given[1:]:
        out = promote(function, out, other)
    return out


def check(function: str, holds: Any, what: str, value: Any) -> None:
    """Raise unless a condition holds everywhere; in a trace the values of tensors aren't known."""
    if not isinstance(holds, Tensor):
        if not holds:
            raise ArgumentError(f"{function}: {what}, got {value!r}")
    elif is_tracing():
        mode.trace.require(lambda: holds)
    elif not all_(holds, axis=tuple(range(holds.ndim)), keepdims=False):
        bad = value.detach() if isinstance(value, Tensor) else value
        if isinstance(bad, Tensor) and bad.shape == holds.shape and bad.ndim:
            bad = bad[~holds][0]
        shown = bad.item() if isinstance(bad, Tensor) and bad.size == 1 else bad
        raise ArgumentError(f"{function}: {what}, got {shown!r}")


def check_not_negative(function: str, name: str, value: Any) -> None:
    check(function, value >= 0, f"{name} must not be negative", value)


def check_positive(function: str, name: str, value: Any) -> None:
    finite = between(value, 0, float("inf"))
    check(function, finite, f"{name} must be positive and finite", value)


def check_probability(function: str, name: str, value: Any) -> None:
    holds = logical_and(value >= 0, value <= 1) if isinstance(value, Tensor) else 0 <= value <= 1
    check(function, holds, f"{name} must be from 0 to 1", value)


def between(value: Any, low: float, high: float) -> Any:
    """Whether low < value < high."""
    if isinstance(value, Tensor):
        return logical_and(value > low, value < high)
    return low < value < high


def refuse_grad(function: str, name: str, value: Any) -> None:
    """Refuse a parameter whose gradient would silently be missing."""
    if isinstance(value, Tensor) and value.requires_grad and is_grad_enabled():
        raise GradientError(
            f"{function}: the numbers have no gradient with respect to {name} ({describe(value)}, "
            f"which requires grad); pass {name}.detach()"
        )
