"""Schedulers that follow a cosine."""

import math

from ..._foundation.errors import ArgumentError
from ...functions._arguments import as_count, as_number
from .._optimizer import Optimizer
from ._scheduler import LRScheduler


class CosineAnnealingLR(LRScheduler):
    """Lets the learning rates go down to `eta_min` within `T_max` epochs, along half a cosine.

    Beyond that they go up and down again.

    >>> optimizer = ad.optim.SGD([ad.tensor(0.0)], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = as_count("CosineAnnealingLR", "T_max", T_max)
        self.eta_min = as_number("CosineAnnealingLR", "eta_min", eta_min)
        super().__init__(optimizer, last_epoch)

    def _height(self, epoch: int) -> float:
        """Where the cosine is, between 0 and 2."""
        return 1 + math.cos(math.pi * epoch / self.T_max)

    def get_lr(self) -> list[float]:
        epoch, low = self.last_epoch, self.eta_min
        lrs = self._resumed()
        if epoch == 0:
            return lrs
        if (epoch - 1) % (2 * self.T_max) == self.T_max:  # up from where all is lost but base_lrs
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [lr + (base - low) * rise for lr, base in zip(lrs, self.base_lrs, strict=True)]
        ratio = self._height(epoch) / self._height(epoch - 1)
        return [ratio * (lr - low) + low for lr in lrs]

    def _resumed(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Lets the learning rates go down to `eta_min` along half a cosine, again and again.

    The first time takes `T_0` epochs, and each one `T_mult` times as long as the one before.

    >>> optimizer = ad.optim.SGD([ad.tensor(0.0)], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> for _ in range(3):
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        self.T_0 = as_count("CosineAnnealingWarmRestarts", "T_0", T_0)
        self.T_mult = as_count("CosineAnnealingWarmRestarts", "T_mult", T_mult)
        self.eta_min = as_number("CosineAnnealingWarmRestarts", "eta_min", eta_min)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._lrs_at(self.last_epoch)

    def _lrs_at(self, epoch: float) -> list[float]:
        length = self.T_0
        if self.T_mult == 1:
            epoch %= length
        while epoch >= length:
            epoch, length = epoch - length, length * self.T_mult
        part = (1 + math.cos(math.pi * epoch / length)) / 2
        return [self.eta_min + (lr - self.eta_min) * part for lr in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch, or to one that may be a fraction: epoch + batch / batches."""
        if epoch is None:
            super().step()
            return
        if as_number(self._name, "epoch", epoch) < 0:
            raise ArgumentError(f"{self._name}: epoch must not be negative, got {epoch!r}")
        self.last_epoch = math.floor(epoch)
        self._set(self._lrs_at(epoch))
