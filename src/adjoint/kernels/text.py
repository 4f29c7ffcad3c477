"""LLVM IR as text: blocks, loops, names, memory and vectors. Knows nothing of kernels.

No pass over the text improves it: what doesn't change in a loop is computed before it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

# Without this LLVM takes half of the vectors that a processor with AVX-512 has.
ATTRIBUTES = '"prefer-vector-width"="512" "min-legal-vector-width"="512" nounwind'
SIZES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8, "ptr": 8}
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


class Function:
    """A function that is being written, a line at a time. `others`: functions that it calls.

    `result`: the type of what it gives; all returns but the last one are under a condition.
    """

    def __init__(self, signature: str, *others: "Function", result: str = "void") -> None:
        self.signature, self.others, self.result = signature, [*others], result
        self.end = "ret void"
        self.allocas: list[str] = []  # in the entry block: elsewhere each pass would take memory
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self.count = 0
        self.block = "entry"

    def __str__(self) -> str:
        """The text of a module."""
        functions = self, *self.others
        declarations = set().union(*(one.declarations for one in functions))
        return "\n".join([*(one.text() for one in functions), *sorted(declarations)])

    def text(self) -> str:
        head = f"define {self.result} @{self.signature} {ATTRIBUTES} {{\nentry:"
        body = [f"  {line}" for line in self.allocas]
        body += [line if line.endswith(":") else f"  {line}" for line in self.lines]
        return "\n".join([head, *body, f"  {self.end}", "}"])

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def line(self, text: str) -> None:
        self.lines.append(text)

    def new(self, text: str) -> str:
        """The name of an instruction's result."""
        name = self.name()
        self.lines.append(f"{name} = {text}")
        return name

    def alloca(self, type: str) -> str:
        name = self.name()
        self.allocas.append(f"{name} = alloca {type}, align 64")
        return name

    def label(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def start(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        self.line(f"br label %{label}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        self.line(f"br i1 {condition}, label %{yes}, label %{no}")

    def call(self, type: str, function: str, *args: str) -> str:
        """Call a function that is declared by what it is given: "type value" each."""
        types = ", ".join(map(type_of, args))
        self.declarations.add(f"declare {type} @{function}({types})")
        text = f"call {type} @{function}({', '.join(args)})"
        if type == "void":
            self.line(text)
            return ""
        return self.new(text)

    def give(self, value: str) -> None:
        """Return a value at the end."""
        self.end = f"ret {self.result} {value}"

    def give_if(self, condition: str, value: str) -> None:
        """Return a value where a condition holds."""
        early, on = self.label("early"), self.label("on")
        self.branch(condition, early, on)
        self.start(early)
        self.line(f"ret {self.result} {value}")
        self.start(on)

    # Loops and conditions.

    @contextmanager
    def loop(self, start: str, stop: str | int, step: str | int = 1) -> Iterator[str]:
        """The lines written inside are done for each index from start up to stop."""
        with self.carrying(start, stop, step) as turn:
            yield turn.index

    @contextmanager
    def carrying(
        self, start: str, stop: str | int, step: str | int, *carried: tuple[str, str]
    ) -> Iterator[Loop]:
        """A loop that carries values, given as types and first values; it sets `following`."""
        before = self.block
        loop = Loop(self.name(), [self.name() for _ in carried])
        head, body, end = self.label("head"), self.label("body"), self.label("end")
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

    def repeated(
        self, stop: str, kind: str, first: list[str], body: Callable[[str, list[str]], list[str]]
    ) -> list[str]:
        """What values of a kind become that each round of a loop takes over from the one before.

        The condition stands at the end, so that a round is a single block.
        """
        before, index = self.block, self.name()
        inside, end = self.label("round"), self.label("rounded")
        self.branch(self.compare("slt", "0", stop), inside, end)
        self.start(inside)
        place = len(self.lines)
        values = [self.name() for _ in first]
        last = body(index, values)
        following = self.add(index, 1)
        again = self.compare("slt", following, stop)
        back = self.block
        self.branch(again, inside, end)
        pairs = zip(first, last, strict=True)
        both = [f"[{start}, %{before}], [{new}, %{back}]" for start, new in pairs]
        self.lines[place:place] = [
            f"{index} = phi i64 [0, %{before}], [{following}, %{back}]",
            *(f"{value} = phi {kind} {ends}" for value, ends in zip(values, both, strict=True)),
        ]
        self.start(end)
        return [self.new(f"phi {kind} {ends}") for ends in both]

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """The lines written inside are done only where a condition holds."""
        body, end = self.label("when"), self.label("end")
        self.branch(condition, body, end)
        self.start(body)
        yield
        self.jump(end)
        self.start(end)

    # 64-bit integers.

    def add(self, x: str, y: str | int) -> str:
        return self.new(f"add i64 {x}, {y}")

    def sub(self, x: str, y: str | int) -> str:
        return self.new(f"sub i64 {x}, {y}")

    def product(self, x: str, y: str | int) -> str:
        return self.new(f"mul i64 {x}, {y}")

    def divided(self, x: str, y: str | int) -> tuple[str, str]:
        """Quotient and remainder of what isn't negative."""
        quotient = self.new(f"udiv i64 {x}, {y}")
        return quotient, self.sub(x, self.product(quotient, y))

    def compare(self, relation: str, x: str, y: str | int) -> str:
        return self.new(f"icmp {relation} i64 {x}, {y}")

    def select(self, condition: str, kind: str, x: str | int, y: str | int) -> str:
        return self.new(f"select i1 {condition}, {kind} {x}, {kind} {y}")

    def minimum(self, x: str, y: str) -> str:
        return self.select(self.compare("slt", x, y), "i64", x, y)

    def maximum(self, x: str, y: str | int) -> str:
        return self.select(self.compare("sgt", x, y), "i64", x, y)

    # Memory.

    def at(self, pointer: str, kind: str, *places: str | int) -> str:
        """A pointer moved by elements."""
        for place in places:
            if place != 0:
                pointer = self.new(f"getelementptr {kind}, ptr {pointer}, i64 {place}")
        return pointer

    def offset(self, pointer: str, *terms: str | int) -> str:
        """A pointer moved by bytes."""
        return self.at(pointer, "i8", *terms)

    def load(self, pointer: str, kind: str, place: str | int = 0, step: str = "", count: int = 0):
        """The element at a place, or a vector that starts there. `step`: what places count."""
        step, whole = step or kind, vector_of(kind, count) if count else kind
        return self.new(f"load {whole}, ptr {self.at(pointer, step, place)}, align {SIZES[step]}")

    def store(self, value: str, pointer: str, kind: str, place: str | int = 0, count: int = 0):
        whole = vector_of(kind, count) if count else kind
        target = self.at(pointer, kind, place)
        self.line(f"store {whole} {value}, ptr {target}, align {SIZES[kind]}")

    def fetch(self, pointer: str) -> None:
        """Bring memory into the cache; beyond the end of an array that does no harm."""
        self.call("void", "llvm.prefetch.p0", f"ptr {pointer}", "i32 0", "i32 3", "i32 1")

    # Vectors.

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

    def fma(self, kind: str, count: int, x: str, y: str, z: str) -> str:
        """x * y + z of vectors."""
        type = vector_of(kind, count)
        name = f"llvm.fma.v{count}f{8 * SIZES[kind]}"
        return self.call(type, name, *(f"{type} {value}" for value in (x, y, z)))

    def spans(self, start: str, stop: str, size: int) -> list[tuple[str, str, int]]:
        """A span cut into what is done by so many at a time, and the rest."""
        whole = self.sub(stop, self.new(f"and i64 {self.sub(stop, start)}, {size - 1}"))
        return [(start, whole, size), (whole, stop, 1)]

    def places(self, relation: str, number: str, count: int) -> str:
        """The lanes whose places among so many are in a relation to a number."""
        numbers = f"{vector_of('i64', count)} {constants('i64', range(count))}"
        return self.new(f"icmp {relation} {numbers}, {self.splat('i64', number, count)}")


def type_of(argument: str) -> str:
    """The type of a "type value"."""
    end = argument.index(">") + 1 if argument[0] == "<" else argument.index(" ")
    return argument[:end]
