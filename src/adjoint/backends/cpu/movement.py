"""Elements moved to places that are known beforehand, on NumPy: mostly views."""

import math

import numpy as np

from ..._foundation.silence import compute
from .. import LOADED
from .table import hosted, kernel


@kernel
def move(x, *, source):
    return LOADED[type(x)].to_numpy(x)


@kernel
@hosted("movement", least="ELEMENTS")
def reshape(x, *, shape):
    return x.reshape(shape)


@kernel
def permute_dims(x, *, axes):
    return x.transpose(axes)


@kernel
def matrix_transpose(x):
    return x.swapaxes(-1, -2)


@kernel
def broadcast_to(x, *, shape):
    if math.prod(shape) > 4096:
        return np.broadcast_to(x, shape)
    out = np.empty(shape, x.dtype)  # for small arrays a copy takes less time than the view
    out[...] = x
    return out


@kernel
def spread(x, *, axis, shape):
    kept = tuple(1 if k in axis else n for k, n in enumerate(shape))
    return broadcast_to(x.reshape(kept), shape=shape)


@kernel
@hosted("movement", least="ELEMENTS")
def concat(*xs, axis):
    return np.concatenate(xs, axis)


@kernel
@hosted("movement", least="ELEMENTS")
def pad(x, *, pad_width, value):
    shape = tuple(before + n + after for n, (before, after) in zip(x.shape, pad_width, strict=True))
    inside = tuple(slice(b, b + n) for n, (b, _) in zip(x.shape, pad_width, strict=True))
    out = np.full(shape, compute(np.array, value, x.dtype))
    out[inside] = x
    return out


@kernel
def slice_(x, *, index):
    return x[(*index, ...)]


@kernel
@hosted("movement", least="ELEMENTS")
def place(x, *, index, shape):
    out = np.zeros(shape, x.dtype)
    out[index] = x
    return out
