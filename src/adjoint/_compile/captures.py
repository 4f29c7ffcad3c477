"""Weak references to captured tensors in a graph, and constants that are the graph's own."""

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.tensor import Tensor, wrap
from .._foundation.trees import map_tree
from .._trace.graph import Graph, last_uses
from .._trace.keys import Same, key_of
from .._trace.recording import Slot, Traced

KNOWING = ("captures", "writes", "without_grad", "looked_at")  # tensors from outside
GIVING = ("outputs", "results", "writes")


def hold_weakly(graph: Graph) -> list[Tensor]:
    """Let a graph know tensors from outside weakly; returns them.

    Those that nobody else has are the function's own: numbers that rules keep, and what was made of
    Python's and NumPy's. They are constants of the graph, equal numbers one.
    """
    raws = {x: slot.owner.raw for x, slot in graph.captures if isinstance(slot.owner, Tensor)}
    replace(graph, lambda x: weakref.ref(x) if isinstance(x, Tensor) else x, KNOWING)
    graph.arguments = map_tree(as_argument, graph.arguments)
    graph.writes = [write for write in graph.writes if not is_gone(write.slot)]
    graph.without_grad = [slot for slot in graph.without_grad if not is_gone(slot)]
    graph.looked_at = [slot for slot in graph.looked_at if not is_gone(slot)]
    merge_constants(graph, raws)
    slots = [*graph.without_grad, *graph.looked_at, *[write.slot for write in graph.writes]]
    refs = [slot.owner for slot in slots] + [slot.owner for _, slot in graph.captures]
    return [x for ref in refs if isinstance(ref, weakref.ref) and (x := ref()) is not None]


def as_argument(x: Any) -> Any:
    """What stands for an argument that must be the same object; values are as they are."""
    key = None if type(x) is Traced else key_of(x)
    return key if type(key) is Same else x


def is_gone(slot: Slot) -> bool:
    return isinstance(slot.owner, weakref.ref) and slot.owner() is None


def merge_constants(graph: Graph, raws: dict[Traced, Any]) -> None:
    """Let the graph keep the arrays of tensors that are gone, each once."""
    first: dict[Any, Traced] = {}
    merged: dict[Any, Traced] = {}
    captures = []
    for value, slot in graph.captures:
        if is_gone(slot):
            raw = raws[value]
            is_number = type(raw) is np.ndarray and not raw.shape
            key = (raw.dtype, raw.tobytes()) if is_number else id(raw)
            merged[value] = first.setdefault(key, value)
            slot = Slot(wrap(raw))
        if merged.get(value, value) is value:
            captures.append((value, slot))
    are_merged, graph.captures = len(captures) < len(graph.captures), captures
    if are_merged:
        inputs = [tuple([merged.get(x, x) for x in step.inputs]) for step in graph.steps]
        graph.steps = [x._replace(inputs=y) for x, y in zip(graph.steps, inputs, strict=True)]
        replace(graph, lambda x: merged.get(x, x) if type(x) is Traced else x, GIVING)
        graph.last_uses = last_uses(graph.steps, {result.value for result in graph.kept})


def replace(graph: Graph, function: Callable[[Any], Any], parts: tuple[str, ...]) -> None:
    for name in parts:
        setattr(graph, name, map_tree(function, getattr(graph, name)))
