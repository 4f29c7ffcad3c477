"""What a recording read of Python objects, to see later whether it is so still."""

import sys
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from .._core.tensor import Tensor, describe
from ..nn.modules.tree import Tree
from .lines import OURS
from .seen import ABSENT, seen
from .signature import differences, surroundings

HERE = OURS + "/_compile"
DEPTH = 3  # containers in containers that are compared by their items


class Note(NamedTuple):
    """An attribute of an object as it was; or, if there is a `look`, what that gives of it."""

    ref: weakref.ref
    what: str
    name: str
    look: Callable[[Any], Any] | None
    key: Any

    def present(self, x: Any) -> Any:
        return seen(self.look(x) if self.look else attribute(x, self.name), None, DEPTH)

    def difference(self) -> str | None:
        """What isn't as it was, in a few words."""
        x = self.ref()
        if x is None:
            return f"a {self.what} isn't there any more"
        old, new = self.key, self.present(x)
        if old == new:
            return None
        if self.look:
            return self.name
        for kind, word in ((Tensor, "parameter"), (Tree, "module")):
            if issubclass(getattr(old, "kind", object), kind):
                return f"{word} {self.name} of {self.what} was replaced"
        is_plain = all(type(key) is tuple and len(key) == 2 for key in (old, new))
        change = f" is {new[1]}, was {old[1]}" if is_plain else ""
        return f"{self.what}.{self.name}{change}"


class Notes:
    """Attributes that were read, each as it was at first; hooks of tensors, and defaults."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, str], Note] = {}
        self.surroundings = surroundings()

    def add(self, x: Any, name: str, look: Callable[[Any], Any] | None = None) -> None:
        if (id(x), name) not in self.known:
            note = Note(weakref.ref(x), type(x).__name__, name, look, None)
            self.known[id(x), name] = note._replace(key=note.present(x))

    def add_all(self, x: Any) -> bool:
        """The whole dict of an object was read. Our own functions look for tensors and modules
        there, and for nothing else; returns whether it was one of these."""
        frame: Any = sys._getframe()
        while frame.f_code.co_filename.startswith(HERE):
            frame = frame.f_back
        is_ours = frame.f_code.co_filename.startswith(OURS)
        names, word = (names_of_parts, "parts") if is_ours else (all_names, "attributes")
        self.add(x, f"{word} of {type(x).__name__}", names)
        for name in names(x):
            self.add(x, name)
        return is_ours

    def add_hooks(self, tensor: Tensor) -> None:
        self.add(tensor, f"hooks of a tensor ({describe(tensor)})", hooks_of_tensor)

    def settle(self, made: set[int]) -> None:
        """The recording has ended: forget objects that the function made, known by their ids."""
        pairs = [(key, note) for key, note in self.known.items() if key[0] not in made]
        self.known = {key: note for key, note in pairs if note.ref() is not None}

    def changed(self) -> str | None:
        """What isn't as it was, in a few words."""
        for note in self.known.values():
            found = note.difference()
            if found:
                return found
        return differences(("", *self.surroundings), ("", *surroundings())) or None


def attribute(x: Any, name: str) -> Any:
    try:
        return object.__getattribute__(x, name)
    except AttributeError:
        return ABSENT


def all_names(x: Any) -> list[str]:
    return list(object.__getattribute__(x, "__dict__"))


def names_of_parts(x: Any) -> list[str]:
    own = object.__getattribute__(x, "__dict__")
    return [name for name, part in own.items() if isinstance(part, Tensor | Tree)]


def hooks_of_module(x: Any) -> Any:
    """Empty hooks are none."""
    hooks = attribute(x, "_hooks")
    return hooks if hooks and any(hooks) else None


def hooks_of_tensor(x: Tensor) -> Any:
    extra = x.node and x.node.extra
    found = extra and (list(extra.hooks), list(extra.post_hooks))
    return found if found and any(found) else None


def params_of_groups(optimizer: Any) -> list[list]:
    return [list(group["params"]) for group in attribute(optimizer, "param_groups")]


def tensors_of_states(optimizer: Any) -> list[list]:
    entries = [x for x in attribute(optimizer, "_state").values() if isinstance(x, dict)]
    return [[x for x in entry.values() if isinstance(x, Tensor)] for entry in entries]
