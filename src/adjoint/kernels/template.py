"""What kernels that are written by hand share: the words they are given, memory, carried values.

A kernel is `void name(ptr words, i64 chunk)`: `words` are 64-bit words, which have names, and
chunks may run at the same time, in any order. No pass over the text improves it: what doesn't
change in a loop is computed before it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .text import Function

SIZES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8}
VECTOR = 64  # bytes


def lanes(kind: str) -> int:
    """How many elements a vector has."""
    return VECTOR // SIZES[kind]


def vector_of(kind: str, count: int) -> str:
    return f"<{count} x {kind}>"


def constants(kind: str, values: Sequence[int | str]) -> str:
    """A vector of numbers."""
    return "<" + ", ".join(f"{kind} {value}" for value in values) + ">"


class Loop:
    """A loop that carries values from one turn to the next: after it they are those of its end."""

    def __init__(self, index: str, values: list[str]) -> None:
        self.index = index
        self.values = values
        self.following: Sequence[str] = ()


class Template(Function):
    """A kernel that is being written, a line at a time. `names`: those of its words."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name}(ptr noalias %words, i64 %chunk)")
        self.function = name
        self.names: list[str] = []

    def words(self, kind: str, names: str) -> list[str]:
        """The next of the words that the kernel is given."""
        start = len(self.names)
        self.names += names.split()
        places = range(start, len(self.names))
        return [self.load("%words", kind, place, step="i64") for place in places]

    def status(self) -> None:
        """Have a word "status", the next one, which `tell` sets."""
        self.names.append("status")

    def tell(self, wrong: str) -> None:
        """Set the status where a condition holds."""
        with self.when(wrong):
            self.store("1", "%words", "i64", self.names.index("status"))

    def part(self, step: str, total: str, chunk: str = "%chunk") -> tuple[str, str]:
        """Where a chunk's part of `total` items starts and ends, `step` for each chunk."""
        start = self.product(chunk, step)
        return start, self.minimum(self.add(start, step), total)

    def divided(self, x: str, y: str) -> tuple[str, str]:
        """Quotient and remainder of what isn't negative."""
        quotient = self.new(f"udiv i64 {x}, {y}")
        return quotient, self.sub(x, self.product(quotient, y))

    def add(self, x: str, y: str | int) -> str:
        return self.new(f"add i64 {x}, {y}")

    def sub(self, x: str, y: str | int) -> str:
        return self.new(f"sub i64 {x}, {y}")

    def compare(self, relation: str, x: str, y: str | int) -> str:
        return self.new(f"icmp {relation} i64 {x}, {y}")

    def select(self, condition: str, kind: str, x: str | int, y: str | int) -> str:
        return self.new(f"select i1 {condition}, {kind} {x}, {kind} {y}")

    def maximum(self, x: str, y: str | int) -> str:
        return self.select(self.compare("sgt", x, y), "i64", x, y)

    def at(self, pointer: str, kind: str, place: str | int) -> str:
        return self.new(f"getelementptr {kind}, ptr {pointer}, i64 {place}")

    def load(self, pointer: str, kind: str, place: str | int = 0, step: str = "", count: int = 1):
        """The element at a place, or a vector that starts there. `step`: what places count."""
        step = step or kind
        whole = kind if count == 1 else vector_of(kind, count)
        return self.new(f"load {whole}, ptr {self.at(pointer, step, place)}, align {SIZES[step]}")

    def store(self, value: str, pointer: str, kind: str, place: str | int = 0, count: int = 1):
        whole = kind if count == 1 else vector_of(kind, count)
        target = self.at(pointer, kind, place)
        self.line(f"store {whole} {value}, ptr {target}, align {SIZES[kind]}")

    def splat(self, kind: str, value: str, count: int) -> str:
        """A vector with one value in all lanes."""
        vector = vector_of(kind, count)
        first = self.new(f"insertelement {vector} poison, {kind} {value}, i64 0")
        everywhere = f"{vector_of('i32', count)} zeroinitializer"
        return self.new(f"shufflevector {vector} {first}, {vector} poison, {everywhere}")

    def shuffle(self, vector: str, x: str, y: str, order: Sequence[int]) -> str:
        """The elements of two vectors in another order."""
        mask = f"{vector_of('i32', len(order))} {constants('i32', order)}"
        return self.new(f"shufflevector {vector} {x}, {vector} {y}, {mask}")

    @contextmanager
    def carrying(
        self, start: str, stop: str, step: str, *carried: tuple[str, str]
    ) -> Iterator[Loop]:
        """A loop that carries values, given as types and first values; it sets `following`."""
        before = self.block
        head, body, end = self.label("head"), self.label("body"), self.label("end")
        loop = Loop(self.name(), [self.name() for _ in carried])
        self.jump(head)
        self.start(head)
        place = len(self.lines)
        self.branch(self.compare("slt", loop.index, stop), body, end)
        self.start(body)
        yield loop
        following = [self.add(loop.index, step), *loop.following]
        kinds = [("i64", start), *carried]
        names = [loop.index, *loop.values]
        self.lines[place:place] = [
            f"{name} = phi {kind} [{first}, %{before}], [{last}, %{self.block}]"
            for name, (kind, first), last in zip(names, kinds, following, strict=True)
        ]
        self.jump(head)
        self.start(end)

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """The lines written inside are done only where a condition holds."""
        body, end = self.label("when"), self.label("end")
        self.branch(condition, body, end)
        self.start(body)
        yield
        self.jump(end)
        self.start(end)
