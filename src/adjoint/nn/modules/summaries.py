"""What a module is made of, as a table: layers, what they give, parameters, memory."""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from ... import random
from ..._core.tensor import Tensor, describe, share
from ..._foundation.formatting import show_bytes, table
from ..._foundation.modes import no_grad
from ..._foundation.trees import leaves
from ...functions.creation import zeros
from .calls import Called
from .tree import places


class Row(NamedTuple):
    """A layer: its place in the tree, what it gives, and what parameters it has itself."""

    path: str
    layer: str
    output: str
    parameters: int
    bytes: int


class Summary(NamedTuple):
    """A table of layers; printed, it is what people read.

    Shared parameters count once in the totals. `output_bytes` are those of the layers that aren't
    made of others: about what a forward pass with gradients keeps.
    """

    rows: list[Row]
    parameters: int
    trainable: int
    parameter_bytes: int
    buffer_bytes: int
    output_bytes: int | None

    def __repr__(self) -> str:
        head = ("layer", "output", "parameters", "memory")
        cells = [
            (indented(row), row.output, f"{row.parameters:,}", show_bytes(row.bytes))
            for row in self.rows
        ]
        shown = [head, *cells]
        if self.output_bytes is None:
            shown = [(first, *rest) for first, _, *rest in shown]
        columns = len(shown[0])
        return "\n".join([*table(shown, right=(columns - 2, columns - 1)), *self._totals()])

    def _totals(self) -> list[str]:
        frozen = self.parameters - self.trainable
        sizes = {"parameters": self.parameter_bytes, "buffers": self.buffer_bytes}
        if self.output_bytes is not None:
            sizes["outputs"] = self.output_bytes
        return [
            f"{self.parameters:,} parameters" + (f", {frozen:,} of them frozen" if frozen else ""),
            ", ".join(f"{name} {show_bytes(size)}" for name, size in sizes.items()),
        ]


def indented(row: Row) -> str:
    depth = row.path.count(".") + 1 if row.path else 0
    name = row.path.rpartition(".")[2]
    return "  " * depth + (f"{name} ({row.layer})" if name else row.layer)


def summarize(module: Any, inputs: tuple) -> Summary:
    outputs = observe(module, inputs) if inputs else {}
    rows = [row(path, part, outputs) for path, part in places(module)]
    parameters = list(module.parameters())
    simple = [
        part for part in module.modules() if not any(child for _, child in part._attributes())
    ]
    sizes = [x.nbytes for part in simple for x in outputs.get(id(part), ())]
    return Summary(
        rows,
        sum(p.size for p in parameters),
        sum(p.size for p in parameters if p.requires_grad),
        sum(p.nbytes for p in parameters),
        sum(b.nbytes for b in module.buffers()),
        sum(sizes) if inputs else None,
    )


def row(path: str, part: Called, outputs: dict[int, list[Tensor]]) -> Row:
    own = part._own_parameters().values()
    given = outputs.get(id(part))
    shown = "not called" if given is None else ", ".join(map(describe, given))
    return Row(
        path, type(part).__name__, shown, sum(p.size for p in own), sum(p.nbytes for p in own)
    )


def observe(module: Any, inputs: tuple) -> dict[int, list[Tensor]]:
    """Call the whole module in evaluation: the tensors that each part gave at its last call, by
    the part's id. Afterwards it and the random numbers are as before."""
    outputs: dict[int, list[Tensor]] = {}

    def note(part: Called, args: tuple, out: Any) -> None:
        outputs[id(part)] = [x for x in leaves(out) if isinstance(x, Tensor)]

    with no_grad(), contextlib.ExitStack() as stack:
        stack.enter_context(unchanged(module))
        for part in module.modules():
            stack.enter_context(part.register_forward_hook(note))
        module(*(as_input(module, x) for x in inputs))
    for part in module.modules():
        part._drop_empty_hooks()
    return outputs


def as_input(module: Any, x: Any) -> Any:
    """A shape stands for zeros, such as the parameters are."""
    if not isinstance(x, tuple | list) or not all(isinstance(n, int) for n in x):
        return x
    like = next(module.parameters(), None)
    return zeros(x) if like is None else zeros(x, dtype=like.dtype, device=like.device)


@contextlib.contextmanager
def unchanged(module: Any) -> Iterator[None]:
    """Evaluate a module; then all of it trains that did so before, and nothing else has changed."""
    modes = [(part, part.training) for part in module.modules()]
    buffers = [(buffer, share(buffer)) for buffer in module.buffers()]
    state = random.get_state()
    for part, _ in modes:
        part.training = False  # without calls of `eval`, which may change more than the mode
    try:
        yield
    finally:
        random.set_state(state)
        for part, training in modes:
            part.training = training
        for buffer, value in buffers:
            buffer[...] = value
