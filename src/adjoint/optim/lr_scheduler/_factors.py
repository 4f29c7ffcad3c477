"""Schedulers that multiply: by steps, at milestones, all along, at the start, by functions."""

from collections.abc import Callable, Iterable, Sequence

from ..._foundation.errors import ArgumentError, DTypeError
from ...functions._arguments import as_count, as_integer, as_number
from .._optimizer import Optimizer
from ._arguments import as_part, for_groups
from ._scheduler import LRScheduler, Multiplied


class StepLR(Multiplied):
    """Multiplies the learning rates by `gamma` every `step_size` epochs.

    >>> optimizer = ad.optim.SGD([ad.tensor(0.0)], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> scheduler.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = as_count("StepLR", "step_size", step_size)
        self.gamma = as_number("StepLR", "gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        return self.gamma if self.last_epoch and self.last_epoch % self.step_size == 0 else 1.0


class MultiStepLR(Multiplied):
    """Multiplies the learning rates by `gamma` at each of the milestones, which are epochs.

    >>> optimizer = ad.optim.SGD([ad.tensor(0.0)], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.MultiStepLR(optimizer, [1, 3], gamma=0.5)
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = [as_integer("MultiStepLR", "a milestone", n) for n in milestones]
        self.gamma = as_number("MultiStepLR", "gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        return self.gamma ** self.milestones.count(self.last_epoch)


class ExponentialLR(Multiplied):
    """Multiplies the learning rates by `gamma` every epoch.

    >>> optimizer = ad.optim.SGD([ad.tensor(0.0)], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = as_number("ExponentialLR", "gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        return self.gamma if self.last_epoch else 1.0


class ConstantLR(Multiplied):
    """Multiplies the learning rates by `factor` until epoch `total_iters`, where they come back.

    >>> optimizer = ad.optim.SGD([ad.tensor(0.0)], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=1)
    >>> scheduler.get_last_lr()
    [0.5]
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        self.factor = as_part("ConstantLR", "factor", factor)
        self.total_iters = as_count("ConstantLR", "total_iters", total_iters)
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        return {0: self.factor, self.total_iters: 1.0 / self.factor}.get(self.last_epoch, 1.0)


class LinearLR(Multiplied):
    """Multiplies the learning rates by a factor that goes from one number to another.

    It gets to `end_factor` at epoch `total_iters`, and stays there.

    >>> optimizer = ad.optim.SGD([ad.tensor(0.0)], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        self.start_factor = as_part("LinearLR", "start_factor", start_factor)
        self.end_factor = as_number("LinearLR", "end_factor", end_factor)
        if not 0 <= self.end_factor <= 1:
            raise ArgumentError(f"LinearLR: end_factor is between 0 and 1, got {end_factor!r}")
        self.total_iters = as_count("LinearLR", "total_iters", total_iters)
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float:
        if self.last_epoch == 0:
            return self.start_factor
        if self.last_epoch > self.total_iters:
            return 1.0
        slope = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * slope
        return max(0.0, 1.0 + slope / before)  # rounding could get it below


class LambdaLR(LRScheduler):
    """Sets the learning rates to those of before, times a function of the epoch.

    `lr_lambda` may be a list, with a function for each group. Functions are not part of a saved
    state.

    >>> optimizer = ad.optim.SGD([ad.tensor(0.0)], lr=1.0)
    >>> scheduler = ad.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    _unsaved = ("optimizer", "lr_lambdas")

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self.lr_lambdas = for_groups("LambdaLR", "lr_lambda", optimizer, lr_lambda)
        for function in self.lr_lambdas:
            if not callable(function):
                raise DTypeError(f"LambdaLR: lr_lambda must be functions, got {function!r}")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [lr * function(self.last_epoch) for lr, function in pairs]
