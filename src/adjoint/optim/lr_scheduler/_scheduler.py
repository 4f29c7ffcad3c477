"""What all schedulers share."""

from collections.abc import Sequence
from typing import Any

from ..._foundation.errors import ArgumentError, DTypeError
from ...functions._arguments import as_integer
from .._optimizer import Optimizer
from .._saved import check_entries, check_kind, plain

STATE = ("base_lrs", "last_epoch", "_last_lr")


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
    >>> scheduler
    Halves(last_epoch=1, last_lr=[0.5])
    """

    _unsaved: tuple[str, ...] = ("optimizer",)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = check_optimizer(self._name, optimizer)
        last_epoch = as_integer(self._name, "last_epoch", last_epoch)
        for k, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise ArgumentError(
                    f"{self._name}: to go on from last_epoch={last_epoch}, param_groups[{k}] must "
                    "have an 'initial_lr'; load the optimizer's state first"
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch + 1
        self._set(self.get_lr() if last_epoch == -1 else self._resumed())

    @property
    def _name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        hidden = (*STATE, *self._unsaved)
        own = {name.lstrip("_"): x for name, x in vars(self).items() if name not in hidden}
        shown = [f"{name}={x!r}" for name, x in (own | {"last_epoch": self.last_epoch}).items()]
        lrs = ", ".join(f"{lr:.4g}" for lr in self._last_lr)
        return f"{self._name}({', '.join(shown)}, last_lr=[{lrs}])"

    def get_lr(self) -> list[float]:
        """The learning rate of each group at `last_epoch`; it may depend on those of before."""
        raise NotImplementedError

    def _resumed(self) -> list[float]:
        """The learning rates with which a training goes on."""
        return self.get_lr()

    def step(self) -> None:
        """Go to the next epoch."""
        self.last_epoch += 1
        self._set(self.get_lr())

    def _restart(self, lrs: Sequence[float]) -> None:
        """Go to epoch 0, from the learning rates of before the first step."""
        self._set(lrs)
        self.last_epoch = 0
        self._set(self.get_lr())

    def _set(self, lrs: Sequence[float]) -> None:
        groups = self.optimizer.param_groups
        if len(lrs) != len(groups):
            raise ArgumentError(
                f"{self._name}: the optimizer has {len(groups)} groups now, the scheduler was made "
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
        return plain({key: x for key, x in vars(self).items() if key not in self._unsaved})

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what another scheduler's `state_dict` gave. Load the optimizer's too.

        Nothing changes if there is an error.
        """
        self._check_state(state_dict)
        self._recall(state_dict)

    def _check_state(self, state_dict: Any) -> None:
        function, own = f"{self._name}.load_state_dict", self.state_dict()
        check_entries(function, "the state dict", state_dict, tuple(own))
        for key, value in own.items():
            check_kind(f"{function}: {key}", value, state_dict[key])
        as_integer(function, "last_epoch", state_dict["last_epoch"])

    def _recall(self, state_dict: dict[str, Any]) -> None:
        saved = {key: x for key, x in state_dict.items() if key not in self._unsaved}
        vars(self).update(plain(saved))


class Multiplied(LRScheduler):
    """A scheduler that multiplies the learning rates by a factor at some epochs."""

    def _factor(self) -> float:
        raise NotImplementedError

    def get_lr(self) -> list[float]:
        factor = self._factor()
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _resumed(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]


def check_optimizer(name: str, optimizer: Any) -> Optimizer:
    if not isinstance(optimizer, Optimizer):
        raise DTypeError(f"{name}: an optimizer is needed, got {type(optimizer).__name__}")
    return optimizer
