"""Arguments of windows that move over images (N, C, ...) of one, two or three spatial axes."""

import operator
from typing import Any

from .._core.promotion import to_dtype
from .._core.tensor import Tensor
from .._foundation.dtypes import float16, float32
from .._foundation.errors import ArgumentError, DTypeError, ShapeError
from ..primitives.shapes import reshape

Ints = tuple[int, ...]
Counts = int | Ints  # one for all axes, or one for each
Pairs = tuple[tuple[int, int], ...]
SPATIAL = {1: "L", 2: "H, W", 3: "D, H, W"}


def per_axis(function: str, name: str, value: Any, count: int, least: int) -> Ints:
    """An int for each spatial axis, from one int for all or a tuple."""
    try:
        given = tuple(value) if isinstance(value, (tuple, list)) else (value,) * count
        numbers = tuple(operator.index(n) for n in given)
    except TypeError:
        numbers = ()
    if len(numbers) == 1:
        numbers *= count
    if len(numbers) != count or min(numbers) < least:
        several = "a pair" if count == 2 else f"a tuple of {count}"
        raise ArgumentError(
            f"{function}: {name} must be an integer of at least {least}, or {several} of them, "
            f"got {value!r}"
        )
    return numbers


def batched(function: str, x: Tensor, count: int) -> tuple[Tensor, bool]:
    """Images (N, C, ...), and whether N is ours: (C, ...) is a single one."""
    if x.raw.dtype.kind not in "iuf":
        raise DTypeError(f"{function}: real numbers are needed, got {x.dtype.name}")
    if x.ndim == count + 2:
        return x, False
    if x.ndim == count + 1:
        return reshape(x, shape=(1, *x.shape)), True
    raise ShapeError(
        f"{function}: images (N, C, {SPATIAL[count]}) or (C, {SPATIAL[count]}) are needed, got "
        f"shape {x.shape}"
    )


def unbatched(x: Tensor, single: bool) -> Tensor:
    return reshape(x, shape=x.shape[1:]) if single else x


def widened(x: Tensor) -> Tensor:
    """float16 as float32: sums in it overflow and lose digits where what comes of them doesn't."""
    return to_dtype(x, float32.dtype) if x.raw.dtype == float16.dtype else x


def symmetric(padding: Ints) -> Pairs:
    return tuple((p, p) for p in padding)


def check_window(function: str, x: Ints, kernel: Ints, padding: Pairs, dilation: Ints) -> None:
    for n, k, (before, after), d in zip(x[2:], kernel, padding, dilation, strict=True):
        if k < 1:
            raise ShapeError(f"{function}: a window of {tuple(kernel)} has no elements")
        if n + before + after < d * (k - 1) + 1:
            raise ShapeError(
                f"{function}: a window of {tuple(kernel)} (dilation {dilation}) is larger than the "
                f"image {x[2:]} with padding {tuple(p for p, _ in padding)}"
            )
