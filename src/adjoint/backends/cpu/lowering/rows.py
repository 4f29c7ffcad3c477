"""Kernels with reductions, over any axes of arrays of any layout, lowered to launches.

Vectors lie along the axis whose elements are neighbours in memory. If it is reduced, each row is
reduced along it; if it stays, each column is reduced by itself. A long reduction to few elements is
split into parts whose number depends on the shape alone, so that threads can share it and the
result doesn't depend on how many there are.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ....kernels.frame import Loops
from ....kernels.language import F64, TYPES, Kernel, Type, convert, element, reduce
from ....kernels.llvm import stashed
from ....kernels.rows import dot, norm
from ...launches import View
from ...spaces import Axes, Ints, axis_order, merged, steps_in
from .expressions import CHUNK, LINE, STREAMED, Expression
from .maps import array_words, number_words, overwriting, strides_in
from .native import NativeLowering, Words

SHORT = 32  # elements of a row, below which rows are taken side by side
WIDE = 64  # columns that are reduced together: additions needn't wait for each other


class Walk(NamedTuple):
    """Which axes a launch has as rows, as columns, and between them."""

    along: bool  # rows are reduced along the columns
    outer: Axes
    inner: Axes
    columns: int
    steps: list[int]  # per array, from column to column

    @property
    def length(self) -> int:
        """How many elements each result is made of."""
        return math.prod(self.inner.sizes) * (self.columns if self.along else 1)

    @property
    def rows(self) -> int:
        return math.prod(self.outer.sizes)


def lower_rows(
    to: NativeLowering,
    expression: Expression,
    arrays: Sequence[View],
    axis: Ints,
    outputs: Sequence[View] | None = None,
    keys: Sequence[Any] | None = None,
    keepdims: bool = True,
) -> list[View]:
    """Lower a kernel whose rows run along `axis`; returns its outputs, which are results of the op
    where no others are given. The axes stay as ones in outputs that have one element for each row,
    and in arrays that have, but are left out of results unless keepdims is set."""
    used = [arrays[k] for k in expression.used]
    varies = [expression.kernel.sources[k].varies for k in expression.used]
    full = [x for x, one in zip(used, varies, strict=True) if one]
    shape = np.broadcast_shapes(*(x.shape for x in full))
    small = tuple(1 if k in axis else n for k, n in enumerate(shape))
    order = axis_order(shape, [steps_in(x, shape) for x in full])
    own = [out.varies for out in expression.kernel.outputs]
    shapes = [shape if one else small for one in own]
    left_out = () if keepdims else axis
    targets = outputs or [
        result_without(to, () if one else left_out, size, dtype, order)
        for one, size, dtype in zip(own, shapes, expression.dtypes, strict=True)
    ]
    steps = [
        *(steps_in(x, shape if one else small) for x, one in zip(used, varies, strict=True)),
        *(out.strides for out in targets),
    ]
    varies += own
    steps = [s if one else along_row(s, axis) for s, one in zip(steps, varies, strict=True)]
    axes = [
        merged([shape[k] for k in some], [[s[k] for k in some] for s in steps])
        for some in ([k for k in order if k not in axis], [k for k in order if k in axis])
    ]
    walk = chosen_walk(axes[0], axes[1], varies.index(True))
    walked = [*used, *targets]
    access = "".join(
        access_of(step, x.itemsize, walk, one)
        for x, step, one in zip(walked, walk.steps, varies, strict=True)
    )
    # Outputs are written in the last pass, but for what waits in their memory between passes.
    last = stashed(expression.kernel) is None
    free, taken = (
        [x for x, one in zip(some, which, strict=True) if one and last]
        for some, which in ((used, varies[: len(used)]), (targets, own))
    )
    overwrites = overwriting(to, free, taken)
    lower_walk(to, expression, walk, access, not any(own), walked, keys, overwrites)
    return list(targets)


def result_without(
    to: NativeLowering, axis: Ints, shape: Ints, dtype: np.dtype, order: list[int]
) -> View:
    """A result whose axes lie in some order, without some of length 1; seen with those."""
    strides = strides_in(order, shape, dtype.itemsize)
    kept = [k for k in range(len(shape)) if k not in axis]
    out = to.result(tuple(shape[k] for k in kept), dtype, tuple(strides[k] for k in kept))
    return out.view(shape, strides)


def lower_walk(
    to: NativeLowering,
    expression: Expression,
    walk: Walk,
    access: str,
    only_rows: bool,
    arrays: Sequence[View],
    keys: Sequence[Any] | None,
    overwrites: tuple[tuple[int, int], ...],
) -> None:
    wide = only_rows and walk.columns >= WIDE and "s" not in access
    lanes = WIDE * expression.lanes // 16 if wide else expression.lanes
    rows, columns = chunk_of(walk, expression.chunk, lanes)
    parts = -(-walk.columns // columns)
    words: Words = dict(rows=walk.rows, columns=walk.columns, row_step=rows, column_step=columns)
    words |= dict(parts=parts) | {f"inner{k}": size for k, size in enumerate(walk.inner.sizes)}
    words |= {f"outer{k}": size for k, size in enumerate(walk.outer.sizes)}
    for k, (x, step) in enumerate(zip(arrays, walk.steps, strict=True)):
        words |= array_words(k, x, step, walk.inner.steps[k], walk.outer.steps[k])
    words |= number_words(expression, keys)
    loops = Loops(access, len(walk.outer.sizes), len(walk.inner.sizes), walk.along, lanes)
    kernel = expression.native(loops, goes_past(expression, walk, loops))
    to.launch(kernel, -(-walk.rows // rows) * parts, words, overwrites)


def goes_past(expression: Expression, walk: Walk, loops: Loops) -> bool:
    """Whether outputs are so large, and rows so regular, that they are written past the caches,
    which isn't so for outputs that are read again between the passes over a row."""
    if not walk.along or stashed(expression.kernel) is not None:
        return False
    varying = [k for k, out in enumerate(expression.kernel.outputs) if out.varies]
    return bool(varying) and all(is_streamed(expression, walk, loops, k) for k in varying)


def is_streamed(expression: Expression, walk: Walk, loops: Loops, output: int) -> bool:
    place, size = len(expression.used) + output, expression.dtypes[output].itemsize
    steps = [*walk.inner.steps[place], *walk.outer.steps[place]]
    return (
        loops.access[place] == "c"
        and loops.lanes * size == LINE
        and not walk.columns % loops.lanes
        and not any(step % LINE for step in steps)
        and walk.rows * walk.length * size >= STREAMED
    )


def chosen_walk(kept: Axes, reduced: Axes, first: int) -> Walk:
    """`first`: the array whose layout decides."""
    along = is_along(kept, reduced, first)
    lying, other = (reduced, kept) if along else (kept, reduced)
    last = len(lying.sizes) - 1
    columns = lying.sizes[last] if lying.sizes else 1
    steps = [own[last] if own else 0 for own in lying.steps]
    rest = lying.without(last)
    outer, inner = (other, rest) if along else (rest, other)
    return Walk(along, outer, inner, columns, steps)


def is_along(kept: Axes, reduced: Axes, first: int) -> bool:
    """Whether vectors lie along a reduced axis."""
    if not kept.sizes or not reduced.sizes:
        return bool(reduced.sizes)
    if math.prod(reduced.sizes) < SHORT <= kept.sizes[-1]:
        return False
    step = abs(kept.steps[first][-1])
    return not step or abs(reduced.steps[first][-1]) <= step


def access_of(step: int, size: int, walk: Walk, varies: bool) -> str:
    if walk.along and not varies:
        return "b"
    if walk.columns == 1 and not walk.along:  # a single column: nothing follows it
        return "c"
    return "c" if step == size else "b" if not step else "s"


def chunk_of(walk: Walk, elements: int, lanes: int) -> tuple[int, int]:
    """Rows and columns of a chunk, which has about `elements` of them."""
    length = max(walk.length, 1)
    if walk.along:
        return max(1, elements // length), walk.columns
    columns = max(lanes, elements // length // lanes * lanes)
    return max(1, elements // (length * walk.columns)), min(columns, walk.columns)


def along_row(steps: Sequence[int], axis: Ints) -> list[int]:
    """The strides of an array that has one element for each row."""
    return [0 if k in axis else s for k, s in enumerate(steps)]


# Plain reductions.


@functools.cache
def reduction(how: str, source: Type, target: Type) -> Expression:
    """Elements of one type, reduced to another."""
    if how == "norm":
        return Expression(Kernel(norm(source, target)))
    wide = target if target.bits > source.bits else source
    return Expression(Kernel((convert(reduce(how, element(0, source), wide), target),)))


def lower_reduction(to: NativeLowering, how: str, x: View, axis: Ints, keepdims: bool) -> View:
    """Lower a reduction to the result of an op, which is returned."""
    type = TYPES[x.dtype]
    length = math.prod(x.shape[k] for k in axis)
    if length < 16 * CHUNK or x.size // length >= 64 * WIDE:
        return lower_rows(to, reduction(how, type, type), [x], axis, keepdims=keepdims)[0]
    wide = F64 if type.kind == "f" and how in ("sum", "prod", "norm") else type
    outermost = axis_order(x.shape, [x.strides])
    first = next(k for k in outermost if k in axis and x.shape[k] > 1)
    step = max(1, CHUNK * x.shape[first] // length)
    shape = tuple(1 if k in axis else n for k, n in enumerate(x.shape))
    out = result_without(to, () if keepdims else axis, shape, x.dtype, list(range(len(shape))))
    kernels = reduction(how, type, wide), reduction(how, wide, type)
    lower_in_parts(to, kernels, [x], axis, first, step, out)
    return out


def lower_in_parts(
    to: NativeLowering,
    kernels: tuple[Expression, Expression],
    arrays: Sequence[View],
    axis: Ints,
    first: int,
    step: int,
    out: View,
) -> None:
    """Reduce parts of arrays of one shape, `step` long along one of the axes, and then what comes
    of them."""
    count, rest = divmod(arrays[0].shape[first], step)
    parts = to.temporary((count + bool(rest), *out.shape), kernels[0].dtypes[0])
    for start, many, size in [(0, count, step), (count, 1, rest)][: 1 + bool(rest)]:
        cut = [
            x.view(
                (many, *x.shape[:first], size, *x.shape[first + 1 :]),
                (step * x.strides[first], *x.strides),
                start * step * x.strides[first],
            )
            for x in arrays
        ]
        sums = parts.view((many, *out.shape), parts.strides, start * parts.strides[0])
        lower_rows(to, kernels[0], cut, tuple(k + 1 for k in axis), [sums])
    total = out.view((1, *out.shape), (0, *out.strides))
    lower_rows(to, kernels[1], [parts], (0,), [total])


# Inner products.


@functools.cache
def inner(source: Type, target: Type) -> Expression:
    return Expression(Kernel(dot(source, target)))


def lower_inner_products(to: NativeLowering, x: View, y: View, out: View) -> None:
    """Sums of products along the last axis, which is left out of `out`; long ones in parts, as
    other reductions."""
    type, last, shape = TYPES[x.dtype], out.ndim, (*out.shape, x.shape[-1])
    total = out.view((*out.shape, 1), (*out.strides, 0))
    if shape[last] < 16 * CHUNK:
        lower_rows(to, inner(type, type), [x, y], (last,), [total])
        return
    arrays = [a.view(shape, steps_in(a, shape)) for a in (x, y)]
    kernels = inner(type, F64), reduction("sum", F64, type)
    lower_in_parts(to, kernels, arrays, (last,), last, CHUNK, total)
