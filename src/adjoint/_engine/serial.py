"""The serial engine: a heap of nodes, newest first.

A node is always newer than its parents, so when it is popped every contribution to its gradient has
arrived: no recursion, no search, and a branch that gets no gradient costs nothing.
"""

import math
import operator
from collections.abc import Callable
from contextlib import suppress
from heapq import heappop
from typing import Any

from .._core.node import Node
from .._foundation.silence import compute, is_computing, silence
from .chains import chain_walker
from .graph_walks import early_leaves, reachable
from .lazy_gradients import materialize
from .sums import add_in_place, add_recorded, add_unrecorded
from .totals import Totals
from .visit import Part, Pass, Seeds, recording


def run_serially(seeds: Seeds, run: Pass, order: dict[Node, float]) -> None:
    """Do a pass in this thread. `order`: the heap keys of nodes that come out of turn."""
    add_part = add_recorded if run.create_graph else add_unrecorded
    add = add_in_place if run.fast else add_part
    call: Callable = compute if is_computing.get() else silence.run
    if run.instrument is not None:
        add, add_part = run.instrument.noted_sum(add), run.instrument.noted_sum(add_part)
        call = operator.call  # its fast step visits nodes, and users' rules aren't silent
    totals = Totals(order, add, add_part)
    advance = totals.pop if not run.fast else fast_step(run, totals)
    with recording(run.create_graph):
        for node, seed in seeds:
            totals.contribute(node, seed)
        try:
            while (reached := call(advance)) is not None:
                node, g = reached
                totals.current = node
                for parent, part in run.visit(node, materialize(g)):
                    if type(part) is Part:
                        totals.collect(parent, part)
                    else:
                        totals.contribute(parent, part)
        except BaseException:
            complete_leaves([node for node, _ in seeds], run, totals)
            raise


def fast_step(run: Pass, totals: Totals) -> Callable[[], tuple[Node, Any] | None]:
    """A function that walks from chain to chain up to a node for `Pass.visit`; it returns that node
    and its gradient."""
    walker = chain_walker if run.instrument is None else run.instrument.chain_walker
    walk, heap, grads = walker(run, totals), totals.heap, totals.grads

    def advance() -> tuple[Node, Any] | None:
        while heap:
            totals.current = node = heappop(heap)[1]
            reached = walk(node, grads.pop(node))
            if reached is not None:
                return reached
        return None

    return advance


def complete_leaves(roots: list[Node], run: Pass, totals: Totals) -> None:
    """After an error: leaves that wait for no node from the current one on get their gradients."""
    current = totals.current
    place = -math.inf if current is None else totals.order.get(current, current.order)
    failed = max(run.frontier, place)
    for leaf, key in early_leaves(reachable(roots)).items():
        if key < failed and leaf in totals.grads:
            with suppress(Exception):  # the first error is the one to see
                run.visit(leaf, materialize(totals.grads[leaf]))
