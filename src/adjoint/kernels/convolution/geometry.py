"""Where a direct convolution finds its numbers: tables for the kernels beside this module.

Every convolution has three spatial axes here; those that it lacks have one place. Distances are
counted in elements.
"""

import math
from itertools import product
from typing import NamedTuple

import numpy as np

Ints = tuple[int, ...]


class Axis(NamedTuple):
    """One spatial axis of a convolution."""

    x: int
    kernel: int
    stride: int
    before: int
    dilation: int
    out: int


NO_AXIS = Axis(1, 1, 1, 0, 1, 1)


class Packing(NamedTuple):
    """How a plane is laid out: [phase of depth, of height, shift of width, depth, height, width].

    Along depth and height a phase is what remains of a place when it is divided by the stride.
    Along the width each shift is a row of its own, which begins at that column of the source.
    """

    source: Ints
    origin: tuple[int, int]  # where depth and height begin in the source
    stride: Ints
    phases: tuple[int, int]
    shifts: Ints
    length: Ints

    @property
    def plane(self) -> int:
        return math.prod(self.phases) * len(self.shifts) * math.prod(self.length)

    @property
    def is_source(self) -> bool:
        """Whether nothing has to be moved."""
        return (
            not any(self.origin)
            and self.phases == (1, 1)
            and self.stride == (1, 1, 1)
            and self.shifts == (0,)
            and self.length == self.source
        )

    def place(self, phase: tuple[int, int], shift: int, index: Ints) -> int:
        sizes = (*self.phases, len(self.shifts), *self.length)
        number = 0
        for k, size in zip((*phase, shift, *index), sizes, strict=True):
            number = number * size + k
        return number

    def columns(self) -> np.ndarray:
        """For each shift: zeros up to, values up to, the first value's place in the source."""
        stride, size, length = self.stride[2], self.source[2], self.length[2]
        rows = []
        for shift in self.shifts:
            zeros = min(max(0, -(shift // stride)), length)
            values = max(zeros, min(length, -((shift - size) // stride)))
            rows.append((zeros, values, shift + stride * zeros))
        return np.array(rows, np.int64)


class Places(NamedTuple):
    """Vectors of output places: their distances in the packed plane and in the output's plane."""

    x: np.ndarray
    out: np.ndarray
    lanes: np.ndarray  # bits: which of its places no vector before it has
    plane: int  # elements that the output's plane takes
    pitch: Ints  # from depth to depth and from row to row of the output's plane


class Part(NamedTuple):
    """A piece of the output with the same taps everywhere, at places a step apart."""

    taps: tuple[tuple[int, int], ...]  # the number in the filter, the distance in the packed plane
    start: Ints
    step: Ints
    count: Ints


def axes(x: Ints, kernel: Ints, stride: Ints, padding, dilation: Ints, out: Ints) -> list[Axis]:
    before = [b for b, _ in padding]
    found = [Axis(*row) for row in zip(x, kernel, stride, before, dilation, out, strict=True)]
    return [NO_AXIS] * (3 - len(found)) + found


def forward(geometry: list[Axis], apart: bool) -> tuple[Packing, list[Part]]:
    """x, packed; the output is one part: place p reads p * stride + k * dilation.

    `apart`: each column of the filter has rows of its own, without anything between them.
    """
    depth, height, width = geometry
    reach = [[divmod(k * a.dilation, a.stride) for k in range(a.kernel)] for a in geometry]
    columns = column_reach(width, apart)
    shifts = sorted({shift for shift, _ in columns})
    packing = whole(
        Packing(
            source=tuple(a.x for a in geometry),
            origin=(-depth.before, -height.before),
            stride=tuple(a.stride for a in geometry),
            phases=(max(f for _, f in reach[0]) + 1, max(f for _, f in reach[1]) + 1),
            shifts=tuple(shifts),
            length=(
                depth.out + max(move for move, _ in reach[0]),
                height.out + max(move for move, _ in reach[1]),
                width.out + max(move for _, move in columns),
            ),
        )
    )
    taps = [
        packing.place((d[1], h[1]), shifts.index(shift), (d[0], h[0], move))
        for d, h, (shift, move) in product(*reach[:2], columns)
    ]
    count = (depth.out, height.out, width.out)
    return packing, [Part(tuple(enumerate(taps)), (0, 0, 0), (1, 1, 1), count)]


def column_reach(width: Axis, apart: bool) -> list[tuple[int, int]]:
    """For each column of the filter the shift whose row it reads, and from which place on."""
    columns = [k * width.dilation for k in range(width.kernel)]
    if apart:
        return [(column - width.before, 0) for column in columns]
    return [(column % width.stride - width.before, column // width.stride) for column in columns]


def whole(packing: Packing) -> Packing:
    """The source itself where the packed plane would be a piece of it."""
    fits = all(n <= size for n, size in zip(packing.length, packing.source, strict=True))
    itself = packing._replace(length=packing.source)
    return itself if fits and packing.stride == (1, 1, 1) and itself.is_source else packing


class Phase(NamedTuple):
    """Places i of x along an axis with the same remainder of (i + before) / stride."""

    first: int  # the first quotient
    count: int
    start: int  # the first place
    taps: tuple[tuple[int, int], ...]  # k, and how far before the quotient its place in g is


def input_phases(axis: Axis) -> list[Phase]:
    phases = []
    for rest in range(axis.stride):
        start = (rest - axis.before) % axis.stride
        taps = [(k, divmod(k * axis.dilation - rest, axis.stride)) for k in range(axis.kernel)]
        phases.append(
            Phase(
                first=(start + axis.before) // axis.stride,
                count=max(0, -((start - axis.x) // axis.stride)),
                start=start,
                taps=tuple((k, back) for k, (back, other) in taps if not other),
            )
        )
    return [phase for phase in phases if phase.count]


def span(phases: list[Phase]) -> tuple[int, int]:
    """The first place in g that any tap needs, and how many places there are up to the last one."""
    first = min((p.first - back for p in phases for _, back in p.taps), default=0)
    last = max((p.first + p.count - 1 - back for p in phases for _, back in p.taps), default=0)
    return first, last - first + 1


def backward(geometry: list[Axis], apart: bool) -> tuple[Packing, list[Part]]:
    """g, packed; x is a part for each combination of phases."""
    depth, height, width = (input_phases(axis) for axis in geometry)
    spans = [span(phases) for phases in (depth, height, width)]
    if apart:
        shifts = sorted({p.first - back for p in width for _, back in p.taps} or {0})
        length = max(p.count for p in width)
    else:
        shifts, length = [spans[2][0]], spans[2][1]
    packing = whole(
        Packing(
            source=tuple(a.out for a in geometry),
            origin=(spans[0][0], spans[1][0]),
            stride=(1, 1, 1),
            phases=(1, 1),
            shifts=tuple(shifts),
            length=(spans[0][1], spans[1][1], length),
        )
    )

    parts = []
    for phases in product(depth, height, width):
        taps = []
        for (i, deep), (j, high), (k, wide) in product(*(p.taps for p in phases)):
            number = (i * geometry[1].kernel + j) * geometry[2].kernel + k
            column = phases[2].first - wide
            shift = shifts.index(column) if apart else 0
            index = (
                phases[0].first - deep - spans[0][0],
                phases[1].first - high - spans[1][0],
                column - shifts[shift],
            )
            taps.append((number, packing.place((0, 0), shift, index)))
        parts.append(
            Part(
                tuple(taps),
                tuple(p.start for p in phases),
                tuple(a.stride for a in geometry),
                tuple(p.count for p in phases),
            )
        )
    return packing, parts


def places(packing: Packing, count: Ints, lanes: int) -> Places:
    """The fewer vectors: along rows, or along the whole plane."""
    along_plane = in_planes(packing, count, lanes)
    if count[2] < lanes:
        return along_plane
    along_rows = in_rows(packing, count, lanes)
    return along_plane if len(along_plane.x) < 0.9 * len(along_rows.x) else along_rows


def in_rows(packing: Packing, count: Ints, lanes: int) -> Places:
    """Vectors along rows; the last one of a row begins early enough to be full."""
    depth, height, width = count
    columns = starts(width, lanes)
    index = np.indices((depth, height)).reshape(2, -1)
    rows = (index[0] * packing.length[1] + index[1]) * packing.length[2]
    x = (rows[:, None] + columns).reshape(-1)
    out = (np.arange(depth * height)[:, None] * width + columns).reshape(-1)
    masks = np.tile(first_time(np.ones(width, bool), columns, lanes), depth * height)
    return Places(x, out, masks, math.prod(count), (height * width, width))


def in_planes(packing: Packing, count: Ints, lanes: int) -> Places:
    """Vectors along the whole packed plane, over what lies between rows."""
    pitch = (packing.length[1] * packing.length[2], packing.length[2])
    index = np.indices(count).reshape(3, -1)
    inside = index[0] * pitch[0] + index[1] * pitch[1] + index[2]
    length = inside[-1] + 1
    begin = starts(length, lanes)
    plane = max(length, lanes)
    wanted = np.zeros(plane, bool)
    wanted[inside] = True
    return Places(begin, begin, first_time(wanted, begin, lanes), int(plane), pitch)


def starts(length: int, lanes: int) -> np.ndarray:
    """Where vectors begin that cover a length; the last one ends with it if that is possible."""
    return np.minimum(np.arange(0, length, lanes), max(length - lanes, 0))


def first_time(wanted: np.ndarray, begin: np.ndarray, lanes: int) -> np.ndarray:
    """Bits: the lanes of each vector that are wanted and that no vector before it has."""
    new = wanted.copy()
    masks = []
    for start in begin:
        part = new[start : start + lanes]
        masks.append(sum(1 << k for k in np.flatnonzero(part).tolist()))
        part[:] = False
    return np.array(masks, np.int64)
