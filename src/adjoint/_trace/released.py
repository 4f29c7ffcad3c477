"""Nodes of results whose graph the recorded function released, for runs that aren't replays."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .._core.node import RELEASED, Node, next_order
from .._core.tensor import Tensor
from .graph import Result, Spent
from .recording import Slot, Traced


class Lost(Node):
    """A node whose parents, which may be many, are looked up when somebody asks: those of arguments
    in `own`, and those that `captured` tensors have then."""

    __slots__ = ("captured", "own")

    def __init__(self, plan: Spent, value: Traced, own: tuple, captured: list) -> None:
        self.plan, self.saved, self.extra = plan, RELEASED, None
        self.shape, self.dtype = value.shape, value.dtype
        self.own, self.captured, self.order = own, captured, next_order()

    @property
    def parents(self) -> tuple:  # type: ignore[override]
        found = [x.node for ref in self.captured if (x := ref()) is not None]
        return tuple(dict.fromkeys([*self.own, *(node for node in found if node is not None)]))


def maker_of_node(
    result: Result, slots: Iterable[tuple[Traced | None, Slot]]
) -> Callable[[Sequence[Tensor]], Node | None] | None:
    """A function of the arguments of a run that makes the node of a result whose graph is released;
    None for others. `slots`: where values of the graph come from, those known weakly by references.
    """
    if result.spent is None:
        return None
    plan, value = Spent(result.spent), result.value
    owners: list[Any] = [slot.owner for source, slot in slots if source in result.sources]
    places = [owner for owner in owners if isinstance(owner, int)]
    captured = [ref for ref in owners if not isinstance(ref, int) and requires_grad(ref())]

    def node(given: Sequence[Tensor]) -> Node | None:
        own = tuple([given[k].node for k in places if given[k].node is not None])
        return Lost(plan, value, own, captured) if captured or own else None

    return node


def requires_grad(x: Tensor | None) -> bool:
    return x is not None and x.node is not None
