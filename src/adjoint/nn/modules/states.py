"""The state of a module: values of parameters and buffers by path."""

from typing import TYPE_CHECKING, Any, NamedTuple

from ..._core.tensor import Tensor, describe
from ..._foundation.errors import ArgumentError, DTypeError
from ..._foundation.modes import no_grad
from ...functions.dtypes import can_cast
from ...functions.elementwise import astype
from . import paths

if TYPE_CHECKING:
    from .module import Module


class IncompatibleKeys(NamedTuple):
    """The names that only one side has."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self[0]}, unexpected_keys={self[1]})"


class Matches(NamedTuple):
    """What a state has for a module and all below it: names that don't fit, and tensors with their
    new values."""

    missing: list[str]
    unexpected: list[str]
    mismatched: list[str]
    pairs: list[tuple[Tensor, Tensor]]


def named(module: "Module") -> dict[str, Tensor]:
    """What belongs to a module's own state: its parameters, then its persistent buffers."""
    buffers = module._own_buffers().items()
    return module._own_parameters() | {name: x for name, x in buffers if module._buffers[name]}


def load(module: "Module", state: Any, strict: bool) -> IncompatibleKeys:
    name = f"{type(module).__name__}.load_state_dict"
    if not isinstance(state, dict):
        raise DTypeError(f"{name}: a dict of tensors is needed, got a {type(state).__name__}")
    found = Matches([], [], [], [])
    match_all(module, dict(state), "", found)
    names = (found.missing, found.unexpected) if strict else ([], [])
    check(name, *names, found.mismatched)
    with no_grad():
        for mine, given in found.pairs:
            mine[...] = astype(given.detach().to(mine.device), mine.dtype, copy=False)
    return IncompatibleKeys(found.missing, found.unexpected)


def match_all(module: "Module", state: dict[str, Any], prefix: str, found: Matches) -> None:
    """Let a module and all below it find their values; each may change what it is given first."""
    names = found.missing, found.unexpected, found.mismatched
    module._load_from_state_dict(state, prefix, {"pairs": found.pairs}, True, *names)
    below: dict[str, dict[str, Any]] = {}
    for key, value in state.items():
        below.setdefault(first_name(key, prefix)[0], {})[key] = value
    with paths.finite(module):
        for name, child in module._attributes():
            match_all(child, below.get(name, {}), f"{prefix}{name}.", found)


def first_name(key: Any, prefix: str) -> tuple[str, str]:
    """The first name of a path after a prefix, and the rest."""
    name, _, rest = str(key)[len(prefix) :].partition(".")
    return name, rest


def match_own(module: "Module", state: dict[str, Any], prefix: str, found: Matches) -> None:
    own, children = named(module), dict(module._attributes())
    for name, tensor in own.items():
        key = prefix + name
        if key not in state:
            found.missing.append(key)
        elif row := mismatch(key, tensor, state[key]):
            found.mismatched.append(row)
        else:
            found.pairs.append((tensor, state[key]))
    for key in state:
        name, rest = first_name(key, prefix)
        if name not in (children if rest else own):
            found.unexpected.append(key)


def mismatch(key: str, own: Tensor, given: Any) -> str | None:
    """What is wrong with a value, if anything; a narrower dtype loses nothing."""
    if not isinstance(given, Tensor):
        return f"{key}: a tensor is needed, got a {type(given).__name__}"
    if given.shape == own.shape and fits(given.dtype, own.dtype):
        return None
    advice = "" if given.shape != own.shape else ": cast one of them"
    return f"{key}: the model has {describe(own)}, the state {describe(given)}{advice}"


def fits(given: Any, own: Any) -> bool:
    return given.kind == own.kind and can_cast(given, own)


def check(name: str, missing: list[str], unexpected: list[str], mismatched: list[str]) -> None:
    """Raise with all that doesn't fit."""
    parts = [
        f"{what}: {separator.join(keys)}"
        for what, separator, keys in (
            ("missing from the state", ", ", missing),
            ("unexpected in the state", ", ", unexpected),
            ("mismatched", "; ", mismatched),
        )
        if keys
    ]
    if parts:
        advice = "" if mismatched else "; strict=False loads the others"
        raise ArgumentError(f"{name}: {'. '.join(parts)}{advice}")
