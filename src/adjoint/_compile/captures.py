"""Weak references to captured tensors in a graph, and constants that are the graph's own."""

import weakref
from typing import Any

import numpy as np

from .._core.tensor import Tensor, wrap
from .._foundation.trees import map_tree
from .._trace.graph import Graph, Result, Same, last_uses
from .._trace.recording import Slot, Traced
from .signature import plain_value


def hold_weakly(graph: Graph) -> list[Tensor]:
    """Let a graph know tensors from outside weakly; returns them.

    Those that nobody else has are the function's own: numbers that rules keep, and what was made of
    Python's and NumPy's. They are constants of the graph, equal numbers one.
    """
    raws: dict[int, tuple[weakref.ref, Any]] = {}

    def weak(slot: Slot) -> Slot:
        if not isinstance(slot.owner, Tensor):
            return slot
        ref = weakref.ref(slot.owner)
        raws[id(ref)] = ref, slot.owner.raw
        return slot._replace(owner=ref)

    graph.captures = [(value, weak(slot)) for value, slot in graph.captures]
    graph.writes = [write._replace(slot=weak(write.slot)) for write in graph.writes]
    graph.without_grad = [weak(slot) for slot in graph.without_grad]
    graph.arguments = map_tree(weakly, graph.arguments)
    dead = {key: raw for key, (ref, raw) in raws.items() if ref() is None}
    graph.writes = [write for write in graph.writes if id(write.slot.owner) not in dead]
    graph.without_grad = [slot for slot in graph.without_grad if id(slot.owner) not in dead]
    merge_constants(graph, dead)
    return [tensor for ref, _ in raws.values() if (tensor := ref()) is not None]


def weakly(x: Any) -> Any:
    """An argument that stands for itself; values are as they are."""
    if type(x) is Traced or plain_value(x) is not None:
        return x
    try:
        return Same(x)
    except TypeError:  # there are no weak references to it
        return x


def merge_constants(graph: Graph, arrays: dict[int, Any]) -> None:
    """Let the graph keep the arrays of tensors that are gone, each once; they are found by the ids
    of the references to these."""
    first: dict[Any, Traced] = {}
    replaced: dict[Any, Traced] = {}
    captures: list[tuple[Traced, Slot]] = []
    for value, slot in graph.captures:
        if id(slot.owner) not in arrays:
            captures.append((value, slot))
            continue
        raw: Any = arrays[id(slot.owner)]
        key: Any = id(raw)
        if type(raw) is np.ndarray and not raw.shape:
            key = raw.dtype, raw.tobytes()
        if key in first:
            replaced[value] = first[key]
        else:
            first[key] = value
            captures.append((value, Slot(wrap(raw))))
    graph.captures = captures
    if replaced:
        substitute(graph, replaced)


def substitute(graph: Graph, replaced: dict[Any, Traced]) -> None:
    """Let other values stand for some."""

    def other(x: Any) -> Any:
        return replaced.get(x, x) if type(x) is Traced else x

    def in_result(result: Result) -> Result:
        sources = tuple(map(other, result.sources))
        return result._replace(value=other(result.value), sources=sources)

    graph.steps = [step._replace(inputs=tuple(map(other, step.inputs))) for step in graph.steps]
    graph.outputs = map_tree(other, graph.outputs)
    graph.results = [in_result(result) for result in graph.results]
    graph.writes = [
        write if write.result is None else write._replace(result=in_result(write.result))
        for write in graph.writes
    ]
    graph.last_uses = last_uses(graph.steps, {result.value for result in graph.kept})
