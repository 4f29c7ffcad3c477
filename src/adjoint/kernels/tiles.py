"""Tiles of a matrix product in registers, and the packing of what they read, as LLVM IR text.

A tile of the result is `rows` x `vectors` registers. Each step along the inner axis adds a column
of the first factor, its elements one by one in all lanes, times a row of a packed panel.
"""

from typing import NamedTuple

from .text import SIZES, Function, lanes, vector_of


class ProductTile(NamedTuple):
    """What the text depends on.

    `by_rows`: whether the elements of a row of the first factor are neighbours, else those of a
    column are. `depth` bounds the blocks along the inner axis, `most` the tiles of such columns in
    a chunk.
    """

    scalar: str  # float or double
    by_rows: bool
    rows: int
    vectors: int
    depth: int
    most: int

    @property
    def size(self) -> int:
        return SIZES[self.scalar]

    @property
    def lanes(self) -> int:
        return lanes(self.scalar)

    @property
    def vector(self) -> str:
        return vector_of(self.scalar, self.lanes)

    @property
    def width(self) -> int:
        return self.lanes * self.vectors

    @property
    def pitch(self) -> int:
        """Elements from column to column of a packed part of the first factor."""
        return -(-self.rows // self.lanes) * self.lanes


def suffix(tile: ProductTile) -> str:
    return f"v{tile.lanes}f{8 * tile.size}"


def masked_load(write: Function, tile: ProductTile, pointer: str, lanes: str) -> str:
    return write.call(
        tile.vector,
        f"llvm.masked.load.{suffix(tile)}.p0",
        f"ptr {pointer}",
        f"i32 {tile.size}",
        f"<{tile.lanes} x i1> {lanes}",
        f"{tile.vector} zeroinitializer",
    )


def masked_store(write: Function, tile: ProductTile, vector: str, pointer: str, lanes: str) -> None:
    name = f"llvm.masked.store.{suffix(tile)}.p0"
    types = f"{tile.vector}, ptr, i32, <{tile.lanes} x i1>"
    write.declarations.add(f"declare void @{name}({types})")
    write.line(
        f"call void @{name}({tile.vector} {vector}, ptr {pointer}, i32 {tile.size}, "
        f"<{tile.lanes} x i1> {lanes})"
    )


def tile_function(tile: ProductTile, vectors: int) -> Function:
    """A tile of the result: `depth` columns of x times rows of a panel; added to other rows."""
    write = Function(
        f"tile{vectors}(ptr %x, i64 %x_step, ptr %panel, i64 %panel_step, ptr %out, "
        "i64 %out_step, i64 %depth, i1 %adds, ptr %other, i64 %other_step)"
    )
    scalar, lanes = tile.scalar, tile.lanes
    sums = summed(write, tile, vectors)
    adding, setting, end = write.label("adding"), write.label("setting"), write.label("end")
    write.branch("%adds", adding, setting)
    for label in (adding, setting):
        write.start(label)
        for row in range(tile.rows):
            pointer = write.at("%out", scalar, write.product("%out_step", row))
            other = write.at("%other", scalar, write.product("%other_step", row))
            for v in range(vectors):
                total = sums[row * vectors + v]
                if label == adding:
                    before = write.load(other, scalar, v * lanes, count=lanes)
                    total = write.new(f"fadd {tile.vector} {before}, {total}")
                write.store(total, pointer, scalar, v * lanes, lanes)
        write.jump(end)
    write.start(end)
    return write


def summed(write: Function, tile: ProductTile, vectors: int) -> list[str]:
    """The loop along the inner axis; its sums are kept in registers."""
    scalar, rows = tile.scalar, range(tile.rows)
    # Where columns of x are in one piece, rows are found from the first.
    starts = [write.at("%x", scalar, write.product("%x_step", r)) for r in rows if tile.by_rows]

    def step(k: str, sums: list[str]) -> list[str]:
        panel = write.at("%panel", scalar, write.product(k, "%panel_step"))
        ys = [write.load(panel, scalar, v * tile.lanes, count=tile.lanes) for v in range(vectors)]
        column = "" if tile.by_rows else write.at("%x", scalar, write.product(k, "%x_step"))
        totals = []
        for row in rows:
            x = write.load(column, scalar, row) if column else write.load(starts[row], scalar, k)
            x, own = write.splat(scalar, x, tile.lanes), sums[row * vectors :]
            totals += [
                write.fma(scalar, tile.lanes, x, y, total)
                for y, total in zip(ys, own, strict=False)
            ]
        return totals

    zeros = ["zeroinitializer"] * (tile.rows * vectors)
    return write.repeated("%depth", tile.vector, zeros, step)


def edge_function(tile: ProductTile) -> Function:
    """Put a part of a whole tile where it belongs: rows from `skip` on, so many columns."""
    write = Function(
        "edge(ptr %tile, i64 %width, ptr %out, i64 %out_step, i64 %skip, i64 %columns, i1 %adds, "
        "ptr %other, i64 %other_step)"
    )
    with write.loop("0", "%columns", tile.lanes) as column:
        lanes = write.places("slt", write.sub("%columns", column), tile.lanes)
        with write.loop("%skip", tile.rows) as row:
            source = write.at("%tile", tile.scalar, write.product(row, "%width"))
            part = write.load(source, tile.scalar, column, count=tile.lanes)
            here = write.at("%out", tile.scalar, write.product(row, "%out_step"), column)
            other = write.at("%other", tile.scalar, write.product(row, "%other_step"), column)
            before = masked_load(write, tile, other, lanes)
            total = write.new(f"fadd {tile.vector} {before}, {part}")
            total = write.new(f"select i1 %adds, {tile.vector} {total}, {tile.vector} {part}")
            masked_store(write, tile, total, here, lanes)
    return write


def pack_rows(tile: ProductTile, vectors: int) -> Function:
    """Pack a panel of y whose rows lie in one piece; columns that there aren't are zero."""
    write = Function(
        f"pack_rows{vectors}(ptr %panel, ptr %y, i64 %y_step, i64 %depth, i64 %columns)"
    )
    starts = range(0, vectors * tile.lanes, tile.lanes)
    lanes = {v: write.places("slt", write.sub("%columns", v), tile.lanes) for v in starts}
    with write.loop("0", "%depth") as k:
        source = write.at("%y", tile.scalar, write.product(k, "%y_step"))
        target = write.at("%panel", tile.scalar, write.product(k, vectors * tile.lanes))
        copy_lanes(write, tile, source, target, lanes)
    return write


def pack_columns(tile: ProductTile) -> Function:
    """Pack a panel of y whose columns lie in one piece, by squares that are transposed.

    Columns that there aren't repeat the last one; what they give is never stored. The last square
    may reach beyond the depth, but not beyond the panel's memory.
    """
    write = Function(
        "pack_columns(ptr %panel, i64 %width, ptr %y, i64 %y_step, i64 %depth, i64 %columns)"
    )
    scalar, last = tile.scalar, write.sub("%columns", 1)
    with write.loop("0", "%width", tile.lanes) as column:
        sources = []
        for lane in range(tile.lanes):
            there = write.minimum(write.add(column, lane), last)
            sources.append(write.at("%y", scalar, write.product(there, "%y_step")))
        with write.loop("0", "%depth", tile.lanes) as k:
            some = write.places("slt", write.sub("%depth", k), tile.lanes)
            places = [write.at(source, scalar, k) for source in sources]
            columns = [masked_load(write, tile, place, some) for place in places]
            target = write.at("%panel", scalar, write.product(k, "%width"), column)
            for lane, line in enumerate(transposed(write, tile, columns)):
                place = write.product("%width", lane)
                write.store(line, target, scalar, place, tile.lanes)
    return write


def transposed(write: Function, tile: ProductTile, lines: list[str]) -> list[str]:
    """As many vectors as a vector has lanes, transposed: perfect shuffles of the two halves."""
    half = tile.lanes // 2
    orders = [
        [start + k // 2 + k % 2 * tile.lanes for k in range(tile.lanes)] for start in (0, half)
    ]
    for _ in range(half.bit_length()):
        lines = [
            write.shuffle(tile.vector, lines[k], lines[k + half], order)
            for k in range(half)
            for order in orders
        ]
    return lines


def pack_tile(tile: ProductTile) -> Function:
    """Pack a tile's part of the columns of x: one after the other, in whole vectors."""
    write = Function("pack_tile(ptr %packed, ptr %x, i64 %x_step, i64 %depth)")
    starts = range(0, tile.pitch, tile.lanes)
    lanes = {v: write.places("slt", str(tile.rows - v), tile.lanes) for v in starts}
    with write.loop("0", "%depth") as k:
        source = write.at("%x", tile.scalar, write.product(k, "%x_step"))
        target = write.at("%packed", tile.scalar, write.product(k, tile.pitch))
        copy_lanes(write, tile, source, target, lanes)
    return write


def copy_lanes(
    write: Function, tile: ProductTile, source: str, target: str, lanes: dict[int, str]
) -> None:
    """Copy vectors from some places on; of each the lanes that there are, the others are zero."""
    for place, some in lanes.items():
        vector = masked_load(write, tile, write.at(source, tile.scalar, place), some)
        write.store(vector, target, tile.scalar, place, tile.lanes)
