"""Calls that give tensors and schedulers what they have now, for when a run doesn't come to its
end: they are functions in C, so that Ctrl-C can't come between."""

from collections.abc import Iterable, Iterator
from typing import Any

from .._core.tensor import Tensor
from ..optim.lr_scheduler._scheduler import LRScheduler

set_raw: Any = Tensor.raw.__set__  # type: ignore[attr-defined]
set_node: Any = Tensor.node.__set__  # type: ignore[attr-defined]
set_grad: Any = Tensor._grad.__set__  # type: ignore[attr-defined]


def tensors_as_they_are(tensors: Iterable[Tensor | None]) -> list[tuple]:
    """Arrays that are held here aren't written over."""
    living = [x for x in tensors if x is not None]
    found = dict.fromkeys([*living, *[x._grad for x in living if x._grad is not None]])
    calls: list[tuple] = []
    for x in found:
        calls += [(set_raw, x, x.raw), (set_node, x, x.node), (set_grad, x, x._grad)]
    return calls


def scheduler_as_it_is(scheduler: LRScheduler) -> Iterator[tuple]:
    """With its optimizer's settings, and the schedulers that it steps."""
    own: dict[str, Any] = vars(scheduler)
    yield own.update, {name: copied(x) for name, x in own.items()}
    for group in scheduler.optimizer.param_groups:
        yield group.update, dict(group)
    for x in own.values():
        for part in x if isinstance(x, list | tuple) else (x,):
            if isinstance(part, LRScheduler):
                yield from scheduler_as_it_is(part)


def copied(x: Any) -> Any:
    return type(x)(x) if type(x) in (list, dict, set) else x
