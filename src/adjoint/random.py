"""Random numbers: counter-based (Threefry), so equal on every device and easy to replay.

The state is a tensor of four 32-bit words: two of the key, two that count. While a function is
traced it is a capture like any other, and its new value is put back.
"""

import math
import os
import threading
from typing import Any

import numpy as np

from ._dtypes import Default, as_numpy
from ._errors import ArgumentError, DTypeError
from ._operands import lift
from ._tensor import Tensor, wrap
from .functions._arguments import as_integer, as_shape
from .functions.assignment import rebind
from .functions.creation import ask_for_grad
from .functions.shapes import concat, reshape
from .primitives.conversions import cast
from .primitives.creation import random_bits
from .primitives.elementwise import bitwise_right_shift, cos, log, minimum, sin, sqrt
from .primitives.shapes import slice_

# Random bits that a float dtype can hold: uniform numbers are multiples of 2 ** -bits.
PRECISION = {"float16": 11, "float32": 24, "float64": 53}


def initial_state(seed: int) -> np.ndarray:
    return np.array([seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF, 0, 0], np.uint32)


turn = threading.Lock()
state = wrap(initial_state(int.from_bytes(os.urandom(8), "little")))


def seed(n: int) -> None:
    """Start the global generator anew, from a number of up to 64 bits.

    >>> ad.random.seed(0)
    >>> a = ad.random.uniform((2,))
    >>> ad.random.seed(0)
    >>> ad.all(a == ad.random.uniform((2,)))
    tensor(True)
    """
    if not 0 <= as_integer("random.seed", "the seed", n) < 2**64:
        raise ArgumentError(f"random.seed: an integer from 0 to 2**64 - 1 is needed, got {n}")
    rebind(state, lift(initial_state(n)))


def bits(shape: tuple[int, ...], device: str = "cpu") -> Tensor:
    """Random 32-bit words; moves the state on."""
    with turn:
        out, after = random_bits(state, shape=shape, device=device)
        rebind(state, after)
    return out


def uniform(
    shape: Any = (),
    low: float = 0.0,
    high: float = 1.0,
    *,
    dtype: Any = None,
    device: str = "cpu",
    requires_grad: bool = False,
) -> Tensor:
    """Numbers spread evenly from low up to, but without, high.

    >>> x = ad.random.uniform((1000,), 2.0, 3.0)
    >>> ad.all((x >= 2) & (x < 3))
    tensor(True)
    """
    out = unit(as_shape("random.uniform", shape), float_dtype("random.uniform", dtype), device)
    if (low, high) != (0, 1):
        # Rounding must not reach high.
        below = np.nextafter(np.array(high, out.data.dtype), np.array(low, out.data.dtype))
        out = minimum(out * (high - low) + low, float(below))
    return ask_for_grad(out, requires_grad)


def normal(
    shape: Any = (),
    mean: float = 0.0,
    std: float = 1.0,
    *,
    dtype: Any = None,
    device: str = "cpu",
    requires_grad: bool = False,
) -> Tensor:
    """Numbers of the normal distribution.

    >>> abs(ad.random.normal((10000,)).mean().item()) < 0.1
    True
    """
    sizes, raw = as_shape("random.normal", shape), float_dtype("random.normal", dtype)
    size = math.prod(sizes)
    half = (size + 1) // 2
    # Box and Muller: two uniform numbers make two normal ones.
    radius = sqrt(-2 * log(1 - unit((half,), raw, device)))
    angle = 2 * math.pi * unit((half,), raw, device)
    both = concat([radius * cos(angle), radius * sin(angle)])
    out = reshape(slice_(both, index=(slice(0, size),)), sizes) * std + mean
    return ask_for_grad(out, requires_grad)


def unit(shape: tuple[int, ...], dtype: np.dtype, device: str) -> Tensor:
    """Multiples of 2 ** -precision in [0, 1)."""
    precision = PRECISION[dtype.name]
    if precision <= 32:
        words = bitwise_right_shift(bits(shape, device), 32 - precision)
        return cast(words, dtype=dtype) * 2.0**-precision
    words = bits((2, *shape), device)
    high = cast(bitwise_right_shift(slice_(words, index=(0,)), 5), dtype=dtype)
    low = cast(bitwise_right_shift(slice_(words, index=(1,)), 6), dtype=dtype)
    return (high * 2.0**26 + low) * 2.0**-precision


def float_dtype(function: str, dtype: Any) -> np.dtype:
    raw = Default.float if dtype is None else as_numpy(dtype)
    if raw.kind != "f":
        raise DTypeError(f"{function}: a float dtype is needed, got {raw}")
    return raw
