"""Standardising and its gradient."""

from collections.abc import Callable
from typing import Any

from ....kernels.ops import Unsupported
from ...launches import View
from ...spaces import positive
from .native import FLOATS, NativeLowering
from .reductions import rows_of
from .rows import lower_rows


def standardizing(name: str) -> Callable:
    """An op of arrays of one dtype, whose attributes are all a part of its kernel but for `eps`."""

    def lower(
        to: NativeLowering, x: View, *others: View | None, axis: Any, eps: float, **static: bool
    ) -> None:
        arrays = [x, *(y for y in others if y is not None)]
        if x.dtype not in FLOATS or not x.size:
            raise Unsupported(f"standardising {x.dtype} of shape {x.shape}")
        if any(y.dtype != x.dtype for y in arrays):
            raise Unsupported("standardising arrays of several dtypes")
        kernel = rows_of(name, x.dtype, **static)
        lower_rows(to, kernel, arrays, positive(axis, x.ndim), keys=["eps"])

    return lower


def scaled_standardize(to: NativeLowering, x: View, weight: View, bias: View | None, **attrs: Any):
    scaled(to, x, weight, bias, biased=bias is not None, **attrs)


NAMES = ("standardize", "scaled_standardize", "standardize_gradient")
standardize, scaled, standardize_gradient = map(standardizing, NAMES)
