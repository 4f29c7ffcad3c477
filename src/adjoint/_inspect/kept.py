"""What nodes keep for backward, in bytes. Memory that several arrays share counts once."""

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from .._core.node import RELEASED, Leaf, Node
from .._core.tensor import Tensor
from .._foundation.dtypes import FROM_NUMPY, DType
from .._foundation.formatting import show_bytes
from .._foundation.modes import TRACE, mode


class Kept(NamedTuple):
    """An array that a node keeps: what its rule calls it, its shape, and the bytes of its memory.

    `note` is "parameter" for the memory of a leaf's own values, "shared" for memory that an
    earlier node keeps too, and "shared with x" where the node keeps it under the name x already.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    bytes: int
    note: str

    def __str__(self) -> str:
        return f"{self.name} ({self.note})" if self.note else self.name

    @property
    def is_counted(self) -> bool:
        """Whether its bytes add to the total."""
        return self.note in ("", "parameter")


class Ledger:
    """Adds up what nodes keep, in the order in which they come."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.parameters = {id(owner_of(x)[0]) for node in nodes for x in own_values(node)}
        self.counted: set[int] = set()
        self.bytes = 0
        self.parameter_bytes = 0

    def kept(self, node: Node) -> list[Kept]:
        """What a node keeps."""
        here: dict[int, str] = {}
        out = []
        for name, array in named_arrays(node):
            owner, size = owner_of(array)
            note = self.note(id(owner), here.setdefault(id(owner), name), name)
            out.append(Kept(name, tuple(array.shape), FROM_NUMPY[array.dtype], size, note))
            if out[-1].is_counted:
                self.counted.add(id(owner))
                self.bytes += size
                self.parameter_bytes += size if note else 0
        return out

    def note(self, key: int, first: str, name: str) -> str:
        if first != name:
            return f"shared with {first}"
        if key in self.counted:
            return "shared"
        return "parameter" if key in self.parameters else ""

    def of_parameters(self) -> str:
        """How much of the total are values of leaves, in words."""
        if not self.parameter_bytes:
            return ""
        return f", of which parameters {show_bytes(self.parameter_bytes)}"


def saved_by_name(node: Node) -> dict[str, Any]:
    """What a node keeps, by the names that its rules give it; nothing after its release."""
    if node.saved is RELEASED or node.plan is None:
        return {}
    if node.plan.recomputes:
        return {"arguments": node.saved}
    return dict(zip(node.plan.names, node.plan.unpacked(node.saved), strict=True))


def named_arrays(node: Node) -> Iterator[tuple[str, Any]]:
    for name, value in saved_by_name(node).items():
        arrays = list(arrays_in(value))
        for k, array in enumerate(arrays):
            yield (name if len(arrays) == 1 else f"{name}[{k}]"), array


def arrays_in(saved: Any) -> Iterator[Any]:
    """The raw arrays in what a node keeps; an object that holds some lists them in `kept`."""
    if isinstance(saved, (tuple, list)):
        for part in saved:
            yield from arrays_in(part)
    elif isinstance(saved, Tensor):
        yield saved.raw
    elif hasattr(saved, "kept"):
        yield from arrays_in(list(saved.kept))
    elif hasattr(saved, "dtype") and hasattr(saved, "shape"):
        yield saved


def owner_of(array: Any) -> tuple[Any, int]:
    """What owns an array's memory, and how large that is: a view keeps the whole of it."""
    size = nbytes(array)
    while (base := getattr(array, "base", None)) is not None:
        array = base
        if hasattr(array, "dtype"):
            size = nbytes(array)
    return array, size


def nbytes(array: Any) -> int:
    return math.prod(array.shape) * array.dtype.itemsize


def own_values(node: Node) -> list[Any]:
    """The raw values of a leaf's tensor, and what stands for them in the trace under way."""
    tensor = node.tensor() if isinstance(node, Leaf) else None
    if tensor is None:
        return []
    stand_in = mode.trace.captures.get(id(tensor)) if mode.word & TRACE else None
    return [tensor.raw, stand_in[0]] if stand_in else [tensor.raw]
