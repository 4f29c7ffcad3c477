"""Elements moved to places that are known beforehand, on NumPy: mostly views."""

import math

import numpy as np

from ..._foundation.silence import compute
from .. import LOADED
from .creation import full
from .table import entry, hosted


@entry
def move(x, *, source):
    return LOADED[type(x)].to_numpy(x)


@hosted("movement", least="ELEMENTS")
def reshape(x, *, shape):
    return x.reshape(shape)


@entry
def permute_dims(x, *, axes):
    return x.transpose(axes)


@entry
def matrix_transpose(x):
    return x.swapaxes(-1, -2)


@entry
def broadcast_to(x, *, shape):
    if math.prod(shape) > 4096:
        return np.broadcast_to(x, shape)
    out = np.empty(shape, x.dtype)  # for small arrays a copy takes less time than the view
    out[...] = x
    return out


@entry
def spread(x, *, axis, shape):
    kept = tuple(1 if k in axis else n for k, n in enumerate(shape))
    return broadcast_to(x.reshape(kept), shape=shape)


@hosted("movement", least="ELEMENTS")
def concat(*xs, axis):
    return np.concatenate(xs, axis)


@hosted("movement", least="ELEMENTS")
def pad(x, *, pad_width, value):
    shape = tuple(before + n + after for n, (before, after) in zip(x.shape, pad_width, strict=True))
    inside = tuple(slice(b, b + n) for n, (b, _) in zip(x.shape, pad_width, strict=True))
    out = compute(full, shape=shape, value=value, dtype=x.dtype)
    out[inside] = x
    return out


@entry
def slice_(x, *, index):
    return x[(*index, ...)]


@hosted("movement", least="ELEMENTS")
def place(x, *, index, shape):
    out = np.zeros(shape, x.dtype)
    out[index] = x
    return out
