"""Kernels with reductions, over rows of any length.

A row is taken by one workgroup, or by one invocation. Few long rows would leave most of a GPU idle:
they are reduced in parts, and then what came of the parts. How is decided by the shape alone, so
that results don't depend on the GPU.
"""

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
from ..spaces import Ints, steps_in
from .arrays import Array, broadcast_shape, contiguous
from .maps import Launcher, contiguous_copy, source_at

PART = 4096  # elements of a row that are reduced together
LONG = 4 * PART  # elements of a row, from which on that is done if rows are few
FEW = 64  # rows
VERY_LONG = 1 << 20  # the same if they are many: some drivers end loops after 65535 rounds


class RowLauncher(Launcher):
    """Runs a kernel with reductions."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.stages: Stages | None = None

    def reduce(
        self, arrays: Sequence[Array], axis: Ints, numbers: Sequence[Any] = ()
    ) -> list[Array]:
        """The outputs of a kernel whose rows run along `axis`, which stays as ones in those that
        have one element for each row; so it does in arrays that have."""
        full = [arrays[k] for k in self.used if self.kernel.sources[k].varies]
        shape = broadcast_shape([x.shape for x in full])
        length = math.prod([shape[k] for k in axis])
        size = math.prod(shape)
        if length < LONG or not size or (size > FEW * length and length < VERY_LONG):
            return self.run(arrays, axis, numbers, None)
        self.stages = self.stages or Stages(self.kernel)
        return self.stages.run(arrays, axis, numbers, shape)


class Stage:
    """A value by itself, as a kernel of some of the arrays that are known when it is computed."""

    def __init__(self, value: Value) -> None:
        sources = Kernel((value,)).sources
        self.given = sorted(sources)
        compact = {sources[k]: source_at(sources[k], n) for n, k in enumerate(self.given)}
        self.launcher = Launcher(Kernel(substituted([value], compact)))

    def run(self, known: Sequence[Any], axis: Ints | None, numbers: Any, outputs: Any) -> Array:
        return self.launcher.run([known[k] for k in self.given], axis, numbers, outputs)[0]


class Stages:
    """The reductions of a kernel one by one, and then its outputs.

    Besides the kernel's own arrays and numbers they are given the length of a row as the last
    number, where parts start as the next array, and then what the reductions before gave.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.numbers = max(kernel.scalars, default=-1) + 1
        self.arrays = max(kernel.sources) + 1
        known: dict[Value, Value] = {}
        self.reductions: list[tuple[Stage, Launcher]] = []
        for v in kernel.values:
            if v.op == "count":
                known[v] = convert(scalar(self.numbers, I32), v.type)
            elif v.op == "position":
                known[v] = convert(position(I32) + row(self.arrays, I32), v.type)
            elif v.op == "reduce":
                part = reduce(v.detail, substituted(v.args, known)[0], v.type)
                whole = Launcher(Kernel((reduce(v.detail, element(0, v.type)),)))
                self.reductions.append((Stage(part), whole))
                known[v] = row(self.arrays + len(self.reductions), v.type)
        counts = [v for v in known if v.op == "position"]
        known |= {v: convert(element(self.arrays, I32), v.type) for v in counts}
        self.counts = bool(counts)
        self.outputs = [Stage(as_elements(out)) for out in substituted(kernel.outputs, known)]

    def run(
        self, arrays: Sequence[Array], axis: Ints, numbers: Sequence[Any], shape: Ints
    ) -> list[Array]:
        """Everything as rows of one axis, in the order in which the kernel's axes are."""
        small = tuple([1 if k in axis else n for k, n in enumerate(shape)])
        order = (*(k for k in range(len(shape)) if k not in axis), *axis)
        length = math.prod([shape[k] for k in axis])
        rows = math.prod(shape) // max(length, 1)
        known: list[Any] = [None] * (self.arrays + 1)
        for k, source in self.kernel.sources.items():
            own = shape if source.varies else small
            known[k] = flattened(arrays[k], own, order, rows)
        some = next(x for x in known if x is not None)
        given = [*numbers[: self.numbers], *[0] * (self.numbers - len(numbers)), length]
        for part, whole in self.reductions:
            known.append(self.reduced(part, whole, known, given, rows, length))
        if self.counts:
            known[self.arrays] = some.gpu.send(np.arange(length, dtype=np.int32)[None])
        results = []
        for step, out in zip(self.outputs, self.kernel.outputs, strict=True):
            if out.op == "constant":
                results.append(some.gpu.Array(small, out.type.dtype, None, number=out.detail))
            else:
                result = step.run(known, None, given, None)
                results.append(turned_back(result, shape if out.varies else small, order))
        return results

    def reduced(
        self, part: Stage, whole: Launcher, known: list, numbers: list, rows: int, length: int
    ) -> Array:
        """One number for each row: first of its parts, all of one length but the last."""
        some = known[part.given[0]]
        count, rest = divmod(length, PART)
        total = count + bool(rest)
        dtype = part.launcher.dtypes[0]
        made = some.gpu.empty((rows, total, 1), dtype)
        for first, pieces, size in ((0, count, PART), (count, int(bool(rest)), rest)):
            if pieces:
                starts = np.arange(first, total, dtype=np.int32)[:pieces] * np.int32(PART)
                views = [None if x is None else cut(x, first * PART, pieces, size) for x in known]
                if self.arrays in part.given:
                    views[self.arrays] = some.gpu.send(starts[None, :, None])
                target = made.view((rows, pieces, 1), (total, 1, 1), first)
                part.run(views, (2,), numbers, [target])
        return whole.run([made.view((rows, total), (total, 1))], (1,), (), None)[0]


def as_elements(value: Value) -> Value:
    """A value with an element in the place of what is one number for each row."""
    sources = Kernel((value,)).sources.values()
    return substituted([value], {v: element(v.detail, v.type) for v in sources})[0]


def flattened(x: Array, shape: Ints, order: Ints, rows: int) -> Array:
    """An array, which broadcasts to a shape, as rows: those of other axes stay, one by one."""
    wide = x.view(shape, steps_in(x, shape))
    turned = wide.view(tuple(shape[k] for k in order), tuple(wide.strides[k] for k in order))
    solid = contiguous_copy(turned)
    width = solid.size // rows
    return solid.view((rows, width), (width, 1))


def turned_back(x: Array, shape: Ints, order: Ints) -> Array:
    """Rows as the array of a shape whose axes they have in some order."""
    strides = contiguous(tuple([shape[k] for k in order]))
    return x.view(shape, tuple([strides[order.index(k)] for k in range(len(shape))]))


def cut(x: Array, start: int, pieces: int, size: int) -> Array:
    """Parts of rows; of what is one number for each row, that number."""
    rows, width = x.shape
    if width == 1:
        return x.view((rows, 1, 1), (1, 1, 1))
    return x.view((rows, pieces, size), (width, size, 1), x.offset + start)
