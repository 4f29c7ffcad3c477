"""Calls of modules: `forward`, and hooks before and after it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from ..._core.node import HookHandle, registered
from ..._foundation.modes import PROFILE, mode
from .paths import locate, timed
from .tree import Tree


class Hooks(NamedTuple):
    """Functions called before and after `forward`, by the keys of their handles."""

    before: dict[int, Callable]
    after: dict[int, Callable]


class Called(Tree):
    """A tree that computes something."""

    training = True
    _hooks: Hooks | None = None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; subclasses define it, and calling the module calls it."""
        raise NotImplementedError(f"{type(self).__name__} has no method forward: write one")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if mode.word & PROFILE:
                with timed(self):
                    return self._call_with_hooks(args, kwargs)
            if self._hooks is None:
                return self.forward(*args, **kwargs)
            return self._call_with_hooks(args, kwargs)
        except Exception as error:
            locate(error, self)
            raise

    def _call_with_hooks(self, args: Any, kwargs: dict) -> Any:
        hooks = self._hooks or Hooks({}, {})
        for hook in registered(hooks.before):
            given = hook(self, args)
            if given is not None:
                args = given if isinstance(given, tuple) else (given,)
        out = self.forward(*args, **kwargs)
        for hook in registered(hooks.after):
            other = hook(self, args, out)
            out = out if other is None else other
        return out

    def register_forward_pre_hook(self, hook: Callable) -> HookHandle:
        """Call `hook(module, args)` before `forward`; what it returns, unless None, replaces the
        arguments."""
        return HookHandle(self._own_hooks().before, hook)

    def register_forward_hook(self, hook: Callable) -> HookHandle:
        """Call `hook(module, args, output)` after `forward`; what it returns, unless None, replaces
        the output.

        >>> layer = ad.nn.ReLU()
        >>> handle = layer.register_forward_hook(lambda module, args, out: out * 10)
        >>> layer(ad.asarray([-1.0, 2.0]))
        tensor([ 0., 20.])
        >>> handle.remove()
        """
        return HookHandle(self._own_hooks().after, hook)

    def _own_hooks(self) -> Hooks:
        if self._hooks is None:
            object.__setattr__(self, "_hooks", Hooks({}, {}))
        return self._hooks  # type: ignore[return-value]

    def _drop_empty_hooks(self) -> None:
        """Let calls be as fast as those of a module that never had hooks."""
        if self._hooks is not None and not any(self._hooks):
            object.__setattr__(self, "_hooks", None)
