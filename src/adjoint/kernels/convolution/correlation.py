"""Forward pass and input gradient: out[channel, place] = sum of w[channel, tap] x[place, tap].

A tile is `rows` channels times `columns` vectors of places. All it needs of the geometry are three
tables of distances in bytes: of the taps, and of each vector of places in x and in out.
"""

from .writer import Tile, Writer

# A segment is so many taps that are added up by themselves; tiles are of places, blocks of
# channels, which are those of a group; the x of a tile span is used for all blocks before the next
# tiles come; steps from image to image and so on are in bytes.
WORDS = """
    x_at w_at bias_at out_at taps_at x_places_at out_places_at taps segment segments tiles blocks
    channels groups images tile_span tile_parts block_parts image_parts
    x_image x_group out_image out_channel
""".split()


def correlate(tile: Tile) -> Writer:
    """A chunk is a part of the images, a group, a part of the blocks and a part of the tiles.

    w is packed as [group, block, tap, channel in the block]. The last block begins early enough to
    be full, and computes some channels a second time.
    """
    write = Writer("correlate", WORDS)
    rest, tile_part = write.divided("%chunk", write["tile_parts"])
    rest, block_part = write.divided(rest, write["block_parts"])
    image_part, group = write.divided(rest, write["groups"])
    first_tile, last_tile = write.share(write["tiles"], tile_part, write["tile_parts"])
    first_block, last_block = write.share(write["blocks"], block_part, write["block_parts"])
    first_image, last_image = write.share(write["images"], image_part, write["image_parts"])
    x = write.moved(write["x_at"], (group, "x_group"))
    final = write.sub(write["channels"], tile.rows)
    group_channel = write.product(group, write["channels"])
    group_block = write.product(group, write["blocks"])
    block_bytes = write.product(write["taps"], tile.rows * tile.size)
    with (
        write.loop(first_tile, last_tile, write["tile_span"]) as tiles,
        write.loop(first_block, last_block) as block,
    ):
        end = write.minimum(write.add(tiles, write["tile_span"]), last_tile)
        begin = write.minimum(write.product(block, tile.rows), final)
        channel = write.add(group_channel, begin)
        number = write.add(group_block, block)
        w = write.offset(write["w_at"], write.product(number, block_bytes))
        target = write.moved(write["out_at"], (channel, "out_channel"))
        bias = write.offset(write["bias_at"], write.product(channel, tile.size))
        with (
            write.loop(first_image, last_image) as image,
            write.loop(tiles, end) as place,
        ):
            source = write.moved(x, (image, "x_image"))
            out = write.moved(target, (image, "out_image"))
            number = write.product(place, tile.columns)
            numbers = [write.add(number, column) for column in range(tile.columns)]
            sums = sums_of_taps(write, tile, source, w, numbers)
            store(write, tile, sums, bias, out, numbers)
    return write


def sums_of_taps(write: Writer, tile: Tile, x: str, w: str, numbers: list[str]) -> list[str]:
    """Segments of the taps are added up by themselves, so that rounding errors stay few."""
    sources = [write.offset(x, write.entry(write["x_places_at"], k)) for k in numbers]
    zeros = ["zeroinitializer"] * (tile.rows * tile.columns)
    segment = write["segment"]

    def part(first: str) -> list[str]:
        left = write.sub(write["taps"], first)
        taps = write.offset(write["taps_at"], write.product(first, 4))
        weights = write.offset(w, write.product(first, tile.rows * tile.size))

        def step(index: str, sums: list[str]) -> list[str]:
            return products(write, tile, sources, taps, weights, index, sums)

        return write.repeated(write.minimum(left, segment), tile.vector, zeros, step)

    def add_part(index: str, sums: list[str]) -> list[str]:
        first = write.product(write.add(index, 1), segment)
        both = zip(sums, part(first), strict=True)
        return [write.new(f"fadd {tile.vector} {total}, {more}") for total, more in both]

    start = part("0")
    others = write.sub(write["segments"], 1)
    return write.repeated(others, tile.vector, start, add_part)


def products(
    write: Writer, tile: Tile, sources: list[str], taps: str, w: str, index: str, sums: list[str]
) -> list[str]:
    """The sums with one more tap."""
    distance = write.entry(taps, index)
    places = [write.offset(source, distance) for source in sources]
    values = [write.load(place, tile.scalar, count=tile.lanes) for place in places]
    weights = write.offset(w, write.product(index, tile.rows * tile.size))
    new = []
    for row in range(tile.rows):
        place = write.offset(weights, str(row * tile.size))
        weight = write.splat(tile.scalar, write.load(place, tile.scalar), tile.lanes)
        new += [
            write.fma(tile.scalar, tile.lanes, value, weight, sums[row * tile.columns + column])
            for column, value in enumerate(values)
        ]
    return new


def store(
    write: Writer, tile: Tile, sums: list[str], bias: str, out: str, numbers: list[str]
) -> None:
    places = [write.offset(out, write.entry(write["out_places_at"], k)) for k in numbers]
    for row in range(tile.rows):
        place = write.offset(bias, str(row * tile.size))
        add = write.splat(tile.scalar, write.load(place, tile.scalar), tile.lanes)
        for column in range(tile.columns):
            total = write.new(f"fadd {tile.vector} {sums[row * tile.columns + column]}, {add}")
            write.store(total, places[column], tile.scalar, count=tile.lanes)
            places[column] = write.offset(places[column], write["out_channel"])
