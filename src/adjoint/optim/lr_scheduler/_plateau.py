"""Lower learning rates when nothing gets better."""

import math
from collections.abc import Sequence
from typing import Any

from ..._foundation.errors import ArgumentError, DTypeError
from ...functions._arguments import as_integer, as_number
from .._optimizer import Optimizer
from ._arguments import numbers_for_groups
from ._scheduler import LRScheduler, check_optimizer


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the learning rates by `factor` where a number has stopped getting better.

    That is where for more than `patience` steps it hasn't been below (mode "max": above) the best
    one by `threshold`, a part of it (threshold_mode "rel") or a difference ("abs"). For `cooldown`
    steps after that none count. No rate goes below `min_lr`, or changes by less than `eps`.

    >>> optimizer = ad.optim.SGD([ad.tensor(0.0)], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    >>> for loss in (3.0, 2.0, 2.0, 2.5):
    ...     scheduler.step(loss)
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        name = "ReduceLROnPlateau"
        self.optimizer = check_optimizer(name, optimizer)
        for setting, value, allowed in (
            ("mode", mode, ("min", "max")),
            ("threshold_mode", threshold_mode, ("rel", "abs")),
        ):
            if value not in allowed:
                raise ArgumentError(
                    f"{name}: {setting} is {allowed[0]!r} or {allowed[1]!r}, got {value!r}"
                )
        self.mode, self.threshold_mode = mode, threshold_mode
        self.factor = as_number(name, "factor", factor)
        if not self.factor < 1:
            raise ArgumentError(f"{name}: factor is below 1, got {factor!r}")
        self.threshold = as_number(name, "threshold", threshold)
        self.eps = as_number(name, "eps", eps)
        self.patience = as_integer(name, "patience", patience)
        self.cooldown = as_integer(name, "cooldown", cooldown)
        self.min_lrs = numbers_for_groups(name, "min_lr", optimizer, min_lr)
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = 0
        self.cooldown_counter = 0
        self.last_epoch = 0
        self._last_lr = [group["lr"] for group in optimizer.param_groups]

    def step(self, metrics: Any) -> None:  # type: ignore[override]
        """Take note of a number, such as a loss, and reduce the learning rates if it is time."""
        try:
            value = float(metrics)
        except TypeError:
            got = type(metrics).__name__
            raise DTypeError(f"{self._name}: step needs a number, got {got}") from None
        self.last_epoch += 1
        if self._is_better(value):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown_counter - 1, 0
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            lrs = [group["lr"] for group in self.optimizer.param_groups]
            self._set([self._reduced(*pair) for pair in zip(lrs, self.min_lrs, strict=False)])
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def _is_better(self, value: float) -> bool:
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "rel":
            bound = self.best * (1 + sign * self.threshold)
        else:
            bound = self.best + sign * self.threshold
        return sign * value > sign * bound

    def _reduced(self, lr: float, lowest: float) -> float:
        new = max(lr * self.factor, lowest)
        return new if lr - new > self.eps else lr
