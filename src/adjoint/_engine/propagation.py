"""A backward pass, from seeds to leaves: which kind of pass it is, and which engine runs it."""

from collections.abc import Callable, Iterable
from typing import Any

from .._core.node import Node, needing_graph
from .._core.tensor import Tensor, wrap
from .._foundation.modes import PROFILE, TRACE, mode
from .._foundation.spans import region
from .._foundation.thread_limits import DefaultWorkers
from .graph_walks import early_leaves, reachable
from .recorded_gradients import PartlyRecordedPass, nodes_to_record
from .serial import run_serially
from .visit import Pass, Receiver, Seeds


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
    seeds = [(node, g) for node, g in seeds if only is None or node in only]
    recorded = nodes_to_record(seeds, only) if needing_graph and not create_graph else None
    if recorded:
        seeds = [(node, wrap(g)) for node, g in seeds]
        run = PartlyRecordedPass(recorded, leaf, retain_graph, watch, watched, retain, only, hooks)
    else:
        run = Pass(leaf, create_graph, retain_graph, watch, watched, retain, only, hooks)
    try:
        if mode.word & PROFILE:
            run_noted(seeds, run, early, workers)
        else:
            run_pass(seeds, run, early, workers)
    finally:
        if recorded:
            run.release_visited()  # type: ignore[attr-defined]


def run_noted(seeds: Seeds, run: Pass, early: bool, workers: int | None) -> None:
    """Run a pass that a profile sees."""
    from .instrumented import Instrument

    Instrument(run)
    try:
        with region("backward pass", "pass"):
            run_pass(seeds, run, early, workers)
    finally:
        del run.pull_back, run.instrument  # each holds the other


def run_pass(seeds: Seeds, run: Pass, early: bool, workers: int | None) -> None:
    """Let the engine that fits run a pass."""
    workers = workers or DefaultWorkers.count
    # A recorded gradient's graph depends on the order in which it was made: that stays the same.
    if workers > 1 and not run.create_graph and not mode.word & TRACE:
        from .parallel import try_in_parallel

        if try_in_parallel(seeds, run, workers):
            return
    run_serially(seeds, run, early_leaves(reachable(node for node, _ in seeds)) if early else {})
