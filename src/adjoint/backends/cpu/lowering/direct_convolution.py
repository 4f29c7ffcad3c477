"""Launches of direct convolution kernels: what is packed where, and how work is cut into chunks."""

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ....kernels.convolution import correlation, fused, packing, tilings, weights
from ....kernels.convolution.geometry import Packing
from ....kernels.convolution.tilings import Correlation, WeightGradient, Work
from ....kernels.convolution.writer import Tile
from ...launches import View
from ...spaces import Ints
from .maps import as_contiguous, copy
from .native import NativeLowering, Words, kernel_of

SCRATCH = 1 << 25  # bytes that packed images may take
SUMS = 1 << 22  # bytes that sums of parts of the images may take
IMAGE_PARTS = 16
CHUNKS = 64  # enough to keep many cores equally busy
FUSED_IMAGES = 16  # enough images to keep the cores equally busy
LEAST = 40_000  # what a chunk costs at least, in multiplications of vectors: about 8 µs
BESIDE = 8  # blocks of filters that are packed at the same time
INT64 = np.dtype(np.int64)


def per_chunk(planes: int, elements: int) -> int:
    """How many planes a chunk moves."""
    return max(1, min(-(-planes // CHUNKS), LEAST // max(elements, 1)))


def mover(tile: Tile, stride: int) -> Tile:
    """The tile of a kernel that moves numbers, as vectors of the same length."""
    return Tile(f"i{8 * tile.size}", tile.lanes, 1, stride)


def images_of(x: View, start: int, count: int) -> View:
    """Some of a batch."""
    return x.view((count, *x.shape[1:]), x.strides, start * x.strides[0])


@functools.lru_cache(1024)
def columns_of(layout: Packing) -> np.ndarray:
    return layout.columns()


def pack_words(x: View, layout: Packing, planes: int, step: int) -> dict[str, Any]:
    """The words of a kernel that packs, but for its addresses."""
    steps = [*[0] * (5 - x.ndim), *x.strides[2:]]
    words: Words = dict(columns_at=columns_of(layout), planes=planes, planes_per_chunk=step)
    words |= dict(channels=x.shape[1], image_step=x.strides[0], channel_step=x.strides[1])
    words |= by_axis("step", steps) | by_axis("size", layout.source)
    words |= by_axis("origin", layout.origin) | by_axis("stride", layout.stride[:2])
    words |= by_axis("phases", layout.phases) | by_axis("length", layout.length)
    return words | dict(shifts=len(layout.shifts))


def by_axis(what: str, numbers: Sequence[int]) -> Words:
    """Words of the first axes, or of all."""
    return {f"{axis}_{what}": n for axis, n in zip(packing.AXES, numbers, strict=False)}


class Source:
    """Images as kernels read them: where they are, or packed; a part of the batch at a time.

    `image`: bytes from image to image. Of images that are all the same, one round is enough, and it
    is zero bytes to the next one.
    """

    def __init__(
        self,
        to: NativeLowering,
        x: View,
        layout: Packing,
        tile: Tile,
        in_place: bool,
        count: int,
        round: int = 1,
    ) -> None:
        self.to, self.x, self.layout, self.mover = to, x, layout, mover(tile, layout.stride[2])
        self.image = x.shape[1] * layout.plane * x.itemsize
        self.most = count
        if not x.strides[0]:
            self.image, self.most = 0, round
        self.memory: View | None = None
        if not in_place:
            planes = self.most * x.shape[1]
            self.memory = to.temporary((planes * layout.plane + self.mover.lanes,), x.dtype)
        elif not (x.aligned and to.is_contiguous(images_of(x, 0, self.most))):
            self.memory = to.temporary((self.most, *x.shape[1:]), x.dtype)
        self.in_place = in_place

    def part(self, start: int, count: int) -> View:
        """Have some of the images where kernels read them."""
        count = min(count, self.most)
        x, to = images_of(self.x, start, count), self.to
        if self.memory is None:
            return x
        if self.in_place:
            out = images_of(self.memory, 0, count)
            copy(to, x, out)
            return out
        planes = count * x.shape[1]
        step = per_chunk(planes, self.layout.plane)
        words = pack_words(x, self.layout, planes, step) | dict(source_at=x, out_at=self.memory)
        to.launch(kernel_of(packing.pack, self.mover), -(-planes // step), words)
        return self.memory


def parts_of(x: View, elements: int) -> Iterator[tuple[int, int]]:
    """Where parts of a batch start, and how many images they have: `images_at_once`, at most."""
    most = images_at_once(x, elements)
    for start in range(0, x.shape[0], most):
        yield start, min(most, x.shape[0] - start)


def images_at_once(x: View, elements: int) -> int:
    return min(x.shape[0], max(1, SCRATCH // (elements * x.itemsize)))


def correlate(
    to: NativeLowering, tiling: Correlation, x: View, w: View, bias: View | None, out: View
) -> None:
    w = as_contiguous(to, w)
    if bias is None:
        bias = to.temporary((tiling.out_shape[0],), x.dtype, zeroed=True)
    bias = as_contiguous(to, bias, x.dtype)
    filters = [packed_filters(to, tiling, work, w) for work in tiling.works]
    if x.shape[0] >= FUSED_IMAGES and not (tiling.in_place or tiling.works[0].staged):
        correlate_images(to, tiling, x, filters[0], bias, out)
        return
    elements = x.shape[1] * tiling.packing.plane
    most, tile = images_at_once(x, elements), tiling.works[0].tile
    source = Source(to, x, tiling.packing, tile, tiling.in_place, most)
    planes = [work.places.plane for work in tiling.works if work.staged]
    stage = None
    if planes:
        stage = to.temporary((most * out.shape[1] * max(planes),), out.dtype)
    for start, count in parts_of(x, elements):
        images, part = source.part(start, count), images_of(out, start, count)
        for work, filter in zip(tiling.works, filters, strict=True):
            correlate_part(to, tiling, work, images, source.image, filter, bias, part, stage)


def correlate_images(
    to: NativeLowering, tiling: Correlation, x: View, w: View, bias: View, out: View
) -> None:
    """One image after the other on each core."""
    (work,), layout, (count, channels) = tiling.works, tiling.packing, x.shape[:2]
    moving = mover(work.tile, layout.stride[2])
    slots = to.temporary((min(to.target.threads, count),), INT64, zeroed=True)
    slot = channels * layout.plane + moving.lanes
    scratch = to.temporary((slots.size * slot,), x.dtype)
    words: Words = dict(slots_at=slots, slots=slots.size, scratch_at=scratch)
    words |= dict(slot_bytes=slot * x.itemsize, image_step=x.strides[0], groups=tiling.groups)
    pack = pack_words(x, layout, channels, channels) | dict(source_at=x)
    words |= {f"pack_{name}": word for name, word in pack.items()}
    correlate = correlate_words(tiling, work, 0, out, (1, 1, count))
    correlate |= dict(w_at=w, bias_at=bias, out_at=out)
    words |= {f"correlate_{name}": word for name, word in correlate.items()}
    to.launch(kernel_of(fused.correlate_images, moving, work.tile), count, words)


def packed_filters(to: NativeLowering, tiling: Correlation, work: Work, w: View) -> View:
    rows, size = work.tile.rows, w.itemsize
    blocks = tiling.groups * work.blocks
    group, channel, input = tiling.filter_steps
    together = BESIDE if channel < input else 1  # read what is near each other
    out = to.temporary((blocks * len(work.taps) * rows,), w.dtype)
    words: Words = dict(source_at=w, out_at=out, taps_at=work.filter_taps)
    words |= dict(taps=len(work.filter_taps), blocks=work.blocks, all_blocks=blocks)
    words |= dict(blocks_per_chunk=together, channels=tiling.outputs, inputs=tiling.inputs)
    words |= dict(group_step=group * size, channel_step=channel * size, input_step=input * size)
    kernel = kernel_of(packing.filters, Tile(f"i{8 * size}", 1, rows, 1))
    to.launch(kernel, -(-blocks // together), words)
    return out


def correlate_part(
    to: NativeLowering,
    tiling: Correlation,
    work: Work,
    x: View,
    image: int,
    w: View,
    bias: View,
    out: View,
    stage: View | None,
) -> None:
    target = out
    if work.staged and stage is not None:
        plane = work.places.plane
        steps = (out.shape[1] * plane * out.itemsize, plane * out.itemsize, out.itemsize)
        target = stage.view((*out.shape[:2], plane), steps)
    parts = correlation_parts(tiling, work, w.nbytes // tiling.groups, out.shape[0])
    words = correlate_words(tiling, work, image, target, parts)
    words |= dict(x_at=x, w_at=w, bias_at=bias, out_at=target)
    chunks = tiling.groups * math.prod(parts)
    to.launch(kernel_of(correlation.correlate, work.tile), chunks, words)
    if work.staged:
        spread(to, work, target, out)


def correlate_words(
    tiling: Correlation, work: Work, image: int, out: View, parts: Sequence[int]
) -> dict[str, Any]:
    """The words of a kernel that correlates, but for its addresses."""
    group = tiling.inputs * tiling.packing.plane * out.itemsize
    tile_parts, block_parts, image_parts = parts
    near = group <= tilings.FAR
    span = work.tiles if near else max(1, work.tiles * tilings.FAR // (2 * group))
    words: Words = dict(taps_at=work.taps, x_places_at=work.x_places, out_places_at=work.out_places)
    words |= dict(taps=len(work.taps), segment=work.segment)
    words |= dict(segments=-(-len(work.taps) // work.segment), tiles=work.tiles, tile_span=span)
    words |= dict(blocks=work.blocks, channels=tiling.outputs, groups=tiling.groups)
    words |= dict(tile_parts=tile_parts, block_parts=block_parts, image_parts=image_parts)
    words |= dict(images=out.shape[0], x_image=image, x_group=group)
    return words | dict(out_image=out.strides[0], out_channel=out.strides[1])


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


def spread(to: NativeLowering, work: Work, source: View, out: View) -> None:
    """A part of the output from where it was computed to its places."""
    part, size, planes = work.part, out.itemsize, math.prod(out.shape[:2])
    spatial = (*(1,) * (5 - out.ndim), *out.shape[2:])
    steps = (spatial[1] * spatial[2] * size, spatial[2] * size, size)
    step = per_chunk(planes, math.prod(part.count))
    begin = sum(k * s for k, s in zip(part.start, steps, strict=True))
    words: Words = dict(source_at=source, out_at=out.view(out.shape, out.strides, begin))
    words |= dict(planes=planes, planes_per_chunk=step, source_plane=work.places.plane * size)
    words |= dict(source_depth=work.places.pitch[0] * size)
    words |= dict(source_height=work.places.pitch[1] * size, out_plane=math.prod(spatial) * size)
    words |= dict(depth_step=part.step[0] * steps[0], height_step=part.step[1] * steps[1])
    kernel = kernel_of(packing.unpack, mover(work.tile, part.step[2]))
    to.launch(kernel, -(-planes // step), words | by_axis("count", part.count))


def weight_gradient(
    to: NativeLowering, tiling: WeightGradient, x: View, g: View, out: View
) -> None:
    tile, count = tiling.tile, x.shape[0]
    blocks = tiling.groups * tiling.blocks
    part = blocks * tiling.tap_tiles * tile.rows * tile.columns
    divided = weight_parts(tiling, part * x.itemsize, count)
    sums = to.temporary((divided[0] * part,), x.dtype, zeroed=True)
    planes = x.shape[1] * tiling.packing.plane + g.shape[1] * tiling.g_packing.plane
    most = images_at_once(x, planes)
    sources = [
        Source(to, one, layout, tile, layout.is_source and tiling.inside, most, tiling.round)
        for one, layout in ((x, tiling.packing), (g, tiling.g_packing))
    ]
    for start, images in parts_of(x, planes):
        add_weights(to, tiling, sources, start, images, sums, divided)
    words: Words = dict(sums_at=sums, out_at=out, tap_tiles=tiling.tap_tiles, blocks=tiling.blocks)
    words |= dict(channels=tiling.outputs, taps=math.prod(out.shape[1:]), image_parts=divided[0])
    words |= dict(part_bytes=part * x.itemsize)
    to.launch(kernel_of(weights.collect, tile), blocks, words)


def weight_parts(tiling: WeightGradient, sums: int, images: int) -> Ints:
    """In how many parts images, blocks and tap tiles are computed: images, if sums are small."""
    cost = tiling.cost / tiling.groups * images
    most = min(images // tiling.round, SUMS // sums, more_parts(tiling.groups, cost), IMAGE_PARTS)
    image_parts = max(1, most)
    most = more_parts(tiling.groups * image_parts, cost / image_parts)
    block_parts = min(tiling.blocks, math.isqrt(most))
    return image_parts, block_parts, min(tiling.tap_tiles, most // block_parts)


def add_weights(
    to: NativeLowering,
    tiling: WeightGradient,
    sources: Sequence[Source],
    start: int,
    images: int,
    sums: View,
    parts: Ints,
) -> None:
    x, g = (source.part(start, images) for source in sources)
    image_parts, block_parts, tap_parts = parts
    words: Words = dict(x_at=x, g_at=g, out_at=sums, taps_at=tiling.taps)
    words |= dict(x_places_at=tiling.x_places, g_places_at=tiling.g_places, vectors=tiling.vectors)
    words |= dict(tail_x_places_at=tiling.tail_x_places, tail_g_places_at=tiling.tail_g_places)
    words |= dict(tail_lanes_at=tiling.tail_lanes, tails=tiling.tails, tap_tiles=tiling.tap_tiles)
    words |= dict(blocks=tiling.blocks, channels=tiling.outputs, groups=tiling.groups)
    words |= dict(images=images, round=tiling.round, span=tiling.span, image_parts=image_parts)
    words |= dict(block_parts=block_parts, tap_parts=tap_parts, x_image=sources[0].image)
    words |= dict(x_group=tiling.inputs * tiling.packing.plane * x.itemsize)
    words |= dict(g_image=sources[1].image, g_channel=tiling.g_packing.plane * x.itemsize)
    chunks = tiling.groups * math.prod(parts)
    to.launch(kernel_of(weights.add_weights, tiling.tile), chunks, words)
