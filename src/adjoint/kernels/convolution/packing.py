"""Copies that make neighbours in memory of what is used together: places, channels of filters.

These kernels only move numbers, so they are written for their size: i32 or i64.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .writer import Tile, Writer

AXES = ("depth", "height", "width")

# Columns: for each shift zeros up to, values up to, the first value's place. Steps are in bytes, in
# the source; its sizes; where the packed plane begins in it; lengths are those of the packed plane.
PACK_WORDS = (
    *"source_at out_at columns_at planes planes_per_chunk channels image_step channel_step".split(),
    *(f"{axis}_{what}" for what in ("step", "size") for axis in AXES),
    *(f"{axis}_{what}" for what in ("origin", "stride", "phases") for axis in AXES[:2]),
    *("shifts", *(f"{axis}_length" for axis in AXES)),
)


def pack(tile: Tile) -> Writer:
    """Planes as `geometry.Packing` lays them out. The stride of the width is `tile.columns`."""
    write = Writer("pack", PACK_WORDS)
    first, last = write.chunk(write["planes_per_chunk"], write["planes"])
    row_bytes = write.product(write["width_length"], tile.size)
    step = write.product(write["width_step"], tile.columns)
    with write.loop(first, last) as plane:
        image, channel = write.split(plane, write["channels"])
        source = write.offset(
            write["source_at"],
            write.product(image, write["image_step"]),
            write.product(channel, write["channel_step"]),
        )
        with each_row(write, plane) as (line, shift, distance, inside):
            zeros, values, column = columns_of(write, shift)
            begin = write.new(f"select i1 {inside}, i64 {zeros}, i64 {write['width_length']}")
            end = write.new(f"select i1 {inside}, i64 {values}, i64 {write['width_length']}")
            row = write.offset(write["out_at"], write.product(line, row_bytes))
            clear(write, tile, row, "0", begin)
            start = write.offset(source, distance, write.product(column, write["width_step"]))
            target = write.offset(row, write.product(begin, tile.size))
            count = write.new(f"sub i64 {end}, {begin}")
            gather(write, tile, start, step, target, count)
            clear(write, tile, row, end, write["width_length"])
    return write


@contextmanager
def each_row(write: Writer, plane: str) -> Iterator[tuple[str, str, str, str]]:
    """The rows of a packed plane: number, shift, bytes to it in the source, whether it is there."""
    with (
        write.loop("0", write["depth_phases"]) as depth_phase,
        write.loop("0", write["height_phases"]) as height_phase,
        write.loop("0", write["shifts"]) as shift,
    ):
        line = plane
        for size, index in (
            ("depth_phases", depth_phase),
            ("height_phases", height_phase),
            ("shifts", shift),
        ):
            line = write.add(write.product(line, write[size]), index)
        with write.loop("0", write["depth_length"]) as depth:
            deep, is_deep = source_place(write, "depth", depth_phase, depth)
            lines = write.add(write.product(line, write["depth_length"]), depth)
            lines = write.product(lines, write["height_length"])
            with write.loop("0", write["height_length"]) as height:
                high, is_high = source_place(write, "height", height_phase, height)
                inside = write.new(f"and i1 {is_deep}, {is_high}")
                yield write.add(lines, height), shift, write.add(deep, high), inside


def source_place(write: Writer, axis: str, phase: str, index: str) -> tuple[str, str]:
    """Bytes to a place along an axis of the source, and whether it is there at all."""
    place = write.add(write.product(index, write[f"{axis}_stride"]), phase)
    place = write.add(place, write[f"{axis}_origin"])
    inside = write.new(f"icmp ult i64 {place}, {write[f'{axis}_size']}")
    return write.product(place, write[f"{axis}_step"]), inside


def columns_of(write: Writer, shift: str) -> list[str]:
    place = write.offset(write["columns_at"], write.product(shift, 24))
    return [write.load("i64", write.offset(place, str(8 * k)), 8) for k in range(3)]


def clear(write: Writer, tile: Tile, row: str, start: str, stop: str) -> None:
    with write.loop(start, stop) as column:
        place = write.offset(row, write.product(column, tile.size))
        write.store(tile.scalar, "0", place, tile.size)


def each_run(write: Writer, count: str, widest: int, body: Callable[[str, int], None]) -> None:
    """body(index, width) for runs of `widest`, then for what is left in halves, quarters, ..."""
    whole = write.new(f"and i64 {count}, {-widest}")
    with write.loop("0", whole, str(widest)) as index:
        body(index, widest)
    done, width = whole, widest // 2
    while width:
        some, after = write.label("some"), write.label("after")
        bit = write.new(f"and i64 {count}, {width}")
        write.branch(write.new(f"icmp ne i64 {bit}, 0"), some, after)
        write.start(some)
        body(done, width)
        write.jump(after)
        write.start(after)
        done, width = write.add(done, bit), width // 2


def gather(write: Writer, tile: Tile, source: str, step: str, row: str, count: str) -> None:
    """row[:count] = source[::step], for elements that are neighbours, or all the same, or neither.

    Neighbours are `tile.columns` elements apart.
    """
    size = tile.size
    near, same, far, end = (write.label(hint) for hint in ("near", "same", "far", "gathered"))
    cases = f"i64 {tile.columns * size}, label %{near} i64 0, label %{same}"
    write.line(f"switch i64 {step}, label %{far} [ {cases} ]")

    def move(index: str, width: int) -> None:
        place = write.offset(source, write.product(index, tile.columns * size))
        target = write.offset(row, write.product(index, size))
        if tile.columns == 1:
            type = f"<{width} x {tile.scalar}>"
            write.store(type, write.load(type, place, size), target, size)
            return
        for k in range(width):
            one = write.load(tile.scalar, write.offset(place, str(k * tile.columns * size)), size)
            write.store(tile.scalar, one, write.offset(target, str(k * size)), size)

    def repeat(index: str, width: int) -> None:
        type = f"<{width} x {tile.scalar}>"
        part = f"<{width} x i32> zeroinitializer"
        value = write.new(f"shufflevector {tile.vector} {splat}, {tile.vector} poison, {part}")
        write.store(type, value, write.offset(row, write.product(index, size)), size)

    write.start(near)
    each_run(write, count, tile.lanes if tile.columns == 1 else 8, move)
    write.jump(end)
    write.start(same)
    some = write.label("some")
    write.branch(write.new(f"icmp sgt i64 {count}, 0"), some, end)
    write.start(some)  # a row in the padding has no element to load
    splat = write.splat(tile, write.load(tile.scalar, source, size))
    each_run(write, count, tile.lanes, repeat)
    write.jump(end)
    write.start(far)
    with write.loop("0", count) as index:
        one = write.load(tile.scalar, write.offset(source, write.product(index, step)), size)
        write.store(tile.scalar, one, write.offset(row, write.product(index, size)), size)
    write.jump(end)
    write.start(end)


# Planes, depths, heights and steps are in bytes.
UNPACK_WORDS = (
    *"source_at out_at planes planes_per_chunk source_plane source_depth source_height".split(),
    *(f"{axis}_count" for axis in AXES),
    *("out_plane", "depth_step", "height_step"),
)


def unpack(tile: Tile) -> Writer:
    """Rows that lie close together, to places that are `tile.columns` elements apart."""
    write = Writer("unpack", UNPACK_WORDS)
    first, last = write.chunk(write["planes_per_chunk"], write["planes"])
    with (
        write.loop(first, last) as plane,
        write.loop("0", write["depth_count"]) as depth,
        write.loop("0", write["height_count"]) as height,
    ):
        source = write.offset(
            write["source_at"],
            write.product(plane, write["source_plane"]),
            write.product(depth, write["source_depth"]),
            write.product(height, write["source_height"]),
        )
        out = write.offset(
            write["out_at"],
            write.product(plane, write["out_plane"]),
            write.product(depth, write["depth_step"]),
            write.product(height, write["height_step"]),
        )
        scatter(write, tile, source, out, write["width_count"])
    return write


def scatter(write: Writer, tile: Tile, source: str, out: str, count: str) -> None:
    """out[::tile.columns] = source[:count]"""
    size = tile.size

    def move(index: str, width: int) -> None:
        place = write.offset(source, write.product(index, size))
        target = write.offset(out, write.product(index, tile.columns * size))
        if tile.columns == 1:
            type = f"<{width} x {tile.scalar}>"
            write.store(type, write.load(type, place, size), target, size)
            return
        for k in range(width):
            one = write.load(tile.scalar, write.offset(place, str(k * size)), size)
            there = write.offset(target, str(k * tile.columns * size))
            write.store(tile.scalar, one, there, size)

    each_run(write, count, tile.lanes if tile.columns == 1 else 8, move)


# Taps: bytes to each place in the filter. Blocks are those of a group; inputs are channels that are
# summed over; steps are in bytes.
FILTER_WORDS = """
    source_at out_at taps_at taps blocks all_blocks blocks_per_chunk channels inputs
    group_step channel_step input_step
""".split()


def filters(tile: Tile) -> Writer:
    """Filters as [group, block, input channel, tap, channel in the block].

    A block has `tile.rows` channels. A chunk is a few blocks, side by side.
    """
    write = Writer("filters", FILTER_WORDS)
    first, last = write.chunk(write["blocks_per_chunk"], write["all_blocks"])
    final = write.new(f"sub i64 {write['channels']}, {tile.rows}")
    line_bytes = tile.rows * tile.size
    lines = write.product(write["inputs"], write["taps"])
    with write.loop("0", write["inputs"]) as channel, write.loop(first, last) as number:
        group, block = write.split(number, write["blocks"])
        begin = write.minimum(write.product(block, tile.rows), final)
        source = write.offset(
            write["source_at"],
            write.product(group, write["group_step"]),
            write.product(begin, write["channel_step"]),
            write.product(channel, write["input_step"]),
        )
        line = write.add(write.product(number, lines), write.product(channel, write["taps"]))
        out = write.offset(write["out_at"], write.product(line, line_bytes))
        with write.loop("0", write["taps"]) as tap:
            place = write.offset(source, write.entry(write["taps_at"], tap))
            target = write.offset(out, write.product(tap, line_bytes))
            for row in range(tile.rows):
                one = write.load(tile.scalar, place, tile.size)
                write.store(tile.scalar, one, write.offset(target, str(row * tile.size)), tile.size)
                place = write.offset(place, write["channel_step"])
    return write
