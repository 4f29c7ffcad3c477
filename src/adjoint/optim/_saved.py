"""Saved states: plain values only, and errors that say which entry doesn't fit."""

from collections.abc import Collection, Sequence
from numbers import Real
from typing import Any

from .._core.tensor import Tensor, describe, share
from .._foundation.errors import ArgumentError, DTypeError, ShapeError


def plain(value: Any) -> Any:
    """Dicts and lists of values that later steps don't change."""
    if isinstance(value, Tensor):
        return share(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def moved(value: Any, device: str, name: str = "") -> Any:
    """Dicts and lists with their tensors on a device, but numbers of steps, which stay."""
    if isinstance(value, Tensor) and name != "step":
        return value.to(device)
    if isinstance(value, dict):
        return {key: moved(item, device, key) for key, item in value.items()}
    if isinstance(value, list):
        return [moved(item, device) for item in value]
    return value


def restored(group: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """A saved group as an optimizer has it: with its own parameters, and tuples again."""
    kept = {key: own[key] for key in ("params", "param_names") if key in own}
    rest = {key: x for key, x in group.items() if key not in ("params", "param_names")}
    out = kept | plain(rest)
    for key, value in out.items():
        if isinstance(value, list) and (key == "betas" or isinstance(own.get(key), tuple)):
            out[key] = tuple(value)
    return out


def check_entries(
    function: str,
    what: str,
    given: Any,
    required: Sequence[Any],
    optional: Collection[Any] = (),
) -> None:
    """Raise unless a dict has the required keys, and none but those and the optional ones."""
    if not isinstance(given, dict):
        raise ArgumentError(f"{function}: {what} must be a dict, got {type(given).__name__}")
    missing = [key for key in required if key not in given]
    unexpected = [key for key in given if key not in required and key not in optional]
    for problem, keys in (("lacks", missing), ("has unexpected", unexpected)):
        if keys:
            raise ArgumentError(f"{function}: {what} {problem} {', '.join(map(repr, keys))}")


def check_groups(
    function: str, given: Any, own: list[dict[str, Any]], names: Collection[str]
) -> list[dict[str, Any]]:
    """Saved groups, if they are like an optimizer's own."""
    if not isinstance(given, list | tuple) or len(given) != len(own):
        got = len(given) if isinstance(given, list | tuple) else type(given).__name__
        raise ArgumentError(f"{function}: {len(own)} param_groups are needed, got {got}")
    for k, (group, other) in enumerate(zip(own, given, strict=True)):
        what = f"param_groups[{k}]"
        check_entries(function, what, other, ("params", *names), other)
        if not isinstance(other["params"], list | tuple):
            raise ArgumentError(f"{function}: {what}['params'] must be a list of numbers")
        if len(other["params"]) != len(group["params"]):
            raise ArgumentError(
                f"{function}: {what} is for {len(other['params'])} parameters, the optimizer's "
                f"has {len(group['params'])}"
            )
        check_param_names(f"{function}: {what}", group, other)
    return [restored(other, group) for group, other in zip(own, given, strict=True)]


def check_param_names(where: str, group: dict[str, Any], other: dict[str, Any]) -> None:
    """Raise if both groups name their parameters, and not alike."""
    if "param_names" not in group or "param_names" not in other:
        return
    names, count = other["param_names"], len(group["param_names"])
    if not isinstance(names, list | tuple) or len(names) != count:
        raise ArgumentError(f"{where}['param_names'] must be {count} names, got {names!r}")
    for own, given in zip(group["param_names"], names, strict=True):
        if own != given:
            raise ArgumentError(
                f"{where} is for a parameter {given!r} where the optimizer has {own!r}; if they "
                "are the same, remove 'param_names' from the saved group"
            )


def check_kind(where: str, own: Any, given: Any) -> None:
    """Raise unless a saved value is of the kind of one's own."""
    if not is_like(own, given):
        raise ArgumentError(f"{where} must be like {own!r}, got {given!r}")


def is_like(own: Any, given: Any) -> bool:
    """Whether both are numbers, texts, or lists of them of one length; any other is like any."""
    if isinstance(own, list):
        alike = isinstance(given, list | tuple) and len(given) == len(own)
        return alike and all(map(is_like, own, given))
    if isinstance(own, bool | str):
        return isinstance(given, type(own))
    return not isinstance(own, Real) or (isinstance(given, Real) and not isinstance(given, bool))


def check_alike(where: str, own: Tensor, given: Any) -> None:
    """Raise unless a saved tensor is like one of an optimizer's."""
    if not isinstance(given, Tensor):
        raise DTypeError(f"{where} must be a tensor, got {type(given).__name__}")
    if given.shape != own.shape or given.dtype != own.dtype:
        error = ShapeError if given.shape != own.shape else DTypeError
        raise error(f"{where} must be {describe(own)}, got {describe(given)}")
