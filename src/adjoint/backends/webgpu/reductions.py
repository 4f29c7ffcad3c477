"""Reductions over any axes, and ops along rows, by kernels of the kernel language."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._foundation.errors import IndexingError
from ...kernels.language import BOOL, F16, F32, TYPES, Kernel, Type, convert, element, reduce
from ...kernels.rows import ROWS
from ..launches import View
from ..spaces import positive
from .arrays import Array, contiguous
from .lowering import Programs, lowering
from .rows import lower_rows, without
from .table import FUNCTIONS


@functools.cache
def rows(name: str, *dtypes: np.dtype, **static: Any) -> Kernel:
    return Kernel(ROWS[name](*(TYPES[dtype] for dtype in dtypes), **static))


@functools.cache
def reduction(how: str, type: Type, truth: bool = False) -> Kernel:
    """float16 is added up in float32. `truth`: of what is true, rather than of numbers."""
    x = element(0, type)
    x = convert(x, BOOL if truth else F32 if type == F16 else type)
    return Kernel((convert(reduce(how, x), BOOL if truth else type),))


def enter(name: str, kernel: Callable[[np.dtype], Kernel], of_nothing: bool) -> None:
    """Enter a reduction; `of_nothing`: whether it has a result where there are no elements."""

    def call(to: Programs, x: View, *, axis: Any, keepdims: bool) -> None:
        axes, described = positive(axis, x.ndim), kernel(x.dtype)
        if not of_nothing and not math.prod([x.shape[k] for k in axes]):
            raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
        ones = without(x.shape, axes)
        kept = tuple([n for k, n in enumerate(x.shape) if k not in axes])
        out = to.result(ones if keepdims else kept, described.outputs[0].type.dtype)
        lower_rows(to, described, [x], axes, [out.view(ones, contiguous(ones))])

    call.__name__ = name
    lowering(call)


def total(how: str) -> Callable[[np.dtype], Kernel]:
    def kernel(dtype: np.dtype) -> Kernel:
        if dtype.kind == "b":
            raise TypeError("numbers are needed")
        return reduction(how, TYPES[dtype])

    return kernel


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


def enter_rows(name: str, described: str) -> None:
    """Enter an op along rows that nothing else belongs to."""

    def call(to: Programs, *views: View, axis: Any) -> None:
        kernel = rows(described, *(x.dtype for x in views))
        lower_rows(to, kernel, views, positive(axis, views[0].ndim))

    call.__name__ = name
    lowering(call)


enter_rows("softmax", "softmax")
enter_rows("masked_softmax", "masked_softmax")
enter_rows("log_softmax", "log_softmax")
enter_rows("moments", "moments")
enter_rows("deviation", "scaled_deviation")


@lowering
def standardize(to: Programs, x: View, *, axis, eps, center):
    kernel = rows("standardize", x.dtype, center=center)
    lower_rows(to, kernel, [x], positive(axis, x.ndim), numbers={0: eps})


@lowering
def scaled_standardize(
    to: Programs, x: View, weight: View, bias: View | None, *, axis, eps, center
):
    kernel = rows("scaled_standardize", x.dtype, center=center, biased=bias is not None)
    views = [x, weight] if bias is None else [x, weight, bias]
    lower_rows(to, kernel, views, positive(axis, x.ndim), numbers={0: eps})


@lowering
def standardize_gradient(to: Programs, *views: View, axis, eps, center):
    """Of dout, dmean, dvar, out, var."""
    kernel = rows("standardize_gradient", views[0].dtype, center=center)
    lower_rows(to, kernel, views, positive(axis, views[0].ndim), numbers={0: eps})


@lowering
def cross_entropy(to: Programs, x: View, target: View, *, axis):
    axes = positive(axis, x.ndim)
    losses = to.result(without(x.shape, axes), x.dtype)
    kernel = rows("cross_entropy", x.dtype, target.dtype)
    wrong = to.temporary(losses.shape, kernel.outputs[1].type.dtype)
    lower_rows(to, kernel, [x, target], axes, [losses, wrong])
    to.report(wrong, not_a_class, x.shape[axis])


def not_a_class(classes: int, target: int, found: int) -> IndexingError:
    return IndexingError(
        f"cross_entropy: class indices from 0 to {classes - 1} are needed; target number {target}, "
        "counted along all axes, is none. The loss was NaN"
    )


@lowering
def cross_entropy_gradient(to: Programs, g: View, x: View, target: View, *, axis: int) -> None:
    """Gradient of cross_entropy with respect to x, in one launch."""
    kernel = rows("cross_entropy_gradient", x.dtype, target.dtype)
    lower_rows(to, kernel, [g, x, target], positive(axis, x.ndim))


def backward_of_cross_entropy(g: Array, x: Array, target: Array, axis: int) -> Array:
    return FUNCTIONS["cross_entropy_gradient"](g, x, target, axis=axis)
