"""Kernels with reductions, lowered: over rows of any length.

A row is taken by one workgroup, or by one invocation. Few long rows would leave most of a GPU idle:
they are reduced in parts, and then what came of the parts. How is decided by the shape alone, so
that results don't depend on the GPU.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...kernels.language import (
    I32,
    Kernel,
    Value,
    convert,
    element,
    position,
    reduce,
    row,
    scalar,
    substituted,
)
from ...kernels.wgsl import Loops
from ..launches import View
from ..spaces import Ints, merged, steps_in
from .arrays import broadcast_shape, contiguous
from .lowering import Programs
from .maps import (
    NONE,
    WIDTH,
    KernelCall,
    Known,
    Views,
    as_contiguous,
    axis_words,
    laid_out,
    lower_map,
)
from .programs import ROUNDS, per_element

WIDE = 256  # invocations of a workgroup that takes a long row
SHORT = 32  # elements of a row, below which one invocation takes it
PART = 4096  # elements of a row that are reduced together
LONG = 4 * PART  # elements of a row, from which on that is done if rows are few
FEW = 64  # rows
VERY_LONG = 1 << 20  # the same if they are many: some drivers end loops after 65535 rounds
INT32 = np.dtype("i4")


def lower_rows(
    to: Programs,
    kernel: Kernel,
    views: Views,
    axis: Ints,
    outputs: Views | None = None,
    numbers: Known = NONE,
) -> None:
    """Launch a kernel whose rows run along `axis`, which stays as ones in outputs that have one
    element for each row; so it does in views that have."""
    full = [views[k].shape for k, source in kernel.sources.items() if source.varies]
    shape = broadcast_shape(full)
    size, length = math.prod(shape), math.prod([shape[k] for k in axis])
    is_long = length >= LONG and (size <= FEW * length or length >= VERY_LONG) and size > 0
    if outputs is None:
        # Long rows are made one after the other.
        order = rows_last(len(shape), axis) if is_long else range(len(shape))
        shapes = [shape if out.varies else without(shape, axis) for out in kernel.outputs]
        outputs = [
            to.result(own, out.type.dtype, laid_out(own, order))
            for own, out in zip(shapes, kernel.outputs, strict=True)
        ]
    call = KernelCall(to, kernel, views, outputs, numbers)
    if is_long:
        stages_of(kernel).lower(call, axis, shape)
    else:
        lower_whole_rows(call, axis, shape)


def without(shape: Ints, axis: Ints, left: int = 1) -> Ints:
    """A shape with ones in the place of some axes."""
    return tuple([left if k in axis else n for k, n in enumerate(shape)])


def rows_last(rank: int, axis: Ints) -> Ints:
    """All axes in their order, but those of rows behind the others."""
    return (*(k for k in range(rank) if k not in axis), *axis)


def lower_whole_rows(call: KernelCall, axis: Ints, shape: Ints) -> None:
    """One launch, in which a row is the work of one workgroup, or of one invocation."""
    kernel, arrays = call.kernel, call.arrays
    varies = [source.varies for _, source in sorted(kernel.sources.items())]
    varies += [out.varies for out in kernel.outputs]
    steps = [
        steps_in(x, shape) if full else without(steps_in(x, without(shape, axis)), axis, 0)
        for x, full in zip(arrays.values(), varies, strict=True)
    ]
    kept = [k for k in range(len(shape)) if k not in axis]
    outer = merged([shape[k] for k in kept], [[s[k] for k in kept] for s in steps])
    inner = merged([shape[k] for k in axis], [[s[k] for k in axis] for s in steps])
    rows, length = math.prod(outer.sizes), math.prod(inner.sizes)
    first = varies.index(True)
    beside = bool(outer.sizes) and abs(outer.steps[first][-1]) == 1 and rows >= WIDTH
    many = length < 1024 or rows >= 16 * WIDE
    side_by_side = beside and many and length < ROUNDS // 8  # a row may be gone over many times
    whole = length >= SHORT and not side_by_side
    width = WIDE if whole and length > 4 * WIDTH else WIDTH
    words = {"rows": rows, "length": length}
    words |= axis_words("outer", outer, arrays) | axis_words("inner", inner, arrays)
    loops = Loops(len(outer.sizes), len(inner.sizes), whole=whole)
    call.launch(loops, width, rows if whole else -(-rows // width), words)


class Stage:
    """A value by itself, as a kernel of some of the views that are known when it is computed."""

    def __init__(self, value: Value) -> None:
        sources = Kernel((value,)).sources
        self.given = sorted(sources)
        compact = {sources[k]: source_at(sources[k], n) for n, k in enumerate(self.given)}
        self.kernel = Kernel(substituted([value], compact))

    def of(self, known: Sequence[View | None]) -> list[Any]:
        return [known[k] for k in self.given]


class Stages:
    """The reductions of a kernel one by one, and then its outputs.

    Besides the kernel's own views and numbers they are given the length of a row as the last
    number, where parts start as the next view, and then what the reductions before gave.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.length = max(kernel.scalars, default=-1) + 1
        self.arrays = max(kernel.sources) + 1
        known: dict[Value, Value] = {}
        self.reductions: list[tuple[Stage, Kernel]] = []
        for v in kernel.values:
            if v.op == "count":
                known[v] = convert(scalar(self.length, I32), v.type)
            elif v.op == "position":
                known[v] = convert(position(I32) + row(self.arrays, I32), v.type)
            elif v.op == "reduce":
                part = reduce(v.detail, substituted(v.args, known)[0], v.type)
                whole = Kernel((reduce(v.detail, element(0, v.type)),))
                self.reductions.append((Stage(part), whole))
                known[v] = row(self.arrays + len(self.reductions), v.type)
        counts = [v for v in known if v.op == "position"]
        known |= {v: convert(element(self.arrays, I32), v.type) for v in counts}
        self.outputs = [Stage(as_elements(out)) for out in substituted(kernel.outputs, known)]

    def lower(self, call: KernelCall, axis: Ints, shape: Ints) -> None:
        """Everything as rows of one axis, in the order in which the kernel's axes are."""
        to, order = call.to, rows_last(len(shape), axis)
        length = math.prod([shape[k] for k in axis])
        call = call._replace(numbers={**call.numbers, self.length: length})
        known: list[View | None] = [None] * (self.arrays + 1)
        for k, source in self.kernel.sources.items():
            own = shape if source.varies else without(shape, axis)
            known[k] = flattened(to, call.views[k], own, order, len(axis))
        for part, whole in self.reductions:
            known.append(self.reduced(call._replace(views=known), part, whole, length))
        if any(self.arrays in stage.given for stage in self.outputs):
            known[self.arrays] = counted(to, (1, length), 0, 1)
        turned = tuple([shape[k] for k in order])
        unfolded = [x and unfold(x, turned, len(axis)) for x in known]
        for stage, out in zip(self.outputs, call.outputs, strict=True):
            goal = permuted(out, order)
            lower_map(to, stage.kernel, [*stage.of(unfolded), goal], [goal], call.numbers)

    def reduced(self, call: KernelCall, part: Stage, whole: Kernel, length: int) -> View:
        """One number for each row: first of its parts, all of one length but the last."""
        to, rows = call.to, call.views[part.given[0]].shape[0]
        count, rest = divmod(length, PART)
        total, dtype = count + bool(rest), whole.outputs[0].type.dtype
        parts, out = to.temporary((rows, total), dtype), to.temporary((rows, 1), dtype)
        for first, pieces, size in ((0, count, PART), (count, int(bool(rest)), rest)):
            if pieces:
                views = [x and cut(x, first * PART, pieces, size) for x in call.views]
                if self.arrays in part.given:
                    views[self.arrays] = counted(to, (1, pieces, 1), first * PART, PART)
                target = parts.view((rows, pieces, 1), (total, 1, 1), first)
                own = KernelCall(to, part.kernel, part.of(views), [target], call.numbers)
                lower_whole_rows(own, (2,), (rows, pieces, size))
        lower_whole_rows(KernelCall(to, whole, [parts], [out], NONE), (1,), parts.shape)
        return out


stages_of = functools.cache(Stages)


def source_at(source: Value, position: int) -> Value:
    """The same of another array."""
    return (element if source.op == "element" else row)(position, source.type)


def as_elements(value: Value) -> Value:
    """A value with an element in the place of what is one number for each row."""
    sources = Kernel((value,)).sources.values()
    return substituted([value], {v: element(v.detail, v.type) for v in sources})[0]


def permuted(x: View, order: Ints) -> View:
    """A view whose axes are in another order."""
    return x.view(tuple([x.shape[k] for k in order]), tuple([x.strides[k] for k in order]))


def flattened(to: Programs, x: View, shape: Ints, order: Ints, rank: int) -> View:
    """A view, which broadcasts to a shape, as rows along the last axes of an order."""
    solid = as_contiguous(to, permuted(x.view(shape, steps_in(x, shape)), order))
    width = math.prod(solid.shape[-rank:])
    return solid.view((solid.size // width, width), (width, 1))


def unfold(x: View, shape: Ints, rank: int) -> View:
    """Rows as an array of a shape again, or of ones, along whose last axes they run."""
    rows, width = x.shape
    fixed, along = shape[:-rank], shape[-rank:]
    own = (*(n if rows > 1 else 1 for n in fixed), *(n if width > 1 else 1 for n in along))
    return x.view(own, contiguous(own))


def cut(x: View, start: int, pieces: int, size: int) -> View:
    """Parts of rows; of what is one number for each row, that number."""
    rows, width = x.shape
    if width == 1:
        return x.view((rows, 1, 1), (1, 1, 1))
    return x.view((rows, pieces, size), (width, size, 1), start)


COUNTED = per_element("count", "-> out:i32", "first:i32 step:i32")(
    "out[at] = p.first + i32(at) * p.step;"
)


def counted(to: Programs, shape: Ints, first: int, step: int) -> View:
    """Numbers from the first on, a step apart."""
    out = to.temporary(shape, INT32)
    to.launch_each(COUNTED, out.size, out, first=first, step=step)
    return out
