"""One cycle: up to a highest learning rate, and down again."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from ..._foundation.errors import ArgumentError
from ...functions._arguments import as_count, as_number
from .._optimizer import Optimizer
from ._arguments import as_positive, numbers_for_groups
from ._scheduler import LRScheduler, check_optimizer


class OneCycleLR(LRScheduler):
    """One cycle of `total_steps` steps: the learning rates rise to `max_lr`, then fall to almost 0.

    They start at max_lr / div_factor, rise for the part `pct_start` of all steps, and end at that
    start divided by `final_div_factor`. With `three_phase` they come back to the start first. While
    they rise, the momentum (or the first of the betas) falls from `max_momentum` to
    `base_momentum`, and comes back later, unless `cycle_momentum` is False.

    >>> optimizer = ad.optim.SGD([ad.tensor(0.0)], lr=1.0, momentum=0.9)
    >>> scheduler = ad.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
    >>> for _ in range(2):
    ...     scheduler.step()
    >>> scheduler.get_last_lr(), optimizer.param_groups[0]["momentum"]
    ([1.0], 0.85)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        name = "OneCycleLR"
        check_optimizer(name, optimizer)
        self.total_steps = as_total(total_steps, epochs, steps_per_epoch)
        self.pct_start = as_number(name, "pct_start", pct_start)
        if not 0 <= self.pct_start <= 1:
            raise ArgumentError(f"{name}: pct_start is between 0 and 1, got {pct_start!r}")
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(
                f"{name}: anneal_strategy is 'cos' or 'linear', got {anneal_strategy!r}"
            )
        self.anneal_strategy = anneal_strategy
        self.cycle_momentum = cycle_momentum
        self.three_phase = three_phase
        highest = numbers_for_groups(name, "max_lr", optimizer, max_lr)
        div_factor = as_positive(name, "div_factor", div_factor)
        final_div_factor = as_positive(name, "final_div_factor", final_div_factor)
        lowest = numbers_for_groups(name, "base_momentum", optimizer, base_momentum)
        largest = numbers_for_groups(name, "max_momentum", optimizer, max_momentum)
        if cycle_momentum and not {"momentum", "betas"} & set(optimizer.defaults):
            raise ArgumentError(
                f"{name}: {type(optimizer).__name__} has neither momentum nor betas; pass "
                "cycle_momentum=False"
            )
        if last_epoch == -1:
            for group, lr, low, high in zip(
                optimizer.param_groups, highest, lowest, largest, strict=True
            ):
                first = lr / div_factor
                group |= {"initial_lr": first, "max_lr": lr, "min_lr": first / final_div_factor}
                if cycle_momentum:
                    group |= {"base_momentum": low, "max_momentum": high}
        super().__init__(optimizer, last_epoch)

    def _phases(self) -> list[tuple[float, str, str, str, str]]:
        """The last step of each phase, and between which entries of a group it goes."""
        rise = self.pct_start * self.total_steps - 1
        end = self.total_steps - 1
        first = (rise, "initial_lr", "max_lr", "max_momentum", "base_momentum")
        if not self.three_phase:
            return [first, (end, "max_lr", "min_lr", "base_momentum", "max_momentum")]
        return [
            first,
            (2 * rise, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
            (end, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
        ]

    def get_lr(self) -> list[float]:
        if self.last_epoch > self.total_steps:
            raise ArgumentError(
                f"OneCycleLR: step {self.last_epoch} is beyond total_steps={self.total_steps}"
            )
        phases = self._phases()
        ends = [phase[0] for phase in phases]
        place = min(bisect_left(ends, self.last_epoch), len(ends) - 1)
        start, end = ends[place - 1] if place else 0.0, ends[place]
        part = (self.last_epoch - start) / (end - start) if end != start else 1.0
        _, lr_from, lr_to, momentum_from, momentum_to = phases[place]
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            for group in groups:
                set_momentum(group, self._between(group[momentum_from], group[momentum_to], part))
        return [self._between(group[lr_from], group[lr_to], part) for group in groups]

    def _between(self, start: float, end: float, part: float) -> float:
        if self.anneal_strategy == "linear":
            return (end - start) * min(part, 1.0) + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)


def set_momentum(group: dict[str, Any], value: float) -> None:
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def as_total(total_steps: Any, epochs: Any, steps_per_epoch: Any) -> int:
    if total_steps is not None:
        return as_count("OneCycleLR", "total_steps", total_steps)
    if epochs is None or steps_per_epoch is None:
        raise ArgumentError("OneCycleLR: total_steps is needed, or epochs and steps_per_epoch")
    each = as_count("OneCycleLR", "steps_per_epoch", steps_per_epoch)
    return as_count("OneCycleLR", "epochs", epochs) * each
