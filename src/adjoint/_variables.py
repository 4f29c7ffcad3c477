"""Variables: what one call of a transform differentiates with respect to.

Each call makes its own, on top of the tensors that it is given. Gradients stop at them, so that
tensors from outside are constants for this call, and variables for who wants their gradients: an
outer transform, or `backward`.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeGuard

from . import op
from ._lookahead import leading_to
from ._modes import GRAD, mode
from ._node import Leaf, Node, next_order
from ._reverse import propagate
from ._tensor import Tensor, share, wrap
from .primitives.creation import full

IDENTITY = op.elementwise("variable", x=lambda g: g, forward=lambda x: x).op


class Activity:
    """Whether a transform is at work: while it is, its variables are somebody's."""

    __slots__ = ("depth",)

    def __init__(self) -> None:
        self.depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *exception: object) -> None:
        self.depth -= 1


class Variable(Node):
    """The node of a variable: nothing is saved in it, so a backward pass releases nothing.

    `activity`: of the transform that it belongs to, if it stands on nothing else.
    """

    __slots__ = ("activity",)

    activity: Activity | None

    @property
    def saved(self) -> None:
        return None

    @saved.setter
    def saved(self, value: Any) -> None:
        pass


class Region(NamedTuple):
    """Nodes that a call made.

    `is_open`: they depend on something outside. `is_pure`: they depend on the call's own variables
    only, not even on those of calls within it that are over.
    """

    nodes: list[Node]
    is_open: bool
    is_pure: bool


class Scope:
    """One call of a transform: its variables, and which nodes depend on nothing else.

    `keeps`: whether who called may want to differentiate the results.
    """

    def __init__(self) -> None:
        self.keeps = bool(mode.word & GRAD)
        self.activity = Activity()
        self.own: set[Node] = set()  # the variables that stand on nothing
        self.start = next_order()

    def variable(self, x: Tensor) -> Tensor:
        """The values of x on a node of their own."""
        out = share(x)
        below = x.node if self.keeps else None
        # Not a leaf itself: the function may assign into its arguments.
        parent = Leaf(wrap(out.data)) if below is None else below
        plan = IDENTITY.plan((True,))
        node = out.node = Variable(plan, parent, None, out.data.shape, out.data.dtype)
        node.activity = self.activity if below is None else None
        if below is None:
            self.own.add(node)
        return out

    def outside(self, node: Node) -> bool:
        """Whether a node was there before the call, or is a leaf that somebody else has."""
        if node in self.own:
            return False
        if node.order > self.start or node.plan is None:
            return True
        return is_variable(node) and node.activity.depth > 0

    def region(self, roots: Iterable[Node]) -> Region:
        """What the roots depend on of the call's nodes."""
        own, start, is_open, is_pure = self.own, self.start, False, True
        seen = set(roots)
        stack, nodes = list(seen), []
        while stack:
            node = stack.pop()
            if node in own:
                continue
            if node.order > start or node.plan is None or is_variable(node):
                is_open, is_pure = is_open or self.outside(node), False
                continue
            nodes.append(node)
            for parent in node.inputs:
                if parent not in seen:
                    seen.add(parent)
                    stack.append(parent)
        return Region(nodes, is_open, is_pure)

    def returned(self, tensors: Sequence[Tensor], keep: bool) -> list[Tensor]:
        """The tensors as results of the call: without a graph unless it leads outside, if kept."""
        nodes = self.leading_outside(tensors) if keep else set()
        return [
            x if x.node is None or x.node in nodes or self.outside(x.node) else share(x)
            for x in tensors
        ]

    def leading_outside(self, tensors: Sequence[Tensor]) -> set[Node]:
        """The call's nodes, of those that the tensors depend on, that depend on nodes outside."""
        out: set[Node] = set()
        region = self.region(x.node for x in tensors if x.node is not None)
        for node in oldest_first(region.nodes):
            if any(parent in out or self.outside(parent) for parent in node.inputs):
                out.add(node)
        return out


def is_variable(node: Node) -> TypeGuard[Any]:
    """Whether a node is a variable that stands on nothing else."""
    return type(node) is Variable and node.activity is not None


def oldest_first(nodes: list[Node]) -> list[Node]:
    return sorted(nodes, key=lambda node: -node.order)


class Pullback:
    """The linear function from gradients of `outputs` to gradients of `variables`.

    `is_open`: whether the outputs depend on anything outside the scope.
    """

    def __init__(self, scope: Scope, outputs: list[Tensor], variables: list[Tensor]) -> None:
        self.outputs = outputs
        self.variables = variables
        self.targets = frozenset(x.node for x in variables if x.node is not None)
        self.activity = scope.activity
        region = scope.region(x.node for x in outputs if x.node is not None)
        self.is_open = region.is_open
        self.only: set[Node] | None = None
        if not region.is_pure or not scope.own <= self.targets:
            self.only = leading_to(oldest_first(region.nodes), self.targets)

    def __call__(
        self, gs: Sequence[Tensor], *, create_graph: bool = False, retain_graph: bool = True
    ) -> list[Tensor]:
        """The gradients of the variables; zeros where the outputs don't depend on one."""
        seeds = [
            (out.node, g if create_graph else share(g).data)
            for out, g in zip(self.outputs, gs, strict=True)
            if out.node is not None
        ]
        grads: dict[Node, Any] = {}
        everything = self.only is None
        with self.activity:
            propagate(
                seeds,
                grads.__setitem__ if everything else ignore,
                create_graph=create_graph,
                retain_graph=retain_graph,
                watch=frozenset() if everything else self.targets,
                watched=grads.__setitem__,
                only=None if everything else set(self.only),  # type: ignore[arg-type]
                hooks=False,
            )
        return [self.gradient(x, grads) for x in self.variables]

    def gradient(self, x: Tensor, grads: dict[Node, Any]) -> Tensor:
        node: Any = x.node
        g = grads.get(node.parents if self.only is None else node)
        if g is None:
            return filled(x, 0)
        return g if isinstance(g, Tensor) else wrap(g)


def ignore(node: Node, g: Any) -> None:
    """The gradients of leaves aren't wanted: variables are watched."""


def filled(x: Tensor, value: float) -> Tensor:
    """One value everywhere, in the shape, dtype and device of x."""
    return full(shape=x.data.shape, value=value, dtype=x.data.dtype, device=x.device)
