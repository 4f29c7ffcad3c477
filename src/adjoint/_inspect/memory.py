"""`ad.memory`: what a graph keeps for backward, the largest first."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .._core.node import RELEASED
from .._core.tensor import Tensor
from .._foundation.formatting import show_bytes, table
from .entries import Reader, result_types, roots_of, show_types
from .kept import Kept

LONGEST_TABLE = 40
HEADER = ("bytes", "node", "op", "result", "keeps")


class Row(NamedTuple):
    """What one node keeps: `bytes` are those that no node before it keeps."""

    name: str
    op: str
    shape: Any
    dtype: Any
    keeps: tuple[Kept, ...]
    bytes: int

    def cells(self) -> tuple[str, ...]:
        keeps = ", ".join(map(str, self.keeps))
        result = ", ".join(show_types(self.shape, self.dtype))
        return show_bytes(self.bytes), f"%{self.name}", self.op, result, shortened(keeps)


class Memory:
    """What is kept for backward: `rows` by node, the largest first; prints as a table.

    `total` counts memory that several nodes keep once; `parameters` is the part of it that holds
    the values of leaves, which are there anyway. `released` nodes have given up what they kept.
    """

    def __init__(self, reader: Reader) -> None:
        self.rows: list[Row] = sorted(rows(reader), key=lambda row: -row.bytes)
        self.total = reader.ledger.bytes
        self.parameters = reader.ledger.parameter_bytes
        self.released = sum(node.saved is RELEASED for node in reader.nodes)
        self._others = len(reader.nodes) - len(self.rows) - self.released
        self._of_parameters = reader.ledger.of_parameters()

    def __repr__(self) -> str:
        shown = self.rows[:LONGEST_TABLE]
        lines = table([HEADER, *(row.cells() for row in shown)], right=[0]) if shown else []
        hidden = self.rows[LONGEST_TABLE:]
        if hidden:
            rest = show_bytes(sum(row.bytes for row in hidden))
            lines.append(f"... {len(hidden)} more, which keep {rest} ...")
        return "\n".join([*lines, *self.totals()])

    def totals(self) -> Iterator[str]:
        """The lines below the table."""
        others = f"nodes that keep nothing: {self._others}"
        yield f"total {show_bytes(self.total)}{self._of_parameters}; {others}"
        if self.released:
            yield f"nodes that a backward has released: {self.released}"


def rows(reader: Reader) -> Iterator[Row]:
    for node in reader.nodes:
        kept = tuple(reader.ledger.kept(node))
        if kept:
            shape, dtype = result_types(node)
            own = sum(x.bytes for x in kept if x.is_counted)
            yield Row(reader.names[node], node.name, shape, dtype, kept, own)


def shortened(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def memory(tensors: Any, *, names: Mapping[str, Tensor] | None = None) -> Memory:
    """What the graph of a tensor, or of several, keeps for backward, the largest first.

    Rules say by name what they need: an input, or the result. Memory that several nodes keep
    counts at the first of them, and a view counts as the whole that it is a part of. `names` is as
    in `ad.graph`.

    >>> x, w = ad.ones((64, 100)), ad.zeros((100, 10), requires_grad=True)
    >>> bias = ad.zeros(10, requires_grad=True)
    >>> h = ad.tanh(x @ w + bias)
    >>> ad.memory((h * h).sum(), names={"h": h})
       bytes  node  op        result           keeps
    25.0 KiB  %2    matmul    float32[64, 10]  x
     2.5 KiB  %h    tanh      float32[64, 10]  out
         0 B  %5    multiply  float32[64, 10]  y (shared), x (shared with y)
    total 27.5 KiB; nodes that keep nothing: 4
    """
    return Memory(Reader(roots_of("memory", tensors), names))
