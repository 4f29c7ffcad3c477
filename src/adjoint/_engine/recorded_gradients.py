"""Rules that differentiate the gradient they are given: the engine's one extension point.

An op whose rule does so is declared with `needs_graph`. A pass that will come to such an output
records gradients on the way there, and nowhere else; hooks, callbacks and results see none of it.
"""

from collections.abc import Callable
from typing import Any

from .._core.node import RELEASED, Node, Output, name_of, needing_graph
from .._core.tensor import Tensor, wrap
from .._foundation.errors import GradientError
from .._foundation.modes import no_grad
from .graph_walks import leading_to, reachable
from .visit import Contributions, Pass, Receiver, Seeds, first_released


def differentiates_gradients(node: Node) -> bool:
    """Whether a node is an output of an op whose rule differentiates the gradient of one."""
    return type(node) is Output and node.parents in needing_graph


def nodes_to_record(seeds: Seeds, only: set[Node] | None) -> set[Node]:
    """Nodes whose gradients need a graph: those that lead to outputs of which rules ask it."""
    ahead = [node for node in reachable(node for node, _ in seeds) if only is None or node in only]
    needing = [node for node in ahead if type(node) is Output and node.needs_graph]
    return leading_to(ahead, needing) if needing else set()


class PartlyRecordedPass(Pass):
    """A pass in which the gradients of some nodes have a graph, and nobody outside sees it."""

    def __init__(
        self,
        recorded: set[Node],
        leaf: Receiver,
        retain_graph: bool,
        watch: frozenset[Node],
        watched: Receiver | None,
        retain: Callable[[Tensor, Tensor], None] | None,
        only: set[Node] | None,
        hooks: bool,
    ) -> None:
        leaf, watched, retain = map(without_graph, (leaf, watched, retain))
        super().__init__(leaf, True, True, watch, watched, retain, only, hooks)
        self.recorded = recorded
        self.growing = (*self.growing, recorded)
        self.release_later = first_released(retain_graph)
        self.visited: list[Node] = []

    def release(self, node: Node) -> None:
        self.visited.append(node)

    def release_visited(self) -> None:
        """Release at the end what a pass without a graph releases as it goes."""
        for node in self.visited:
            if node.order < self.release_later:
                node.saved = RELEASED

    def differentiate(
        self, plan: Any, node: Node, parents: tuple[Node, ...], g: Any
    ) -> Contributions:
        out = super().differentiate(plan, node, parents, g)
        if plan.recomputes:
            return out
        return [(x, part if x in self.recorded else wrap(part.raw)) for x, part in out]

    def run_hook(self, hook: Callable, node: Node, g: Any) -> Tensor | None:
        with no_grad():
            out = super().run_hook(hook, node, wrap(g.raw))
        if out is not None and node in self.recorded:
            raise_graph_lost(hook, node)
        return out


def without_graph(receiver: Callable[[Any, Any], None] | None) -> Any:
    """A receiver of gradients that were recorded for a rule's sake, which isn't to know it."""
    if receiver is None:
        return None

    def receive(owner: Any, g: Tensor) -> None:
        with no_grad():
            receiver(owner, wrap(g.raw))

    return receive


def raise_graph_lost(hook: Callable, node: Node) -> None:
    name = name_of(hook)
    raise GradientError(
        f"hook {name} replaces the gradient of the result of {node.name} (shape {node.shape}), "
        "which is to be differentiated: a matrix after it has equal eigenvalues or singular "
        "values, or vectors that can be chosen; pass create_graph=True, so that the hook is "
        "recorded too"
    )
