"""Looking ahead: the one optional pass over the graph before gradients flow."""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from .._core.node import Node


class Region(NamedTuple):
    """Nodes that others depend on, and the `ends` beyond which nobody looked."""

    nodes: list[Node]
    ends: list[Node]


def region(
    roots: Iterable[Node], newer_than: float = math.inf, is_end: Callable | None = None
) -> Region:
    """What the roots depend on, up to leaves, older nodes, and those that `is_end` says."""
    nodes, ends = [], []
    seen = set(roots)
    stack = list(seen)
    while stack:
        node = stack.pop()
        if node.order > newer_than or node.plan is None or (is_end and is_end(node)):
            ends.append(node)
            continue
        nodes.append(node)
        for parent in node.inputs:
            if parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return Region(nodes, ends)


def reachable(roots: Iterable[Node], newer_than: float = math.inf) -> list[Node]:
    """All nodes that gradients could reach, oldest first; of those only the newer than an order."""
    seen = {node for node in roots if node.order < newer_than}
    stack = list(seen)
    while stack:
        for parent in stack.pop().inputs:
            if parent.order < newer_than and parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return sorted(seen, key=lambda node: -node.order)


def leading_to(nodes: list[Node], targets: Iterable[Node]) -> set[Node]:
    """The nodes, of `nodes` oldest first, from which a target can be reached."""
    useful = set(targets)
    add_leading(nodes, useful)
    return useful


def add_leading(nodes: list[Node], useful: set[Node]) -> None:
    """Add the nodes, of `nodes` oldest first, from which a useful one can be reached."""
    for node in nodes:
        if any(parent in useful for parent in node.inputs):
            useful.add(node)


def early_leaves(nodes: list[Node]) -> dict[Node, float]:
    """Heap keys that let each leaf come right after the last node that contributes to it."""
    order: dict[Node, float] = {}
    for node in nodes:
        for parent in node.inputs:
            if parent.plan is None:
                order[parent] = max(order.get(parent, -math.inf), node.order + 0.5)
    return order
