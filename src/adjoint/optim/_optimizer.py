"""What all optimizers share: groups of parameters with settings, and states that can be saved."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from .._core.tensor import Tensor
from .._foundation.changes import Watched, WatchedDict, WatchedList, note_change
from .._foundation.errors import ArgumentError
from .._foundation.modes import enable_grad
from ..functions._arguments import reject
from ..functions.creation import zeros_like
from ._groups import Params, as_groups, as_params, check_setting
from ._saved import check_entries, check_groups, moved, plain


class Group(dict):
    """Parameters, which are watched, and settings, which recorded functions read at each run."""

    def __init__(self, entries: dict[str, Any]) -> None:
        self.update(entries)

    def __setitem__(self, key: str, value: Any) -> None:
        if key == "params":
            value = WatchedList(value)
            note_change()
        super().__setitem__(key, value)

    def update(self, entries: Any = (), **more: Any) -> None:
        for key, value in dict(entries, **more).items():
            self[key] = value

    def __ior__(self, entries: Any) -> "Group":  # type: ignore[misc]
        self.update(entries)
        return self

    def setdefault(self, key: str, value: Any = None) -> Any:
        if key not in self:
            self[key] = value
        return self[key]

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return dict, (dict(self),)


class Entries(WatchedDict):
    """State of an optimizer: a dict for each parameter, made on first use."""

    default_factory = WatchedDict

    def __missing__(self, key: Any) -> Any:
        self[key] = entry = self.default_factory()
        return entry


class Optimizer(Watched):
    """The base of all optimizers.

    `param_groups` is a list of dicts: "params" and the settings of each group, which may be changed
    between steps, compiled ones (`ad.compile`) too; a trace (`ad.trace`) keeps the settings that it
    was recorded with. `defaults` are the settings of groups that don't name their own.

    >>> w, b = (ad.tensor([1.0], requires_grad=True) for _ in range(2))
    >>> groups = [{"params": [w]}, {"params": [b], "lr": 0.5}]
    >>> optimizer = ad.optim.SGD(groups, lr=0.1)
    >>> optimizer.param_groups[0]["lr"] = 0.2
    >>> [group["lr"] for group in optimizer.param_groups]
    [0.2, 0.5]

    One of your own has a `step`, and may keep what it remembers of each parameter in `state`, a
    dict for each, which `state_dict` saves:

    >>> class Momentum(ad.optim.Optimizer):
    ...     def __init__(self, params, lr=0.1):
    ...         super().__init__(params, {"lr": lr})
    ...
    ...     @ad.no_grad()
    ...     def step(self, closure=None):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 if p.grad is not None:
    ...                     state = self.state[p]
    ...                     state["velocity"] = 0.9 * state.get("velocity", 0.0) + p.grad
    ...                     p[...] = p - group["lr"] * state["velocity"]
    >>> x = ad.tensor([3.0], requires_grad=True)
    >>> optimizer = Momentum([x])
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([2.4], requires_grad=True)
    >>> optimizer.state_dict()["state"]
    {0: {'velocity': tensor([6.])}}
    """

    def __init__(self, params: Params, defaults: dict[str, Any], **unknown: Any) -> None:
        if unknown:
            reject(self._name, unknown)
        self.defaults = defaults
        self._state: dict[Any, Any] = Entries()
        self.param_groups: list[dict[str, Any]] = WatchedList()
        for group in as_groups(self._name, params):
            self.add_param_group(group)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Watch lists and dicts of a copy, too."""
        vars(self).update(state)
        self.param_groups = WatchedList(map(Group, self.param_groups))
        entries = self._state.items()
        pairs = [(key, WatchedDict(x) if isinstance(x, dict) else x) for key, x in entries]
        self._state = Entries(pairs)

    @property
    def _name(self) -> str:
        return type(self).__name__

    @property
    def _all_params(self) -> list[Tensor]:
        """The parameters of all groups."""
        return [p for group in self.param_groups for p in group["params"]]

    def __repr__(self) -> str:
        groups = [
            "\n    ".join([f"{len(group['params'])} params", *shown(group, self.defaults)])
            for group in self.param_groups
        ]
        return "\n  ".join([self._name, *groups])

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Optimize more parameters, with settings of their own or the defaults.

        >>> w, b = (ad.tensor([1.0], requires_grad=True) for _ in range(2))
        >>> optimizer = ad.optim.SGD([w], lr=0.1)
        >>> optimizer.add_param_group({"params": [b], "lr": 0.5})
        >>> len(optimizer.param_groups)
        2
        """
        tensors, names = as_params(self._name, param_group)
        known = set(self._all_params)
        for p in tensors:
            if p in known:
                raise ArgumentError(f"{self._name}: a parameter is in two groups")
        group = Group({"params": tensors} | self.defaults | param_group | {"params": tensors})
        if names is not None:
            group["param_names"] = names
        for other in self.param_groups:
            if ("param_names" in other) != (names is not None):
                raise ArgumentError(f"{self._name}: all params have names, or none, got both")
        self._check_settings(self._settings_of(group))
        self.param_groups.append(group)
        note_change()

    def _settings_of(self, group: Mapping[str, Any]) -> dict[str, Any]:
        return {name: group[name] for name in self.defaults}

    def _check_settings(self, settings: dict[str, Any]) -> None:
        """Raise unless all settings are in their ranges, which the base doesn't know."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, or make them zeros."""
        for p in self._all_params:
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                p.grad = zeros_like(p.grad.detach())

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient.

        `closure`, if there is one, is called first, with gradients enabled: it computes the loss
        and the gradients, and what it returns is returned.
        """
        raise NotImplementedError

    # What is remembered.

    @property
    def state(self) -> Any:
        """What is remembered of each parameter: a dict for each one that has been updated."""
        return self._state

    def _remembered(self) -> Mapping[Any, Any]:
        """What a saved state has, by parameter; or by name, if it is about no parameter."""
        return self._state

    def _check_state(
        self, function: str, params: dict[int, Tensor], settings: dict[int, dict], state: Any
    ) -> None:
        """Raise unless a saved state fits the parameters, of which these are the numbers."""

    def _recall(self, settings: list[dict[str, Any]], entries: dict[Any, Any]) -> None:
        """Remember what is in these entries, and nothing else. There are settings for each
        parameter."""
        self._state.clear()
        for key, entry in entries.items():
            own = plain(entry)
            own = moved(own, key.device) if isinstance(key, Tensor) else own
            self._state[key] = WatchedDict(own) if isinstance(own, dict) else own

    def state_dict(self) -> dict[str, Any]:
        """Settings and all that is remembered, which later steps don't change.

        In it parameters are numbers, in the order of the groups.

        >>> x = ad.tensor([3.0], requires_grad=True)
        >>> optimizer = ad.optim.SGD([x], lr=0.1, momentum=0.9)
        >>> (x * x).sum().backward()
        >>> optimizer.step()
        >>> optimizer.state_dict()["state"]
        {0: {'momentum_buffer': tensor([6.])}}
        """
        numbers: dict[Any, int] = {p: k for k, p in enumerate(self._all_params)}
        state = {
            numbers.get(key, key): plain(entry)
            for key, entry in self._remembered().items()
            if key in numbers or not isinstance(key, Tensor)
        }
        groups, start = [], 0
        for group in self.param_groups:
            end = start + len(group["params"])
            rest = {key: value for key, value in group.items() if key != "params"}
            groups.append(plain(rest) | {"params": list(range(start, end))})
            start = end
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what another optimizer's `state_dict` gave, for parameters like its own.

        Tensors move to the devices of the parameters; shapes and dtypes must be the same. Nothing
        changes if there is an error.
        """
        function = f"{self._name}.load_state_dict"
        check_entries(function, "the state dict", state_dict, ("state", "param_groups"))
        saved = check_groups(function, state_dict["param_groups"], self.param_groups, self.defaults)
        settings = [self._settings_of(group) for group in saved for _ in group["params"]]
        for own in settings:
            self._check_settings(own)
        places = [k for group in state_dict["param_groups"] for k in group["params"]]
        params: dict[Any, Any] = dict(zip(places, self._all_params, strict=True))
        state = state_dict["state"]
        check_entries(function, "state", state, (), state)
        self._check_state(function, params, dict(zip(places, settings, strict=True)), state)
        for group, other in zip(self.param_groups, saved, strict=True):
            group.clear()
            group.update(other)
        self._recall(settings, {params.get(k, k): entry for k, entry in state.items()})
        note_change()


class Checked(Optimizer):
    """An optimizer that knows its settings, and what a saved state of it has."""

    def _check_settings(self, settings: dict[str, Any]) -> None:
        for name, value in settings.items():
            check_setting(self._name, name, value)

    @property
    def state(self) -> Mapping[Tensor, Mapping[str, Any]]:
        """What is remembered of each parameter that has been updated, to look at;
        `load_state_dict` changes it."""
        entries = self._remembered()
        return MappingProxyType({p: MappingProxyType(entry) for p, entry in entries.items()})

    def _remembered(self) -> dict[Tensor, dict[str, Any]]:
        raise NotImplementedError

    def _check_state(
        self, function: str, params: dict[int, Tensor], settings: dict[int, dict], state: Any
    ) -> None:
        check_entries(function, "state", state, (), params)
        for k, entry in state.items():
            self._check_entry(f"{function}: state[{k}]", params[k], settings[k], entry)

    def _check_entry(self, where: str, p: Tensor, settings: dict[str, Any], entry: Any) -> None:
        """Raise unless an entry of a saved state fits a parameter."""
        raise NotImplementedError


def shown(group: dict[str, Any], names: Any) -> list[str]:
    return [f"{name}={group[name]!r}" for name in names]


def run_closure(closure: Callable[[], Any] | None) -> Any:
    """Call a closure, which computes gradients; what it returns."""
    if closure is None:
        return None
    with enable_grad():
        return closure()
