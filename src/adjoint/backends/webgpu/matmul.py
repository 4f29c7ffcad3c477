"""Matrix products: which program computes one, and with which words."""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from ..launches import View
from ..spaces import Axes, Ints, merged, steps_in
from .arrays import WGSL, broadcast_shape
from .elementwise import described
from .lowering import Programs, lowering
from .maps import as_contiguous, lower_map
from .programs import Program, power_of_two
from .tiles import LANES, SUMMED, blocks, is_wide, tiles, total, vectors

KINDS = {dtype: "bool" if dtype.kind == "b" else name for dtype, name in WGSL.items()}
DTYPES = {name: dtype for dtype, name in KINDS.items()}
MOST_BATCH_AXES = 4
SEGMENT = 512  # at most so many products are added up one after the other
SMALL = 16  # rows and columns of matrices that aren't worth a workgroup each
HIGHEST_BAND = 8
GROUPS, LEAST_INNER = 128, 128  # see Way.wanted, Way.least
BLOCKS, LEAST_INNER_OF_BLOCKS = 128, 256


class Way(NamedTuple):
    """A program of `tiles`, and how much work it needs."""

    program: Callable[..., Program]
    height: int  # of the part of the result that is one unit of work
    width: int
    wanted: int  # units, to keep a device busy
    least: int  # inner places that are worth a unit
    lanes: int = 1  # that share the inner axis
    together: int = 1  # units in a workgroup


class Operand(NamedTuple):
    """Matrices with `outer` rows of x, or columns of y, of `inner` elements each."""

    view: View
    outer: int
    inner: int
    outer_stride: int
    inner_stride: int
    batch_strides: Ints

    @property
    def layout(self) -> str:
        """A name of `tiles`: vectors of 4 need lengths and strides that are multiples of 4."""
        others = (*self.batch_strides, self.view.offset, not self.view.aligned)
        if self.inner_stride == 1 and are_multiples_of_4(self.inner, self.outer_stride, *others):
            return "inner4"
        if self.outer_stride == 1 and are_multiples_of_4(self.outer, self.inner_stride, *others):
            return "outer4"
        return "inner1" if abs(self.inner_stride) < abs(self.outer_stride) else "outer1"


def are_multiples_of_4(*numbers: int) -> bool:
    return not any(number % 4 for number in numbers)


@lowering
def matmul(to: Programs, x: View, y: View) -> None:
    multiply(to, to.result(product_shape(x.shape, y.shape), x.dtype), x, y)


@lowering
def linear(to: Programs, x: View, weight: View, bias: View | None) -> None:
    turned = weight.swapped()
    out = to.result(product_shape(x.shape, turned.shape), x.dtype)
    multiply(to, out, x, turned)
    if bias is not None:
        lower_map(to, described("add", (x.dtype, x.dtype), (), None), [out, bias], [out])


def product_shape(x: Ints, y: Ints) -> Ints:
    if not x or not y or x[-1] != y[-2:][0]:
        raise ValueError(f"matmul: shapes {x} and {y} don't fit")
    return (*np.broadcast_shapes(x[:-2], y[:-2]), *x[-2:-1], *(y[-1:] if len(y) > 1 else ()))


def without_broadcasting(to: Programs, x: View, batch: Ints) -> View:
    """A copy with all batch axes, which are then like one; what has none is left as it is."""
    if x.ndim == 2:
        return x
    shape = (*batch, *x.shape[-2:])
    return as_contiguous(to, x.view(shape, steps_in(x, shape)))


def multiply(to: Programs, out: View, x: View, y: View) -> None:
    """Launch the product of x and y, into memory without gaps."""
    if x.ndim == 1:
        x = x.view((1, *x.shape), (0, *x.strides))
    if y.ndim == 1:
        y = y.view((*y.shape, 1), (*y.strides, 0))
    batch, axes = batch_axes(x, y)
    if len(axes.sizes) > MOST_BATCH_AXES:
        x, y = (without_broadcasting(to, one, batch) for one in (x, y))
        batch, axes = batch_axes(x, y)
    missing = MOST_BATCH_AXES - len(axes.sizes)
    lengths = (*reversed(axes.sizes), *[1] * missing)  # from the last to the first
    x_batch, y_batch = ((*reversed(steps), *[0] * missing) for steps in axes.steps)
    rows, inner, columns = *x.shape[-2:], y.shape[-1]
    left = operand(x, rows, inner, x.strides[-2:], x_batch)
    right = operand(y, columns, inner, y.strides[:-3:-1], y_batch)
    if columns == 1 < rows:
        left, right = right, left
    launch_segments(to, out, left, right, lengths)


def operand(x: View, outer: int, inner: int, strides: Ints, batch: Ints) -> Operand:
    """The strides of axes with one place can be anything, and are 0 here."""
    outer_stride, inner_stride = strides
    if outer == 1:
        outer_stride = 0
    if inner == 1:
        inner_stride = 0
    return Operand(x, outer, inner, outer_stride, inner_stride, batch)


def batch_axes(*views: View) -> tuple[Ints, Axes]:
    """The common batch shape, and its axes, as few as possible."""
    views = tuple([x.view(x.shape[:-2], x.strides[:-2]) for x in views])
    batch = broadcast_shape([x.shape for x in views])
    return batch, merged(batch, [steps_in(x, batch) for x in views])


def launch_segments(to: Programs, out: View, x: Operand, y: Operand, lengths: Ints) -> None:
    """A launch for each segment of the inner axis, of operands whose batch axes have these lengths,
    and one that adds up parts."""
    kind, batches = KINDS[out.dtype], math.prod(lengths)
    way = way_of("software" in to.target.features, x, y, batches)
    down, across = tiled(x.outer, way.height), tiled(y.outer, way.width)
    units = batches * down * across
    parts, chunk = split(x.inner, units, way.wanted, way.least)
    sums = SUMMED[kind] if parts > 1 else kind
    segments = tiled(chunk, SEGMENT * way.lanes) if sums == SUMMED[kind] else 1
    segment = multiple_of_32(tiled(chunk, segments))
    words = {"rows": x.outer, "columns": y.outer, "inner": x.inner, "batches": batches}
    words |= {f"batch{k}": length for k, length in enumerate(lengths[:-1])}
    words |= {"across": across, "down": down, "band": math.gcd(down, HIGHEST_BAND)}
    words |= {"parts": parts, "chunk": chunk, "segment": segment, "lanes": way.lanes}
    words |= stride_words("x", x) | stride_words("y", y)
    program = way.program(kind, sums, x.layout, y.layout)
    groups = tiled(units * parts, way.together)
    goal = to.temporary((parts, *out.shape), DTYPES[sums]) if parts > 1 else out
    for low in range(0, chunk, segment):
        to.launch(program, groups, x.view, y.view, goal, low=low, first=low == 0, **words)
    if parts > 1:
        to.launch_each(total(kind), out.size, goal, out, number=parts)


def stride_words(name: str, x: Operand) -> dict[str, int]:
    """Strides in vectors, where elements are read in those."""
    unit = 4 if is_wide(x.layout) else 1
    words = {f"{name}_outer": x.outer_stride, f"{name}_inner": x.inner_stride}
    words |= {f"{name}_batch{k}": stride for k, stride in enumerate(x.batch_strides)}
    return {word: stride // unit for word, stride in words.items()}


def way_of(software: bool, x: Operand, y: Operand, batches: int) -> Way:
    if x.outer == 1:
        lanes, program = lanes_along(y, software), partial(vectors, single=y.outer == 1)
        return Way(program, 1, 4 * LANES // lanes, GROUPS, LEAST_INNER, lanes=lanes)
    small = max(x.outer, y.outer) <= SMALL and batches >= LANES // 4
    if software or small:
        # A GPU that is software has no fast memory for workgroups, and barriers cost much. On the
        # others, a tile is too large for small matrices.
        down, across = (1, 1) if max(x.outer, y.outer) <= 4 else (2, 2)
        if software and batches * tiled(x.outer, 16) * tiled(y.outer, 8) >= BLOCKS:
            down = 4
        program = partial(blocks, down=down, across=across)
        return Way(program, 4 * down, 4 * across, BLOCKS, LEAST_INNER_OF_BLOCKS, together=LANES)
    side = 2 if batches * tiled(x.outer, 64) * tiled(y.outer, 64) >= GROUPS else 1
    return Way(partial(tiles, side=side), 32 * side, 32 * side, GROUPS, LEAST_INNER)


def tiled(length: int, size: int) -> int:
    """How many tiles of a size it takes."""
    return -(-length // size)


def lanes_along(y: Operand, software: bool) -> int:
    """How many invocations share the inner axis of a column, for a vector x: a power of two.

    Neighbours read what is close together, and few are without work."""
    beside = 64 if software else 2 if y.layout.startswith("inner") else 16
    beside = min(beside, power_of_two(tiled(y.outer, 4)))
    return min(LANES // beside, power_of_two(tiled(y.inner, 4)))


def multiple_of_32(least: int) -> int:
    """Such lengths are whole steps of all programs."""
    return least + -least % 32


def split(inner: int, units: int, wanted: int, least: int) -> tuple[int, int]:
    """Into how many parts the inner axis is split so that there is enough to do, and of which
    length they are."""
    parts = max(1, min(tiled(wanted, max(units, 1)), inner // least))
    chunk = multiple_of_32(max(1, tiled(inner, parts)))
    return max(1, tiled(inner, chunk)), chunk
