"""Reductions over any axes, and ops along rows, by kernels of the kernel language."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._foundation.errors import IndexingError
from ...kernels.language import BOOL, F16, F32, TYPES, Kernel, Type, convert, element, reduce
from ...kernels.rows import ROWS
from ..spaces import Ints, positive
from .arrays import Array
from .rows import RowLauncher
from .table import KERNELS, kernel


@functools.cache
def rows(name: str, *dtypes: np.dtype, **static: Any) -> RowLauncher:
    return RowLauncher(Kernel(ROWS[name](*(TYPES[dtype] for dtype in dtypes), **static)))


@functools.cache
def reduction(how: str, type: Type, truth: bool = False) -> RowLauncher:
    """float16 is added up in float32. `truth`: of what is true, rather than of numbers."""
    x = element(0, type)
    x = convert(x, BOOL if truth else F32 if type == F16 else type)
    return RowLauncher(Kernel((convert(reduce(how, x), BOOL if truth else type),)))


def without_axes(x: Array, axis: Ints, keepdims: bool) -> Array:
    """Leave out axes of length 1, unless keepdims is set."""
    if keepdims:
        return x
    kept = [k for k in range(len(x.shape)) if k not in axis]
    return x.view(tuple(x.shape[k] for k in kept), tuple(x.strides[k] for k in kept))


def enter(name: str, launcher: Callable[[np.dtype], RowLauncher], of_nothing: bool) -> None:
    """Enter a reduction; `of_nothing`: whether it has a result where there are no elements."""

    def call(x: Array, *, axis: Any, keepdims: bool) -> Array:
        axes = positive(axis, x.ndim)
        if not of_nothing and not math.prod([x.shape[k] for k in axes]):
            raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
        return without_axes(launcher(x.dtype).reduce([x], axes)[0], axes, keepdims)

    KERNELS[name] = call


def total(how: str) -> Callable[[np.dtype], RowLauncher]:
    def launcher(dtype: np.dtype) -> RowLauncher:
        if dtype.kind == "b":
            raise TypeError("numbers are needed")
        return reduction(how, TYPES[dtype])

    return launcher


enter("sum", total("sum"), True)
enter("prod", total("prod"), True)
enter("max", lambda dtype: reduction("max", TYPES[dtype]), False)
enter("min", lambda dtype: reduction("min", TYPES[dtype]), False)
enter("any", lambda dtype: reduction("max", TYPES[dtype], truth=True), True)
enter("all", lambda dtype: reduction("min", TYPES[dtype], truth=True), True)
enter("argmax", lambda dtype: rows("argmax", dtype), False)
enter("argmin", lambda dtype: rows("argmin", dtype), False)
enter("norm", lambda dtype: rows("scaled_norm", dtype), True)
enter("logsumexp", lambda dtype: rows("logsumexp", dtype), True)


@kernel
def softmax(x, *, axis):
    return rows("softmax", x.dtype).reduce([x], positive(axis, x.ndim))[0]


@kernel
def masked_softmax(x, mask, *, axis):
    return rows("masked_softmax", x.dtype, mask.dtype).reduce([x, mask], positive(axis, x.ndim))[0]


@kernel
def log_softmax(x, *, axis):
    return rows("log_softmax", x.dtype).reduce([x], positive(axis, x.ndim))[0]


@kernel
def moments(x, *, axis):
    return tuple(rows("moments", x.dtype).reduce([x], positive(axis, x.ndim)))


@kernel
def deviation(x, *, axis):
    return tuple(rows("scaled_deviation", x.dtype).reduce([x], positive(axis, x.ndim)))


@kernel
def standardize(x, *, axis, eps, center):
    run = rows("standardize", x.dtype, center=center)
    return tuple(run.reduce([x], positive(axis, x.ndim), [eps]))


@kernel
def scaled_standardize(x, weight, bias, *, axis, eps, center):
    run = rows("scaled_standardize", x.dtype, center=center, biased=bias is not None)
    arrays = [x, weight] if bias is None else [x, weight, bias]
    return tuple(run.reduce(arrays, positive(axis, x.ndim), [eps]))


@kernel
def standardize_gradient(dout, dmean, dvar, out, var, *, axis, eps, center):
    run = rows("standardize_gradient", dout.dtype, center=center)
    return run.reduce([dout, dmean, dvar, out, var], positive(axis, dout.ndim), [eps])[0]


@kernel
def cross_entropy(x, target, *, axis):
    run = rows("cross_entropy", x.dtype, target.dtype)
    losses, wrong = run.reduce([x, target], positive(axis, x.ndim))
    x.gpu.status.report(wrong, not_a_class, x.shape[axis])
    return losses


def not_a_class(classes: int, target: int, found: int) -> IndexingError:
    return IndexingError(
        f"cross_entropy: class indices from 0 to {classes - 1} are needed; target number {target}, "
        "counted along all axes, is none. The loss was NaN"
    )


def cross_entropy_gradient(g: Array, x: Array, target: Array, axis: int) -> Array:
    """Gradient of cross_entropy with respect to x, in one launch."""
    run = rows("cross_entropy_gradient", x.dtype, target.dtype)
    return run.reduce([g, x, target], positive(axis, x.ndim))[0]
