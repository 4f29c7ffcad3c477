"""Variables: what one call of a transform differentiates with respect to.

Each call makes its own, on top of the tensors that it is given. Gradients stop at them, so that
tensors from outside are constants for this call, and variables for who wants their gradients: an
outer transform, or `backward`.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from .. import op
from .._core.node import Argument, Node, next_order
from .._core.tensor import Tensor, share, wrap
from .._engine.graph_walks import Region, leading_to, region
from .._engine.propagation import propagate
from .._foundation.modes import GRAD, mode
from ..primitives.creation import full

IDENTITY = op.elementwise("variable", x=lambda g: g, forward=lambda x: x).op


class Variable(Node):
    """The node of a variable: nothing is saved in it, so a backward pass releases nothing."""

    __slots__ = ()

    @property
    def saved(self) -> None:
        return None

    @saved.setter
    def saved(self, value: Any) -> None:
        pass


class Scope:
    """One call of a transform: which nodes it made, and what these depend on from outside.

    `keeps`: whether who called may want to differentiate the results. `closed`: nodes from before
    the call that are known to depend on nothing outside.
    """

    def __init__(self, transform: str, closed: Collection[Node] = ()) -> None:
        self.transform = transform
        self.keeps = bool(mode.word & GRAD)
        self.closed = closed
        self.start = next_order()

    def variable(self, x: Tensor) -> Tensor:
        """The values of x on a node of their own."""
        out = share(x)
        below = x.node if self.keeps else None
        # Not a leaf itself: the function may assign into its arguments.
        parent = below or Argument(wrap(out.raw), self.transform)
        plan = IDENTITY.plan((True,))
        out.node = Variable(plan, parent, None, out.raw.shape, out.raw.dtype)
        return out

    def outside(self, node: Node) -> bool:
        """Whether an end of a region was there before the call, or is a leaf that somebody has."""
        if node.order > self.start:
            return node not in self.closed
        return node.plan is None and node.tensor() is not None  # type: ignore[attr-defined]

    def region(self, roots: Iterable[Node]) -> Region:
        """Nodes that the call made, and the ends: leaves, and nodes that it didn't make."""
        return region(roots, newer_than=self.start)

    def depending_on_nothing(self, roots: Iterable[Node]) -> set[Node]:
        """The nodes, of those that the roots depend on, that depend on nothing outside."""
        region = self.region(roots)
        out = {node for node in region.ends if not self.outside(node)}
        for node in oldest_first(region.nodes):
            if out.issuperset(node.inputs):
                out.add(node)
        return out

    def returned(self, tensors: Sequence[Tensor], keep: bool) -> list[Tensor]:
        """The tensors as results of the call: without a graph unless it leads outside, if kept."""
        roots = [x.node for x in tensors if x.node is not None]
        if keep:
            closed = self.depending_on_nothing(roots)
        else:
            closed = {node for node in roots if not self.outside(node)}
        return [share(x) if x.node in closed else x for x in tensors]


def oldest_first(nodes: list[Node]) -> list[Node]:
    return sorted(nodes, key=lambda node: -node.order)


class Pullback:
    """The linear function from gradients of `outputs` to gradients of `variables`.

    `is_open`: whether the outputs depend on anything outside the scope. `only`: the nodes that lead
    to the variables; None if all do.
    """

    def __init__(self, scope: Scope, outputs: list[Tensor], variables: list[Tensor]) -> None:
        self.roots = [x.node for x in outputs]  # as they are now: who has the tensors may assign
        self.variables = variables
        self.targets = frozenset(x.node for x in variables if x.node is not None)
        region = scope.region(node for node in self.roots if node is not None)
        self.is_open = any(map(scope.outside, region.ends))
        self.only: set[Node] | None = None
        # To look at each node of the graph costs a third of a gradient's time.
        if self.is_open or not {node.parents for node in self.targets}.issuperset(region.ends):
            self.only = leading_to(oldest_first(region.nodes), self.targets)

    def __call__(
        self, gs: Sequence[Tensor], *, create_graph: bool = False, retain_graph: bool = True
    ) -> list[Tensor]:
        """The gradients of the variables; zeros where the outputs don't depend on one."""
        seeds = [
            (node, g if create_graph else share(g).raw)
            for node, g in zip(self.roots, gs, strict=True)
            if node is not None
        ]
        grads: dict[Node, Any] = {}
        propagate(
            seeds,
            ignore,
            create_graph=create_graph,
            retain_graph=retain_graph,
            watch=self.targets,
            watched=grads.__setitem__,
            only=self.only and set(self.only),  # a copy: checkpoints add to it
            hooks=False,
        )
        return [gradient(x, grads) for x in self.variables]


def gradient(x: Tensor, grads: dict[Node, Any]) -> Tensor:
    g = grads.get(x.node)  # type: ignore[arg-type]
    if g is None:
        return filled(x, 0)
    return twin(g) if isinstance(g, Tensor) else wrap(g)


def ignore(node: Node, g: Any) -> None:
    """The gradients of leaves aren't wanted: variables are watched."""


def twin(x: Tensor) -> Tensor:
    """The values of x on its node, as another tensor: assigning to one leaves the other alone."""
    return wrap(share(x).raw, x.node)


def filled(x: Tensor, value: float) -> Tensor:
    """One value everywhere, in the shape, dtype and device of x."""
    return full(shape=x.raw.shape, value=value, dtype=x.raw.dtype, device=x.device)
