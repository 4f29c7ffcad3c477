"""LLVM IR as text: blocks, loops and names. Knows nothing of kernels."""

from collections.abc import Iterator
from contextlib import contextmanager

# Without this LLVM takes half of the vectors that a processor with AVX-512 has.
ATTRIBUTES = '"prefer-vector-width"="512" "min-legal-vector-width"="512" nounwind'


class Function:
    """A function that is being written, a line at a time."""

    def __init__(self, signature: str) -> None:
        self.signature = signature
        self.allocas: list[str] = []  # in the entry block: elsewhere each pass would take memory
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self.count = 0
        self.block = "entry"

    def __str__(self) -> str:
        head = f"define void @{self.signature} {ATTRIBUTES} {{\nentry:"
        body = [f"  {line}" for line in self.allocas]
        body += [line if line.endswith(":") else f"  {line}" for line in self.lines]
        return "\n".join([head, *body, "  ret void", "}", *sorted(self.declarations)])

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
        return self.new(f"call {type} @{function}({', '.join(args)})")

    @contextmanager
    def loop(self, start: str, stop: str, step: str = "1") -> Iterator[str]:
        """The lines written inside are done for each index from start up to stop."""
        before, index = self.block, self.name()
        head, body, end = self.label("head"), self.label("body"), self.label("end")
        self.jump(head)
        self.start(head)
        phi = len(self.lines)
        self.line("")
        inside = self.new(f"icmp slt i64 {index}, {stop}")
        self.branch(inside, body, end)
        self.start(body)
        yield index
        following = self.new(f"add i64 {index}, {step}")
        back = self.block
        self.jump(head)
        self.lines[phi] = f"{index} = phi i64 [{start}, %{before}], [{following}, %{back}]"
        self.start(end)

    def minimum(self, x: str, y: str) -> str:
        less = self.new(f"icmp slt i64 {x}, {y}")
        return self.new(f"select i1 {less}, i64 {x}, i64 {y}")

    def offset(self, pointer: str, *terms: str) -> str:
        """A pointer moved by bytes."""
        for term in terms:
            pointer = self.new(f"getelementptr i8, ptr {pointer}, i64 {term}")
        return pointer

    def product(self, x: str, y: str | int) -> str:
        return self.new(f"mul i64 {x}, {y}")


def type_of(argument: str) -> str:
    """The type of a "type value"."""
    end = argument.index(">") + 1 if argument[0] == "<" else argument.index(" ")
    return argument[:end]
