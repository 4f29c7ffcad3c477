"""Direct convolution kernels, launched: what is packed where, and how work is cut into chunks."""

import functools
import math
from array import array
from collections.abc import Sequence

import numpy as np

from ....kernels.convolution import correlation, fused, packing, plans, weights
from ....kernels.convolution.geometry import Packing
from ....kernels.convolution.plans import Correlation, Machine, Weights, Work
from ....kernels.convolution.writer import Tile
from ..jit import compiler, memory, threads
from ..jit.addresses import address
from ..jit.availability import available
from .launch import launch

SCRATCH = 1 << 25  # bytes that packed images may take
SUMS = 1 << 22  # bytes that sums of parts of the images may take
IMAGE_PARTS = 16
CHUNKS = 64  # enough to keep many cores equally busy
FUSED_IMAGES = 16  # enough images to keep the cores equally busy
LEAST = 40_000  # what a chunk costs at least, in multiplications of vectors: about 8 µs
BESIDE = 8  # blocks of filters that are packed at the same time


@functools.cache
def machine() -> Machine | None:
    """The vectors of this processor; None where it can't multiply and add in one step."""
    if not available():
        return None
    features = compiler.started().binding.get_host_cpu_features()
    if features.get("avx512f"):
        return Machine(64, 32)
    if features.get("avx2") and features.get("fma"):
        return Machine(32, 16)
    return Machine(16, 32) if features.get("neon") else None


@functools.cache
def function(text, name, *tile) -> int:
    return compiler.compiled(text(*tile), name(*tile))


def per_chunk(planes: int, elements: int) -> int:
    """How many planes a chunk moves."""
    return max(1, min(-(-planes // CHUNKS), LEAST // max(elements, 1)))


def mover(size: int, stride: int) -> Tile:
    host = machine()
    assert host is not None
    return Tile(f"i{8 * size}", host.bytes // size, 1, stride)


def packed(x: np.ndarray, layout: Packing) -> np.ndarray:
    """x's planes in a layout, and a vector's elements behind them."""
    tile = mover(x.itemsize, layout.stride[2])
    planes = x.shape[0] * x.shape[1]
    out = memory.empty((planes * layout.plane + tile.lanes,), x.dtype)
    columns = columns_of(layout)
    step = per_chunk(planes, layout.plane)
    words = pack_words(x, layout, address(out), columns, planes, step)
    launch(function(packing.pack_text, packing.pack_name, tile), words, -(-planes // step))
    return out


@functools.lru_cache(1024)
def columns_of(layout: Packing) -> np.ndarray:
    return layout.columns()


def pack_words(
    x: np.ndarray, layout: Packing, out: int, columns: np.ndarray, planes: int, step: int
) -> list[int]:
    return [
        address(x),
        out,
        address(columns),
        planes,
        step,
        x.shape[1],
        *x.strides[:2],
        *[0] * (5 - x.ndim),
        *x.strides[2:],
        *layout.source,
        *layout.origin,
        *layout.stride[:2],
        *layout.phases,
        len(layout.shifts),
        *layout.length,
    ]


def laid_out(
    x: np.ndarray, layout: Packing, in_place: bool, round: int = 1
) -> tuple[np.ndarray, int]:
    """x in a layout, and the bytes from image to image.

    Of images that are all the same, one round is enough, and it is zero bytes to the next one.
    """
    image = x.shape[1] * layout.plane * x.itemsize
    if not x.strides[0]:
        x, image = x[:round], 0
    return np.ascontiguousarray(x) if in_place else packed(x, layout), image


def parts_of(x: np.ndarray, elements: int) -> range:
    """Where parts of a batch start whose images, of so many elements, aren't too much at once."""
    return range(0, len(x), max(1, SCRATCH // (elements * x.itemsize)))


def correlate(plan: Correlation, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None):
    out = memory.empty((len(x), *plan.out_shape), x.dtype)
    w = np.ascontiguousarray(w)
    if bias is None:
        bias = np.zeros(plan.out_shape[0], x.dtype)
    bias = np.ascontiguousarray(bias, x.dtype)
    filters = [packed_filters(plan, work, w) for work in plan.works]
    if len(x) >= FUSED_IMAGES and not (plan.in_place or plan.works[0].staged):
        correlate_images(plan, x, filters[0], bias, out)
        return out
    parts = parts_of(x, x.shape[1] * plan.packing.plane)
    for start in parts:
        images = slice(start, start + parts.step)
        source, image = laid_out(x[images], plan.packing, plan.in_place)
        for work, filter in zip(plan.works, filters, strict=True):
            correlate_part(plan, work, source, image, filter, bias, out[images])
    return out


def correlate_images(
    plan: Correlation, x: np.ndarray, w: np.ndarray, bias: np.ndarray, out: np.ndarray
) -> None:
    """One image after the other on each core."""
    (work,), layout = plan.works, plan.packing
    tile = mover(x.itemsize, layout.stride[2])
    slots = np.zeros(min(threads.get_num_threads(), len(x)), np.int64)
    slot = x.shape[1] * layout.plane + tile.lanes
    scratch = memory.empty((len(slots) * slot,), x.dtype)
    columns = columns_of(layout)
    pack = array("q", pack_words(x, layout, 0, columns, x.shape[1], x.shape[1]))
    correlate = array("q", correlate_words(plan, work, 0, 0, w, bias, out, (1, 1, len(x))))
    words = [
        pack.buffer_info()[0],
        correlate.buffer_info()[0],
        address(slots),
        len(slots),
        address(scratch),
        slot * x.itemsize,
        x.strides[0],
        plan.groups,
    ]
    launch(function(fused.text, fused.name, tile, work.tile), words, len(x))


def packed_filters(plan: Correlation, work: Work, w: np.ndarray) -> np.ndarray:
    rows, size = work.tile.rows, w.itemsize
    blocks = plan.groups * work.blocks
    _, channel, input = plan.filter_steps
    together = BESIDE if channel < input else 1  # read what is near each other
    out = memory.empty((blocks * len(work.taps.values) * rows,), w.dtype)
    words = [
        address(w),
        address(out),
        work.filter_taps.address,
        len(work.filter_taps.values),
        work.blocks,
        blocks,
        together,
        plan.outputs,
        plan.inputs,
        *(k * size for k in plan.filter_steps),
    ]
    tile = Tile(f"i{8 * size}", 1, rows, 1)
    kernel = function(packing.filter_text, packing.filter_name, tile)
    launch(kernel, words, -(-blocks // together))
    return out


def correlate_part(
    plan: Correlation,
    work: Work,
    x: np.ndarray,
    image: int,
    w: np.ndarray,
    bias: np.ndarray,
    out: np.ndarray,
) -> None:
    target = out
    if work.staged:
        target = memory.empty((*out.shape[:2], work.places.plane), out.dtype)
    parts = correlation_parts(plan, work, w.nbytes // plan.groups, len(out))
    words = correlate_words(plan, work, address(x), image, w, bias, target, parts)
    kernel = function(correlation.text, correlation.name, work.tile)
    launch(kernel, words, plan.groups * math.prod(parts))
    if work.staged:
        spread(work, target, out)


def correlate_words(
    plan: Correlation,
    work: Work,
    x: int,
    image: int,
    w: np.ndarray,
    bias: np.ndarray,
    out: np.ndarray,
    parts: Sequence[int],
) -> list[int]:
    group = plan.inputs * plan.packing.plane * out.itemsize
    return [
        x,
        address(w),
        address(bias),
        address(out),
        work.taps.address,
        work.x_places.address,
        work.out_places.address,
        len(work.taps.values),
        work.segment,
        -(-len(work.taps.values) // work.segment),
        work.tiles,
        work.blocks,
        plan.outputs,
        plan.groups,
        len(out),
        work.tiles if group <= plans.FAR else max(1, work.tiles * plans.FAR // (2 * group)),
        *parts,
        image,
        group,
        *out.strides[:2],
    ]


def correlation_parts(plan: Correlation, work: Work, filters: int, images: int) -> list[int]:
    """In how many parts tiles, blocks and images are computed.

    Large filters stay in the cache for a few images.
    """
    image = plan.inputs * plan.packing.plane * work.tile.size
    together = max(1, plans.FAR // (2 * image)) if filters > plans.FAR // 2 else 1
    image_parts = -(-images // together)
    cost = work.cost / plan.groups * images / image_parts
    most = more_parts(plan.groups * image_parts, cost)
    if filters > image:
        blocks = min(work.blocks, most)
        return [min(work.tiles, most // blocks), blocks, image_parts]
    tiles = min(work.tiles, most)
    return [tiles, min(work.blocks, most // tiles), image_parts]


def more_parts(count: int, cost: float) -> int:
    """Into how many parts each of `count` pieces of work is cut so that there are enough."""
    return max(1, min(CHUNKS // count, int(cost / LEAST)))


def spread(work: Work, source: np.ndarray, out: np.ndarray) -> None:
    """A part of the output from where it was computed to its places."""
    part, size, planes = work.part, out.itemsize, math.prod(out.shape[:2])
    spatial = (*(1,) * (5 - out.ndim), *out.shape[2:])
    steps = (spatial[1] * spatial[2] * size, spatial[2] * size, size)
    step = per_chunk(planes, math.prod(part.count))
    words = [
        address(source),
        address(out) + sum(k * s for k, s in zip(part.start, steps, strict=True)),
        planes,
        step,
        work.places.plane * size,
        *(k * size for k in work.places.pitch),
        *part.count,
        math.prod(spatial) * size,
        part.step[0] * steps[0],
        part.step[1] * steps[1],
    ]
    tile = mover(size, part.step[2])
    launch(function(packing.unpack_text, packing.unpack_name, tile), words, -(-planes // step))


def weight_gradient(plan: Weights, x: np.ndarray, g: np.ndarray, w_shape) -> np.ndarray:
    size, tile = x.itemsize, plan.tile
    blocks = plan.groups * plan.blocks
    part = blocks * plan.tap_tiles * tile.rows * tile.columns
    divided = weight_parts(plan, part * size, len(x))
    image_parts = divided[0]
    sums = memory.zeros((image_parts * part,), x.dtype)
    planes = x.shape[1] * plan.packing.plane + g.shape[1] * plan.g_packing.plane
    parts = parts_of(x, planes)
    for start in parts:
        images = slice(start, start + parts.step)
        add_weights(plan, x[images], g[images], sums, divided)
    out = memory.empty(w_shape, x.dtype)
    words = [
        address(sums),
        address(out),
        plan.tap_tiles,
        plan.blocks,
        plan.outputs,
        math.prod(w_shape[1:]),
        image_parts,
        part * size,
    ]
    launch(function(weights.collect_text, weights.collect_name, tile), words, blocks)
    return out


def weight_parts(plan: Weights, sums: int, images: int) -> list[int]:
    """In how many parts images, blocks and tap tiles are computed: images, if sums are small."""
    cost = plan.cost / plan.groups * images
    most = min(images // plan.round, SUMS // sums, more_parts(plan.groups, cost), IMAGE_PARTS)
    image_parts = max(1, most)
    most = more_parts(plan.groups * image_parts, cost / image_parts)
    block_parts = min(plan.blocks, math.isqrt(most))
    return [image_parts, block_parts, min(plan.tap_tiles, most // block_parts)]


def add_weights(plan: Weights, x, g, sums: np.ndarray, parts: list[int]) -> None:
    size = x.itemsize
    count = len(x)
    x, x_image = laid_out(x, plan.packing, plan.packing.is_source and plan.inside, plan.round)
    g, g_image = laid_out(g, plan.g_packing, plan.g_packing.is_source and plan.inside, plan.round)
    words = [
        address(x),
        address(g),
        address(sums),
        plan.taps.address,
        plan.x_places.address,
        plan.g_places.address,
        plan.vectors,
        plan.tail_x_places.address,
        plan.tail_g_places.address,
        plan.tail_lanes.address,
        plan.tails,
        plan.tap_tiles,
        plan.blocks,
        plan.outputs,
        plan.groups,
        count,
        plan.round,
        plan.span,
        *parts,
        x_image,
        plan.inputs * plan.packing.plane * size,
        g_image,
        plan.g_packing.plane * size,
    ]
    kernel = function(weights.text, weights.name, plan.tile)
    launch(kernel, words, plan.groups * math.prod(parts))
