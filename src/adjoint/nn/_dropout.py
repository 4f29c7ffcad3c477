"""Dropout: a random part is put to zero, and the rest made larger."""

import math
from typing import Any

from .. import random
from .._core.tensor import Tensor
from .._foundation.errors import ArgumentError, ShapeError
from ..functions._arguments import as_number
from ..functions.elementwise import positive
from ..primitives.elementwise import where
from ._operands import as_reals, in_float32

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d"]

# What selu goes to for large negative numbers: alpha_dropout puts that in place of zeros.
SELU_LIMIT = -1.7580993408473766


def dropout(x: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """x with each element put to 0 with probability p, the others divided by 1 - p.

    >>> x = ad.nn.functional.dropout(ad.ones(1000), 0.25)
    >>> abs(ad.mean(x).item() - 1) < 0.1
    True
    """
    x, p = as_reals("dropout", x), as_probability("dropout", "p", p)
    return dropped(x, x.shape, p) if training and p else positive(x)


def dropout1d(x: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """x (N, C, L) or (C, L) with whole channels dropped.

    >>> ad.nn.functional.dropout1d(ad.ones((2, 3)), training=False).shape
    (2, 3)
    """
    return channels_dropped("dropout1d", 1, x, p, training)


def dropout2d(x: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """x (N, C, H, W) or (C, H, W) with whole channels dropped.

    >>> x = ad.nn.functional.dropout2d(ad.ones((1, 8, 2, 2)))
    >>> ad.all(x == x[:, :, :1, :1])
    tensor(True)
    """
    return channels_dropped("dropout2d", 2, x, p, training)


def dropout3d(x: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """x (N, C, D, H, W) or (C, D, H, W) with whole channels dropped.

    >>> ad.nn.functional.dropout3d(ad.ones((1, 2, 2, 2, 2))).shape
    (1, 2, 2, 2, 2)
    """
    return channels_dropped("dropout3d", 3, x, p, training)


@in_float32
def alpha_dropout(x: Any, p: float = 0.5, training: bool = False) -> Tensor:
    """Dropout for selu networks: mean 0 and variance 1 stay.

    >>> ad.nn.functional.alpha_dropout(ad.ones(3))
    tensor([1., 1., 1.])
    """
    x, p = as_reals("alpha_dropout", x), as_probability("alpha_dropout", "p", p)
    if not training or not p:
        return positive(x)
    if p == 1:
        return where(False, x, 0)
    scale = 1 / math.sqrt((1 - p) * (1 + p * SELU_LIMIT**2))
    kept = where(keep(x.shape, p, x.device), x, SELU_LIMIT)
    return kept * scale - scale * p * SELU_LIMIT


def as_probability(function: str, name: str, value: Any) -> float:
    p = as_number(function, name, value)
    if not 0 <= p <= 1:
        raise ArgumentError(f"{function}: {name}={value} isn't a probability")
    return p


def channels_dropped(function: str, count: int, x: Any, p: float, training: bool) -> Tensor:
    x, p = as_reals(function, x), as_probability(function, "p", p)
    if x.ndim not in (count + 1, count + 2):
        raise ShapeError(
            f"{function}: (N, C, ...) or (C, ...) with {count} spatial axes is needed, got shape "
            f"{x.shape}"
        )
    channels = x.shape[:-count]
    if not training or not p:
        return positive(x)
    return dropped(x, (*channels, *(1 for _ in range(count))), p)


def dropped(x: Tensor, shape: tuple[int, ...], p: float) -> Tensor:
    """x with elements, or what broadcasts from `shape`, dropped."""
    if p == 1:
        return where(False, x, 0)
    return where(keep(shape, p, x.device), x * (1 / (1 - p)), 0)


def keep(shape: tuple[int, ...], p: float, device: str) -> Tensor:
    """True with probability 1 - p: a random word of 32 bits isn't below p's part of them."""
    return random.bits(shape, device=device) >= min(round(p * 2**32), 2**32 - 1)
