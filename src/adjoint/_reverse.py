"""The reverse engine: a heap of nodes, newest first.

A node is always newer than its parents, so when it is popped every contribution to its gradient has
arrived: no recursion, no search, and a branch that gets no gradient costs nothing. Gradients travel
as raw arrays, or, with `create_graph`, as tensors with nodes of their own.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from heapq import heappop, heappush
from itertools import compress
from typing import Any

import numpy as np

from . import backends
from ._anomaly import is_finite, what_is_wrong
from ._apply import as_array
from ._errors import AnomalyError, GradientError
from ._modes import ANOMALY, GRAD, TRACE, mode
from ._node import RELEASED, Node, registered
from ._op import Plan, Projection
from ._shapes import broadcasts_to
from ._tensor import Tensor, wrap
from .primitives.creation import full
from .primitives.elementwise import add
from .primitives.reductions import unbroadcast

cpu: Any = backends.backend("cpu")
Receiver = Callable[[Node, Any], None]


def propagate(
    seeds: Iterable[tuple[Node, Any]],
    leaf: Receiver,
    *,
    create_graph: bool = False,
    retain_graph: bool = False,
    watch: frozenset[Node] = frozenset(),
    watched: Receiver | None = None,
    retain: Callable[[Tensor, Tensor], None] | None = None,
    only: set[Node] | None = None,
    order: dict[Node, float] | None = None,
) -> None:
    """Send gradients from the seeds towards the leaves.

    `leaf(node, g)` gets the total gradient of each leaf, `watched(node, g)` that of each node in
    `watch`, `retain(tensor, g)` that of each tensor that asked for it by `retain_grad`. `only`: the
    nodes worth visiting. `order`: heap keys of nodes that come out of turn.
    """
    plain = not watch and only is None and not order
    anomaly = bool(mode.word & ANOMALY)
    fast = not create_graph and not mode.word & (ANOMALY | TRACE)
    release_from = first_released(retain_graph or create_graph)
    sum_of = add_recorded if create_graph else add_in_place if fast else add_unrecorded
    grads: dict[Node, Any] = {}
    heap: list[tuple[float, Node]] = []

    def contribute(node: Node, g: Any) -> None:
        if node in grads:
            grads[node] = sum_of(grads, node, g)
        else:
            grads[node] = g
            heappush(heap, (order.get(node, node.order) if order else node.order, node))

    with recording(create_graph):
        for node, seed in seeds:
            contribute(node, seed)
        roots = list(grads)
        try:
            while heap:
                node = heappop(heap)[1]
                g = grads.pop(node)
                while True:  # one turn, unless the parent is certain to be the next to be popped
                    if node.extra is not None:
                        g = arrived(node, g, create_graph, retain)
                    if anomaly:
                        check_total(node, g)
                    if watch and node in watch:
                        watched(node, g)  # type: ignore[misc]
                    plan, parents = node.plan, node.parents
                    if plan is None:
                        leaf(node, g)
                        break
                    if only is not None:
                        plan, parents = pruned(plan, node, only)
                        if plan is None:
                            break
                    saved = node.saved
                    if saved is RELEASED:
                        raise_released(node)
                    out = NotImplemented
                    if fast and plan.compiled is not None and type(g) is np.ndarray:
                        out = plan.compiled[g.dtype](g, saved)
                    if plan.output is not None:
                        out = None
                        collect(grads, heap, parents, plan.output, g)
                    elif out is NotImplemented:
                        out = pullback(plan, node, g, create_graph)
                        if anomaly:
                            check_gradients(node, plan, out)
                    if node.order < release_from:
                        node.saved = RELEASED
                    if out is None:
                        break
                    if not plan.single:
                        for parent, part in zip(parents, out, strict=True):
                            if part is None:
                                continue
                            shape = parent.shape
                            if not shape or part.shape != shape or part.dtype is not parent.dtype:
                                part = fitted(plan, parent, part)
                            contribute(parent, part)
                        break
                    if (
                        not parents.shape
                        or out.shape != parents.shape
                        or out.dtype is not parents.dtype
                    ):
                        out = fitted(plan, parents, out)
                    if plain and (not heap or heap[0][0] > parents.order):
                        node, g = parents, out
                        continue
                    contribute(parents, out)
                    break
        except BaseException:
            failed = order.get(node, node.order) if order else node.order
            for done in complete_leaves(roots, grads, failed):
                with suppress(Exception):  # the first error is the one to see
                    g = grads[done]
                    leaf(done, arrived(done, g, create_graph, retain) if done.extra else g)
            raise


def first_released(retain: bool) -> float:
    """Nodes with an order below this lose their saved values; a trace spares older graphs."""
    if retain:
        return -math.inf
    return mode.trace.start if mode.word & TRACE else math.inf


@contextmanager
def recording(create_graph: bool) -> Iterator[None]:
    """Rules and hooks run without recording, unless their results shall be differentiable.

    Anomalies are looked for in what rules return, so that the op of the forward pass is named.
    """
    former = mode.word
    mode.word = (former | GRAD if create_graph else former & ~GRAD) & ~ANOMALY
    try:
        yield
    finally:
        mode.word = former


def add_in_place(grads: dict[Node, Any], node: Node, g: Any) -> Any:
    """A node's raw gradient plus another, in the first's memory if nobody else can see it."""
    if type(g) is not np.ndarray:
        return add_unrecorded(grads, node, g)
    former = grads.pop(node)
    if former.nbytes > 8192 and former.strides == g.strides and cpu.exclusive(former, 1):
        return np.add(former, g, former)
    return as_array(np.add(former, g))


def add_unrecorded(grads: dict[Node, Any], node: Node, g: Any) -> Any:
    return add(wrap(grads[node]), wrap(g)).data


def add_recorded(grads: dict[Node, Any], node: Node, g: Tensor) -> Tensor:
    return add(grads[node], g)


def collect(grads: dict, heap: list, node: Node, output: int, g: Any) -> None:
    """Keep the gradient of one output until the op that has several of them is popped."""
    parts = grads.get(node)
    if parts is None:
        parts = grads[node] = [None] * len(node.shape)
        heappush(heap, (node.order, node))
    former = parts[output]
    if former is None:
        parts[output] = g
    else:
        parts[output] = add(former, g) if isinstance(g, Tensor) else add(wrap(former), wrap(g)).data


def arrived(node: Node, g: Any, create_graph: bool, retain: Callable | None) -> Any:
    """Run the hooks of a node on its total gradient; keep it where `retain_grad` asked for it."""
    extra: Any = node.extra
    for hook in registered(extra.hooks):
        tensor = g if create_graph else wrap(g)
        out = hook(tensor)
        if out is not None:
            check_hook(hook, out, node)
            g = out if create_graph else out.data
    tensor = extra.retains and extra.retains()
    if tensor is not None and retain is not None:
        retain(tensor, g if create_graph else wrap(g))
    return g


def check_hook(hook: Callable, out: Any, node: Node) -> None:
    name = getattr(hook, "__name__", repr(hook))
    if not isinstance(out, Tensor):
        raise GradientError(
            f"hook {name} returned {type(out).__name__}; a tensor or None is needed"
        )
    if out.data.shape != node.shape or out.data.dtype != node.dtype:
        raise GradientError(
            f"hook {name} returned a gradient of shape {out.shape} and dtype {out.dtype.name} for "
            f"a tensor of shape {node.shape} and dtype {node.dtype.name}"
        )


def pullback(plan: Plan, node: Node, g: Any, create_graph: bool) -> Any:
    """The gradients of a plan's targets, by calling the derivative rules on tensors."""
    op = plan.op
    known = saved_values(node, create_graph)
    parts = g if isinstance(g, list) else [g]
    known |= zip(op.gradients, incoming(node, parts, create_graph), strict=True)
    if op.vjp is not None:
        known["needs"] = plan.needs
        rule, names = plan.calls[0]
        out = rule(*(known[name] for name in names))
        out = out if isinstance(out, (tuple, list)) else (out,)
        if len(out) != len(plan.needs):
            raise GradientError(
                f"`{op.name}` returned {len(out)} gradients, expected {len(plan.needs)}"
            )
        out = [out[k] for k in plan.targets]
    else:
        out = []
        for (rule, names), position in zip(plan.calls, plan.targets, strict=True):
            known["i"] = position - len(op.inputs) + 1
            out.append(rule(*[known[name] for name in names]))
    for position, part in zip(plan.targets, out, strict=True):
        check_rule_result(op, position, part)
    if not create_graph:
        out = [None if part is None else part.data for part in out]
    return out[0] if plan.single else out


def saved_values(node: Node, create_graph: bool) -> dict[str, Any]:
    """What a node saved, by name; arrays as tensors, with their nodes if gradients are recorded."""
    plan = node.plan
    op = plan.op
    known: dict[str, Any] = {}
    for name, value in zip(plan.names, plan.unpacked(node.saved), strict=True):
        if name in op.results:
            position = op.results.index(name)
            known[name] = wrap(value, output_node(node, position) if create_graph else None)
        elif name in op.inputs:
            first = op.inputs.index(name)
            if isinstance(value, tuple):
                known[name] = tuple(
                    as_input(node, first + k, x, create_graph) for k, x in enumerate(value)
                )
            else:
                known[name] = as_input(node, first, value, create_graph)
        else:
            known[name] = value
    return known


def as_input(node: Node, position: int, value: Any, create_graph: bool) -> Any:
    if value is None:
        return None
    parent = None
    if create_graph and position in node.plan.targets:
        parent = node.inputs[node.plan.targets.index(position)]
    return wrap(value, parent)


def output_node(node: Node, position: int) -> Node | None:
    """The node of a saved output; aux values have none."""
    outputs = len(node.plan.op.outputs)
    if position >= outputs:
        return None
    if outputs == 1:
        return node
    return node.output(position, Projection(node.plan.op, position))  # type: ignore[attr-defined]


def incoming(node: Node, parts: list, create_graph: bool) -> list[Tensor]:
    """The gradient of each output as a tensor, zeros where none arrived."""
    tensors = [g if create_graph or g is None else wrap(g) for g in parts]
    device = next(g.device for g in tensors if g is not None)
    return [
        full(shape=node.shape[k], value=0, dtype=node.dtype[k], device=device) if g is None else g
        for k, g in enumerate(tensors)
    ]


def check_rule_result(op: Any, position: int, out: Any) -> None:
    if isinstance(out, Tensor) or (out is None and op.vjp is not None):
        return
    raise GradientError(
        f"`{op.name}` returned {type(out).__name__} as the gradient of "
        f"`{op.input_name(position)}`, expected a tensor"
    )


def check_gradients(node: Node, plan: Plan, out: Any) -> None:
    """Under detect_anomaly: raise at the first NaN or infinity in what a rule returned."""
    for position, part in zip(plan.targets, (out,) if plan.single else out, strict=True):
        raw = part.data if isinstance(part, Tensor) else part
        if raw is not None and not is_finite(raw):
            source = node.extra and node.extra.source
            raise AnomalyError(
                f"the gradient of `{plan.op.input_name(position)}` in {plan.op.name} (output shape "
                f"{node.shape}) has {what_is_wrong(raw)}\n  "
                + (source or "run the forward pass under detect_anomaly too to see its source line")
            )


def check_total(node: Node, g: Any) -> None:
    """Under detect_anomaly: raise where finite contributions add up to, or a hook returned, a NaN
    or an infinity."""
    for part in g if isinstance(g, list) else [g]:
        raw = part.data if isinstance(part, Tensor) else part
        if raw is not None and not is_finite(raw):
            raise AnomalyError(
                f"the total gradient of the result of {node.name} (shape {node.shape}) has "
                f"{what_is_wrong(raw)}"
            )


def fitted(plan: Any, parent: Node, g: Any) -> Any:
    """A contribution in its parent's shape: the one place where broadcasting is undone."""
    shape, dtype = parent.shape, parent.dtype
    raw = not isinstance(g, Tensor)
    if g.shape != shape:
        if not undoes_broadcasting(plan.op.kind, g.shape, shape):
            raise GradientError(
                f"`{plan.op.name}` returned a gradient of shape {g.shape} for an input of shape "
                f"{shape}"
            )
        g = unbroadcast(wrap(as_array(g)), shape).data if raw else unbroadcast(g, shape)
    if (g if raw else g.data).dtype != dtype:
        raise GradientError(
            f"`{plan.op.name}` returned a gradient of dtype {g.dtype} for an input of dtype {dtype}"
        )
    return as_array(g) if raw else g


def undoes_broadcasting(kind: str, g_shape: tuple, shape: tuple) -> bool:
    """Whether `shape` broadcasts to g_shape, in the axes that ops of this kind broadcast."""
    if kind == "contraction":
        return shape[-2:] == g_shape[-2:] and broadcasts_to(shape[:-2], g_shape[:-2])
    return kind == "elementwise" and broadcasts_to(shape, g_shape)


def pruned(plan: Any, node: Node, only: set[Node]) -> tuple[Any, Any]:
    """The part of a plan that leads to nodes worth visiting, and their parents."""
    inputs = node.inputs
    wanted = tuple(parent in only for parent in inputs)
    if all(wanted):
        return plan, node.parents
    if not any(wanted):
        return None, None
    plan = plan.partial(wanted)
    parents = tuple(compress(inputs, wanted))
    return plan, parents[0] if plan.single else parents


def raise_released(node: Node) -> None:
    raise GradientError(
        f"backward through {node.name} for a second time: what its rule needs was released after "
        "the first; pass retain_graph=True to the first backward, or compute the forward again"
    )


# Looking ahead: the one optional pass over the graph before gradients flow.


def reachable(roots: Iterable[Node]) -> list[Node]:
    """All nodes that gradients could reach, oldest first."""
    seen = set(roots)
    stack = list(seen)
    while stack:
        for parent in stack.pop().inputs:
            if parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return sorted(seen, key=lambda node: -node.order)


def leading_to(nodes: list[Node], targets: Iterable[Node]) -> set[Node]:
    """The nodes, of `nodes` oldest first, from which a target can be reached."""
    useful = set(targets)
    for node in nodes:
        if any(parent in useful for parent in node.inputs):
            useful.add(node)
    return useful


def early_leaves(nodes: list[Node]) -> dict[Node, float]:
    """Heap keys that let each leaf come right after the last node that contributes to it."""
    order: dict[Node, float] = {}
    for node in nodes:
        for parent in node.inputs:
            if parent.plan is None:
                order[parent] = max(order.get(parent, -math.inf), node.order + 0.5)
    return order


def complete_leaves(roots: list[Node], grads: dict[Node, Any], failed: float) -> list[Node]:
    """The leaves that wait in `grads` for no node that comes at the heap key `failed` or later."""
    order = early_leaves(reachable(roots))
    return [node for node in grads if order.get(node, math.inf) < failed]
