"""Methods that fill a tensor with random numbers: x.uniform_(), x.normal_()."""

from typing import Any

from .._core.tensor import Tensor, describe
from .._foundation.errors import DTypeError
from ..functions.assignment import assign, check_writable
from ._continuous import normal, uniform


def uniform_(x: Tensor, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill x with numbers spread evenly from low up to high; returns x.

    >>> x = ad.zeros(1000).uniform_(2, 3)
    >>> ad.all((x >= 2) & (x < 3))
    tensor(True)
    """
    options = prepared("uniform_", x)
    assign(x, ..., uniform(x.shape, low, high, generator=generator, **options))
    return x


def normal_(x: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill x with numbers of the normal distribution; returns x.

    >>> abs(ad.zeros(10000).normal_().mean().item()) < 0.1
    True
    """
    options = prepared("normal_", x)
    assign(x, ..., normal(x.shape, mean, std, generator=generator, **options))
    return x


def prepared(function: str, x: Tensor) -> dict[str, Any]:
    """What numbers for x are to be like, if x may be written to; nothing is drawn otherwise."""
    check_writable(function, x)
    if x.dtype.kind != "float":
        raise DTypeError(f"{function}: a tensor of floats is needed, got {describe(x)}")
    return {"dtype": x.dtype, "device": x.device}
