"""The fast step: compiled rules on raw arrays, along a chain of nodes with one parent each."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import backends
from .._core.node import RELEASED, Node
from .lazy_gradients import Pending, from_rule, materialize
from .rules import fitted
from .sums import cpu
from .totals import Totals
from .visit import Pass, raise_released

LARGE = backends.LEAST  # elements, from which on rules run as kernels, by array type


def try_postpone(plan: Any, fused: Any, node: Node, g: Any, totals: Totals) -> bool:
    """Contribute what the rules of a node with large arrays say before it is computed.

    False, and nothing is done, where a rule can't wait, or what follows needs arrays at once.
    """
    if fused is None:
        return False
    parents = node.inputs
    if fused.adder is not None:
        return type(g) is np.ndarray and try_place(fused, plan, node, g, totals.grads)
    waits = [can_wait(parent, g) for parent in parents]
    if plan.op.kind != "elementwise" or not any(waits):
        return False
    given = (g, *plan.unpacked(node.saved))
    parts = [
        from_rule(fused, k, given) if out.op is not None else fused.value(out, given)
        for k, out in enumerate(fused.outputs)
    ]
    if any(part is None for part in parts):
        return False
    for parent, part, later in zip(parents, parts, waits, strict=True):
        if later:
            totals.contribute_pending(parent, part)
        else:
            totals.contribute(parent, fitted(plan, parent, materialize(part)))
    return True


def can_wait(node: Node, g: Any) -> bool:
    """Whether a node can take a gradient that is pending: its own rule may go on from it."""
    if node.shape != g.shape or node.dtype is not g.dtype or node.extra is not None:
        return False
    plan = node.plan
    if plan is None:
        return True
    if plan.compiled is None or plan.op.kind != "elementwise":
        return False
    return plan.compiled[g.kind if type(g) is Pending else type(g)] is not None


def try_place(fused: Any, plan: Any, node: Node, g: Any, grads: dict[Node, Any]) -> bool:
    """Add a gradient that is zero but for a part to the one that a parent has, if it has one that
    may be overwritten."""
    parent = node.inputs[0]
    former = grads.get(parent)
    if type(former) is not np.ndarray or not cpu.exclusive(former, 2):
        return False
    fused.add_to(former, (g, *plan.unpacked(node.saved)))
    return True


def chain_walker(
    run: Pass, totals: Totals, large: Mapping = LARGE, postpone: Callable | None = None
) -> Callable[[Node, Any], tuple[Node, Any] | None]:
    """A function that runs compiled rules from a node on, as long as the parent is certain to be
    popped next; it returns a node that needs more than that, with its gradient, if it meets one."""
    watch, every, release_from = run.watch, run.only is None, run.release_from
    order, heap, contribute = totals.order, totals.heap, totals.contribute
    postpone = postpone or try_postpone  # from sizes of `large` on

    def walk(node: Node, g: Any) -> tuple[Node, Any] | None:
        try:
            while True:
                plan, kind = node.plan, type(g)
                if kind is Pending:
                    kind = g.kind
                if (
                    plan is None
                    or plan.compiled is None
                    or node.extra is not None
                    or not (every or plan.single)
                    or (watch and node in watch)
                    or kind not in LARGE
                    or (rules := plan.compiled[kind]) is None
                ):
                    return node, g
                if (saved := node.saved) is RELEASED:
                    raise_released(node)
                compiled = rules[g.dtype]
                if g.size >= large[kind] or compiled.is_special:
                    if not compiled.ours:
                        return node, g
                    if postpone(plan, compiled.fused, node, g, totals):
                        if node.order < release_from:
                            node.saved = RELEASED
                        return None
                    g = materialize(g)
                if (out := compiled(g, saved)) is NotImplemented:
                    return node, g
                if node.order < release_from:
                    node.saved = RELEASED
                parents = node.parents
                if not plan.single:
                    for parent, part in zip(parents, out, strict=True):
                        shape = parent.shape
                        if not shape or part.shape != shape or part.dtype is not parent.dtype:
                            part = fitted(plan, parent, part)
                        contribute(parent, part)
                    return None
                shape = parents.shape
                if not shape or out.shape != shape or out.dtype is not parents.dtype:
                    out = fitted(plan, parents, out)
                if order or (heap and heap[0][0] <= parents.order):
                    contribute(parents, out)
                    return None
                node, g = parents, out
        except BaseException:
            totals.current = node
            raise

    return walk
