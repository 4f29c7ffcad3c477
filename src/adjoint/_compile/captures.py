"""Weak references to captured tensors in a graph, and constants that are the graph's own."""

import weakref
from typing import Any

import numpy as np

from .._core.tensor import Tensor, wrap
from .._foundation.trees import map_tree
from .._trace.graph import Graph, Same, last_uses
from .._trace.recording import Slot, Traced
from .seen import seen


def hold_weakly(graph: Graph) -> list[Tensor]:
    """Let a graph know tensors from outside weakly; returns them.

    Those that nobody else has are the function's own: numbers that rules keep, and what was made of
    Python's and NumPy's. They are constants of the graph, equal numbers one.
    """
    raws: dict[int, tuple[weakref.ref, Any]] = {}

    def weak(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        ref = weakref.ref(x)
        raws[id(ref)] = ref, x.raw
        return ref

    for name in ("captures", "writes", "without_grad"):
        setattr(graph, name, map_tree(weak, getattr(graph, name)))
    graph.arguments = map_tree(weakly, graph.arguments)
    gone = {key: raw for key, (ref, raw) in raws.items() if ref() is None}
    graph.writes = [write for write in graph.writes if id(write.slot.owner) not in gone]
    graph.without_grad = [slot for slot in graph.without_grad if id(slot.owner) not in gone]
    merge_constants(graph, gone)
    return [tensor for ref, _ in raws.values() if (tensor := ref()) is not None]


def weakly(x: Any) -> Any:
    """An argument that stands for itself; values are as they are."""
    key = None if type(x) is Traced else seen(x)
    return key if type(key) is Same else x


def merge_constants(graph: Graph, arrays: dict[int, Any]) -> None:
    """Let the graph keep the arrays of tensors that are gone, each once; they are found by the ids
    of the references to these."""
    first: dict[Any, Traced] = {}
    replaced: dict[Traced, Traced] = {}
    captures: list[tuple[Traced, Slot]] = []
    for value, slot in graph.captures:
        if id(slot.owner) in arrays:
            raw: Any = arrays[id(slot.owner)]
            is_number = type(raw) is np.ndarray and not raw.shape
            key = (raw.dtype, raw.tobytes()) if is_number else id(raw)
            replaced[value] = first.setdefault(key, value)
            slot = Slot(wrap(raw))
        if replaced.get(value, value) is value:
            captures.append((value, slot))

    def merged(x: Any) -> Any:
        return replaced.get(x, x) if type(x) is Traced else x

    graph.captures = captures
    for name in ("steps", "outputs", "results", "writes"):
        setattr(graph, name, map_tree(merged, getattr(graph, name)))
    graph.last_uses = last_uses(graph.steps, {result.value for result in graph.kept})
