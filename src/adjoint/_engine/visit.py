"""One backward pass: what it is for, and what happens at a node. Engines decide when.

An engine calls `visit` with a node's total gradient and adds up the contributions that come back.
"""

import math
from collections.abc import Callable
from functools import partial
from itertools import compress
from typing import Any, NamedTuple

from .. import backends
from .._core.node import RELEASED, Node, call_hook, name_of, registered
from .._core.plan import call_compiled
from .._core.tensor import Tensor, wrap
from .._foundation.blocks import Block, ends
from .._foundation.errors import GradientError
from .._foundation.modes import ANOMALY, GRAD, TRACE, mode
from .._foundation.spans import region
from .graph_walks import add_leading, reachable
from .rules import check_gradients, check_total, fitted, pullback

Receiver = Callable[[Node, Any], None]
Contributions = list[tuple[Node, Any]]
Seeds = list[tuple[Node, Any]]


class Part(NamedTuple):
    """A contribution to one output of an op with several."""

    output: int
    g: Any


class Pass:
    """One backward pass: its purpose, see `propagation.propagate`, and how it treats nodes.

    `fast`: gradients are raw arrays that nothing but arithmetic is done with, so that compiled
    rules can be used. `frontier`: the heap key up to which the graph is done that was there before
    checkpoints recomputed theirs. `growing`: sets of nodes that what those recompute joins, if it
    leads to them. `instrument`: what a profile sees the pass through.
    """

    instrument: Any = None

    def __init__(
        self,
        leaf: Receiver,
        create_graph: bool,
        retain_graph: bool,
        watch: frozenset[Node],
        watched: Receiver | None,
        retain: Callable[[Tensor, Tensor], None] | None,
        only: set[Node] | None,
        hooks: bool,
    ) -> None:
        self.leaf = leaf
        self.create_graph = create_graph
        self.watch = watch
        self.watched = watched
        self.retain = retain
        self.only = only
        self.hooks = hooks
        self.anomaly = bool(mode.word & ANOMALY)
        self.fast = not create_graph and not mode.word & (ANOMALY | TRACE)
        self.release_from = first_released(retain_graph or create_graph)
        self.frontier = -math.inf
        self.growing: tuple[set[Node], ...] = () if only is None else (only,)

    def wants(self, node: Node) -> bool:
        return self.only is None or node in self.only

    def visit(self, node: Node, g: Any) -> Contributions:
        """Do what a node's total gradient asks for; return contributions to other nodes."""
        g = self.receive(node, g)
        plan, parents = node.plan, node.inputs
        if plan is None:
            self.leaf(node, g)
            return []
        if self.only is not None:
            plan, parents = pruned(plan, node, self.only)
        if not parents:
            return []
        if node.saved is RELEASED:
            raise_released(node)
        if plan.output is not None:
            return [(node.parents, Part(plan.output, g))]
        return self.differentiate(plan, node, parents, g)

    def differentiate(
        self, plan: Any, node: Node, parents: tuple[Node, ...], g: Any
    ) -> Contributions:
        """Call a node's rules, or run it again, and release what it saved."""
        out = self.recompute(node, g) if plan.recomputes else self.pull_back(plan, node, g)
        self.release(node)
        if plan.recomputes:
            return out
        return [
            (parent, fitted(plan, parent, part))
            for parent, part in zip(parents, (out,) if plan.single else out, strict=True)
            if part is not None
        ]

    def release(self, node: Node) -> None:
        """Let go of what a node saved, unless the graph is kept."""
        if node.order < self.release_from:
            node.saved = RELEASED
        elif mode.word & TRACE:
            mode.trace.note_visit(node)

    def receive(self, node: Node, g: Any) -> Any:
        """Let who wants to see a node's total gradient see it; hooks may replace it."""
        if node.extra is not None and self.hooks:
            g = self.run_hooks(node, g)
        if self.anomaly:
            check_total(node, g)
        if node in self.watch:
            self.watched(node, g)  # type: ignore[misc]
        return g

    def run_hooks(self, node: Node, g: Any) -> Any:
        """Run the hooks of a node on its gradient; keep it where `retain_grad` asked for it."""
        extra: Any = node.extra
        for hook in registered(extra.hooks):
            out = self.run_hook(hook, node, g)
            if out is not None:
                g = out if self.create_graph else out.raw
        tensor = extra.retains and extra.retains()
        if tensor is not None and self.retain is not None:
            self.retain(tensor, g if self.create_graph else wrap(g))
        return g

    def run_hook(self, hook: Callable, node: Node, g: Any) -> Tensor | None:
        """Call a hook; return its replacement of the gradient, checked, or None."""
        out = call_hook(hook, g if self.create_graph else wrap(g))
        if out is not None:
            check_hook(hook, out, node)
        return out

    def pull_back(self, plan: Any, node: Node, g: Any) -> Any:
        """The gradients of a plan's targets, by its compiled rules if they can be used."""
        out = NotImplemented
        if self.fast and plan.compiled is not None and type(g) in backends.LOADED:
            rules = plan.compiled[type(g)]
            out = NotImplemented if rules is None else call_compiled(rules[g.dtype], g, node.saved)
        if out is NotImplemented:
            out = pullback(plan, node, g, self.create_graph)
            if self.anomaly:
                check_gradients(node, plan, out)
        return out

    def recompute(self, node: Node, g: list) -> Contributions:
        """Run a checkpoint's function again; its new nodes take the gradients of the outputs."""
        with region("checkpoint", "recompute"):
            outputs = node.saved.recompute(node, self.anomaly)
        self.frontier = max(self.frontier, node.order)
        for nodes in self.growing:
            add_leading(reachable(outputs, newer_than=node.order), nodes)
        return [
            (output, part)
            for output, part in zip(outputs, g, strict=True)
            if part is not None and self.wants(output)
        ]


def first_released(retain: bool) -> float:
    """Nodes with an order below this lose their saved values; a trace spares older graphs."""
    if retain:
        return -math.inf
    return mode.trace.start if mode.word & TRACE else math.inf


class recording(Block):
    """Rules and hooks run without recording, unless their results are to be differentiable.

    Anomalies are looked for in what rules return, so that the op of the forward pass is named.
    """

    def __init__(self, create_graph: bool) -> None:
        self.create_graph = create_graph

    def __enter__(self) -> None:
        word = mode.word
        end = partial(setattr, mode, "word", word)
        ends.stack += (end,)
        mode.word = (word | GRAD if self.create_graph else word & ~GRAD) & ~ANOMALY


def check_hook(hook: Callable, out: Any, node: Node) -> None:
    name = name_of(hook)
    if not isinstance(out, Tensor):
        raise GradientError(
            f"hook {name} returned {type(out).__name__}; a tensor or None is needed"
        )
    if out.raw.shape != node.shape or out.raw.dtype != node.dtype:
        raise GradientError(
            f"hook {name} returned a gradient of shape {out.shape} and dtype {out.dtype.name} for "
            f"a tensor of shape {node.shape} and dtype {node.dtype.name}"
        )


def pruned(plan: Any, node: Node, only: set[Node]) -> tuple[Any, tuple[Node, ...]]:
    """The part of a plan that leads to nodes worth visiting, and their parents."""
    inputs = node.inputs
    wanted = tuple(parent in only for parent in inputs)
    if all(wanted):
        return plan, inputs
    parents = tuple(compress(inputs, wanted))
    if not parents or plan.recomputes:
        return plan, parents
    return plan.partial(wanted), parents


def raise_released(node: Node) -> None:
    raise GradientError(
        f"backward through {node.name} for a second time: what its rule needs was released after "
        "the first; pass retain_graph=True to the first backward, or compute the forward again"
    )
