"""What a recording read of Python objects, to see later whether it is so still."""

import sys
import weakref
from collections.abc import Callable
from functools import partial
from traceback import walk_stack
from typing import Any

from .._core.tensor import Tensor, describe
from .._foundation.lines import is_own
from .._foundation.trees import leaves
from .._trace.keys import change_of, key_of
from ..nn.modules.tree import Tree
from .journal import attribute
from .signature import differences, surroundings

PARTS = (Tensor, Tree)
DEPTH = 8  # of containers in containers; one may contain itself


class Notes:
    """Attributes that were read, each as it was at first; hooks of tensors, and defaults."""

    def __init__(self) -> None:
        # By objects' ids and names: words for a change, the object, how to look, what was seen.
        self.known: dict[tuple[int, str], tuple[str, weakref.ref, Callable[[Any], Any], Any]] = {}
        self.surroundings = surroundings()

    def add(self, x: Any, name: str, words: str, look: Callable[[Any], Any]) -> None:
        if (id(x), name) not in self.known:
            key = key_of(look(x), None, DEPTH)
            self.known[id(x), name] = words, weakref.ref(x), look, key

    def add_attribute(self, x: Any, name: str) -> None:
        if (id(x), name) in self.known:
            return
        value, what = attribute(x, name), type(x).__name__
        words, look = f"{what}.{name}", partial(attribute, name=name)
        if name == "_hooks":
            words, look = f"hooks of {what}", hooks_of
        elif isinstance(value, Tensor):
            words = f"parameter {name} of {what} was replaced or converted"
            look = partial(tensor_at, name=name)
        elif isinstance(value, Tree):
            words = f"module {name} of {what} was replaced"
        self.add(x, name, words, look)

    def add_all(self, x: Any) -> bool:
        """The whole dict of an object was read. Our own functions look for tensors and modules
        there, and for nothing else; returns whether it was one of these."""
        frames = (frame for frame, _ in walk_stack(sys._getframe()))
        is_ours = is_own(next(x for x in frames if x.f_globals.get("__package__") != __package__))
        names = partial(names_of, kinds=PARTS if is_ours else object)
        words = f"{'parts' if is_ours else 'attributes'} of {type(x).__name__}"
        if (id(x), words) not in self.known:
            self.add(x, words, words, names)
            for name in names(x):
                self.add_attribute(x, name)
        return is_ours

    def settle(self, captured: list[Tensor], made: set[int]) -> None:
        """The recording has ended: forget objects that the function made, known by their ids."""
        pairs = [(key, note) for key, note in self.known.items() if key[0] not in made]
        self.known = {key: note for key, note in pairs if note[1]() is not None}
        for tensor in captured:
            self.add(tensor, "hooks", f"hooks of a tensor ({describe(tensor)})", hooks_of)

    def changed(self) -> str | None:
        """What isn't as it was, in a few words."""
        for words, ref, look, key in self.known.values():
            x = ref()
            now = None if x is None else key_of(look(x), None, DEPTH)
            if now != key:
                return words + change_of(key, now)
        return differences(("", *self.surroundings), ("", *surroundings())) or None


def tensor_at(x: Any, name: str) -> Any:
    """An attribute that is a tensor, with what a function may ask of it."""
    value = attribute(x, name)
    if not isinstance(value, Tensor):
        return value
    return value, value.shape, value.raw.dtype, value.device, value.requires_grad


def names_of(x: Any, kinds: Any) -> list[str]:
    return [name for name, part in attribute(x, "__dict__").items() if isinstance(part, kinds)]


def hooks_of(x: Any) -> Any:
    """Hooks of a module or a tensor; empty ones are none."""
    if isinstance(x, Tensor):
        hooks = x.node and x.node.extra and (x.node.extra.hooks, x.node.extra.post_hooks)
    else:
        hooks = attribute(x, "_hooks")
    return hooks if hooks and any(hooks) else None


def tensors_of(optimizer: Any, name: str) -> list[list[Tensor]]:
    """The tensors in each group, or in the state of each parameter."""
    value = attribute(optimizer, name)
    entries = value.values() if isinstance(value, dict) else value
    return [[x for x in leaves(entry) if isinstance(x, Tensor)] for entry in entries]
