"""The reverse engine: a heap of nodes, newest first.

A node is always newer than its parents, so when it is popped every contribution to its gradient has
arrived: no recursion, no search, and a branch that gets no gradient costs nothing.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from heapq import heappop, heappush
from typing import Any

import numpy as np

from .. import backends
from .._core.execute import as_array
from .._core.node import RELEASED, Node, Output, needing_graph
from .._core.tensor import Tensor, wrap
from .._foundation.modes import PROFILE, TRACE, mode
from .._foundation.silence import compute, computing, is_computing, silence
from .._foundation.spans import clock, note, region
from ..primitives.elementwise import add
from .graph_walks import early_leaves, leading_to, reachable
from .lazy_gradients import Pending, from_rule, from_sum, made
from .rules import fitted
from .visit import (
    Part,
    Pass,
    Receiver,
    TimedPass,
    add_arrays,
    add_raw,
    cpu,
    raise_released,
    recording,
)

LARGE = backends.LEAST  # elements, from which on rules run as kernels, by array type
MOST_WAITING = 4  # nodes with pending gradients, which keep what was saved in memory


class Default:
    """What holds where nothing else is said, for the whole process."""

    workers = 1


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
    early: bool = False,
    hooks: bool = True,
    workers: int | None = None,
) -> None:
    """Send gradients from the seeds towards the leaves.

    `leaf(node, g)` gets the total gradient of each leaf, `watched(node, g)` that of each node in
    `watch`, `retain(tensor, g)` that of each tensor that asked for it by `retain_grad`. `only`: the
    nodes worth visiting. `early`: leaves come as soon as their gradients are complete. `hooks`:
    whether the user's hooks run. `workers`: how many threads may run nodes at once.
    """
    workers = workers or Default.workers
    kind = TimedPass if mode.word & PROFILE else Pass
    run = kind(leaf, create_graph, retain_graph, watch, watched, retain, only, hooks)
    seeds = [(node, g) for node, g in seeds if only is None or node in only]
    if kind is Pass:
        carry_out(seeds, run, early, workers)
    else:
        with region("backward pass", "pass"):
            carry_out(seeds, run, early, workers)


def carry_out(seeds: list[tuple[Node, Any]], run: Pass, early: bool, workers: int) -> None:
    """Let the engine that fits do a pass."""
    if needing_graph and not run.create_graph and with_graph(seeds, run, early):
        return
    # A recorded gradient's graph depends on the order in which it was made: that stays the same.
    if workers > 1 and not run.create_graph and not mode.word & TRACE:
        from . import parallel

        if parallel.propagate(seeds, run, workers):
            return
    order = early_leaves(reachable(node for node, _ in seeds)) if early else {}
    serially(seeds, run, order)


def with_graph(seeds: list[tuple[Node, Any]], run: Pass, early: bool) -> bool:
    """Do a pass with gradients recorded as far as the rules need it that differentiate them.

    False, and nothing is done, if there is no such rule on the way.
    """
    ahead = [node for node in reachable(node for node, _ in seeds) if run.wants(node)]
    needing = [node for node in ahead if type(node) is Output and node.needs_graph]
    if needing:
        run.record(leading_to(ahead, needing))
        try:
            order = early_leaves(ahead) if early else {}
            serially([(node, wrap(g)) for node, g in seeds], run, order)
        finally:
            run.release()
    return bool(needing)


def serially(seeds: list[tuple[Node, Any]], run: Pass, order: dict[Node, float]) -> None:
    """`order`: the heap keys of nodes that come out of turn."""
    watch, every, fast = run.watch, run.only is None, run.fast
    release_from = run.release_from
    sum_parts = add_recorded if run.create_graph else add_unrecorded
    sum_of = add_in_place if fast else sum_parts
    large, postpone = LARGE, postponed
    call: Callable = compute if is_computing.get() else silence.run
    if type(run) is TimedPass:
        large, postpone, call = defaultdict(int), visiting(run), lambda advance: advance()
        sum_of, sum_parts = timed_sum(sum_of), timed_sum(sum_parts)
    grads: dict[Node, Any] = {}
    waiting: deque[Node] = deque()  # nodes whose gradients may be pending
    heap: list[tuple[float, Node]] = []
    current: Any = None

    def contribute(node: Node, g: Any) -> None:
        if node in grads:
            grads[node] = sum_of(grads, node, g)
        else:
            grads[node] = g
            heappush(heap, (order.get(node, node.order) if order else node.order, node))

    def popped() -> tuple[Node, Any] | None:
        nonlocal current
        if not heap:
            return None
        current = heappop(heap)[1]
        return current, grads.pop(current)

    def computed() -> tuple[Node, Any] | None:
        """Run compiled rules up to a node that needs more; return that, and its gradient."""
        nonlocal current
        while heap:
            node = heappop(heap)[1]
            g = grads.pop(node)
            while True:  # one turn, unless the parent is certain to be the next to be popped
                current, plan, kind = node, node.plan, type(g)
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
                saved = node.saved
                if saved is RELEASED:
                    raise_released(node)
                compiled = rules[g.dtype]
                if g.size >= large[kind] or compiled.is_special:
                    if not compiled.ours:
                        return node, g
                    if postpone(plan, compiled.fused, node, g, grads, waiting, contribute):
                        if node.order < release_from:
                            node.saved = RELEASED
                        break
                    g = made(g)
                out = compiled(g, saved)
                if out is NotImplemented:
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
                    break
                shape = parents.shape
                if not shape or out.shape != shape or out.dtype is not parents.dtype:
                    out = fitted(plan, parents, out)
                if order or (heap and heap[0][0] <= parents.order):
                    contribute(parents, out)
                    break
                node, g = parents, out
        return None

    with recording(run.create_graph):
        for current, seed in seeds:
            contribute(current, seed)
        roots, advance = list(grads), computed if fast else popped
        try:
            while (reached := call(advance)) is not None:
                node, g = reached
                for parent, part in run.visit(node, made(g)):
                    if type(part) is Part:
                        collect(grads, heap, parent, part, sum_parts)
                    else:
                        contribute(parent, part)
        except BaseException:
            place = order[current] if current in order else current.order
            failed = max(run.frontier, place)
            complete(run, [n for n in leaves_before(roots, failed) if n in grads], grads)
            raise


def postponed(
    plan: Any,
    fused: Any,
    node: Node,
    g: Any,
    grads: dict[Node, Any],
    waiting: deque[Node],
    contribute: Receiver,
) -> bool:
    """Hand on what the rules of a node with large arrays say before it is computed.

    False, and nothing is done, where a rule can't wait, or what follows needs arrays at once.
    """
    if fused is None:
        return False
    parents = node.inputs
    if fused.adder is not None:
        return type(g) is np.ndarray and placed(fused, plan, node, g, grads)
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
        contribute(parent, part if later else fitted(plan, parent, made(part)))
        if later:
            waiting.append(parent)
    while len(waiting) > MOST_WAITING:  # what they hold would be free otherwise
        oldest = waiting.popleft()
        if type(grads.get(oldest)) is Pending:
            grads[oldest] = made(grads[oldest])
    return True


def visiting(run: Pass) -> Callable[..., bool]:
    """What stands in for `postponed` while a profile is on, for arrays of every size.

    What can't wait is done by the pass, which is timed: the loop itself computes nothing then.
    """

    def visited(
        plan: Any,
        fused: Any,
        node: Node,
        g: Any,
        grads: dict[Node, Any],
        waiting: deque[Node],
        contribute: Receiver,
    ) -> bool:
        kind = g.kind if type(g) is Pending else type(g)
        if g.size >= LARGE[kind] and postponed(plan, fused, node, g, grads, waiting, contribute):
            return True
        for parent, part in run.visit(node, made(g)):
            contribute(parent, part)
        return True

    return visited


def timed_sum(sum_of: Callable) -> Callable:
    """A way to add gradients, noted where it isn't left for later."""

    def sum_timed(grads: Any, key: Any, g: Any) -> Any:
        start = clock()
        out = sum_of(grads, key, g)
        if type(out) is not Pending:
            note("accumulate", "backward", start, clock(), [g], [out])
        return out

    return sum_timed


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


def placed(fused: Any, plan: Any, node: Node, g: Any, grads: dict[Node, Any]) -> bool:
    """Add a gradient that is zero but for a part to the one that a parent has, if it has one that
    may be overwritten."""
    parent = node.inputs[0]
    former = grads.get(parent)
    if type(former) is not np.ndarray or not cpu.exclusive(former, 2):
        return False
    fused.add_to(former, (g, *plan.unpacked(node.saved)))
    return True


add_in_silence = computing(np.add)


def add_in_place(grads: dict[Node, Any], node: Node, g: Any) -> Any:
    """A node's raw gradient plus another, in the first's memory if nobody else can see it."""
    former = grads.pop(node)
    if type(former) is Pending or type(g) is Pending:
        out = from_sum(former, g)
        if out is not None:
            return out
        former, g = made(former), made(g)
    if type(g) is not np.ndarray or type(former) is not np.ndarray:
        return add_raw(former, g)
    if former.size < cpu.LEAST:
        add = np.add if is_computing.get() else add_in_silence
        if former.nbytes > 8192 and former.strides == g.strides and cpu.exclusive(former, 1):
            return add(former, g, former)
        return as_array(add(former, g))
    if cpu.exclusive(former, 1) and cpu.compute_into(former, "add", g):
        return former
    return as_array(add_arrays[np.ndarray](former, g))


def add_unrecorded(grads: Any, key: Any, g: Any) -> Any:
    return add_raw(grads[key], g)


def add_recorded(grads: Any, key: Any, g: Tensor) -> Tensor:
    return add(grads[key], g)


def collect(grads: dict, heap: list, node: Node, part: Part, sum_parts: Callable) -> None:
    """Keep the gradient of one output until the op that has several of them is popped."""
    parts = grads.get(node)
    if parts is None:
        parts = grads[node] = [None] * len(node.shape)
        heappush(heap, (node.order, node))
    missing = parts[part.output] is None
    parts[part.output] = part.g if missing else sum_parts(parts, part.output, part.g)


def leaves_before(roots: list[Node], failed: float) -> list[Node]:
    """The leaves that wait for no node that comes at the heap key `failed` or later."""
    return [leaf for leaf, key in early_leaves(reachable(roots)).items() if key < failed]


def complete(run: Pass, leaves: list[Node], grads: dict[Node, Any]) -> None:
    """After an error: leaves whose gradients are complete get them."""
    for leaf in leaves:
        with suppress(Exception):  # the first error is the one to see
            run.visit(leaf, made(grads[leaf]))
