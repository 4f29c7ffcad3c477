"""The state of a module: values of parameters and buffers by path."""

from typing import Any, NamedTuple

from ..._core.tensor import Tensor, describe, share
from ..._foundation.errors import ArgumentError, DTypeError
from ..._foundation.modes import no_grad
from ...functions.dtypes import can_cast
from ...functions.elementwise import astype
from .paths import finite
from .tree import Tree


class IncompatibleKeys(NamedTuple):
    """The names that only one side has."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self[0]}, unexpected_keys={self[1]})"


class Stateful(Tree):
    """A tree whose values can be taken out, and put into another one like it."""

    def state_dict(self, prefix: str = "") -> dict[str, Tensor]:
        """The values of all parameters and persistent buffers by path: later training doesn't
        change them.

        >>> ad.nn.Linear(2, 1, bias=False).state_dict()
        {'weight': tensor([[..., ...]])}
        """
        state: dict[str, Tensor] = {}
        self._save_to_state_dict(state, prefix, False)
        with finite(self):
            for name, child in self._attributes():
                state |= child.state_dict(prefix=f"{prefix}{name}.")
        return state

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        """Put the module's own values into a state; as in PyTorch, subclasses may change it."""
        for name, tensor in self._own_state().items():
            destination[prefix + name] = tensor if keep_vars else share(tensor)

    def _own_state(self) -> dict[str, Tensor]:
        """The module's own parameters, then its persistent buffers."""
        buffers = self._own_buffers().items()
        return self._own_parameters() | {name: x for name, x in buffers if self._buffers[name]}

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Take the values of a `state_dict`, or of a file: `model.load_state_dict(ad.load(path))`.

        Unless `strict`, names that only one side has are left alone, and returned. Nothing changes
        if there is an error.

        >>> model, other = ad.nn.Linear(2, 1), ad.nn.Linear(2, 1)
        >>> model.load_state_dict(other.state_dict())
        <All keys matched successfully>
        """
        name = f"{type(self).__name__}.load_state_dict"
        if not isinstance(state_dict, dict):
            kind = type(state_dict).__name__
            raise DTypeError(f"{name}: a dict of tensors is needed, got a {kind}")
        pairs, keys, mismatched = [], IncompatibleKeys([], []), []
        match(self, dict(state_dict), "", pairs, *keys, mismatched)
        check(name, *(keys if strict else ([], [])), mismatched)
        with no_grad():
            for tensor, value in pairs:
                tensor[...] = astype(value.detach().to(tensor.device), tensor.dtype, copy=False)
        return keys

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Find the module's own values in a state; as in PyTorch, subclasses may rename or change
        them first. They are written when all modules have found theirs."""
        own, children = self._own_state(), dict(self._attributes())
        for name, tensor in own.items():
            key = prefix + name
            if key not in state_dict:
                missing_keys.append(key)
            elif row := mismatch(key, tensor, state_dict[key]):
                error_msgs.append(row)
            else:
                local_metadata["pairs"].append((tensor, state_dict[key]))
        for key in state_dict:
            name, rest = first_name(key, prefix)
            if name not in (children if rest else own):
                unexpected_keys.append(key)


def match(
    module: Stateful, state: dict[str, Any], prefix: str, pairs: list, *names: list[str]
) -> None:
    """Let a module and all below it find their values, for pairs with their tensors, and names that
    are missing, unexpected or mismatched; each may change what it is given first."""
    module._load_from_state_dict(state, prefix, {"pairs": pairs}, True, *names)
    below: dict[str, dict[str, Any]] = {}
    for key, value in state.items():
        below.setdefault(first_name(key, prefix)[0], {})[key] = value
    with finite(module):
        for name, child in module._attributes():
            match(child, below.get(name, {}), f"{prefix}{name}.", pairs, *names)


def first_name(key: Any, prefix: str) -> tuple[str, str]:
    """The first name of a path after a prefix, and the rest."""
    name, _, rest = str(key)[len(prefix) :].partition(".")
    return name, rest


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
