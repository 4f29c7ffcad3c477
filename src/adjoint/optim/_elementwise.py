"""Optimizers that update each element by itself, from its gradient and what they remember."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._core.tensor import Tensor
from .._foundation.dtypes import float64
from .._foundation.errors import ArgumentError, DTypeError
from .._foundation.modes import PROFILE, TRACE, Switch, mode, no_grad
from .._foundation.spans import region
from ..functions.creation import asarray, full, zeros
from ..functions.inplace import replace
from ..functions.shapes import concat
from ..kernels.optimizers import Rule
from . import _steps
from ._groups import Params
from ._optimizer import Checked, run_closure
from ._saved import check_alike, check_entries


@dataclass(slots=True, eq=False)
class Slot:
    """A parameter, its place among the numbers of steps, what is remembered of it by name, and all
    tensors that a step changes: the parameter and some of those that are remembered."""

    place: int
    p: Tensor
    memory: dict[str, Tensor]
    tensors: tuple[Tensor, ...]


class GroupRule(NamedTuple):
    """What follows from a group's settings, as long as they stay as they are."""

    group: dict[str, Any]
    settings: dict[str, Any]
    rule: Rule


class Part(NamedTuple):
    """What a step does to the parameters of a group that have gradients."""

    settings: dict[str, Any]
    places: list[int]
    updates: list[_steps.Update]


class untraced(Switch):
    """Within it values are computed although a function is being traced."""

    clears = TRACE


class Elementwise(Checked):
    """An optimizer whose `_rule` says what a step does to an element.

    It may remember tensors of the names `_memory` for each parameter. `_counts` are the steps of
    each parameter of which something is remembered; if it `_shows_steps`, a saved state has them.
    """

    _memory: tuple[str, ...]
    _shows_steps = True

    def __init__(self, params: Params, defaults: dict[str, Any], **unknown: Any) -> None:
        self._slots: dict[Tensor, Slot] = {}
        self._group_rules: dict[int, GroupRule] = {}
        self._counts = zeros((0,), dtype=float64, device="cpu")
        super().__init__(params, defaults, **unknown)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        for p in self.param_groups[-1]["params"]:
            self._slots.setdefault(p, Slot(len(self._slots), p, {}, (p,)))
        self._places = list(range(len(self._slots)))
        new = zeros((len(self._slots) - self._counts.size,), dtype=float64, device="cpu")
        self._counts = concat([self._counts, new])

    # What an optimizer says of itself, for a group's settings.

    def _remembers(self, settings: dict[str, Any]) -> tuple[str, ...]:
        raise NotImplementedError

    def _start(self, settings: dict[str, Any]) -> float:
        """What remembered tensors are full of before the first step."""
        return 0.0

    def _rule(self, settings: dict[str, Any]) -> Rule:
        raise NotImplementedError

    def _numbers(
        self, rule: Rule, settings: dict[str, Any], steps: Tensor
    ) -> tuple[_steps.Number, ...]:
        """What the rule takes besides arrays. Settings may be tensors with a number for each
        parameter, as `steps` is, the number of its steps with this one."""
        raise NotImplementedError

    # A step.

    @no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient.

        `closure`, if there is one, is called first, with gradients enabled: it computes the loss
        and the gradients, and what it returns is returned.
        """
        loss = run_closure(closure)
        if mode.word & PROFILE:
            with region(f"{self._name}.step", "step"):
                self._update_all()
        else:
            self._update_all()
        return loss

    def _update_all(self) -> None:
        together: dict[Rule, list[Part]] = defaultdict(list)
        for k, group in enumerate(self.param_groups):
            _, settings, rule = self._prepare_group(k, group)
            part = self._part(group, settings)
            if part.places:
                together[rule].append(part)
        for rule, parts in together.items():
            self._update(rule, parts)

    def _prepare_group(self, k: int, group: dict[str, Any]) -> GroupRule:
        """Check a group and prepare its slots if a setting has changed; its settings and rule.

        While a function is recorded settings may be Numbers, and nothing is kept of these.
        """
        settings = self._settings_of(group)
        known = self._group_rules.get(k)
        if known is not None and known.group is group and known.settings == settings:
            return known
        self._check_settings(settings)
        for p in group["params"]:
            self._prepare(self._slot(p), settings)
        found = GroupRule(group, settings, self._rule(settings))
        if not mode.word & TRACE:
            self._group_rules[k] = found
        return found

    def _slot(self, p: Tensor) -> Slot:
        slot = self._slots.get(p)
        if slot is None:
            raise ArgumentError(
                f"{self._name}: a parameter was put into a group by hand; use add_param_group"
            )
        return slot

    def _prepare(self, slot: Slot, settings: dict[str, Any]) -> None:
        """Have a parameter's slot remember what the settings ask for."""
        names, p = self._remembers(settings), slot.p
        with untraced():
            for name in names:
                if name not in slot.memory:
                    start = self._start(settings)
                    slot.memory[name] = full(p.shape, start, dtype=p.dtype, device=p.device)
        slot.tensors = (p, *[slot.memory[name] for name in names])

    def _part(self, group: dict[str, Any], settings: dict[str, Any]) -> Part:
        """The parameters of a group that require grad and have a gradient."""
        slots = self._slots
        found = [
            (slots.get(p) or self._slot(p), g)
            for p in group["params"]
            if p.node is not None and (g := p.grad) is not None
        ]
        places = [slot.place for slot, _ in found]
        return Part(settings, places, [(slot.tensors, g) for slot, g in found])

    def _update(self, rule: Rule, parts: list[Part]) -> None:
        """Update the parameters of groups that have one rule, and count the step."""
        if len(parts) > 1 and mode.word & TRACE:
            self._update_apart(rule, parts)
            return
        settings, places, updates = parts[0]
        if len(parts) > 1:
            settings = {name: joined(name, parts) for name in settings}
            places = [place for part in parts for place in part.places]
            updates = [update for part in parts for update in part.updates]
        if rule.arrays == 2:  # nothing is remembered
            _steps.step(rule, updates, self._numbers(rule, settings, self._counts))
            return
        counted, steps = self._counted(places)
        _steps.step(rule, updates, self._numbers(rule, settings, steps))
        replace("step", self._counts, counted)

    def _update_apart(self, rule: Rule, parts: list[Part]) -> None:
        """Update the parameters of each group with its own settings, and count the step: their
        values may not be known."""
        if rule.arrays == 2:
            for part in parts:
                numbers = self._numbers(rule, part.settings, self._counts)
                _steps.step(rule, part.updates, numbers)
            return
        counted, steps = self._counted([place for part in parts for place in part.places])
        start = 0
        for part in parts:
            end = start + len(part.places)
            numbers = self._numbers(rule, part.settings, steps[start:end])
            _steps.step(rule, part.updates, numbers)
            start = end
        replace("step", self._counts, counted)

    def _counted(self, places: list[int]) -> tuple[Tensor, Tensor]:
        """The numbers of steps of all parameters, with one more at some places; and those there."""
        if places == self._places:
            counted = self._counts + 1.0
            return counted, counted
        more = np.zeros(len(self._places))
        more[places] = 1.0
        counted = self._counts + asarray(more, device="cpu")
        return counted, counted[places]

    # What is remembered.

    def _remembered(self) -> dict[Tensor, dict[str, Any]]:
        steps = self._counts.tolist()
        out = {}
        for p, slot in self._slots.items():
            count = steps[slot.place]
            if count:
                own = {"step": full((), count, dtype=float64, device="cpu")}
                kept = {name: slot.memory[name] for name in self._memory if name in slot.memory}
                out[p] = (own if self._shows_steps else {}) | kept
        return out

    def _check_entry(self, where: str, p: Tensor, settings: dict[str, Any], entry: Any) -> None:
        function, _, what = where.partition(": ")
        own = ("step",) if self._shows_steps else ()
        check_entries(function, what, entry, (*own, *self._remembers(settings)), self._memory)
        if self._shows_steps:
            count_of(f"{where}['step']", entry["step"])
        for name in self._memory:
            # PyTorch's SGD has None for what isn't there yet.
            if name in entry and (self._shows_steps or entry[name] is not None):
                check_alike(f"{where}[{name!r}]", p, entry[name])

    @no_grad()
    def _recall(self, settings: list[dict[str, Any]], entries: dict[Tensor, dict]) -> None:
        counts = [0.0] * len(self._slots)
        for own, p in zip(settings, self._all_params, strict=True):
            slot, entry = self._slots[p], entries.get(p, {})
            tensors = {k: x for k, x in entry.items() if k != "step" and x is not None}
            if tensors:
                counts[slot.place] = count_of("step", entry["step"]) if self._shows_steps else 1.0
            for name in {*slot.memory, *tensors}:
                start = full(p.shape, self._start(own), dtype=p.dtype, device=p.device)
                held = slot.memory.setdefault(name, start)
                if held.device != p.device or held.dtype != p.dtype:
                    held = slot.memory[name] = start
                held[...] = asarray(tensors.get(name, start), device=p.device).detach()
        self._counts[...] = asarray(counts, dtype=float64, device="cpu")
        self._group_rules.clear()


def joined(name: str, parts: list[Part]) -> Any:
    """A setting of the parameters of several groups: one value if the groups agree, else a tensor
    with one for each parameter."""
    values = [part.settings[name] for part in parts]
    if all(value == values[0] for value in values):
        return values[0]
    counts = [len(part.places) for part in parts]
    each = np.repeat(np.array(values, np.float64), counts, axis=0)
    if each.ndim == 1:
        return asarray(each, device="cpu")
    return tuple(asarray(column, device="cpu") for column in each.T)


def count_of(where: str, value: Any) -> float:
    """A number of steps, from a Python number or a 0-d tensor."""
    if isinstance(value, Tensor) and value.shape == ():
        value = value.item()
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise DTypeError(f"{where} must be a number, got {value!r}")
    if not (value >= 0 and float(value).is_integer()):
        raise ArgumentError(f"{where} must be a whole number of steps, got {value!r}")
    return float(value)
