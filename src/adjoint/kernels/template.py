"""What kernels that are written by hand share: the words that they are given.

A kernel is `void name(ptr words, i64 chunk)`: `words` are 64-bit words, which have names, and
chunks may run at the same time, in any order.
"""

from .text import Function


class Template(Function):
    """A kernel that is being written. `names`: those of its words, and the values these have."""

    def __init__(self, name: str, *others: Function) -> None:
        super().__init__(f"{name}(ptr noalias %words, i64 %chunk)", *others)
        self.function = name
        self.names: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        return self.names[name]

    def words(self, kind: str, names: str) -> list[str]:
        """The next of the words that the kernel is given."""
        for name in names.split():
            self.names[name] = self.load("%words", kind, len(self.names), step="i64")
        return [self.names[name] for name in names.split()]

    def status(self) -> None:
        """Have a word "status", the next one, which `tell` sets."""
        self.names["status"] = ""

    def tell(self, wrong: str) -> None:
        """Set the status where a condition holds."""
        with self.when(wrong):
            self.store("1", "%words", "i64", list(self.names).index("status"))

    def part(self, step: str, total: str, chunk: str = "%chunk") -> tuple[str, str]:
        """Where a chunk's part of `total` items starts and ends, `step` for each chunk."""
        start = self.product(chunk, step)
        return start, self.minimum(self.add(start, step), total)
