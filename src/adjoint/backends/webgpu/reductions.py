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
from .lowering import Programs, enter, lowering
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


def lower_reduction(
    name: str, kernel: Callable[..., Kernel], to: Programs, x: View, *, axis: Any, keepdims: bool
) -> None:
    axes, described = positive(axis, x.ndim), kernel(x.dtype)
    if name in OF_SOMETHING and not math.prod([x.shape[k] for k in axes]):
        raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
    ones = without(x.shape, axes)
    kept = tuple([n for k, n in enumerate(x.shape) if k not in axes])
    out = to.result(ones if keepdims else kept, described.outputs[0].type.dtype)
    lower_rows(to, described, [x], axes, [out.view(ones, contiguous(ones))])


def total(how: str, dtype: np.dtype) -> Kernel:
    if dtype.kind == "b":
        raise TypeError("numbers are needed")
    return reduction(how, TYPES[dtype])


REDUCTIONS: dict[str, Callable[..., Kernel]] = {
    **{how: functools.partial(total, how) for how in ("sum", "prod")},
    "max": lambda dtype: reduction("max", TYPES[dtype]),
    "min": lambda dtype: reduction("min", TYPES[dtype]),
    "any": lambda dtype: reduction("max", TYPES[dtype], truth=True),
    "all": lambda dtype: reduction("min", TYPES[dtype], truth=True),
    **{name: functools.partial(rows, name) for name in ("argmax", "argmin", "logsumexp")},
    "norm": functools.partial(rows, "scaled_norm"),
}
OF_SOMETHING = ("max", "min", "argmax", "argmin")  # without elements they have no result

for op, kernel in REDUCTIONS.items():
    enter(op, functools.partial(lower_reduction, op, kernel))


def along_rows(name: str, to: Programs, *views: View, axis: Any) -> None:
    """An op along rows that nothing else belongs to."""
    kernel = rows(name, *(x.dtype for x in views))
    lower_rows(to, kernel, views, positive(axis, views[0].ndim))


for op in ("softmax", "masked_softmax", "log_softmax", "moments"):
    enter(op, functools.partial(along_rows, op))
enter("deviation", functools.partial(along_rows, "scaled_deviation"))


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
