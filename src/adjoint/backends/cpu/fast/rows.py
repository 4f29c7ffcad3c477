"""Kernels with reductions, over any axes of arrays of any layout.

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
from numpy.lib.stride_tricks import as_strided

from ....kernels.frame import Layout
from ....kernels.language import F64, TYPES, Kernel, Type, convert, element, reduce
from ....kernels.llvm import stashed
from ....kernels.rows import dot, norm
from ...spaces import Axes, Ints, axis_order, merged, steps_in
from .maps import CHUNK, LINE, STREAMED, Launch, Launcher, layout_key, steps_of_outputs

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


class RowLauncher(Launcher):
    """Runs a kernel with reductions."""

    def reduce(
        self,
        arrays: Sequence[np.ndarray],
        axis: Ints,
        numbers: Sequence[Any] = (),
        outputs: Sequence[np.ndarray] | None = None,
    ) -> list[np.ndarray]:
        """The outputs of a kernel whose rows run along `axis`, which stays as ones in those that
        have one element for each row; so it does in arrays that have."""
        key = layout_key(arrays, outputs, axis)
        launch = self.launches.get(key)
        if launch is None:
            launch = self.keep(key, self.lower_reduction(arrays, axis, outputs))
        return self.run(launch, arrays, numbers, outputs)

    def lower_reduction(
        self, arrays: Sequence[np.ndarray], axis: Ints, outputs: Sequence[np.ndarray] | None
    ) -> Launch:
        """Lower a kernel with reductions to a launch."""
        arrays = [arrays[k] for k in self.used]
        varies = [self.kernel.sources[k].varies for k in self.used]
        full = [x for x, one in zip(arrays, varies, strict=True) if one]
        shape = np.broadcast_shapes(*(x.shape for x in full))
        small = tuple(1 if k in axis else n for k, n in enumerate(shape))
        order = axis_order(shape, [steps_in(x, shape) for x in full])
        own = [out.varies for out in self.kernel.outputs]
        shapes = [shape if one else small for one in own]
        given = outputs or [None for _ in own]
        steps = [
            *(steps_in(x, shape if one else small) for x, one in zip(arrays, varies, strict=True)),
            *steps_of_outputs(given, shapes, self.dtypes, order),
        ]
        varies += own
        steps = [s if one else along_row(s, axis) for s, one in zip(steps, varies, strict=True)]
        axes = [
            merged([shape[k] for k in some], [[s[k] for k in some] for s in steps])
            for some in ([k for k in order if k not in axis], [k for k in order if k in axis])
        ]
        walk = chosen_walk(axes[0], axes[1], varies.index(True))
        sizes = [x.itemsize for x in arrays] + [t.itemsize for t in self.dtypes]
        access = "".join(
            access_of(step, size, walk, one)
            for size, step, one in zip(sizes, walk.steps, varies, strict=True)
        )
        return self.lower_walk(walk, access, not any(own), order, shapes)

    def lower_walk(
        self, walk: Walk, access: str, only_rows: bool, order: list[int], shapes: list[Ints]
    ) -> Launch:
        wide = only_rows and walk.columns >= WIDE and "s" not in access
        lanes = WIDE * self.lanes // 16 if wide else self.lanes
        rows, columns = chunk_of(walk, self.chunk, lanes)
        parts = -(-walk.columns // columns)
        words = [walk.rows, walk.columns, rows, columns, parts]
        words += [*walk.inner.sizes, *walk.outer.sizes]
        places = []
        for step, inner, outer in zip(walk.steps, walk.inner.steps, walk.outer.steps, strict=True):
            places.append(len(words))
            words += (0, step, *inner, *outer)
        layout = Layout(access, len(walk.outer.sizes), len(walk.inner.sizes), walk.along, lanes)
        chunks = -(-walk.rows // rows) * parts
        past = self.address(self.past_caches(layout)) if self.goes_past(walk, layout) else 0
        return self.launch_of(layout, past, words, places, chunks, order, shapes)

    def goes_past(self, walk: Walk, layout: Layout) -> bool:
        """Whether outputs are so large, and rows so regular, that they are written past the caches,
        which isn't so for outputs that are read again between the passes over a row."""
        if not walk.along or stashed(self.kernel) is not None:
            return False
        varying = [k for k, out in enumerate(self.kernel.outputs) if out.varies]
        return bool(varying) and all(self.is_streamed(walk, layout, k) for k in varying)

    def is_streamed(self, walk: Walk, layout: Layout, output: int) -> bool:
        place, size = len(self.used) + output, self.dtypes[output].itemsize
        steps = [*walk.inner.steps[place], *walk.outer.steps[place]]
        return (
            layout.access[place] == "c"
            and layout.lanes * size == LINE
            and not walk.columns % layout.lanes
            and not any(step % LINE for step in steps)
            and walk.rows * walk.length * size >= STREAMED
        )

    def past_caches(self, layout: Layout) -> Layout:
        access = "".join(
            "n" if k >= len(self.used) and how == "c" else how
            for k, how in enumerate(layout.access)
        )
        return layout._replace(access=access)


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
    """Rows and columns that have about so many elements."""
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
def reduction(how: str, source: Type, target: Type) -> RowLauncher:
    """A launcher that reduces elements of one type to another."""
    if how == "norm":
        return RowLauncher(Kernel(norm(source, target)))
    wide = target if target.bits > source.bits else source
    return RowLauncher(Kernel((convert(reduce(how, element(0, source), wide), target),)))


def reduced(how: str, x: np.ndarray, axis: Ints) -> np.ndarray:
    """x reduced over axes, which stay as ones."""
    type = TYPES[x.dtype]
    wide = F64 if type.kind == "f" and how in ("sum", "prod", "norm") else type
    length = math.prod(x.shape[k] for k in axis)
    if length < 16 * CHUNK or x.size // length >= 64 * WIDE:
        return reduction(how, type, type).reduce([x], axis)[0]
    return in_parts(how, x, axis, type, wide)


def in_parts(how: str, x: np.ndarray, axis: Ints, type: Type, wide: Type) -> np.ndarray:
    """Reduce parts of the outermost of the axes, and then what comes of them."""
    order = axis_order(x.shape, [x.strides])
    first = next(k for k in order if k in axis and x.shape[k] > 1)
    others = math.prod(x.shape[k] for k in axis) // x.shape[first]
    step = max(1, CHUNK // others)
    count, rest = divmod(x.shape[first], step)
    shape = [1 if k in axis else n for k, n in enumerate(x.shape)]
    parts = np.empty((count + bool(rest), *shape), wide.dtype)
    launcher = reduction(how, type, wide)
    whole = as_strided(
        x,
        (count, *x.shape[:first], step, *x.shape[first + 1 :]),
        (step * x.strides[first], *x.strides),
        writeable=False,
    )
    inside = tuple(k + 1 for k in axis)
    launcher.reduce([whole], inside, outputs=[parts[:count]])
    if rest:
        end = (slice(None),) * first + (slice(count * step, None),)
        launcher.reduce([x[end]], axis, outputs=[parts[count]])
    return reduction(how, wide, type).reduce([parts], (0,))[0][0]


# Inner products.


@functools.cache
def inner(source: Type, target: Type) -> RowLauncher:
    return RowLauncher(Kernel(dot(source, target)))


def inner_products(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Sums of products along the last axis; long ones in parts, as other reductions."""
    type, last = TYPES[x.dtype], x.ndim - 1
    length, count = x.shape[-1], x.shape[-1] // CHUNK
    if length < 16 * CHUNK:
        return inner(type, type).reduce([x, y], (last,))[0][..., 0]
    shape = np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    whole, end = (slice(count * CHUNK), slice(count * CHUNK, None))
    parts = [
        inner(type, F64).reduce([a.reshape(*a.shape[:-1], -1, size) for a in pair], (last + 1,))[0]
        for pair, size in (
            ([x[..., whole], y[..., whole]], CHUNK),
            ([x[..., end], y[..., end]], length - count * CHUNK),
        )
        if size
    ]
    sums = np.concatenate([np.broadcast_to(p[..., 0], (*shape, p.shape[-2])) for p in parts], -1)
    return reduction("sum", F64, type).reduce([sums], (last,))[0][..., 0]
