"""What all schedulers share."""

from collections.abc import Sequence
from typing import Any

from ..._errors import ArgumentError, DTypeError
from ...functions._arguments import as_integer
from .._optimizer import Optimizer
from .._saved import check_entries, plain


class LRScheduler:
    """The base of all schedulers: `get_lr` gives the learning rate of each group at `last_epoch`.

    `base_lrs` are those from before the first step. To resume without a saved state, `last_epoch`
    is the epoch before the one that comes.

    >>> class Halves(ad.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [lr / 2**self.last_epoch for lr in self.base_lrs]
    >>> optimizer = ad.optim.SGD([ad.tensor(0.0)], lr=1.0)
    >>> scheduler = Halves(optimizer)
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    unsaved: tuple[str, ...] = ("optimizer",)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = check_optimizer(self.name, optimizer)
        last_epoch = as_integer(self.name, "last_epoch", last_epoch)
        for k, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise ArgumentError(
                    f"{self.name}: to go on from last_epoch={last_epoch}, param_groups[{k}] must "
                    "have an 'initial_lr'; load the optimizer's state first"
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch + 1
        self.set(self.get_lr() if last_epoch == -1 else self.resumed())

    @property
    def name(self) -> str:
        return type(self).__name__

    def get_lr(self) -> list[float]:
        """The learning rate of each group at `last_epoch`; it may depend on those of before."""
        raise NotImplementedError

    def resumed(self) -> list[float]:
        """The learning rates with which a training goes on."""
        return self.get_lr()

    def step(self) -> None:
        """Go to the next epoch."""
        self.last_epoch += 1
        self.set(self.get_lr())

    def restart(self) -> None:
        """Go to epoch 0, from the learning rates of before the first step."""
        self.set(self.base_lrs)
        self.last_epoch = 0
        self.set(self.get_lr())

    def set(self, lrs: Sequence[float]) -> None:
        groups = self.optimizer.param_groups
        if len(lrs) != len(groups):
            raise ArgumentError(
                f"{self.name}: the optimizer has {len(groups)} groups now, the scheduler was made "
                f"for {len(lrs)}; make it after add_param_group"
            )
        for group, lr in zip(groups, lrs, strict=True):
            group["lr"] = lr
        self._last_lr = list(lrs)

    def get_last_lr(self) -> list[float]:
        """The learning rate of each group, as this scheduler has set it."""
        return list(self._last_lr)

    def state_dict(self) -> dict[str, Any]:
        """All that the scheduler knows but its optimizer, whose own state has the learning rates.

        >>> optimizer = ad.optim.SGD([ad.tensor(0.0)], lr=1.0)
        >>> scheduler = ad.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> scheduler.state_dict()
        {'gamma': 0.5, 'base_lrs': [1.0], 'last_epoch': 0, '_last_lr': [1.0]}
        """
        return plain({key: x for key, x in vars(self).items() if key not in self.unsaved})

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what another scheduler's `state_dict` gave. Load the optimizer's too."""
        function = f"{self.name}.load_state_dict"
        own = self.state_dict()
        check_entries(function, "the state dict", state_dict, tuple(own))
        for key, value in own.items():
            given = state_dict[key]
            if isinstance(value, list) and (
                not isinstance(given, list | tuple) or len(given) != len(value)
            ):
                raise ArgumentError(f"{function}: {key} must be like {value!r}, got {given!r}")
        vars(self).update(plain(state_dict))


class Multiplied(LRScheduler):
    """A scheduler that multiplies the learning rates by a factor at some epochs."""

    def factor(self) -> float:
        raise NotImplementedError

    def get_lr(self) -> list[float]:
        factor = self.factor()
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def resumed(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]


def check_optimizer(name: str, optimizer: Any) -> Optimizer:
    if not isinstance(optimizer, Optimizer):
        raise DTypeError(f"{name}: an optimizer is needed, got {type(optimizer).__name__}")
    return optimizer
