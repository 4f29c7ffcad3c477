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
    first, last = write.part(write["planes_per_chunk"], write["planes"])
    row_bytes = write.product(write["width_length"], tile.size)
    step = write.product(write["width_step"], tile.columns)
    with write.loop(first, last) as plane:
        image, channel = write.divided(plane, write["channels"])
        source = write.moved(write["source_at"], (image, "image_step"), (channel, "channel_step"))
        with each_row(write, plane) as (line, shift, distance, inside):
            zeros, values, column = columns_of(write, shift)
            begin = write.select(inside, "i64", zeros, write["width_length"])
            end = write.select(inside, "i64", values, write["width_length"])
            row = write.offset(write["out_at"], write.product(line, row_bytes))
            clear(write, tile, row, "0", begin)
            start = write.offset(source, distance, write.product(column, write["width_step"]))
            target = write.offset(row, write.product(begin, tile.size))
            count = write.sub(end, begin)
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
    inside = write.compare("ult", place, write[f"{axis}_size"])
    return write.product(place, write[f"{axis}_step"]), inside


def columns_of(write: Writer, shift: str) -> list[str]:
    place = write.offset(write["columns_at"], write.product(shift, 24))
    return [write.load(place, "i64", k) for k in range(3)]


def clear(write: Writer, tile: Tile, row: str, start: str, stop: str) -> None:
    with write.loop(start, stop) as column:
        write.store("0", row, tile.scalar, column)


def each_run(write: Writer, count: str, widest: int, body: Callable[[str, int], None]) -> None:
    """body(index, width) for runs of `widest`, then for what is left in halves, quarters, ..."""
    whole = write.new(f"and i64 {count}, {-widest}")
    with write.loop("0", whole, widest) as index:
        body(index, widest)
    done, width = whole, widest // 2
    while width:
        bit = write.new(f"and i64 {count}, {width}")
        with write.when(write.compare("ne", bit, 0)):
            body(done, width)
        done, width = write.add(done, bit), width // 2


def gather(write: Writer, tile: Tile, source: str, step: str, row: str, count: str) -> None:
    """row[:count] = source[::step], for elements that are neighbours, or all the same, or neither.

    Neighbours are `tile.columns` elements apart.
    """
    kind = tile.scalar
    near, same, far, end = (write.label(hint) for hint in ("near", "same", "far", "gathered"))
    cases = f"i64 {tile.columns * tile.size}, label %{near} i64 0, label %{same}"
    write.line(f"switch i64 {step}, label %{far} [ {cases} ]")

    def repeat(index: str, width: int) -> None:
        write.store(write.splat(kind, one, width), row, kind, index, count=width)

    write.start(near)
    move_runs(write, tile, (source, tile.columns), (row, 1), count)
    write.jump(end)
    write.start(same)
    with write.when(write.compare("sgt", count, 0)):  # a row in the padding has no element to load
        one = write.load(source, kind)
        each_run(write, count, tile.lanes, repeat)
    write.jump(end)
    write.start(far)
    with write.loop("0", count) as index:
        place = write.offset(source, write.product(index, step))
        write.store(write.load(place, kind), row, kind, index)
    write.jump(end)
    write.start(end)


def move_runs(
    write: Writer, tile: Tile, source: tuple[str, int], target: tuple[str, int], count: str
) -> None:
    """Copy elements. Of both sides: where the first is, and how many elements apart they are."""
    (start, step), (out, out_step), kind = source, target, tile.scalar

    def move(index: str, width: int) -> None:
        place = write.at(start, kind, write.product(index, step))
        there = write.at(out, kind, write.product(index, out_step))
        if step == out_step == 1:
            write.store(write.load(place, kind, count=width), there, kind, count=width)
            return
        for k in range(width):
            write.store(write.load(place, kind, k * step), there, kind, k * out_step)

    each_run(write, count, tile.lanes if step == out_step == 1 else 8, move)


# Planes, depths, heights and steps are in bytes.
UNPACK_WORDS = (
    *"source_at out_at planes planes_per_chunk source_plane source_depth source_height".split(),
    *(f"{axis}_count" for axis in AXES),
    *("out_plane", "depth_step", "height_step"),
)


def unpack(tile: Tile) -> Writer:
    """Rows that lie close together, to places that are `tile.columns` elements apart."""
    write = Writer("unpack", UNPACK_WORDS)
    first, last = write.part(write["planes_per_chunk"], write["planes"])
    with (
        write.loop(first, last) as plane,
        write.loop("0", write["depth_count"]) as depth,
        write.loop("0", write["height_count"]) as height,
    ):
        here = (plane, "source_plane"), (depth, "source_depth"), (height, "source_height")
        there = (plane, "out_plane"), (depth, "depth_step"), (height, "height_step")
        source, out = write.moved(write["source_at"], *here), write.moved(write["out_at"], *there)
        move_runs(write, tile, (source, 1), (out, tile.columns), write["width_count"])
    return write


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
    first, last = write.part(write["blocks_per_chunk"], write["all_blocks"])
    final = write.sub(write["channels"], tile.rows)
    line_bytes = tile.rows * tile.size
    lines = write.product(write["inputs"], write["taps"])
    with write.loop("0", write["inputs"]) as channel, write.loop(first, last) as number:
        group, block = write.divided(number, write["blocks"])
        begin = write.minimum(write.product(block, tile.rows), final)
        steps = (group, "group_step"), (begin, "channel_step"), (channel, "input_step")
        source = write.moved(write["source_at"], *steps)
        line = write.add(write.product(number, lines), write.product(channel, write["taps"]))
        out = write.offset(write["out_at"], write.product(line, line_bytes))
        with write.loop("0", write["taps"]) as tap:
            place = write.offset(source, write.entry(write["taps_at"], tap))
            target = write.offset(out, write.product(tap, line_bytes))
            for row in range(tile.rows):
                write.store(write.load(place, tile.scalar), target, tile.scalar, row)
                place = write.offset(place, write["channel_step"])
    return write
