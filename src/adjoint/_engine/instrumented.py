"""The engine while a profile is on: what it computes is noted, rule by rule and sum by sum."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from .._core.node import Node
from .._core.tensor import Tensor
from .._foundation.spans import clock, note
from .chains import LARGE, chain_walker, try_postpone
from .lazy_gradients import Pending, materialize
from .totals import Totals
from .visit import Pass


class Instrument:
    """Notes the rules and sums of a pass for profiles, in the place of the pass's own calls."""

    def __init__(self, run: Pass) -> None:
        self.pull_back = run.pull_back
        run.pull_back = self.pull_back_noted  # type: ignore[method-assign]
        run.instrument = self

    def pull_back_noted(self, plan: Any, node: Node, g: Any) -> Any:
        start = clock()
        out = self.pull_back(plan, node, g)
        end = clock()
        given, made = g if isinstance(g, list) else [g], [out] if plan.single else out
        note(plan.op.name, "backward", start, end, map(raw_of, given), map(raw_of, made))
        return out

    def noted_sum(self, add: Callable) -> Callable:
        """A function that adds its last argument to a gradient, noted unless that is left for
        later."""

        def add_noted(*args: Any) -> Any:
            start = clock()
            out = add(*args)
            if type(out) is not Pending:
                note("accumulate", "backward", start, clock(), [args[-1]], [out])
            return out

        return add_noted

    def chain_walker(self, run: Pass, totals: Totals) -> Callable:
        """The fast step, which leaves arrays of every size to the pass."""

        def postpone_or_visit(plan: Any, fused: Any, node: Node, g: Any, totals: Totals) -> bool:
            kind = g.kind if type(g) is Pending else type(g)
            if g.size < LARGE[kind] or not try_postpone(plan, fused, node, g, totals):
                for parent, part in run.visit(node, materialize(g)):
                    totals.contribute(parent, part)
            return True

        return chain_walker(run, totals, defaultdict(int), postpone_or_visit)


def raw_of(g: Any) -> Any:
    return g.raw if isinstance(g, Tensor) else g
