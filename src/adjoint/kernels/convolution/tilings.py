"""Which tile and which layout a convolution takes, and its tables: all that doesn't depend on data.

Costs are counted in multiplications of vectors, of which two begin in each cycle.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from . import geometry
from .geometry import Axis, Ints, Packing, Part, Places
from .writer import Tile

SCALARS = {4: "float", 8: "double"}
LATENCY = 8  # multiplications that have to be under way
SEGMENT = 256  # taps that are added up by themselves, at most
NEAR = 1 << 15  # bytes that stay in the nearest cache
FAR = 1 << 20  # bytes that stay in the core's own cache


class Machine(NamedTuple):
    """What a tile may use."""

    bytes: int  # of a vector
    registers: int


class Shape(NamedTuple):
    """A convolution without its batch; `size` is the bytes of a number."""

    x: Ints
    w: Ints
    out: Ints
    stride: Ints
    padding: tuple[tuple[int, int], ...]
    dilation: Ints
    groups: int
    size: int

    @property
    def axes(self) -> list[Axis]:
        kernel = self.w[2:]
        return geometry.axes(self.x[1:], kernel, self.stride, self.padding, self.dilation, self.out)

    @property
    def outputs(self) -> int:
        """Output channels of a group."""
        return self.w[0] // self.groups


def tile_cost(rows: int, columns: int) -> float:
    """Of one step of a tile: its multiplications, or its loads if they take longer, and a little
    for loads that wait for each other. Those of columns aren't aligned, and take two turns."""
    loads = rows + 2 * columns
    slowest = max(rows * columns, loads, LATENCY)
    return slowest + 0.25 * loads + 0.07 * columns * columns


@functools.cache
def best_tile(machine: Machine, rows: int, columns: int, size: int) -> tuple[Tile, float]:
    """The tile with which `rows` x `columns` vectors take the least time, and that time."""
    shapes = [
        (r, c)
        for r in range(1, min(rows, 8) + 1)
        for c in (1, 2, 3, 4, 6, 8)
        if r * c + c + 1 < machine.registers
    ]

    def cost(shape: tuple[int, int]) -> float:
        return -(-rows // shape[0]) * -(-columns // shape[1]) * tile_cost(*shape)

    best = min(shapes, key=cost)
    return Tile(SCALARS[size], machine.bytes // size, *best), cost(best)


def moving_cost(rows: int, elements: int, stride: int) -> float:
    return 20 * rows + (1.5 if stride == 1 else 3) * elements


def packing_cost(layout: Packing, planes: int, size: int) -> float:
    if layout.is_source:
        return 0
    elements = planes * layout.plane
    if elements * size > FAR:
        elements *= 2
    return moving_cost(elements // layout.length[2], elements, layout.stride[2])


Table = np.ndarray  # numbers that kernels read


def table(values: np.ndarray) -> Table:
    return np.ascontiguousarray(values, np.int32)


class Work(NamedTuple):
    """A part of a correlation, in tables of bytes."""

    part: Part
    places: Places
    tile: Tile
    blocks: int
    tiles: int
    taps: Table  # for each channel and place in the filter
    segment: int
    filter_taps: Table
    x_places: Table
    out_places: Table
    staged: bool  # whether it is computed somewhere else first
    inside: bool  # whether it reads nothing beyond the last plane
    cost: float


class Correlation(NamedTuple):
    """A convolution of a source with filters of any layout."""

    packing: Packing
    works: tuple[Work, ...]
    groups: int
    inputs: int  # channels of the source in a group
    outputs: int
    filter_steps: Ints  # from group to group, output to output, input to input
    out_shape: Ints  # without the batch

    @property
    def cost(self) -> float:
        """Of an image."""
        planes = self.groups * self.inputs
        moved = packing_cost(self.packing, planes, self.works[0].tile.size)
        return moved + sum(work.cost for work in self.works)

    @property
    def in_place(self) -> bool:
        """Whether the source can stay where it is."""
        return self.packing.is_source and all(work.inside for work in self.works)


def tap_places(layout: Packing, part: Part, inputs: int) -> np.ndarray:
    distances = np.array([distance for _, distance in part.taps], np.int64)
    channels = np.arange(inputs, dtype=np.int64) * layout.plane
    return (channels[:, None] + distances).reshape(-1)


def work(
    machine: Machine,
    layout: Packing,
    part: Part,
    channels: tuple[int, int, int],
    size: int,
    segment: int,
) -> Work:
    groups, inputs, outputs = channels
    lanes = machine.bytes // size
    places = geometry.places(layout, part.count, lanes)
    tile, cost = best_tile(machine, outputs, len(places.x), size)
    missing = -len(places.x) % tile.columns
    taps = tap_places(layout, part, inputs)
    staged = part.step != (1, 1, 1) or places.plane != math.prod(part.count)
    moved = moving_cost(math.prod(part.count[:2]), math.prod(part.count), part.step[2])
    return Work(
        part,
        places,
        tile,
        blocks=-(-outputs // tile.rows),
        tiles=(len(places.x) + missing) // tile.columns,
        taps=table(taps * size),
        segment=segment,
        filter_taps=table(np.array([number for number, _ in part.taps], np.int64) * size),
        x_places=table(np.pad(places.x, (0, missing), "edge") * size),
        out_places=table(np.pad(places.out, (0, missing), "edge") * size),
        staged=staged,
        inside=not taps.size or places.x.max() + taps.max() + lanes <= inputs * layout.plane,
        cost=groups * (cost * len(taps) + staged * outputs * moved),
    )


@functools.lru_cache(1024)
def forward(machine: Machine, shape: Shape) -> Correlation:
    """conv."""
    inputs, taps = shape.w[1], math.prod(shape.w[2:])
    steps = (shape.outputs * inputs * taps, inputs * taps, taps)
    channels, out = (shape.groups, inputs, shape.outputs), (shape.w[0], *shape.out)
    return cheapest(machine, shape, geometry.forward, channels, steps, out, SEGMENT)


@functools.lru_cache(1024)
def backward(machine: Machine, shape: Shape) -> Correlation:
    """conv_input: what is summed over are conv's outputs."""
    inputs, outputs, taps = shape.outputs, shape.w[1], math.prod(shape.w[2:])
    steps = (inputs * outputs * taps, taps, outputs * taps)
    # A matrix product and the additions of its columns round less the fewer channels there are.
    segment = min(max(3 * inputs, 32), SEGMENT)
    channels = (shape.groups, inputs, outputs)
    return cheapest(machine, shape, geometry.backward, channels, steps, shape.x, segment)


def cheapest(
    machine: Machine,
    shape: Shape,
    cut: Callable[[list[Axis], bool], tuple[Packing, list[Part]]],
    channels: tuple[int, int, int],
    steps: Ints,
    out: Ints,
    segment: int,
) -> Correlation:
    """The better of two layouts, into which a source is `cut`."""
    candidates = []
    for apart in (False, True):
        layout, parts = cut(shape.axes, apart)
        works = [work(machine, layout, part, channels, shape.size, segment) for part in parts]
        candidates.append(Correlation(layout, tuple(works), *channels, steps, out))
    return min(candidates, key=lambda tiling: tiling.cost)


class WeightGradient(NamedTuple):
    """conv_weight, in tables of bytes."""

    packing: Packing
    g_packing: Packing
    tile: Tile
    inside: bool  # whether nothing beyond the last plane is read
    groups: int
    inputs: int
    outputs: int
    blocks: int
    tap_tiles: int
    vectors: int  # of an image, whose lanes all count
    tails: int  # of an image: other vectors
    round: int  # images
    span: int  # vectors
    taps: Table
    x_places: Table
    g_places: Table
    tail_x_places: Table
    tail_g_places: Table
    tail_lanes: Table
    cost: float  # of an image


@functools.lru_cache(1024)
def weights(machine: Machine, shape: Shape) -> WeightGradient:
    candidates = [weights_in(machine, shape, apart) for apart in (False, True)]
    return min(candidates, key=lambda tiling: tiling.cost)


def weights_in(machine: Machine, shape: Shape, apart: bool) -> WeightGradient:
    size, groups, inputs = shape.size, shape.groups, shape.w[1]
    lanes = machine.bytes // size
    layout, (part,) = geometry.forward(shape.axes, apart)
    places = geometry.places(layout, part.count, lanes)
    g_layout = g_packing(layout, part.count, places)
    taps = tap_places(layout, part, inputs)
    tile, cost = best_tile(machine, shape.outputs, len(taps), size)
    missing = -len(taps) % tile.columns
    vectors = len(places.x)
    most = NEAR // (machine.bytes * tile.rows)
    round = max(1, most // vectors)
    span = round * vectors if round > 1 else -(-vectors // -(-vectors // most))
    images = np.arange(round, dtype=np.int64)[:, None]
    whole = places.lanes == (1 << lanes) - 1
    x_image, g_image = groups * inputs * layout.plane, shape.w[0] * g_layout.plane
    blocks, tap_tiles = -(-shape.outputs // tile.rows), (len(taps) + missing) // tile.columns
    moved = packing_cost(layout, groups * inputs, size)
    moved += packing_cost(g_layout, shape.w[0], size)
    adding = 5 * tile.rows * tile.columns * vectors / span
    return WeightGradient(
        layout,
        g_layout,
        tile,
        inside=places.x.max() + taps.max() + lanes <= inputs * layout.plane
        and places.plane <= g_layout.plane,
        groups=groups,
        inputs=inputs,
        outputs=shape.outputs,
        blocks=blocks,
        tap_tiles=tap_tiles,
        vectors=int(whole.sum()),
        tails=int((~whole).sum()),
        round=round,
        span=span,
        taps=table(np.pad(taps, (0, missing), "edge") * size),
        x_places=table((images * x_image + places.x[whole]).reshape(-1) * size),
        g_places=table((images * g_image + places.out[whole]).reshape(-1) * size),
        tail_x_places=table((images * x_image + places.x[~whole]).reshape(-1) * size),
        tail_g_places=table((images * g_image + places.out[~whole]).reshape(-1) * size),
        tail_lanes=table(np.tile(places.lanes[~whole], round)),
        cost=groups * (cost * vectors + blocks * tap_tiles * adding) + moved,
    )


def g_packing(layout: Packing, count: Ints, places: Places) -> Packing:
    """g with the same distance from row to row as x, if vectors cross from row to row."""
    dense = (count[1] * count[2], count[2])
    length = count if places.pitch == dense else (count[0], *layout.length[1:])
    return Packing(count, (0, 0), (1, 1, 1), (1, 1), (0,), length)
