"""One scheduler after another."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ..._foundation.errors import ArgumentError, DTypeError
from ...functions._arguments import as_integer
from .._optimizer import Optimizer
from ._plateau import ReduceLROnPlateau
from ._scheduler import LRScheduler


class SequentialLR(LRScheduler):
    """Schedulers one after the other: each milestone is an epoch at which the next one starts.

    Each starts with the learning rates of before the first step.

    >>> schedulers = ad.optim.lr_scheduler
    >>> optimizer = ad.optim.SGD([ad.tensor(0.0)], lr=1.0)
    >>> warmup = schedulers.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> decay = schedulers.ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler = schedulers.SequentialLR(optimizer, [warmup, decay], milestones=[2])
    >>> lrs = scheduler.get_last_lr()
    >>> for _ in range(4):
    ...     scheduler.step()
    ...     lrs += scheduler.get_last_lr()
    >>> lrs
    [0.5, 0.75, 1.0, 0.5, 0.25]
    """

    _unsaved = ("optimizer", "_schedulers")

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        self._schedulers = list(schedulers)
        self._milestones = [as_integer("SequentialLR", "a milestone", n) for n in milestones]
        check_sequence(optimizer, self._schedulers, self._milestones)
        super().__init__(optimizer, last_epoch)

    def _current(self) -> int:
        return bisect_right(self._milestones, self.last_epoch)

    def get_lr(self) -> list[float]:
        place = self._current()
        scheduler = self._schedulers[place]
        if self.last_epoch == (self._milestones[place - 1] if place else 0):
            # As in PyTorch: one of the later ones may have set where the first one starts.
            scheduler._restart(scheduler.base_lrs if place else self.base_lrs)
        else:
            scheduler.step()
        return scheduler.get_last_lr()

    def _resumed(self) -> list[float]:
        return self._schedulers[self._current()].get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """The states of all schedulers, and which epoch it is."""
        return super().state_dict() | {"_schedulers": [s.state_dict() for s in self._schedulers]}

    def _check_state(self, state_dict: Any) -> None:
        super()._check_state(state_dict)
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler._check_state(saved)

    def _recall(self, state_dict: dict[str, Any]) -> None:
        super()._recall(state_dict)
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler._recall(saved)


def check_sequence(optimizer: Any, schedulers: list[LRScheduler], milestones: list[int]) -> None:
    if len(schedulers) != len(milestones) + 1:
        raise ArgumentError(
            "SequentialLR: a milestone is needed between each two schedulers, got "
            f"{len(schedulers)} schedulers and {len(milestones)} milestones"
        )
    if milestones != sorted(set(milestones)) or any(n < 1 for n in milestones):
        raise ArgumentError(f"SequentialLR: milestones must be above 0 and rise, got {milestones}")
    for k, scheduler in enumerate(schedulers):
        if not isinstance(scheduler, LRScheduler) or isinstance(scheduler, ReduceLROnPlateau):
            raise DTypeError(
                "SequentialLR: schedulers whose step takes no number are needed, schedulers"
                f"[{k}] is a {type(scheduler).__name__}"
            )
        if scheduler.optimizer is not optimizer:
            raise ArgumentError(f"SequentialLR: schedulers[{k}] is for another optimizer")
