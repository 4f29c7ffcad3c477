"""One backward pass: what it is for, and what happens at a node. Engines decide when.

An engine calls `visit` with a node's total gradient and adds up the contributions that come back.
"""

import math
from collections.abc import Callable
from functools import partial
from itertools import compress
from typing import Any, NamedTuple

from .. import backends
from .._core.execute import as_array
from .._core.node import RELEASED, Node, registered
from .._core.plan import call_compiled
from .._core.tensor import Tensor, wrap
from .._foundation.blocks import Block, ends
from .._foundation.errors import GradientError
from .._foundation.modes import ANOMALY, GRAD, PROFILE, TRACE, mode, no_grad
from .._foundation.spans import clock, note, region
from ..primitives.elementwise import add
from .graph_walks import add_leading, reachable
from .rules import check_gradients, check_total, fitted, pullback

cpu: Any = backends.backend("cpu")
add_arrays: Any = add.op.kernels  # type: ignore[attr-defined]
Receiver = Callable[[Node, Any], None]


class Part(NamedTuple):
    """A contribution to one output of an op with several."""

    output: int
    g: Any


class Pass:
    """What a backward pass is for, see `_reverse.propagate`, and how it treats nodes.

    `fast`: gradients are raw arrays that nothing but arithmetic is done with, so that compiled
    rules can be used. `frontier`: the heap key up to which the graph is done that was there before
    checkpoints recomputed theirs. `recorded`: if gradients have a graph only for the sake of rules
    that differentiate them, the nodes up to those.
    """

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
        self.release_later = -math.inf  # what stands in for it where gradients are recorded
        self.frontier = -math.inf
        self.recorded: set[Node] | None = None
        self.visited: list[Node] = []

    def record(self, nodes: set[Node]) -> None:
        """Let gradients have a graph up to some nodes. Nobody outside is to see it."""
        self.recorded = nodes
        self.create_graph, self.fast = True, False
        self.release_later, self.release_from = self.release_from, -math.inf
        self.leaf, self.watched, self.retain = map(
            without_graph, (self.leaf, self.watched, self.retain)
        )

    def release(self) -> None:
        """After a pass for which more was kept than was asked for."""
        for node in self.visited:
            if node.order < self.release_later:
                node.saved = RELEASED

    def wants(self, node: Node) -> bool:
        return self.only is None or node in self.only

    def visit(self, node: Node, g: Any) -> list[tuple[Node, Any]]:
        """What a node's total gradient contributes to which nodes."""
        g = self.arrived(node, g)
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
        out = self.recomputed(node, g) if plan.recomputes else self.pulled_back(plan, node, g)
        if node.order < self.release_from:
            node.saved = RELEASED
        if self.recorded is not None:
            self.visited.append(node)
        if plan.recomputes:
            return out
        parts: Any = (out,) if plan.single else out
        if self.recorded is not None:
            parts = [
                part if part is None or parent in self.recorded else wrap(part.raw)
                for parent, part in zip(parents, parts, strict=True)
            ]
        return [
            (parent, fitted(plan, parent, part))
            for parent, part in zip(parents, parts, strict=True)
            if part is not None
        ]

    def arrived(self, node: Node, g: Any) -> Any:
        """Let who wants to see a node's total gradient see it; hooks may replace it."""
        if node.extra is not None and self.hooks:
            g = self.hooked(node, g)
        if self.anomaly:
            check_total(node, g)
        if node in self.watch:
            self.watched(node, g)  # type: ignore[misc]
        return g

    def hooked(self, node: Node, g: Any) -> Any:
        """Run the hooks of a node on its gradient; keep it where `retain_grad` asked for it."""
        extra: Any = node.extra
        for hook in registered(extra.hooks):
            out = self.replacement(hook, g)
            if out is not None:
                check_hook(hook, out, node)
                if self.recorded is not None and node in self.recorded:
                    raise_graph_lost(hook, node)
                g = out if self.create_graph else out.raw
        tensor = extra.retains and extra.retains()
        if tensor is not None and self.retain is not None:
            self.retain(tensor, g if self.create_graph else wrap(g))
        return g

    def replacement(self, hook: Callable, g: Any) -> Any:
        if self.recorded is None:
            return hook(g if self.create_graph else wrap(g))
        with no_grad():
            return hook(wrap(g.raw))

    def pulled_back(self, plan: Any, node: Node, g: Any) -> Any:
        out = NotImplemented
        if self.fast and plan.compiled is not None and type(g) in backends.LOADED:
            rules = plan.compiled[type(g)]
            out = NotImplemented if rules is None else call_compiled(rules[g.dtype], g, node.saved)
        if out is NotImplemented:
            out = pullback(plan, node, g, self.create_graph)
            if self.anomaly:
                check_gradients(node, plan, out)
        return out

    def recomputed(self, node: Node, g: list) -> list[tuple[Node, Any]]:
        """Run a checkpoint's function again; its new nodes take the gradients of the outputs."""
        outputs = node.saved.recompute(node, self.anomaly)
        self.frontier = max(self.frontier, node.order)
        for nodes in (self.only, self.recorded):
            if nodes is not None:
                add_leading(reachable(outputs, newer_than=node.order), nodes)
        return [
            (output, part)
            for output, part in zip(outputs, g, strict=True)
            if part is not None and self.wants(output)
        ]


class TimedPass(Pass):
    """A pass while a profile is on: what it calls is noted."""

    def pulled_back(self, plan: Any, node: Node, g: Any) -> Any:
        start = clock()
        out = super().pulled_back(plan, node, g)
        end = clock()
        given, made = g if isinstance(g, list) else [g], [out] if plan.single else out
        note(plan.op.name, "backward", start, end, map(raw, given), map(raw, made))
        return out

    def replacement(self, hook: Callable, g: Any) -> Any:
        return super().replacement(timed_hook(hook), g)

    def recomputed(self, node: Node, g: list) -> list[tuple[Node, Any]]:
        with region("checkpoint", "recompute"):
            return super().recomputed(node, g)


def raw(g: Any) -> Any:
    return g.raw if isinstance(g, Tensor) else g


def name_of(hook: Callable) -> str:
    return getattr(hook, "__name__", repr(hook))


def timed_hook(hook: Callable) -> Callable:
    """What the user lets a pass call, noted if a profile is on."""
    if not mode.word & PROFILE:
        return hook

    def call(*args: Any) -> Any:
        with region(f"hook {name_of(hook)}", "backward"):
            return hook(*args)

    return call


def without_graph(receiver: Callable[[Any, Any], None] | None) -> Any:
    """What is given a gradient that was recorded for a rule's sake, and isn't to know it."""
    if receiver is None:
        return None

    def receive(owner: Any, g: Tensor) -> None:
        with no_grad():
            receiver(owner, wrap(g.raw))

    return receive


def first_released(retain: bool) -> float:
    """Nodes with an order below this lose their saved values; a trace spares older graphs."""
    if retain:
        return -math.inf
    return mode.trace.start if mode.word & TRACE else math.inf


class recording(Block):
    """Rules and hooks run without recording, unless their results shall be differentiable.

    Anomalies are looked for in what rules return, so that the op of the forward pass is named.
    """

    def __init__(self, create_graph: bool) -> None:
        self.create_graph = create_graph

    def __enter__(self) -> None:
        word = mode.word
        end = partial(setattr, mode, "word", word)
        ends.stack += (end,)
        mode.word = (word | GRAD if self.create_graph else word & ~GRAD) & ~ANOMALY


def add_raw(former: Any, g: Any) -> Any:
    """The sum of two raw gradients."""
    if type(former) is type(g) in backends.LOADED and not mode.word & TRACE:
        return as_array(add_arrays[type(g)](former, g))
    return add(wrap(former), wrap(g)).raw


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


def raise_graph_lost(hook: Callable, node: Node) -> None:
    name = name_of(hook)
    raise GradientError(
        f"hook {name} replaces the gradient of the result of {node.name} (shape {node.shape}), "
        "which is to be differentiated: a matrix after it has equal eigenvalues or singular "
        "values, or vectors that can be chosen; pass create_graph=True, so that the hook is "
        "recorded too"
    )


def raise_released(node: Node) -> None:
    raise GradientError(
        f"backward through {node.name} for a second time: what its rule needs was released after "
        "the first; pass retain_graph=True to the first backward, or compute the forward again"
    )
