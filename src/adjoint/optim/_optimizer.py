"""What optimizers share: parameters, settings, and what they remember from step to step."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from .._dtypes import float64
from .._errors import ArgumentError, DTypeError, ShapeError
from .._modes import no_grad
from .._tensor import Tensor, describe, share
from ..functions._arguments import as_number
from ..functions.creation import asarray, zeros, zeros_like
from ..kernels.optimizers import Rule
from . import _steps


class Optimizer:
    """An optimizer has `settings`, which are attributes, and for each parameter tensors that it
    remembers by the names `remembers`. `steps` counts those of each parameter, if it `counts`."""

    counts = False

    def __init__(
        self, params: Iterable[Tensor], settings: dict[str, Any], remembers: Sequence[str]
    ) -> None:
        self.settings = tuple(settings)
        self.params = checked_params(type(self).__name__, params)
        self.configure(settings)
        self.state = {name: [zeros_like(p) for p in self.params] for name in remembers}
        rows = zip(self.params, *self.state.values(), strict=True)
        self.slots = [_steps.Slot(k, row[0], row) for k, row in enumerate(rows)]
        self.steps = zeros((len(self.params),), dtype=float64, device="cpu")

    def configure(self, settings: dict[str, Any]) -> None:
        for name, value in settings.items():
            check_setting(type(self).__name__, name, value)
        for name, value in settings.items():
            setattr(self, name, value)

    def rule(self) -> Rule:
        raise NotImplementedError

    def numbers(self) -> tuple[_steps.Number, ...]:
        """What the rule takes besides arrays; a tensor has a number for each parameter."""
        raise NotImplementedError

    @no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient."""
        slots = [slot for slot in self.slots if slot.p.node is not None and slot.p.grad is not None]
        if slots:
            if self.counts:
                self.count(slots)
            _steps.step(self.rule(), slots, self.numbers())

    def count(self, slots: list[_steps.Slot]) -> None:
        one: Any = 1.0
        if len(slots) < len(self.slots):
            stepping = {slot.place for slot in slots}
            one = asarray([float(k in stepping) for k in range(len(self.slots))])
        self.steps[...] = self.steps + one

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for p in self.params:
            p.grad = None

    def state_dict(self) -> dict[str, Any]:
        """Settings and all that is remembered, as plain dicts and lists of tensors, which later
        steps don't change.

        >>> x = ad.tensor([3.0], requires_grad=True)
        >>> ad.optim.SGD([x], lr=0.1, momentum=0.9).state_dict()["state"]
        {'momentum_buffer': [tensor([0.])]}
        """
        return {
            "settings": {name: getattr(self, name) for name in self.settings},
            "steps": share(self.steps),
            "state": {name: [share(x) for x in tensors] for name, tensors in self.state.items()},
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what another optimizer's `state_dict` gave, for parameters like its own."""
        name = f"{type(self).__name__}.load_state_dict"
        check_names(name, "entries", state_dict, ("settings", "steps", "state"))
        check_names(name, "settings", state_dict["settings"], self.settings)
        check_names(name, "state", state_dict["state"], tuple(self.state))
        own = [self.steps, *(x for tensors in self.state.values() for x in tensors)]
        lists = [list(tensors) for tensors in state_dict["state"].values()]
        given = [state_dict["steps"], *(x for tensors in lists for x in tensors)]
        if any(len(tensors) != len(self.params) for tensors in lists):
            raise ArgumentError(
                f"{name}: it is for {len(lists[0])} parameters, the optimizer has "
                f"{len(self.params)}"
            )
        for mine, other in zip(own, given, strict=True):
            check_alike(name, mine, other)
        self.configure(state_dict["settings"])
        for mine, other in zip(own, given, strict=True):
            mine[...] = other


def checked_params(name: str, params: Any) -> list[Tensor]:
    if isinstance(params, Tensor):
        raise ArgumentError(f"{name}: params must be a list of tensors, got one tensor")
    unique = list(dict.fromkeys(params))
    if not unique:
        raise ArgumentError(f"{name}: params is empty; give at least one tensor")
    for p in unique:
        if not isinstance(p, Tensor):
            raise DTypeError(f"{name}: params must be tensors, got {type(p).__name__}")
        if not p.is_leaf:
            raise ArgumentError(
                f"{name}: params must be leaves, one ({describe(p)}) is computed by "
                f"{p.node.name}, and would be computed again"  # type: ignore[union-attr]
            )
        if p.data.dtype.kind != "f":
            raise DTypeError(f"{name}: params must be floats, one is {describe(p)}")
    return unique


def check_setting(name: str, setting: str, value: Any) -> None:
    """Raise unless a setting is in its range."""
    if setting in ("amsgrad", "nesterov"):
        if not isinstance(value, bool):
            raise DTypeError(f"{name}: {setting} is True or False, got {value!r}")
    elif setting == "betas":
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise ArgumentError(f"{name}: betas are two numbers, got {value!r}")
        if not all(0 <= as_number(name, "betas", beta) < 1 for beta in value):
            raise ArgumentError(f"{name}: betas are at least 0 and below 1, got {value!r}")
    elif not 0 <= as_number(name, setting, value) < math.inf:
        raise ArgumentError(f"{name}: {setting} is a finite number, not negative; got {value!r}")


def check_names(function: str, what: str, given: Any, expected: Sequence[str]) -> None:
    if not isinstance(given, dict) or set(given) != set(expected):
        got = sorted(given) if isinstance(given, dict) else type(given).__name__
        raise ArgumentError(f"{function}: {what} must be {sorted(expected)}, got {got}")


def check_alike(function: str, own: Tensor, given: Any) -> None:
    if not isinstance(given, Tensor):
        raise DTypeError(f"{function}: tensors are needed, got {type(given).__name__}")
    if given.shape != own.shape or given.dtype != own.dtype:
        error = ShapeError if given.shape != own.shape else DTypeError
        raise error(f"{function}: {describe(own)} is needed, got {describe(given)}")
