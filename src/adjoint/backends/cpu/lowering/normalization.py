"""Standardising and its gradient."""

from typing import Any

from ....kernels.ops import Unsupported
from ...launches import View
from ...spaces import positive
from .native import FLOATS, NativeLowering
from .reductions import rows_of
from .rows import lower_rows


def check_alike(x: View, *others: View | None) -> None:
    if x.dtype not in FLOATS or not x.size:
        raise Unsupported(f"standardising {x.dtype} of shape {x.shape}")
    if any(y is not None and y.dtype != x.dtype for y in others):
        raise Unsupported("standardising arrays of several dtypes")


def standardize(to: NativeLowering, x: View, *, axis: Any, eps: float, center: bool) -> None:
    check_alike(x)
    kernel = rows_of("standardize", x.dtype, center=center)
    lower_rows(to, kernel, [x], positive(axis, x.ndim), keys=["eps"])


def scaled_standardize(
    to: NativeLowering,
    x: View,
    weight: View,
    bias: View | None,
    *,
    axis: Any,
    eps: float,
    center: bool,
) -> None:
    check_alike(x, weight, bias)
    kernel = rows_of("scaled_standardize", x.dtype, center=center, biased=bias is not None)
    arrays = [x, weight] if bias is None else [x, weight, bias]
    lower_rows(to, kernel, arrays, positive(axis, x.ndim), keys=["eps"])


def standardize_gradient(
    to: NativeLowering,
    dout: View,
    dmean: View,
    dvar: View,
    out: View,
    var: View,
    *,
    axis: Any,
    eps: float,
    center: bool,
) -> None:
    check_alike(dout, dmean, dvar, out, var)
    kernel = rows_of("standardize_gradient", dout.dtype, center=center)
    arrays = [dout, dmean, dvar, out, var]
    lower_rows(to, kernel, arrays, positive(axis, dout.ndim), keys=["eps"])
