"""Reductions, and ops along rows."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ....kernels import ranges
from ....kernels.language import F16, F32, TYPES, Kernel, Type, Value, convert, element
from ....kernels.ops import Unsupported
from ....kernels.rows import ROWS
from ...launches import Layout, View
from ...spaces import axis_order, positive
from .expressions import CHUNK, Expression
from .maps import as_contiguous, lower_map
from .native import NativeLowering, Words, chunks_of, kernel_of
from .places import lower_along_axis
from .rows import lower_reduction, lower_rows

DOUBLE = np.dtype(np.float64)
RANGE = (1e-140, 1e150)  # of norms of float64 numbers whose squares have all of their digits


@functools.cache
def rows_of(name: str, *dtypes: np.dtype, **static: Any) -> Expression:
    return Expression(Kernel(ROWS[name](*(TYPES[dtype] for dtype in dtypes), **static)))


def check_floats(x: Layout) -> None:
    if x.dtype.kind != "f" or x.dtype not in TYPES or not x.size:
        raise Unsupported(f"rows of {x.dtype} and shape {x.shape}")


def plain(how: str) -> Callable:
    """A reduction whose result is of its input's dtype."""

    def lower(to: NativeLowering, x: View, *, axis: Any, keepdims: bool) -> None:
        if x.dtype not in TYPES or x.dtype.kind == "b" or not x.size:
            raise Unsupported(f"{how} of {x.dtype}")
        lower_reduction(to, how, x, positive(axis, x.ndim), keepdims)

    return lower


def along_rows(name: str) -> Callable:
    """An op that is one kernel over rows of its first input."""

    def lower(to: NativeLowering, *inputs: View, axis: Any, keepdims: bool = True) -> None:
        x = inputs[0]
        check_floats(x)
        kernel = rows_of(name, *(one.dtype for one in inputs))
        lower_rows(to, kernel, inputs, positive(axis, x.ndim), keepdims=keepdims)

    return lower


def norm(to: NativeLowering, x: View, *, axis: Any, keepdims: bool) -> None:
    check_floats(x)
    out = lower_reduction(to, "norm", x, positive(axis, x.ndim), keepdims)
    check_range(to, out)


def deviation(to: NativeLowering, x: View, *, axis: Any) -> None:
    check_floats(x)
    outputs = lower_rows(to, rows_of("deviation", x.dtype), [x], positive(axis, x.ndim))
    check_range(to, outputs[1])


def check_range(to: NativeLowering, x: View) -> None:
    """Have a status that tells of squares that left the range of float64. x has no gaps."""
    if x.dtype == DOUBLE:
        words: Words = dict(status="squares leave the range of float64: numbers have to be scaled")
        words |= dict(x=x, total=x.size, step=CHUNK)
        to.launch(kernel_of(ranges.outside, *RANGE), chunks_of(CHUNK, x.size), words)


def cross_entropy(to: NativeLowering, x: View, target: View, *, axis: int) -> None:
    check_floats(x)
    axes = positive(axis, x.ndim)
    small = tuple(1 if k in axes else n for k, n in enumerate(x.shape))
    if target.shape != small:
        raise Unsupported(f"targets of shape {target.shape} for {x.shape}")
    out = to.result(small, x.dtype)
    picked = pick_in_order(to, x, target, axes[0])
    rows = [to.temporary(small, x.dtype) for _ in range(2)]
    lower_rows(to, rows_of("log_total", x.dtype), [x], axes, rows)
    lower_map(to, loss_of(TYPES[x.dtype]), [picked, *rows], [out])


def pick_in_order(to: NativeLowering, x: View, target: View, axis: int) -> View:
    """The elements of x that targets name along an axis. The axes are taken as they lie in memory,
    so that arrays without gaps aren't copied."""
    order = axis_order(x.shape, [x.strides])
    turned, index = (in_order(one, order) for one in (x, target))
    picked = to.temporary(index.shape, x.dtype)
    lower_along_axis(to, as_contiguous(to, turned), index, order.index(axis), picked)
    return in_order(picked, [order.index(k) for k in range(x.ndim)])


def in_order(x: View, order: list[int]) -> View:
    return x.view(tuple(x.shape[k] for k in order), tuple(x.strides[k] for k in order))


@functools.cache
def loss_of(type: Type) -> Expression:
    """Of what is picked, the largest, and the logarithm of the total: rounded after each step, as
    NumPy does it."""

    def difference(x: Value, y: Value) -> Value:
        if type != F16:
            return x - y
        return convert(convert(x, F32) - convert(y, F32), F16)

    picked, largest, total = (element(k, type) for k in range(3))
    return Expression(Kernel((difference(total, difference(picked, largest)),)))


sum_, max_, min_, prod = map(plain, ("sum", "max", "min", "prod"))
softmax, log_softmax = map(along_rows, ("softmax", "log_softmax"))
logsumexp, masked_softmax, moments = map(along_rows, ("logsumexp", "masked_softmax", "moments"))
