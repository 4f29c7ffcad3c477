"""What the convolution kernels need beyond plain LLVM IR text: words, vectors, carried values."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..text import Function

BITS = {"float": 32, "double": 64, "i32": 32, "i64": 64}


class Tile(NamedTuple):
    """What is kept in registers: `rows` times `columns` vectors of `lanes` numbers."""

    scalar: str
    lanes: int
    rows: int
    columns: int

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x {self.scalar}>"

    @property
    def size(self) -> int:
        """Bytes of a number."""
        return BITS[self.scalar] // 8


class Writer(Function):
    """A kernel `function(words, chunk)` whose words have names. `others`: kernels that it calls."""

    def __init__(self, function: str, names: Sequence[str], *others: "Writer") -> None:
        super().__init__(f"{function}(ptr noalias %words, i64 %chunk)")
        self.function, self.names, self.others = function, names, others
        self.words = {name: self.word(place, name) for place, name in enumerate(names)}

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *map(str, self.others)])

    def word(self, place: int, name: str) -> str:
        type = "ptr" if name.endswith("_at") else "i64"
        return self.load(type, self.offset("%words", str(8 * place)), 8)

    def __getitem__(self, name: str) -> str:
        return self.words[name]

    def load(self, type: str, pointer: str, align: int) -> str:
        return self.new(f"load {type}, ptr {pointer}, align {align}")

    def store(self, type: str, value: str, pointer: str, align: int) -> None:
        self.line(f"store {type} {value}, ptr {pointer}, align {align}")

    def add(self, x: str, y: str) -> str:
        return self.new(f"add i64 {x}, {y}")

    def split(self, number: str, count: str) -> tuple[str, str]:
        """A number by rows of `count`: the row, and the place in it."""
        return self.new(f"sdiv i64 {number}, {count}"), self.new(f"srem i64 {number}, {count}")

    def chunk(self, step: str, total: str) -> tuple[str, str]:
        """Where this chunk's part of `total` items starts and stops, `step` for each chunk."""
        start = self.product("%chunk", step)
        return start, self.minimum(self.add(start, step), total)

    def share(self, total: str, part: str, parts: str) -> tuple[str, str]:
        """Where one of several nearly equal parts of a range starts and stops."""
        start = self.new(f"sdiv i64 {self.product(total, part)}, {parts}")
        after = self.product(total, self.add(part, "1"))
        return start, self.new(f"sdiv i64 {after}, {parts}")

    def entry(self, table: str, index: str) -> str:
        """A 32-bit entry of a table, as 64 bits."""
        place = self.new(f"getelementptr i32, ptr {table}, i64 {index}")
        return self.new(f"sext i32 {self.load('i32', place, 4)} to i64")

    def splat(self, tile: Tile, value: str) -> str:
        one = self.new(f"insertelement {tile.vector} poison, {tile.scalar} {value}, i64 0")
        zeros = f"<{tile.lanes} x i32> zeroinitializer"
        return self.new(f"shufflevector {tile.vector} {one}, {tile.vector} poison, {zeros}")

    def fma(self, tile: Tile, x: str, y: str, z: str) -> str:
        name = f"llvm.fma.v{tile.lanes}f{BITS[tile.scalar]}"
        return self.call(tile.vector, name, *(f"{tile.vector} {v}" for v in (x, y, z)))

    def carried(
        self, stop: str, type: str, first: list[str], body: Callable[[str, list[str]], list[str]]
    ) -> list[str]:
        """What values become that each round of a loop takes over from the round before.

        The condition stands at the end, so that a round is a single block.
        """
        before, index = self.block, self.name()
        inside, end = self.label("round"), self.label("rounded")
        self.branch(self.new(f"icmp slt i64 0, {stop}"), inside, end)
        self.start(inside)
        place = len(self.lines)
        values = [self.name() for _ in first]
        last = body(index, values)
        following = self.add(index, "1")
        again = self.new(f"icmp slt i64 {following}, {stop}")
        back = self.block
        self.branch(again, inside, end)
        self.lines[place:place] = [
            f"{index} = phi i64 [0, %{before}], [{following}, %{back}]",
            *(
                f"{value} = phi {type} [{start}, %{before}], [{new}, %{back}]"
                for value, start, new in zip(values, first, last, strict=True)
            ),
        ]
        self.start(end)
        return [
            self.new(f"phi {type} [{start}, %{before}], [{new}, %{back}]")
            for start, new in zip(first, last, strict=True)
        ]
