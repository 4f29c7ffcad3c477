"""One scheduler after another."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ..._errors import ArgumentError, DTypeError
from ...functions._arguments import as_integer
from .._optimizer import Optimizer
from .._saved import check_entries, plain
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

    unsaved = ("optimizer", "_schedulers")

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

    def current(self) -> int:
        return bisect_right(self._milestones, self.last_epoch)

    def get_lr(self) -> list[float]:
        place = self.current()
        scheduler = self._schedulers[place]
        if self.last_epoch == (self._milestones[place - 1] if place else 0):
            scheduler.restart()
        else:
            scheduler.step()
        return scheduler.get_last_lr()

    def resumed(self) -> list[float]:
        return self._schedulers[self.current()].get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """The states of all schedulers, and which epoch it is."""
        return super().state_dict() | {"_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what another scheduler's `state_dict` gave. Load the optimizer's too."""
        own = self.state_dict()
        check_entries("SequentialLR.load_state_dict", "the state dict", state_dict, tuple(own))
        given = state_dict["_schedulers"]
        if not isinstance(given, list) or len(given) != len(self._schedulers):
            raise ArgumentError(
                f"SequentialLR.load_state_dict: {len(self._schedulers)} _schedulers are needed, "
                f"got {given!r}"
            )
        for scheduler, saved in zip(self._schedulers, given, strict=True):
            scheduler.load_state_dict(saved)
        vars(self).update(plain({k: x for k, x in state_dict.items() if k != "_schedulers"}))


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
