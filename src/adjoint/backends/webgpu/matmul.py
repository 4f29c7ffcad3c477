"""Matrix products: which program computes one, and with which words."""

import functools
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..spaces import Ints, steps_in
from .arrays import WGSL, Array
from .elementwise import launcher
from .maps import contiguous_copy
from .programs import Program
from .table import kernel
from .tiles import LANES, SUMMED, blocks, tiles, total, vectors

KINDS = {dtype: "bool" if dtype.kind == "b" else name for dtype, name in WGSL.items()}
DTYPES = {name: dtype for dtype, name in KINDS.items()}
MOST_BATCH_AXES = 4
SEGMENT = 512  # at most so many products are added up one after the other
SMALL = 16  # rows and columns of matrices that aren't worth a workgroup each
HIGHEST_BAND = 8
GROUPS, LEAST_INNER = 128, 128  # see Way.wanted, Way.least
BLOCKS, LEAST_INNER_OF_BLOCKS = 128, 256


class SegmentLaunches(NamedTuple):
    """The launches of a product, one for each segment of the inner axis; arrays are missing.

    `units`: how many elements an offset of x, of y counts.
    """

    program: Program
    shape: Ints
    swapped: bool
    units: tuple[int, int]
    lows: range  # where segments start
    words: Ints  # but for the offsets, and those that differ between launches
    groups: int
    parts: int


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

    outer: int
    inner: int
    outer_stride: int
    inner_stride: int
    batch_strides: Ints
    aligned: bool

    @property
    def layout(self) -> str:
        """A name of `tiles`: vectors of 4 need lengths and strides that are multiples of 4."""
        others = self.batch_strides if self.aligned else (1,)
        if self.inner_stride == 1 and are_multiples_of_4(self.inner, self.outer_stride, *others):
            return "inner4"
        if self.outer_stride == 1 and are_multiples_of_4(self.outer, self.inner_stride, *others):
            return "outer4"
        return "inner1" if abs(self.inner_stride) < abs(self.outer_stride) else "outer1"


def are_multiples_of_4(*numbers: int) -> bool:
    return not any(number % 4 for number in numbers)


@functools.cache
def is_software(gpu: Any) -> bool:
    return gpu.adapter.info["adapter_type"] == "CPU"


@kernel
def matmul(x: Array, y: Array) -> Array:
    gpu = x.gpu
    kind, software = KINDS[x.dtype], is_software(gpu)
    x_layout = x.shape, x.strides, x.offset % 4 == 0
    y_layout = y.shape, y.strides, y.offset % 4 == 0
    launches = lower(kind, software, x_layout, y_layout)
    if launches is None:
        return matmul(*without_broadcasting(x, y))
    if launches.swapped:
        x, y = y, x
    out = parts = gpu.empty(launches.shape, x.dtype)
    if launches.parts > 1:
        parts = gpu.empty((launches.parts, *launches.shape), DTYPES[SUMMED[kind]])
    offsets = x.offset // launches.units[0], y.offset // launches.units[1]
    for low in launches.lows:
        words = (*offsets, low, low == 0, *launches.words)
        gpu.run(launches.program, [x, y, parts], words, launches.groups)
    if launches.parts > 1:
        gpu.run(total(kind), [parts, out], [out.size, launches.parts], -(-out.size // LANES))
    return out


@kernel
def linear(x: Array, weight: Array, bias: Array | None) -> Array:
    out = matmul(x, weight.view(weight.shape[::-1], weight.strides[::-1], weight.offset))
    if bias is not None:
        launcher("add", (x.dtype, x.dtype), (), None).map([out, bias], [], [out])
    return out


def without_broadcasting(x: Array, y: Array) -> list[Array]:
    """Copies with all batch axes, which are then like one; what has none is left as it is."""
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    operands = []
    for array in (x, y):
        if array.ndim > 2:
            shape = (*batch, *array.shape[-2:])
            array = contiguous_copy(array.view(shape, steps_in(array, shape)))
        operands.append(array)
    return operands


@functools.lru_cache(4096)
def lower(kind: str, software: bool, x_layout: tuple, y_layout: tuple) -> SegmentLaunches | None:
    """The launches of a product; None where it has more batch axes than the programs."""
    (x_shape, x_strides, x_aligned), (y_shape, y_strides, y_aligned) = x_layout, y_layout
    row, column = len(x_shape) == 1, len(y_shape) == 1
    if row:
        x_shape, x_strides = (1, *x_shape), (0, *x_strides)
    if column:
        y_shape, y_strides = (*y_shape, 1), (*y_strides, 0)
    if not x_shape or not y_shape or x_shape[-1] != y_shape[-2]:
        raise ValueError(f"matmul: shapes {x_layout[0]} and {y_layout[0]} don't fit")
    batch, axes = batch_axes(x_shape[:-2], x_strides[:-2], y_shape[:-2], y_strides[:-2])
    if len(axes) > MOST_BATCH_AXES:
        return None
    axes += [(1, 0, 0)] * (MOST_BATCH_AXES - len(axes))
    rows, inner, columns = *x_shape[-2:], y_shape[-1]
    lengths, x_batch, y_batch = zip(*axes, strict=True)
    x = operand(rows, inner, x_strides[-2:], x_batch, x_aligned)
    y = operand(columns, inner, y_strides[:-3:-1], y_batch, y_aligned)
    shape = (*batch, *([] if row else [rows]), *([] if column else [columns]))
    swapped = columns == 1 < rows
    if swapped:
        x, y = y, x
    return launches_of(kind, software, shape, swapped, x, y, lengths)


def operand(outer: int, inner: int, strides: Ints, batch: Ints, aligned: bool) -> Operand:
    """The strides of axes with one place can be anything, and are 0 here."""
    outer_stride, inner_stride = strides
    if outer == 1:
        outer_stride = 0
    if inner == 1:
        inner_stride = 0
    return Operand(outer, inner, outer_stride, inner_stride, batch, aligned)


def batch_axes(
    x_shape: Ints, x_strides: Ints, y_shape: Ints, y_strides: Ints
) -> tuple[Ints, list[Ints]]:
    """The common batch shape, and from the last to the first of its axes, of which neighbours are
    one where that is possible: length, stride of x, stride of y."""
    batch = np.broadcast_shapes(x_shape, y_shape) if x_shape != y_shape else x_shape
    axes: list[Ints] = []
    for place in range(1, len(batch) + 1):
        n = batch[-place]
        both = ((x_shape, x_strides), (y_shape, y_strides))
        strides = [t[-place] if place <= len(s) and s[-place] > 1 else 0 for s, t in both]
        if axes and all(t == u * axes[-1][0] for t, u in zip(strides, axes[-1][1:], strict=True)):
            axes[-1] = (axes[-1][0] * n, *axes[-1][1:])
        elif n != 1:
            axes.append((n, *strides))
    return batch, axes


def launches_of(
    kind: str, software: bool, shape: Ints, swapped: bool, x: Operand, y: Operand, lengths: Ints
) -> SegmentLaunches:
    """The launches for operands whose batch axes have these lengths."""
    batches = math.prod(lengths)
    way = way_of(software, x, y, batches)
    down, across = tiled(x.outer, way.height), tiled(y.outer, way.width)
    band = math.gcd(down, HIGHEST_BAND)
    units = batches * down * across
    parts, chunk = split(x.inner, units, way.wanted, way.least)
    sums = SUMMED[kind] if parts > 1 else kind
    segments = tiled(chunk, SEGMENT * way.lanes) if sums == SUMMED[kind] else 1
    segment = multiple_of_32(tiled(chunk, segments))
    x_layout, y_layout = x.layout, y.layout
    x_unit, y_unit = (4 if layout.endswith("4") else 1 for layout in (x_layout, y_layout))
    words = (
        *(x.outer, y.outer, x.inner),
        *(stride // x_unit for stride in (x.outer_stride, x.inner_stride)),
        *(stride // y_unit for stride in (y.outer_stride, y.inner_stride)),
        *(stride // x_unit for stride in x.batch_strides),
        *(stride // y_unit for stride in y.batch_strides),
        *(*lengths[:-1], batches, across, down, band, parts, chunk, segment, way.lanes),
    )
    return SegmentLaunches(
        way.program(kind, sums, x_layout, y_layout),
        shape,
        swapped,
        (x_unit, y_unit),
        range(0, chunk, segment),
        words,
        tiled(units * parts, way.together),
        parts,
    )


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


def power_of_two(least: int) -> int:
    return 1 << max(least - 1, 0).bit_length()


def split(inner: int, units: int, wanted: int, least: int) -> tuple[int, int]:
    """Into how many parts the inner axis is split so that there is enough to do, and of which
    length they are."""
    parts = max(1, min(tiled(wanted, max(units, 1)), inner // least))
    chunk = multiple_of_32(max(1, tiled(inner, parts)))
    return max(1, tiled(inner, chunk)), chunk
