"""Numbers of 48 digits, in arrays of objects, and the errors of floats against them.

NumPy's longdouble is float64 on some processors, and its functions are those of the C library.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

Array = np.ndarray[Any, Any]

mp: Any = pytest.importorskip("mpmath").mp.clone()
mp.prec = 160


def precise(x: Array) -> Array:
    """The same numbers with more digits."""
    return np.asarray(np.frompyfunc(mp.mpf, 1, 1)(x.astype(np.float64)), object)


class Truth(NamedTuple):
    """Right results: near + rest * 2**(exponent - 53), of which 2**(exponent - 1) is a part."""

    near: Array
    exponent: Array
    rest: Array

    @classmethod
    def of_floats(cls, x: Array) -> "Truth":
        """That of float32 and less: float64 has digits enough."""
        return cls(x, np.frexp(x)[1], np.zeros(x.shape))

    @classmethod
    def of(cls, function: Callable, near: Array, *arrays: Array) -> "Truth":
        """A function of precise numbers, elementwise. These have no infinities and no -0, and don't
        say where results are: there `near` is exact."""
        near, exponent, rest = cls.of_floats(near.copy())
        are_numbers = [np.isfinite(x) & ((x != 0) | ~np.signbit(x)) for x in arrays]
        for k in np.flatnonzero(np.logical_and.reduce(are_numbers)):
            result = value_of(function, *(mp.mpf(float(x[k])) for x in arrays))
            if result:
                near[k], exponent[k], rest[k] = parts(result)
        return cls(near, exponent, rest)


def value_of(function: Callable, *numbers: Any) -> Any:
    """The value of a function, or None at a pole and where it is complex."""
    try:
        result = function(*numbers)
    except ZeroDivisionError:
        return None
    return result if isinstance(result, mp.mpf) and mp.isfinite(result) else None


def parts(x: Any) -> tuple[float, int, float]:
    """A number as that of a Truth."""
    near, exponent = float(x), int(min(max(mp.frexp(x)[1], -2000), 2000))
    rest = 0.0 if np.isinf(near) else float(mp.ldexp(x - near, 53 - exponent))
    return near, exponent, rest


def ulps(out: Array, truth: Truth, size: Array | None = None) -> Array:
    """The error of each element, in units of the last digit of the right result, or of `size`.

    Infinite where only one of the two is NaN or overflows, or where zeros have different signs, if
    the error isn't that of a `size`.
    """
    info = np.finfo(out.dtype)
    with np.errstate(all="ignore"):
        right = truth.near.astype(out.dtype)
        exponent = truth.exponent if size is None else np.frexp(np.abs(size))[1]
        digit = np.maximum(exponent - 1, info.minexp) - np.intc(info.nmant)
        rest = np.ldexp(truth.rest, truth.exponent - np.intc(53) - digit)
        error = np.abs(np.ldexp(out - truth.near, -digit) - rest)
        same = (out == right) & ((out != 0) | (np.signbit(out) == np.signbit(right)))
        lost_sign = (out == 0) & (right == 0) & ~same & (size is None)
        wrong = np.isnan(error) | lost_sign | np.isinf(out)
    error = np.where(wrong, np.inf, error)
    return np.where(np.isinf(out) & same | np.isnan(out) & np.isnan(truth.near), 0, error)
