"""The weight gradient: out[channel, tap] = sum over places of g[channel, place] x[place, tap].

A tile is `rows` channels times `columns` taps; the lanes of its vectors are places, and are added
up after a span of so many vectors that their g stays in the nearest cache. The tables give the
distances in bytes of each vector of a round of images in x and in g, and which of its lanes count.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from ..text import vector_of
from .writer import Tile, Writer

# Vectors and tails (of which some lanes count) are those of an image; channels those of a group; a
# round is so many images, a span so many vectors; steps are in bytes.
WORDS = """
    x_at g_at out_at taps_at x_places_at g_places_at vectors
    tail_x_places_at tail_g_places_at tail_lanes_at tails tap_tiles blocks channels groups images
    round span image_parts block_parts tap_parts x_image x_group g_image g_channel
""".split()


def add_weights(tile: Tile) -> Writer:
    """A chunk is a part of the images, a group, a part of the blocks and a part of the tap tiles.

    It adds to out, which is [part of the images, group, block, tile of taps, channel, tap]. The
    last block begins early enough to be full.
    """
    write = Writer("add_weights", WORDS)
    rest, tap_part = write.divided("%chunk", write["tap_parts"])
    rest, block_part = write.divided(rest, write["block_parts"])
    image_part, group = write.divided(rest, write["groups"])
    first_image, last_image = write.share(write["images"], image_part, write["image_parts"])
    first_block, last_block = write.share(write["blocks"], block_part, write["block_parts"])
    first_tile, last_tile = write.share(write["tap_tiles"], tap_part, write["tap_parts"])
    final = write.sub(write["channels"], tile.rows)
    group_channel = write.product(group, write["channels"])
    g_group = write.moved(write["g_at"], (group_channel, "g_channel"))
    x_group = write.moved(write["x_at"], (group, "x_group"))
    all_blocks = write.product(rest, write["blocks"])
    with write.loop(first_image, last_image, write["round"]) as image:
        left = write.sub(last_image, image)
        images = write.minimum(left, write["round"])
        x = write.moved(x_group, (image, "x_image"))
        g = write.moved(g_group, (image, "g_image"))
        with (
            each_span(write, images) as (begun, count, tails),
            write.loop(first_block, last_block) as block,
        ):
            begin = write.minimum(write.product(block, tile.rows), final)
            rows = write.moved(g, (begin, "g_channel"))
            first = write.product(write.add(all_blocks, block), write["tap_tiles"])
            with write.loop(first_tile, last_tile) as taps:
                first_tap = write.product(taps, tile.columns)
                sums = one_tile(write, tile, x, rows, first_tap, begun, count, tails)
                place = write.product(write.add(first, taps), tile.rows * tile.columns * tile.size)
                add_to(write, tile, sums, write.offset(write["out_at"], place))
    return write


@contextmanager
def each_span(write: Writer, images: str) -> Iterator[tuple[str, str, str]]:
    """Where a span begins, how many vectors it has, and how many tails, which the last one has."""
    vectors = write.product(images, write["vectors"])
    tails = write.product(images, write["tails"])
    none = write.compare("eq", vectors, 0)
    with write.loop("0", write.select(none, "i64", 1, vectors), write["span"]) as at:
        left = write.sub(vectors, at)
        is_last = write.compare("sle", left, write["span"])
        yield at, write.minimum(left, write["span"]), write.select(is_last, "i64", tails, 0)


def one_tile(
    write: Writer, tile: Tile, x: str, g: str, first: str, begun: str, count: str, tails: str
) -> list[str]:
    numbers = [write.add(first, column) for column in range(tile.columns)]
    sources = [write.offset(x, write.entry(write["taps_at"], k)) for k in numbers]
    rows = [g]
    for _ in range(1, tile.rows):
        rows.append(write.offset(rows[-1], write["g_channel"]))
    skipped = write.product(begun, 4)
    x_places = write.offset(write["x_places_at"], skipped)
    g_places = write.offset(write["g_places_at"], skipped)

    def add(x_place: str, g_place: str, lanes: str, sums: list[str]) -> list[str]:
        xs = [loaded(write, tile, write.offset(s, x_place), lanes) for s in sources]
        gs = [loaded(write, tile, write.offset(s, g_place), lanes) for s in rows]
        pairs = [(g, x) for g in gs for x in xs]
        return [
            write.fma(tile.scalar, tile.lanes, g, x, total)
            for (g, x), total in zip(pairs, sums, strict=True)
        ]

    def whole(index: str, sums: list[str]) -> list[str]:
        return add(write.entry(x_places, index), write.entry(g_places, index), "", sums)

    def tail(index: str, sums: list[str]) -> list[str]:
        names = ("tail_x_places_at", "tail_g_places_at", "tail_lanes_at")
        x_place, g_place, lanes = (write.entry(write[name], index) for name in names)
        return add(x_place, g_place, lanes, sums)

    start = ["zeroinitializer"] * (tile.rows * tile.columns)
    sums = write.repeated(count, tile.vector, start, whole)
    return write.repeated(tails, tile.vector, sums, tail)


def loaded(write: Writer, tile: Tile, place: str, lanes: str) -> str:
    """A vector, with zeros in the lanes that don't count: infinity there must not become NaN."""
    value = write.load(place, tile.scalar, count=tile.lanes)
    if not lanes:
        return value
    bits = write.new(f"trunc i64 {lanes} to i{tile.lanes}")
    mask = write.new(f"bitcast i{tile.lanes} {bits} to <{tile.lanes} x i1>")
    return write.new(
        f"select <{tile.lanes} x i1> {mask}, {tile.vector} {value}, {tile.vector} zeroinitializer"
    )


def add_to(write: Writer, tile: Tile, sums: list[str], out: str) -> None:
    """out += the sums of all lanes of each vector."""
    for start in range(0, len(sums), tile.lanes):
        group = sums[start : start + tile.lanes]
        total = lane_sums(write, tile, group)
        count, short = len(group), f"<{len(group)} x {tile.scalar}>"
        if count < tile.lanes:
            total = write.shuffle(tile.vector, total, "poison", range(count))
        before = write.load(out, tile.scalar, start, count=count)
        total = write.new(f"fadd {short} {before}, {total}")
        write.store(total, out, tile.scalar, start, count)


def lane_sums(write: Writer, tile: Tile, vectors: list[str]) -> str:
    """The vector whose lane k is the sum of all lanes of vectors[k].

    In each round two vectors become one: the first halves of their segments are added to the
    second halves. A segment is what is left of one vector.
    """
    segment = tile.lanes
    while segment > 1:
        half = segment // 2
        first = [k for k in range(2 * tile.lanes) if k % segment < half]
        second = [k + half for k in first]
        pairs = [(*vectors[k : k + 2], "poison")[:2] for k in range(0, len(vectors), 2)]
        halves = [[write.shuffle(tile.vector, x, y, k) for k in (first, second)] for x, y in pairs]
        vectors = [write.new(f"fadd {tile.vector} {low}, {high}") for low, high in halves]
        segment = half
    return vectors[0]


COLLECT_WORDS = (
    "sums_at out_at tap_tiles blocks channels taps image_parts part_bytes"  # channels in a group
).split()


def collect(tile: Tile) -> Writer:
    """The sums of all parts of the images, in order, as [channel, tap]; a chunk is a block."""
    write = Writer("collect", COLLECT_WORDS)
    group, block = write.divided("%chunk", write["blocks"])
    final = write.sub(write["channels"], tile.rows)
    begin = write.minimum(write.product(block, tile.rows), final)
    channel = write.add(write.product(group, write["channels"]), begin)
    out = write.at(write["out_at"], tile.scalar, write.product(channel, write["taps"]))
    first = write.product("%chunk", write["tap_tiles"])
    whole, rest = write.divided(write["taps"], tile.columns)
    tile_bytes = tile.rows * tile.columns * tile.size
    sums = write.offset(write["sums_at"], write.product(first, tile_bytes))
    with write.loop("0", whole) as number:
        source = write.offset(sums, write.product(number, tile_bytes))
        target = write.offset(out, write.product(number, tile.columns * tile.size))
        add_rows(write, tile, source, target, tile.columns)
    with write.loop("0", rest) as column:
        distance = write.product(column, tile.size)
        source = write.offset(sums, write.product(whole, tile_bytes), distance)
        target = write.offset(out, write.product(whole, tile.columns * tile.size), distance)
        add_rows(write, tile, source, target, 1)
    return write


def add_rows(write: Writer, tile: Tile, source: str, target: str, count: int) -> None:
    """Write, for each row of a tile, the sum of what all parts of the images have at some taps."""
    row_bytes = write.product(write["taps"], tile.size)
    for _ in range(tile.rows):
        write.store(sum_of_parts(write, tile, source, count), target, tile.scalar, count=count)
        source = write.offset(source, tile.columns * tile.size)
        target = write.offset(target, row_bytes)


def sum_of_parts(write: Writer, tile: Tile, first: str, count: int) -> str:
    type = vector_of(tile.scalar, count)

    def add(index: str, sums: list[str]) -> list[str]:
        place = write.offset(first, write.product(write.add(index, 1), write["part_bytes"]))
        more = write.load(place, tile.scalar, count=count)
        return [write.new(f"fadd {type} {sums[0]}, {more}")]

    start = write.load(first, tile.scalar, count=count)
    return write.repeated(write.sub(write["image_parts"], 1), type, [start], add)[0]
