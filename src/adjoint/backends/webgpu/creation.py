"""Arrays from nothing. What one number says needs no memory; the rest is computed here and sent."""

from collections.abc import Callable

import numpy as np

from .. import LOADED
from ..cpu.creation import eye
from .arrays import Array
from .table import FUNCTIONS, entry


@entry
def full(gpu, *, shape, value, dtype):
    gpu.check_dtype(dtype)
    return gpu.Array(shape, dtype, None, number=np.array(value, dtype).item())


def send(gpu, array: np.ndarray) -> Array:
    gpu.check_dtype(array.dtype)
    return gpu.send(array)


@entry
def move(gpu, x, *, source):
    return send(gpu, LOADED[type(x)].to_numpy(x))


def sent(make: Callable[..., np.ndarray]) -> Callable[..., Array]:
    return lambda gpu, **attrs: send(gpu, make(**attrs))


FUNCTIONS |= {make.__name__: sent(make) for make in (np.arange, np.linspace, eye)}
