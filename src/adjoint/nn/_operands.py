"""What functions of neural networks are given: operands, numbers, and half precision."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

import numpy as np

from .._core.tensor import Tensor
from .._foundation.dtypes import float16, float32, weak
from ..functions._arguments import as_number, as_real, in_common_dtype
from ..functions.elementwise import astype
from ..functions.reductions import as_float

P = ParamSpec("P")
HALF, SINGLE = float16.dtype, float32.dtype


def as_reals(function: str, x: Any) -> Tensor:
    """A float tensor of real numbers."""
    return as_float(as_real(function, x))


def in_common_float(function: str, *operands: Any) -> list[Tensor]:
    """Float tensors of real numbers, in the dtype that operands promote to."""
    return [as_reals(function, x) for x in in_common_dtype(function, *operands)]


def as_scalar(function: str, name: str, value: Any) -> float:
    """A Python number; an integer stays one, so that it doesn't make floats of integers."""
    number = weak(value)
    return int(number) if isinstance(number, int) else as_number(function, name, value)


def in_float32(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """A function whose steps are float32 where its operands are float16: only the result rounds.

    In half precision squares and sums overflow early, and each step loses digits.
    """

    @functools.wraps(function)
    def computed(*args: P.args, **options: P.kwargs) -> Tensor:
        for operand in (*args, *options.values()):
            if dtype_of(operand) is HALF:
                return rounded(function, args, options)
        return function(*args, **options)

    return computed


def rounded(function: Any, args: tuple, options: dict[str, Any]) -> Tensor:
    """A function's result of float16 operands, computed in float32."""
    named = {name: widened(value) for name, value in options.items()}
    return narrowed(function(*map(widened, args), **named), *args, *options.values())


def dtype_of(operand: Any) -> np.dtype | None:
    if isinstance(operand, Tensor):
        return operand.raw.dtype
    return operand.dtype if isinstance(operand, np.ndarray) else None


def widened(operand: Any) -> Any:
    """float16 as float32, anything else as it is."""
    return astype(operand, float32) if dtype_of(operand) is HALF else operand


def narrowed(out: Tensor, *operands: Any) -> Tensor:
    """What was computed with widened operands, in the dtype that they promote to."""
    dtypes = {*map(dtype_of, operands)}
    is_half = HALF in dtypes and SINGLE not in dtypes and out.raw.dtype is SINGLE
    return astype(out, float16) if is_half else out
