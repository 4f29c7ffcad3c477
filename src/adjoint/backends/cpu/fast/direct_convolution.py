"""Direct convolution kernels, launched: what is packed where, and how work is cut into chunks."""

import functools
import math
from array import array
from collections.abc import Sequence

import numpy as np

from ....kernels.convolution import correlation, fused, packing, tilings, weights
from ....kernels.convolution.geometry import Packing
from ....kernels.convolution.tilings import Correlation, Machine, WeightGradient, Work
from ....kernels.convolution.writer import Tile
from ..jit import compiler, memory, threads
from ..jit.addresses import address
from ..jit.availability import available
from .machine_code import run_kernel

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
    run_kernel(function(packing.pack_text, packing.pack_name, tile), words, -(-planes // step))
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


def correlate(tiling: Correlation, x: np.ndarray, w: np.ndarray, bias: np.ndarray | None):
    out = memory.empty((len(x), *tiling.out_shape), x.dtype)
    w = np.ascontiguousarray(w)
    if bias is None:
        bias = np.zeros(tiling.out_shape[0], x.dtype)
    bias = np.ascontiguousarray(bias, x.dtype)
    filters = [packed_filters(tiling, work, w) for work in tiling.works]
    if len(x) >= FUSED_IMAGES and not (tiling.in_place or tiling.works[0].staged):
        correlate_images(tiling, x, filters[0], bias, out)
        return out
    parts = parts_of(x, x.shape[1] * tiling.packing.plane)
    for start in parts:
        images = slice(start, start + parts.step)
        source, image = laid_out(x[images], tiling.packing, tiling.in_place)
        for work, filter in zip(tiling.works, filters, strict=True):
            correlate_part(tiling, work, source, image, filter, bias, out[images])
    return out


def correlate_images(
    tiling: Correlation, x: np.ndarray, w: np.ndarray, bias: np.ndarray, out: np.ndarray
) -> None:
    """One image after the other on each core."""
    (work,), layout = tiling.works, tiling.packing
    tile = mover(x.itemsize, layout.stride[2])
    slots = np.zeros(min(threads.get_num_threads(), len(x)), np.int64)
    slot = x.shape[1] * layout.plane + tile.lanes
    scratch = memory.empty((len(slots) * slot,), x.dtype)
    columns = columns_of(layout)
    pack = array("q", pack_words(x, layout, 0, columns, x.shape[1], x.shape[1]))
    correlate = array("q", correlate_words(tiling, work, 0, 0, w, bias, out, (1, 1, len(x))))
    words = [
        pack.buffer_info()[0],
        correlate.buffer_info()[0],
        address(slots),
        len(slots),
        address(scratch),
        slot * x.itemsize,
        x.strides[0],
        tiling.groups,
    ]
    run_kernel(function(fused.text, fused.name, tile, work.tile), words, len(x))


def packed_filters(tiling: Correlation, work: Work, w: np.ndarray) -> np.ndarray:
    rows, size = work.tile.rows, w.itemsize
    blocks = tiling.groups * work.blocks
    _, channel, input = tiling.filter_steps
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
        tiling.outputs,
        tiling.inputs,
        *(k * size for k in tiling.filter_steps),
    ]
    tile = Tile(f"i{8 * size}", 1, rows, 1)
    kernel = function(packing.filter_text, packing.filter_name, tile)
    run_kernel(kernel, words, -(-blocks // together))
    return out


def correlate_part(
    tiling: Correlation,
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
    parts = correlation_parts(tiling, work, w.nbytes // tiling.groups, len(out))
    words = correlate_words(tiling, work, address(x), image, w, bias, target, parts)
    kernel = function(correlation.text, correlation.name, work.tile)
    run_kernel(kernel, words, tiling.groups * math.prod(parts))
    if work.staged:
        spread(work, target, out)


def correlate_words(
    tiling: Correlation,
    work: Work,
    x: int,
    image: int,
    w: np.ndarray,
    bias: np.ndarray,
    out: np.ndarray,
    parts: Sequence[int],
) -> list[int]:
    group = tiling.inputs * tiling.packing.plane * out.itemsize
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
        tiling.outputs,
        tiling.groups,
        len(out),
        work.tiles if group <= tilings.FAR else max(1, work.tiles * tilings.FAR // (2 * group)),
        *parts,
        image,
        group,
        *out.strides[:2],
    ]


def correlation_parts(tiling: Correlation, work: Work, filters: int, images: int) -> list[int]:
    """In how many parts tiles, blocks and images are computed.

    Large filters stay in the cache for a few images.
    """
    image = tiling.inputs * tiling.packing.plane * work.tile.size
    together = max(1, tilings.FAR // (2 * image)) if filters > tilings.FAR // 2 else 1
    image_parts = -(-images // together)
    cost = work.cost / tiling.groups * images / image_parts
    most = more_parts(tiling.groups * image_parts, cost)
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
    run_kernel(function(packing.unpack_text, packing.unpack_name, tile), words, -(-planes // step))


def weight_gradient(tiling: WeightGradient, x: np.ndarray, g: np.ndarray, w_shape) -> np.ndarray:
    size, tile = x.itemsize, tiling.tile
    blocks = tiling.groups * tiling.blocks
    part = blocks * tiling.tap_tiles * tile.rows * tile.columns
    divided = weight_parts(tiling, part * size, len(x))
    image_parts = divided[0]
    sums = memory.zeros((image_parts * part,), x.dtype)
    planes = x.shape[1] * tiling.packing.plane + g.shape[1] * tiling.g_packing.plane
    parts = parts_of(x, planes)
    for start in parts:
        images = slice(start, start + parts.step)
        add_weights(tiling, x[images], g[images], sums, divided)
    out = memory.empty(w_shape, x.dtype)
    words = [
        address(sums),
        address(out),
        tiling.tap_tiles,
        tiling.blocks,
        tiling.outputs,
        math.prod(w_shape[1:]),
        image_parts,
        part * size,
    ]
    run_kernel(function(weights.collect_text, weights.collect_name, tile), words, blocks)
    return out


def weight_parts(tiling: WeightGradient, sums: int, images: int) -> list[int]:
    """In how many parts images, blocks and tap tiles are computed: images, if sums are small."""
    cost = tiling.cost / tiling.groups * images
    most = min(images // tiling.round, SUMS // sums, more_parts(tiling.groups, cost), IMAGE_PARTS)
    image_parts = max(1, most)
    most = more_parts(tiling.groups * image_parts, cost / image_parts)
    block_parts = min(tiling.blocks, math.isqrt(most))
    return [image_parts, block_parts, min(tiling.tap_tiles, most // block_parts)]


def add_weights(tiling: WeightGradient, x, g, sums: np.ndarray, parts: list[int]) -> None:
    size = x.itemsize
    count = len(x)
    inside, round = tiling.inside, tiling.round
    x, x_image = laid_out(x, tiling.packing, tiling.packing.is_source and inside, round)
    g, g_image = laid_out(g, tiling.g_packing, tiling.g_packing.is_source and inside, round)
    words = [
        address(x),
        address(g),
        address(sums),
        tiling.taps.address,
        tiling.x_places.address,
        tiling.g_places.address,
        tiling.vectors,
        tiling.tail_x_places.address,
        tiling.tail_g_places.address,
        tiling.tail_lanes.address,
        tiling.tails,
        tiling.tap_tiles,
        tiling.blocks,
        tiling.outputs,
        tiling.groups,
        count,
        tiling.round,
        tiling.span,
        *parts,
        x_image,
        tiling.inputs * tiling.packing.plane * size,
        g_image,
        tiling.g_packing.plane * size,
    ]
    kernel = function(weights.text, weights.name, tiling.tile)
    run_kernel(kernel, words, tiling.groups * math.prod(parts))
