"""Tiles of a matrix product in registers, and the packing of what they read, as LLVM IR text.

A tile of the result is `rows` x `vectors` registers. Each step along the inner axis adds a column
of the first factor, its elements one by one in all lanes, times a row of a packed panel.
"""

from typing import NamedTuple

from .text import Function


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
        return 4 if self.scalar == "float" else 8

    @property
    def lanes(self) -> int:
        return 64 // self.size

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x {self.scalar}>"

    @property
    def width(self) -> int:
        return self.lanes * self.vectors

    @property
    def pitch(self) -> int:
        """Elements from column to column of a packed part of the first factor."""
        return -(-self.rows // self.lanes) * self.lanes


def at(write: Function, tile: ProductTile, pointer: str, *terms: str | int) -> str:
    """A pointer moved by elements."""
    for term in terms:
        pointer = write.new(f"getelementptr {tile.scalar}, ptr {pointer}, i64 {term}")
    return pointer


def load(write: Function, tile: ProductTile, pointer: str) -> str:
    return write.new(f"load {tile.vector}, ptr {pointer}, align {tile.size}")


def store(write: Function, tile: ProductTile, vector: str, pointer: str) -> None:
    write.line(f"store {tile.vector} {vector}, ptr {pointer}, align {tile.size}")


def suffix(tile: ProductTile) -> str:
    return f"v{tile.lanes}f{8 * tile.size}"


def mask(write: Function, tile: ProductTile, count: str) -> str:
    """The first `count` lanes, which may be none or more than there are."""
    lanes = ", ".join(f"i64 {lane}" for lane in range(tile.lanes))
    counts = f"<{tile.lanes} x i64>"
    one = write.new(f"insertelement {counts} poison, i64 {count}, i32 0")
    zeros = f"<{tile.lanes} x i32> zeroinitializer"
    every = write.new(f"shufflevector {counts} {one}, {counts} poison, {zeros}")
    return write.new(f"icmp slt {counts} <{lanes}>, {every}")


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
    places = [(row, v) for row in range(tile.rows) for v in range(vectors)]
    rows = row_pointers(write, tile)
    sums = summed(write, tile, rows, places, vectors)
    adding, setting, end = write.label("adding"), write.label("setting"), write.label("end")
    write.branch("%adds", adding, setting)
    for label in (adding, setting):
        write.start(label)
        for row in range(tile.rows):
            pointer = at(write, tile, "%out", write.product("%out_step", row))
            other = at(write, tile, "%other", write.product("%other_step", row))
            for v in range(vectors):
                here, total = at(write, tile, pointer, v * tile.lanes), sums[row, v]
                if label == adding:
                    before = load(write, tile, at(write, tile, other, v * tile.lanes))
                    total = write.new(f"fadd {tile.vector} {before}, {total}")
                store(write, tile, total, here)
        write.jump(end)
    write.start(end)
    return write


def row_pointers(write: Function, tile: ProductTile) -> list[str]:
    """Where the rows of x begin; where columns are in one piece, they are found from the first."""
    if not tile.by_rows:
        return ["%x"]
    return [at(write, tile, "%x", write.product("%x_step", row)) for row in range(tile.rows)]


def summed(write: Function, tile: ProductTile, rows: list[str], places: list, vectors: int) -> dict:
    """The loop along the inner axis; its sums are kept in registers."""
    before, loop, done = write.block, write.label("loop"), write.label("done")
    write.jump(loop)
    write.start(loop)
    start = len(write.lines)
    k, sums = write.name(), {place: write.name() for place in places}
    panel = at(write, tile, "%panel", write.product(k, "%panel_step"))
    ys = [load(write, tile, at(write, tile, panel, v * tile.lanes)) for v in range(vectors)]
    column = None if tile.by_rows else at(write, tile, "%x", write.product(k, "%x_step"))
    totals = {}
    for row in range(tile.rows):
        here = at(write, tile, rows[row], k) if column is None else at(write, tile, column, row)
        x = splat(write, tile, write.new(f"load {tile.scalar}, ptr {here}, align {tile.size}"))
        for v in range(vectors):
            factors = f"{tile.vector} {x}", f"{tile.vector} {ys[v]}"
            total = f"{tile.vector} {sums[row, v]}"
            totals[row, v] = write.call(tile.vector, f"llvm.fma.{suffix(tile)}", *factors, total)
    following = write.new(f"add i64 {k}, 1")
    more = write.new(f"icmp slt i64 {following}, %depth")
    write.branch(more, loop, done)
    write.start(done)
    phis = [f"{k} = phi i64 [0, %{before}], [{following}, %{loop}]"]
    phis += [
        f"{name} = phi {tile.vector} [zeroinitializer, %{before}], [{totals[place]}, %{loop}]"
        for place, name in sums.items()
    ]
    write.lines[start:start] = phis
    return totals


def splat(write: Function, tile: ProductTile, number: str) -> str:
    one = write.new(f"insertelement {tile.vector} poison, {tile.scalar} {number}, i32 0")
    zeros = f"<{tile.lanes} x i32> zeroinitializer"
    return write.new(f"shufflevector {tile.vector} {one}, {tile.vector} poison, {zeros}")


def edge_function(tile: ProductTile) -> Function:
    """Put a part of a whole tile where it belongs: rows from `skip` on, so many columns."""
    write = Function(
        "edge(ptr %tile, i64 %width, ptr %out, i64 %out_step, i64 %skip, i64 %columns, i1 %adds, "
        "ptr %other, i64 %other_step)"
    )
    with write.loop("0", "%columns", str(tile.lanes)) as column:
        lanes = mask(write, tile, write.new(f"sub i64 %columns, {column}"))
        with write.loop("%skip", str(tile.rows)) as row:
            part = load(write, tile, at(write, tile, "%tile", write.product(row, "%width"), column))
            here = at(write, tile, "%out", write.product(row, "%out_step"), column)
            other = at(write, tile, "%other", write.product(row, "%other_step"), column)
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
    lanes = [
        mask(write, tile, write.new(f"sub i64 %columns, {v * tile.lanes}")) for v in range(vectors)
    ]
    with write.loop("0", "%depth") as k:
        source = at(write, tile, "%y", write.product(k, "%y_step"))
        target = at(write, tile, "%panel", write.product(k, vectors * tile.lanes))
        for v in range(vectors):
            vector = masked_load(write, tile, at(write, tile, source, v * tile.lanes), lanes[v])
            store(write, tile, vector, at(write, tile, target, v * tile.lanes))
    return write


def pack_columns(tile: ProductTile) -> Function:
    """Pack a panel of y whose columns lie in one piece, by squares that are transposed.

    Columns that there aren't repeat the last one; what they give is never stored. The last square
    may reach beyond the depth, but not beyond the panel's memory.
    """
    write = Function(
        "pack_columns(ptr %panel, i64 %width, ptr %y, i64 %y_step, i64 %depth, i64 %columns)"
    )
    last = write.new("sub i64 %columns, 1")
    with write.loop("0", "%width", str(tile.lanes)) as column:
        sources = []
        for lane in range(tile.lanes):
            there = write.minimum(write.new(f"add i64 {column}, {lane}"), last)
            sources.append(at(write, tile, "%y", write.product(there, "%y_step")))
        with write.loop("0", "%depth", str(tile.lanes)) as k:
            some = mask(write, tile, write.new(f"sub i64 %depth, {k}"))
            columns = [
                masked_load(write, tile, at(write, tile, source, k), some) for source in sources
            ]
            target = at(write, tile, "%panel", write.product(k, "%width"), column)
            for lane, line in enumerate(transposed(write, tile, columns)):
                store(write, tile, line, at(write, tile, target, write.product("%width", lane)))
    return write


def transposed(write: Function, tile: ProductTile, lines: list[str]) -> list[str]:
    """As many vectors as a vector has lanes, transposed: perfect shuffles of the two halves."""
    half, pair = tile.lanes // 2, f"<{tile.lanes} x i32>"
    orders = [
        ", ".join(f"i32 {start + k // 2 + k % 2 * tile.lanes}" for k in range(tile.lanes))
        for start in (0, half)
    ]
    for _ in range(half.bit_length()):
        lines = [
            write.new(
                f"shufflevector {tile.vector} {lines[k]}, {tile.vector} {lines[k + half]}, "
                f"{pair} <{order}>"
            )
            for k in range(half)
            for order in orders
        ]
    return lines


def pack_tile(tile: ProductTile) -> Function:
    """Pack a tile's part of the columns of x: one after the other, in whole vectors."""
    write = Function("pack_tile(ptr %packed, ptr %x, i64 %x_step, i64 %depth)")
    lanes = {v: mask(write, tile, str(tile.rows - v)) for v in range(0, tile.pitch, tile.lanes)}
    with write.loop("0", "%depth") as k:
        source = at(write, tile, "%x", write.product(k, "%x_step"))
        target = at(write, tile, "%packed", write.product(k, tile.pitch))
        for v, some in lanes.items():
            vector = masked_load(write, tile, at(write, tile, source, v), some)
            store(write, tile, vector, at(write, tile, target, v))
    return write
