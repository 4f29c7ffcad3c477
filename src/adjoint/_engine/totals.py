"""Gradients on their way: the total of each node that waits, and which node is next."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from .._core.node import Node
from .lazy_gradients import Pending, materialize
from .visit import Part

MOST_WAITING = 4  # nodes with pending gradients, which keep what was saved in memory


class Totals:
    """A heap of nodes, newest first, and `grads`: what has arrived at each of them.

    `order`: the heap keys of nodes that come out of turn. `add(grads, node, g)`: a node's gradient
    plus another; `add_part` the same for gradients of several outputs, in a list. `current`: the
    node that is being visited, as far as an error has to know.

    `contribute(node, g)` adds to a node's gradient; the first time, the node begins to wait.
    """

    __slots__ = ("add_part", "contribute", "current", "grads", "heap", "order", "waiting")

    def __init__(self, order: dict[Node, float], add: Callable, add_part: Callable) -> None:
        self.order = order
        self.add_part = add_part
        self.current: Node | None = None
        self.waiting: list[Node] = []  # nodes whose gradients may be pending
        grads: dict[Node, Any] = {}
        heap: list[tuple[float, Node]] = []
        self.grads, self.heap = grads, heap

        def contribute(node: Node, g: Any) -> None:  # of names around it: a method looks them up
            if node in grads:
                grads[node] = add(grads, node, g)
            else:
                grads[node] = g
                heappush(heap, (order.get(node, node.order) if order else node.order, node))

        self.contribute: Callable[[Node, Any], None] = contribute

    def contribute_pending(self, node: Node, g: Any) -> None:
        """Contribute what may be computed later; those that wait longest are computed now, as what
        they hold would be free otherwise."""
        self.contribute(node, g)
        self.waiting.append(node)
        while len(self.waiting) > MOST_WAITING:
            oldest = self.waiting.pop(0)
            if type(self.grads.get(oldest)) is Pending:
                self.grads[oldest] = materialize(self.grads[oldest])

    def collect(self, node: Node, part: Part) -> None:
        """Keep the gradient of one output until the op that has several of them is popped."""
        parts = self.grads.get(node)
        if parts is None:
            parts = self.grads[node] = [None] * len(node.shape)
            heappush(self.heap, (node.order, node))
        missing = parts[part.output] is None
        parts[part.output] = part.g if missing else self.add_part(parts, part.output, part.g)

    def pop(self) -> tuple[Node, Any] | None:
        """The next node, and its gradient; None if none is left."""
        if not self.heap:
            return None
        self.current = node = heappop(self.heap)[1]
        return node, self.grads.pop(node)
