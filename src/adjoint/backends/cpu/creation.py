"""Arrays from nothing, on NumPy."""

import numpy as np

from .table import FUNCTIONS, entry

FUNCTIONS.update(arange=np.arange, linspace=np.linspace)


@entry
def full(*, shape, value, dtype):
    zero = type(value) is int and value == 0
    return np.zeros(shape, dtype) if zero else np.full(shape, np.array(value, dtype))


@entry
def eye(*, rows, columns, k, dtype):
    return np.eye(rows, columns, k, dtype)
