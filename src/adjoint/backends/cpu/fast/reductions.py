"""Reductions, and ops along rows, by kernels."""

import functools
from typing import Any

import numpy as np

from ....kernels.language import TYPES, Kernel
from ....kernels.rows import ROWS
from ...spaces import Ints, positive
from ..indexing import along
from ..reductions import scaled_norm, within_range
from ..table import KERNELS
from .rows import RowLauncher, reduced


@functools.cache
def launcher(name: str, *dtypes: np.dtype, **static: Any) -> RowLauncher:
    return RowLauncher(Kernel(ROWS[name](*(TYPES[dtype] for dtype in dtypes), **static)))


def without_axes(x: np.ndarray, axis: Ints, keepdims: bool) -> np.ndarray:
    """Leave out axes of length 1, unless keepdims is set."""
    if keepdims:
        return x
    return x.reshape([n for k, n in enumerate(x.shape) if k not in axis])


def plain(how: str):
    """A reduction whose result is of its input's dtype."""
    small = KERNELS[how]

    def call(x, *, axis, keepdims):
        if x.dtype not in TYPES or x.dtype.kind == "b" or not x.size:
            return small(x, axis=axis, keepdims=keepdims)
        axes = positive(axis, x.ndim)
        return without_axes(reduced(how, x, axes), axes, keepdims)

    return call


def logsumexp(x, *, axis, keepdims):
    if x.dtype.kind != "f":
        return KERNELS["logsumexp"](x, axis=axis, keepdims=keepdims)
    axes = positive(axis, x.ndim)
    out = launcher("logsumexp", x.dtype).reduce([x], axes)[0]
    return without_axes(out, axes, keepdims)


def along_axis(name: str):
    """An op along one axis whose result has its input's shape."""
    small = KERNELS[name]

    def call(x, *, axis):
        if x.dtype.kind != "f" or not x.size:
            return small(x, axis=axis)
        return launcher(name, x.dtype).reduce([x], positive(axis, x.ndim))[0]

    return call


def masked_softmax(x, mask, *, axis):
    if x.dtype.kind != "f" or not x.size:
        return KERNELS["masked_softmax"](x, mask, axis=axis)
    run = launcher("masked_softmax", x.dtype, mask.dtype)
    return run.reduce([x, mask], positive(axis, x.ndim))[0]


def cross_entropy(x, target, *, axis):
    if x.dtype.kind != "f" or not x.size:
        return KERNELS["cross_entropy"](x, target, axis=axis)
    picked = x[along(target, axis)]
    largest, total = launcher("log_total", x.dtype).reduce([x], positive(axis, x.ndim))
    return total - (picked - largest)


def norm(x, *, axis, keepdims):
    if x.dtype.kind != "f" or not x.size:
        return KERNELS["norm"](x, axis=axis, keepdims=keepdims)
    axes = positive(axis, x.ndim)
    out = without_axes(reduced("norm", x, axes), axes, keepdims)
    return within_range(out, x.dtype, lambda: scaled_norm(x, axes, keepdims))


def moments(x, *, axis):
    if x.dtype.kind != "f" or not x.size:
        return KERNELS["moments"](x, axis=axis)
    return tuple(launcher("moments", x.dtype).reduce([x], positive(axis, x.ndim)))


def deviation(x, *, axis):
    if x.dtype.kind != "f" or not x.size:
        return KERNELS["deviation"](x, axis=axis)
    axes = positive(axis, x.ndim)
    mean, std = launcher("deviation", x.dtype).reduce([x], axes)
    return mean, within_range(std, x.dtype, lambda: KERNELS["deviation"](x, axis=axes)[1])


sum_, max_, min_, prod = map(plain, ("sum", "max", "min", "prod"))
softmax, log_softmax = map(along_axis, ("softmax", "log_softmax"))
