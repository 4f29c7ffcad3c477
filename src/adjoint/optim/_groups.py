"""What an optimizer is given: parameters, maybe with names, maybe in groups with settings."""

import math
from collections.abc import Iterable
from typing import Any

from .._core.tensor import Tensor, describe
from .._foundation.errors import ArgumentError, DTypeError
from ..functions._arguments import as_count, as_number, check_no_module

Params = Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[dict[str, Any]]

FLAGS = ("amsgrad", "centered", "decoupled_weight_decay", "maximize", "nesterov")
COUNTS = ("history_size", "max_eval", "max_iter")


def as_groups(name: str, params: Any) -> list[dict[str, Any]]:
    """Groups, of which each has "params" and maybe settings of its own."""
    given = as_list(name, params)
    if not given:
        raise nothing_given(f"{name}: the optimizer")
    dicts = [isinstance(item, dict) for item in given]
    if any(dicts) and not all(dicts):
        raise ArgumentError(f"{name}: params are either tensors or groups (dicts), got both")
    return given if all(dicts) else [{"params": given}]


def nothing_given(who: str) -> ArgumentError:
    """The error for a list of parameters that is empty, with the usual reasons."""
    return ArgumentError(
        f"{who} got an empty parameter list; give at least one tensor. A generator, such as "
        "model.parameters(), can be used once only. Layers in a plain list, tuple or dict aren't "
        "found: use nn.ModuleList or nn.ModuleDict, for parameters nn.ParameterList or "
        "nn.ParameterDict"
    )


def as_list(name: str, params: Any) -> list:
    if isinstance(params, Tensor):
        raise ArgumentError(f"{name}: params must be a list of tensors, got one tensor")
    check_no_module(name, "params", params)
    if isinstance(params, dict):
        raise DTypeError(
            f"{name}: params must be a list, got a dict; pass [group] for a group, or "
            "params.items() for tensors with names"
        )
    if isinstance(params, set | frozenset):
        raise DTypeError(f"{name}: params must be in an order, got a {type(params).__name__}")
    if not isinstance(params, Iterable):
        raise DTypeError(f"{name}: params must be a list, got {type(params).__name__}")
    return list(params)


def as_params(name: str, group: Any) -> tuple[list[Tensor], list[str] | None]:
    """The tensors of a group, each once, and their names, if they have some."""
    if not isinstance(group, dict) or "params" not in group:
        got = sorted(map(str, group)) if isinstance(group, dict) else type(group).__name__
        raise ArgumentError(f'{name}: a group is a dict with "params", got {got}')
    params = group["params"]
    given = [params] if isinstance(params, Tensor) else as_list(name, params)
    named = [isinstance(item, tuple) for item in given]
    if any(named) and not all(named):
        raise ArgumentError(f"{name}: all params of a group have names, or none, got both")
    pairs = [as_pair(name, item) for item in given] if any(named) else []
    tensors = [p for _, p in pairs] or given
    for p in tensors:
        check_param(name, p)
    if not pairs:
        return list(dict.fromkeys(tensors)), None
    unique = {p: text for text, p in pairs}
    if len(set(unique.values())) < len(unique):
        raise ArgumentError(f"{name}: two params have one name, in {sorted(unique.values())}")
    return list(unique), list(unique.values())


def as_pair(name: str, item: Any) -> tuple[str, Any]:
    """A parameter with its name."""
    if len(item) != 2:
        raise ArgumentError(
            f"{name}: a parameter with a name is (name, tensor), got a tuple of {len(item)}"
        )
    if not isinstance(item[0], str):
        raise DTypeError(f"{name}: a parameter's name is a string, got {item[0]!r}")
    return item[0], item[1]


def check_param(name: str, p: Any) -> None:
    if not isinstance(p, Tensor):
        raise DTypeError(f"{name}: params must be tensors, got {type(p).__name__}")
    if not p.is_leaf:
        raise ArgumentError(
            f"{name}: params must be leaves, one ({describe(p)}) is computed by "
            f"{p.node.name}, and would be computed again"  # type: ignore[union-attr]
        )
    if p.raw.dtype.kind != "f":
        raise DTypeError(f"{name}: params must be floats, one is {describe(p)}")


def check_setting(name: str, setting: str, value: Any) -> None:
    """Raise unless a setting is in its range."""
    if setting in FLAGS:
        if not isinstance(value, bool):
            raise DTypeError(f"{name}: {setting} is True or False, got {value!r}")
    elif setting in COUNTS:
        as_count(name, setting, value)
    elif setting == "line_search_fn":
        if value not in (None, "strong_wolfe"):
            raise ArgumentError(f"{name}: {setting} is None or 'strong_wolfe', got {value!r}")
    elif setting == "betas":
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise ArgumentError(f"{name}: betas are two numbers, got {value!r}")
        if not all(0 <= as_number(name, "betas", beta) < 1 for beta in value):
            raise ArgumentError(f"{name}: betas are at least 0 and below 1, got {value!r}")
    elif not 0 <= as_number(name, setting, value) < math.inf:
        raise ArgumentError(f"{name}: {setting} is a finite number, not negative; got {value!r}")
