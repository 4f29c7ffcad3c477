"""`ad.graph`: what was recorded for tensors, to read and to draw."""

from collections.abc import Mapping
from typing import Any

from .._core.tensor import Tensor
from .._foundation.errors import ArgumentError
from .._foundation.formatting import show_bytes
from .entries import Entry, Reader, roots_of
from .mermaid import flowchart
from .svg import LARGEST, drawing

LONGEST_TEXT = 100
LARGEST_IN_NOTEBOOK = 200


class Recorded:
    """What was recorded for tensors: prints as text, and shows as a picture in a notebook.

    `nodes` are the entries, oldest first, `roots` the names of what was asked for, `bytes` what is
    kept for backward, `parameter_bytes` how much of that are values of leaves.
    """

    def __init__(self, reader: Reader, roots: list[str]) -> None:
        self.nodes: list[Entry] = list(reader.entries())
        self.roots = roots
        self.bytes = reader.ledger.bytes
        self.parameter_bytes = reader.ledger.parameter_bytes
        self._of_parameters = reader.ledger.of_parameters()

    def __repr__(self) -> str:
        return self.text()

    def __len__(self) -> int:
        return len(self.nodes)

    def text(self, limit: int | None = LONGEST_TEXT) -> str:
        """One line per node; beyond `limit` nodes those in the middle are left out."""
        lines = [*shortened(self.nodes, limit), f"return {self.returned()}", self.totals()]
        return "\n".join(lines)

    def returned(self) -> str:
        return ", ".join(f"%{name}" for name in self.roots)

    def totals(self) -> str:
        """The last line of the text."""
        ops = sum(not entry.is_leaf for entry in self.nodes)
        released = sum("released" in entry.marks for entry in self.nodes)
        leaves = len(self.nodes) - ops
        text = f"{counted(len(self), 'node')}, {counted(leaves, 'leaf', 'leaves')}, "
        if released == ops and ops:
            return f"{text}nothing kept: backward has released it"
        part = f"; {counted(released, 'node')} released" if released else ""
        return f"{text}{show_bytes(self.bytes)} kept for backward{self._of_parameters}{part}"

    def mermaid(self) -> str:
        """The graph as a Mermaid flowchart, which many Markdown renderers draw.

        >>> x = ad.tensor([1.0, 2.0], requires_grad=True)
        >>> print(ad.graph(ad.exp(x)).mermaid())
        flowchart TD
          n0(["leaf<br/>float32[2]"])
          n1["exp<br/>float32[2]<br/>keeps 8 B"]
          n0 --> n1
          classDef root stroke-width:4px
          class n1 root
        """
        return flowchart(self.nodes, self.roots)

    def svg(self) -> str:
        """The picture as the text of an SVG file."""
        if len(self) > LARGEST:
            raise ArgumentError(
                f"svg: a picture of {len(self)} nodes can't be read, {LARGEST} is the limit; print "
                "the graph, or ask for the graph of a tensor on the way"
            )
        return drawing(self.nodes, self.roots)

    def _repr_svg_(self) -> str | None:
        return self.svg() if len(self) <= LARGEST_IN_NOTEBOOK else None


def shortened(entries: list[Entry], limit: int | None) -> list[str]:
    if limit is not None and (type(limit) is not int or limit < 1):
        raise ArgumentError(f"text: limit is a positive integer or None, got {limit!r}")
    if limit is None or len(entries) <= limit:
        return [str(entry) for entry in entries]
    tail = limit // 2
    head = limit - tail
    hidden = entries[head : len(entries) - tail]
    kept = sum(entry.bytes for entry in hidden)
    more = f"... {len(hidden)} more" + (f", which keep {show_bytes(kept)}" if kept else "") + " ..."
    return [*map(str, entries[:head]), more, *map(str, entries[len(entries) - tail :])]


def counted(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def graph(tensors: Any, *, names: Mapping[str, Tensor] | None = None) -> Recorded:
    """What was recorded for a tensor, or for several in tuples, lists and dicts.

    It prints in the order of computation, with the bytes that each op keeps for backward; `_`
    stands for an input that needs no gradient and wasn't kept. A notebook shows a picture of up to
    200 nodes. `names` says what tensors are called: parameters, or results on the way; names of
    tensors that aren't part of the graph are left out.

    >>> w = ad.ones((3, 2), requires_grad=True)
    >>> h = ad.tanh(ad.ones((4, 3)) @ w)
    >>> ad.graph((h * h).sum(), names={"w": w, "h": h})
    %w : float32[3, 2] leaf
    %1 : float32[4, 2] = matmul(float32[4, 3], %w)  keeps 48 B
    %h : float32[4, 2] = tanh(%1)  keeps 32 B
    %3 : float32[4, 2] = multiply(%h, %h)  shares 32 B
    %4 : float32[] = sum(%3, axis=(0, 1))
    return %4
    5 nodes, 1 leaf, 80 B kept for backward
    """
    roots = roots_of("graph", tensors)
    reader = Reader(roots, names)
    return Recorded(reader, list(dict.fromkeys(reader.names[node] for node in roots)))
