"""Arrays from nothing. What one number says needs no memory; the rest is computed here and sent."""

import numpy as np

from .. import LOADED
from .arrays import Array
from .table import entry


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


@entry
def arange(gpu, *, start, stop, step, dtype):
    return send(gpu, np.arange(start, stop, step, dtype=dtype))


@entry
def linspace(gpu, *, start, stop, num, endpoint, dtype):
    return send(gpu, np.linspace(start, stop, num, endpoint=endpoint, dtype=dtype))


@entry
def eye(gpu, *, rows, columns, k, dtype):
    return send(gpu, np.eye(rows, columns, k, dtype))
