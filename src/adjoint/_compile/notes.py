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
        # By objects' ids, and words for a change: the object, how to look at it, what was seen.
        self.known: dict[tuple[int, str], tuple[weakref.ref, Callable[[Any], Any], Any]] = {}
        self.surroundings = surroundings()

    def add(self, x: Any, words: str, look: Callable[[Any], Any]) -> None:
        if (id(x), words) not in self.known:
            self.known[id(x), words] = weakref.ref(x), look, key_of(look(x), None, DEPTH)

    def add_attribute(self, x: Any, name: str) -> None:
        value, what = attribute(x, name), type(x).__name__
        if name == "_hooks":
            self.add(x, f"hooks of {what}", hooks_of)
        elif isinstance(value, PARTS):
            kind = "parameter" if isinstance(value, Tensor) else "module"
            self.add(x, f"{kind} {name} of {what} was replaced", partial(attribute, name=name))
        else:
            self.add(x, f"{what}.{name}", partial(attribute, name=name))

    def add_all(self, x: Any) -> bool:
        """The whole dict of an object was read. Our own functions look for tensors and modules
        there, and for nothing else; returns whether it was one of these."""
        frames = (frame for frame, _ in walk_stack(sys._getframe()))
        is_ours = is_own(next(x for x in frames if x.f_globals.get("__package__") != __package__))
        names = partial(names_of, kinds=PARTS if is_ours else object)
        self.add(x, f"{'parts' if is_ours else 'attributes'} of {type(x).__name__}", names)
        for name in names(x):
            self.add_attribute(x, name)
        return is_ours

    def settle(self, captured: list[Tensor], made: set[int]) -> None:
        """The recording has ended: forget objects that the function made, known by their ids."""
        pairs = [(key, note) for key, note in self.known.items() if key[0] not in made]
        self.known = {key: note for key, note in pairs if note[0]() is not None}
        for tensor in captured:
            self.add(tensor, f"hooks of a tensor ({describe(tensor)})", hooks_of)

    def changed(self) -> str | None:
        """What isn't as it was, in a few words."""
        for (_, words), (ref, look, key) in self.known.items():
            x = ref()
            now = None if x is None else key_of(look(x), None, DEPTH)
            if now != key:
                return words + change_of(key, now)
        return differences(("", *self.surroundings), ("", *surroundings())) or None


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
