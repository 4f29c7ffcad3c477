"""Arrays that kernels are tried on, and what their results are held against."""

import itertools
import math
from typing import Any

import numpy as np

from adjoint.backends.cpu import NUMPY

FLOATS = ("f2", "f4", "f8")
LARGE = 1 << 16  # more elements than any op has to have to be computed by a kernel
INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")


def numbers(*shape: int, dtype: str = "f4") -> np.ndarray:
    """Different numbers that are exact in every dtype, with few digits."""
    size = math.prod(shape)
    return (np.arange(size) * 7 % 101 - 50).astype(dtype).reshape(shape)


def special_values(dtype: np.dtype) -> np.ndarray:
    """Zeros, infinities, NaN, the ends of the denormal and the normal numbers, of both signs."""
    info = np.finfo(dtype)
    tiny, least = info.smallest_normal, info.smallest_subnormal
    values = [0, least, 3 * least, tiny - least, tiny, 0.5, 1, 1 + info.eps, 2, 3, 4.5, info.max]
    values = np.array([*values, np.inf, np.nan], dtype)
    return np.concatenate([values, -values])


def operands(dtype: np.dtype, count: int) -> list[np.ndarray]:
    """All pairs of the ends of an integer type, numbers near 0, and shifts near the width."""
    if dtype.kind == "b":
        found = [False, True]
    else:
        info = np.iinfo(dtype)
        ends = {info.min, info.min + 1, info.max, info.max - 1, info.bits - 1, info.bits, 100}
        found = sorted(ends | {k for k in range(-4, 5) if k >= info.min})
    rows = zip(*itertools.product(found, repeat=count), strict=True)
    return [np.array(row, dtype) for row in rows]


def kernel_free(name: str, *arrays: np.ndarray, **attrs: Any) -> Any:
    with np.errstate(all="ignore"):
        return NUMPY[name](*arrays, **attrs)


def check_same(results: list[np.ndarray], expected: list[np.ndarray]) -> None:
    """The same bits, but for those of NaNs."""
    for out, right in zip(results, expected, strict=True):
        np.testing.assert_array_equal(out, right, strict=True)
        if out.dtype.kind == "f":
            number = ~np.isnan(out)
            np.testing.assert_array_equal(np.signbit(out[number]), np.signbit(right[number]))
