"""The state of a module: values of parameters and buffers by path."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ..._errors import ArgumentError, DTypeError
from ..._modes import no_grad
from ..._tensor import Tensor, describe
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


def named(module: "Module") -> Iterator[tuple[str, Tensor]]:
    """What belongs to the state, by path: of each module its parameters, then its buffers."""
    for path, part in paths.places(module):
        for name, tensor in part._own_parameters().items():
            yield paths.joined(path, name), tensor
        for name, tensor in part._own_buffers().items():
            if part._buffers[name]:
                yield paths.joined(path, name), tensor


def load(module: "Module", state: Any, strict: bool) -> IncompatibleKeys:
    name = f"{type(module).__name__}.load_state_dict"
    if not isinstance(state, dict):
        raise DTypeError(f"{name}: a dict of tensors is needed, got a {type(state).__name__}")
    own = dict(named(module))
    missing = [key for key in own if key not in state]
    unexpected = [key for key in state if key not in own]
    shared = [(key, own[key], state[key]) for key in own if key in state]
    mismatched = [row for key, mine, given in shared if (row := mismatch(key, mine, given))]
    check(name, missing if strict else [], unexpected if strict else [], mismatched)
    with no_grad():
        for _, mine, given in shared:
            mine[...] = astype(given.detach().to(mine.device), mine.dtype, copy=False)
    return IncompatibleKeys(missing, unexpected)


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
