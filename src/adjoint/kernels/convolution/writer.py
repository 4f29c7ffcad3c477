"""What the convolution kernels need beyond plain LLVM IR text: tiles, tables, shares of a range."""

from collections.abc import Sequence
from typing import NamedTuple

from ..template import Template
from ..text import SIZES, Function, vector_of


class Tile(NamedTuple):
    """What is kept in registers: `rows` times `columns` vectors of `lanes` numbers."""

    scalar: str
    lanes: int
    rows: int
    columns: int

    @property
    def vector(self) -> str:
        return vector_of(self.scalar, self.lanes)

    @property
    def size(self) -> int:
        """Bytes of a number."""
        return SIZES[self.scalar]


class Writer(Template):
    """A kernel with words of certain names, which are addresses if they end with `_at`."""

    def __init__(self, name: str, words: Sequence[str], *others: Function) -> None:
        super().__init__(name, *others)
        for word in words:
            self.words("ptr" if word.endswith("_at") else "i64", word)

    def share(self, total: str, part: str, parts: str) -> tuple[str, str]:
        """Where one of several nearly equal parts of a range starts and stops."""
        start = self.new(f"sdiv i64 {self.product(total, part)}, {parts}")
        after = self.product(total, self.add(part, 1))
        return start, self.new(f"sdiv i64 {after}, {parts}")

    def moved(self, pointer: str, *terms: tuple[str, str]) -> str:
        """A pointer moved by so many times the bytes that a word of a name has, for each term."""
        return self.offset(pointer, *[self.product(count, self[step]) for count, step in terms])

    def entry(self, table: str, index: str) -> str:
        """A 32-bit entry of a table, as 64 bits."""
        return self.new(f"sext i32 {self.load(table, 'i32', index)} to i64")
