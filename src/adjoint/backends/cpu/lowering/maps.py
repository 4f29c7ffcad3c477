"""Elementwise kernels on arrays of any layout, lowered to launches."""

import functools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ....kernels.frame import Loops
from ....kernels.language import (
    F16,
    F32,
    F64,
    TYPES,
    Kernel,
    Type,
    Value,
    absolute,
    bits,
    convert,
    element,
    from_bits,
    not_equal,
    select,
)
from ....kernels.ops import Unsupported
from ...launches import Number, View, contiguous
from ...spaces import Ints, axis_order, merged, steps_in
from .expressions import LINE, STREAMED, Expression
from .native import NativeLowering, Words


def lower_map(
    to: NativeLowering,
    expression: Expression,
    arrays: Sequence[View],
    outputs: Sequence[View] | None = None,
    keys: Sequence[Any] | None = None,
) -> list[View]:
    """Lower a kernel without reductions; returns its outputs: results of the op where no others are
    given. `keys`: under which a run is given its numbers, if not under 0, 1, ..."""
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    steps = [steps_in(x, shape) for x in arrays]
    order = axis_order(shape, steps)
    dtypes, used = expression.dtypes, expression.used
    targets = outputs or [
        to.result(shape, dtype, strides_in(order, shape, dtype.itemsize)) for dtype in dtypes
    ]
    walked = [*(arrays[k] for k in used), *targets]
    steps = [steps[k] for k in used] + [out.strides for out in targets]
    axes = merged([shape[k] for k in order], [[s[k] for k in order] for s in steps])
    axes = axes.with_longest_last() if axes.sizes and axes.sizes[-1] < expression.lanes else axes
    *outer, columns = axes.sizes or [1]
    rows, chunk = math.prod(outer), expression.chunk
    row_step, column_step = max(1, chunk // max(columns, 1)), min(columns, chunk)
    parts = -(-columns // max(column_step, 1))
    words: Words = dict(rows=rows, columns=columns, row_step=row_step, column_step=column_step)
    words |= dict(parts=parts) | {f"outer{k}": size for k, size in enumerate(outer)}
    access = ""
    for k, (x, strides) in enumerate(zip(walked, axes.steps, strict=True)):
        step = strides[-1] if strides else x.itemsize  # a single element: nothing follows it
        access += "c" if step == x.itemsize else "b" if not step else "s"
        words |= array_words(k, x, step, outer=strides[:-1])
    words |= number_words(expression, keys)
    loops = Loops(access, len(outer), lanes=expression.lanes)
    past = outputs is None and not outer and goes_past(expression, access, columns)
    kernel, chunks = expression.native(loops, past), -(-rows // row_step) * parts
    to.launch(kernel, chunks, words, overwriting(to, walked[: len(used)], targets))
    return list(targets)


def strides_in(order: list[int], shape: Ints, step: int) -> Ints:
    """The strides of an array without gaps whose axes lie in some order."""
    strides = contiguous(tuple(shape[k] for k in order), step)
    return tuple(strides[order.index(k)] for k in range(len(shape)))


def array_words(
    k: int, x: View, step: int, inner: Sequence[int] = (), outer: Sequence[int] = ()
) -> dict[str, Any]:
    """The words of the k-th array of a kernel: see `kernels.frame`."""
    name = f"array{k}"
    return {
        name: x,
        f"{name}_step": step,
        **{f"{name}_inner{n}": s for n, s in enumerate(inner)},
        **{f"{name}_outer{n}": s for n, s in enumerate(outer)},
    }


def number_words(expression: Expression, keys: Sequence[Any] | None) -> dict[str, Number]:
    return {
        f"number{k}": Number(k if keys is None else keys[k], dtype)
        for k, dtype in expression.numbers.items()
    }


def overwriting(
    to: NativeLowering, arrays: Sequence[View], outputs: Sequence[View]
) -> tuple[tuple[int, int], ...]:
    """Which outputs, if they are results, may have the memory of which operands: element by element
    a kernel reads what is there before it writes."""
    results = range(to.given, to.given + len(to.results))  # behind them is scratch memory
    return tuple(
        (out.slot - to.given, x.slot)
        for out in outputs
        for x in arrays
        if out.slot in results
        and x.slot < to.given
        and (x.shape, x.strides, x.itemsize) == (out.shape, out.strides, out.itemsize)
    )


def goes_past(expression: Expression, access: str, columns: int) -> bool:
    """Whether outputs are so large that it is better to write past the caches."""
    return set(access[len(expression.used) :]) == {"c"} and all(
        columns * t.itemsize >= STREAMED and expression.lanes * t.itemsize == LINE
        for t in expression.dtypes
    )


# Copies.


@functools.cache
def copying(source: Type, target: Type) -> Expression:
    x = element(0, source)
    if source == F64 and target == F16:
        x = to_odd(x)
    return Expression(Kernel((convert(x, target),)))


def to_odd(x: Value) -> Value:
    """float64 as float32, cut off, with its last bit set if anything was: rounded from there to
    float16 it is as if it were rounded only once."""
    near = convert(x, F32)
    back, word = convert(near, F64), bits(near)
    word = select(absolute(back) > absolute(x), word - 1, word)
    return from_bits(select(not_equal(back, x), word | 1, word), F32)


def copy(to: NativeLowering, x: View, out: View) -> None:
    """Copy x, which may broadcast, converted to out's dtype."""
    wide = x.view(out.shape, steps_in(x, out.shape))
    lower_map(to, copying(TYPES[x.dtype], TYPES[out.dtype]), [wide], [out])


def as_contiguous(to: NativeLowering, x: View, dtype: np.dtype | None = None) -> View:
    """x, or a copy where its elements don't follow each other, or are of another dtype."""
    dtype = dtype or x.dtype
    if dtype == x.dtype and x.aligned and to.is_contiguous(x):
        return x.view(x.shape, contiguous(x.shape, x.itemsize))
    if x.dtype not in TYPES:
        raise Unsupported(f"copies of {x.dtype}")
    out = to.temporary(x.shape, dtype)
    copy(to, x, out)
    return out


@contextmanager
def held_in(to: NativeLowering, dtype: np.dtype, result: View) -> Iterator[View]:
    """Where a result is computed in a dtype; at the end it is converted to its own."""
    out = result if result.dtype == dtype else to.temporary(result.shape, dtype)
    yield out
    if out is not result:
        copy(to, out, result)
