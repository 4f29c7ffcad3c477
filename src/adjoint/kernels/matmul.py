"""Matrix products as LLVM IR text: the function that does a chunk.

A chunk is a block of rows times a block of columns of the result, for one or several matrices of a
batch. It goes along the inner axis in blocks; of each it packs a panel of columns of the second
factor, as wide as a tile, so that it stays in the nearest cache, and then does one tile of the
result after another. Each element is summed in the same order, however the work is cut.
"""

from collections.abc import Sequence

from .template import Template
from .text import Function
from .tiles import ProductTile, edge_function, pack_columns, pack_rows, pack_tile, tile_function

# The words of a launch, in their order. Steps are in elements. `x_step`: between rows of x if their
# elements are neighbours, else between its columns; `y_step` likewise. `y_direct`: whether panels
# of rows of y are read where they are. `packs`: whether columns of x are packed, too. `depth`,
# `height` and `width` are those of a block. The batch has four axes, the last one the fastest.
# `starts`: from the elements of a row `start`. `out_step` is between rows of the result, and
# `out_batch` between its matrices; `adds`: to what is there already.
WORDS = (
    *("x", "y", "out", "start"),
    *("rows", "columns", "inner", "x_step", "y_step", "y_by_rows", "y_direct", "packs"),
    *("depth", "height", "width", "column_blocks", "blocks", "group", "batch"),
    *("size1", "size2", "size3"),
    *("x_batch0", "x_batch1", "x_batch2", "x_batch3"),
    *("y_batch0", "y_batch1", "y_batch2", "y_batch3"),
    *("starts", "out_step", "out_batch", "adds"),
)


def module(tile: ProductTile) -> str:
    """The text of a module; its function `matmul` does a chunk."""
    widths = range(1, tile.vectors + 1)
    functions = [
        *(tile_function(tile, vectors) for vectors in widths),
        *(pack_rows(tile, vectors) for vectors in widths),
        pack_columns(tile),
        pack_tile(tile),
        edge_function(tile),
    ]
    return str(Chunk(tile, functions).write)


class Chunk:
    """Loops over matrices, blocks along the inner axis, panels, tiles."""

    def __init__(self, tile: ProductTile, functions: Sequence[Function]) -> None:
        self.tile = tile
        self.write = write = Template("matmul", *functions)
        self.panel = write.alloca(f"[{tile.depth * tile.width} x {tile.scalar}]")
        self.corner = write.alloca(f"[{tile.rows * tile.width} x {tile.scalar}]")
        self.packed = "" if tile.by_rows else self.place_for_columns()
        write.words("ptr", " ".join(WORDS[:4]))
        write.words("i64", " ".join(WORDS[4:]))
        flags = "packs", "y_by_rows", "y_direct", "starts"
        self.packs, self.y_by_rows, self.y_direct, self.starts = (
            write.compare("ne", self[flag], 0) for flag in flags
        )
        self.highest = write.sub(self["rows"], tile.rows)  # where a whole tile can begin
        self.write_body()

    def __getitem__(self, name: str) -> str:
        return self.write[name]

    def at(self, pointer: str, *places: str | int) -> str:
        return self.write.at(pointer, self.tile.scalar, *places)

    def write_body(self) -> None:
        write = self.write
        group, block = write.divided("%chunk", self["blocks"])
        row_block, column_block = write.divided(block, self["column_blocks"])
        self.rows = write.part(self["height"], self["rows"], row_block)
        self.columns = write.part(self["width"], self["columns"], column_block)
        first, last = write.part(self["group"], self["batch"], group)
        with write.loop(first, last) as matrix:
            self.write_matrix(matrix)

    def write_matrix(self, number: str) -> None:
        """A block of one result of the batch."""
        write, places, rest = self.write, [], number
        for axis in (3, 2, 1):
            rest, place = write.divided(rest, self[f"size{axis}"])
            places.insert(0, place)
        places.insert(0, rest)
        x, y = (
            self.at(
                self[name],
                *(write.product(k, self[f"{name}_batch{axis}"]) for axis, k in enumerate(places)),
            )
            for name in ("x", "y")
        )
        out = self.at(self["out"], write.product(number, self["out_batch"]))
        with write.loop("0", self["inner"], self["depth"]) as k:
            self.write_layer(k, x, y, out)

    def write_layer(self, k: str, x: str, y: str, out: str) -> None:
        """What a block along the inner axis adds to it."""
        write, tile = self.write, self.tile
        depth = write.minimum(write.sub(self["inner"], k), self["depth"])
        self.begins = write.new(f"and i1 {self.starts}, {write.compare('eq', k, 0)}")
        adds = write.compare("ne", write.new(f"or i64 {k}, {self['adds']}"), 0)
        adds = write.new(f"or i1 {adds}, {self.begins}")
        x = self.at(x, k if tile.by_rows else write.product(k, self["x_step"]))
        if not tile.by_rows:
            with write.when(self.packs):
                self.pack_x(x, depth)
        with write.loop(*self.columns, str(tile.width)) as column:
            count = write.minimum(write.sub(self.columns[1], column), str(tile.width))
            source = self.panel_start(y, k, column)
            for vectors in range(1, tile.vectors + 1):
                least = write.compare("sgt", count, (vectors - 1) * tile.lanes)
                most = write.compare("sle", count, vectors * tile.lanes)
                with write.when(write.new(f"and i1 {least}, {most}")):
                    panel = self.pack_y(vectors, source, depth, count)
                    here = (self.at(out, column), self.at(self["start"], column))
                    self.write_tiles(vectors, x, panel, here, count, depth, adds)

    def panel_start(self, y: str, k: str, column: str) -> str:
        write = self.write
        across = write.select(self.y_by_rows, "i64", k, column)
        along = write.select(self.y_by_rows, "i64", column, k)
        return self.at(y, write.product(across, self["y_step"]), along)

    def tile_start(self, row: str) -> str:
        """Where the tile that begins with a row does begin: the last one earlier, to be whole."""
        return self.write.minimum(row, self.highest)

    def place_for_columns(self) -> str:
        size = self.tile.most * self.tile.depth * self.tile.pitch
        return self.write.alloca(f"[{size} x {self.tile.scalar}]")

    def pack_x(self, x: str, depth: str) -> None:
        write = self.write
        with write.loop(*self.rows, str(self.tile.rows)) as row:
            source, target = self.at(x, self.tile_start(row)), self.packed_tile(row)
            write.line(
                f"call void @pack_tile(ptr {target}, ptr {source}, i64 {self['x_step']}, "
                f"i64 {depth})"
            )

    def packed_tile(self, row: str) -> str:
        """Where the tile that begins with a row is among what is packed."""
        write, tile = self.write, self.tile
        number = write.new(f"udiv exact i64 {write.sub(row, self.rows[0])}, {tile.rows}")
        return self.at(self.packed, write.product(number, tile.depth * tile.pitch))

    def first_factor(self, x: str, row: str) -> tuple[str, str]:
        """Where a tile's rows of the first factor are, and their step."""
        write, start, step = self.write, self.tile_start(row), self["x_step"]
        if self.tile.by_rows:
            return self.at(x, write.product(start, step)), step
        place = write.select(self.packs, "ptr", self.packed_tile(row), self.at(x, start))
        return place, write.select(self.packs, "i64", self.tile.pitch, step)

    def pack_y(self, vectors: int, source: str, depth: str, count: str) -> tuple[str, str]:
        """Where a panel is, and the step of its rows."""
        write, width = self.write, vectors * self.tile.lanes
        rest = f"ptr {source}, i64 {self['y_step']}, i64 {depth}, i64 {count}"
        direct = write.new(f"and i1 {self.y_direct}, {write.compare('eq', count, width)}")
        packs = write.new(f"xor i1 {direct}, true")
        with write.when(write.new(f"and i1 {self.y_by_rows}, {packs}")):
            write.line(f"call void @pack_rows{vectors}(ptr {self.panel}, {rest})")
        with write.when(write.new(f"xor i1 {self.y_by_rows}, true")):
            write.line(f"call void @pack_columns(ptr {self.panel}, i64 {width}, {rest})")
        place = write.select(direct, "ptr", source, self.panel)
        return place, write.select(direct, "i64", self["y_step"], width)

    def write_tiles(self, vectors: int, x: str, panel, places, count: str, depth: str, adds: str):
        """All tiles of the block that need the packed panel; parts of tiles come from a corner.

        `places`: where columns begin in the result, and in the row from which it starts.
        """
        write, tile, width = self.write, self.tile, vectors * self.tile.lanes
        with write.loop(*self.rows, str(tile.rows)) as row:
            start = self.tile_start(row)
            skip = write.sub(row, start)
            source, step = self.first_factor(x, row)
            here = self.at(places[0], write.product(start, self["out_step"]))
            before = write.select(self.begins, "ptr", places[1], here)
            before_step = write.select(self.begins, "i64", 0, self["out_step"])
            other = f"ptr {before}, i64 {before_step}"
            all_rows = write.compare("eq", skip, 0)
            all_columns = write.compare("eq", count, width)
            whole = write.new(f"and i1 {all_rows}, {all_columns}")
            target = write.select(whole, "ptr", here, self.corner)
            out_step = write.select(whole, "i64", self["out_step"], width)
            now = write.new(f"and i1 {whole}, {adds}")
            write.line(
                f"call void @tile{vectors}(ptr {source}, i64 {step}, ptr {panel[0]}, "
                f"i64 {panel[1]}, ptr {target}, i64 {out_step}, i64 {depth}, i1 {now}, {other})"
            )
            with write.when(write.new(f"xor i1 {whole}, true")):
                write.line(
                    f"call void @edge(ptr {self.corner}, i64 {width}, ptr {here}, "
                    f"i64 {self['out_step']}, i64 {skip}, i64 {count}, i1 {adds}, {other})"
                )
