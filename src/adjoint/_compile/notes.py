"""What a recording read of Python objects, to see later whether it is so still."""

import sys
import weakref
from collections.abc import Callable
from functools import partial
from traceback import walk_stack
from typing import Any, NamedTuple

from .._core.tensor import Tensor, describe
from .._foundation.lines import is_own
from .._foundation.trees import leaves
from .._trace.keys import key_of
from ..nn.modules.tree import Tree
from .journal import attribute
from .signature import differences, surroundings

HERE = __name__.rpartition(".")[0]
PARTS = (Tensor, Tree)
DEPTH = 3  # containers in containers that are compared by their items


class Note(NamedTuple):
    """What `look` gave of an object, which is known weakly; in words, what its change would be."""

    ref: weakref.ref
    words: str
    look: Callable[[Any], Any]
    key: Any


class Notes:
    """Attributes that were read, each as it was at first; hooks of tensors, and defaults."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, str], Note] = {}
        self.surroundings = surroundings()

    def add(self, x: Any, words: str, look: Callable[[Any], Any]) -> None:
        if (id(x), words) not in self.known:
            note = Note(weakref.ref(x), words, look, key_of(look(x), None, DEPTH))
            self.known[id(x), words] = note

    def add_attribute(self, x: Any, name: str) -> None:
        value, what = attribute(x, name), type(x).__name__
        words = f"{what}.{name}"
        if isinstance(value, PARTS):
            kind = "parameter" if isinstance(value, Tensor) else "module"
            words = f"{kind} {name} of {what} was replaced"
        self.add(x, words, partial(attribute, name=name))

    def add_all(self, x: Any) -> bool:
        """The whole dict of an object was read. Our own functions look for tensors and modules
        there, and for nothing else; returns whether it was one of these."""
        frames = (frame for frame, _ in walk_stack(sys._getframe()))
        is_ours = is_own(next(x for x in frames if x.f_globals.get("__package__") != HERE))
        names = partial(names_of, kinds=PARTS if is_ours else object)
        self.add(x, f"{'parts' if is_ours else 'attributes'} of {type(x).__name__}", names)
        for name in names(x):
            self.add_attribute(x, name)
        return is_ours

    def add_hooks(self, x: Any) -> None:
        what = f"a tensor ({describe(x)})" if isinstance(x, Tensor) else type(x).__name__
        self.add(x, f"hooks of {what}", hooks_of)

    def settle(self, captured: list[Tensor], made: set[int]) -> None:
        """The recording has ended: forget objects that the function made, known by their ids."""
        pairs = [(key, note) for key, note in self.known.items() if key[0] not in made]
        self.known = {key: note for key, note in pairs if note.ref() is not None}
        for tensor in captured:
            self.add_hooks(tensor)

    def changed(self) -> str | None:
        """What isn't as it was, in a few words."""
        for ref, words, look, key in self.known.values():
            x = ref()
            now = None if x is None else key_of(look(x), None, DEPTH)
            if now != key:
                is_plain = type(now) is type(key) is tuple and len(now) == len(key) == 2
                return words + (f" is {now[1]}, was {key[1]}" if is_plain else "")
        return differences(("", *self.surroundings), ("", *surroundings())) or None


def names_of(x: Any, kinds: Any) -> list[str]:
    return [name for name, part in attribute(x, "__dict__").items() if isinstance(part, kinds)]


def hooks_of(x: Any) -> Any:
    """Hooks of a module or a tensor; empty ones are none."""
    if isinstance(x, Tensor):
        extra = x.node and x.node.extra
        hooks = extra and (extra.hooks, extra.post_hooks)
    else:
        hooks = attribute(x, "_hooks")
    return hooks if hooks and any(hooks) else None


def tensors_of(optimizer: Any, name: str) -> list[list[Tensor]]:
    """The tensors in each group, or in the state of each parameter."""
    value = attribute(optimizer, name)
    entries = value.values() if isinstance(value, dict) else value
    return [[x for x in leaves(entry) if isinstance(x, Tensor)] for entry in entries]
