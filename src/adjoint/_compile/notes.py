"""What a recording read of Python objects, to see later whether it is so still."""

import sys
import weakref
from typing import Any, NamedTuple

from .. import backends
from .._core.tensor import Tensor, describe
from .._foundation.dtypes import DefaultDType, show
from ..nn.modules.tree import Tree
from .lines import OURS
from .seen import ABSENT, PLAIN, Seen

HERE = OURS + "/_compile"


class Note(NamedTuple):
    """An attribute of an object, or all of them; `parts`: only tensors and modules among them."""

    ref: weakref.ref
    what: str
    name: str
    seen: dict[str, Seen]
    parts: bool = False


class Notes:
    """Attributes that were read, each as it was at first; hooks of tensors, and defaults."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, str], Note] = {}
        self.hooks: list[tuple[weakref.ref, Seen]] = []
        self.defaults = present_defaults()

    def add(self, x: Any, name: str, value: Any) -> None:
        if (id(x), name) not in self.known:
            seen = Seen(present(name, value))
            note = Note(weakref.ref(x), type(x).__name__, name, {name: seen})
            self.known[id(x), name] = note

    def add_parts(self, x: Any, own: dict[str, Any]) -> None:
        """The whole dict of an object was read. Our own functions look for tensors and modules
        there, and for nothing else."""
        frame: Any = sys._getframe()
        while frame.f_code.co_filename.startswith(HERE):
            frame = frame.f_back
        parts = frame.f_code.co_filename.startswith(OURS)
        key = id(x), f"parts {parts}"
        if key not in self.known:
            seen = {name: Seen(value) for name, value in chosen(own, parts).items()}
            self.known[key] = Note(weakref.ref(x), type(x).__name__, "__dict__", seen, parts)

    def add_hooks(self, tensor: Tensor) -> None:
        self.hooks.append((weakref.ref(tensor), Seen(hooks_of(tensor))))

    def settle(self) -> None:
        """The recording has ended, and all is as it was: forget what was so for a while only, such
        as tensors that `functional_call` put in the place of parameters."""
        self.known = {key: note for key, note in self.known.items() if difference(note) is None}

    def changed(self) -> str | None:
        """What isn't as it was, in a few words."""
        for note in self.known.values():
            found = difference(note)
            if found is not None:
                return found
        for ref, seen in self.hooks:
            tensor = ref()
            if tensor is not None and not seen.is_still(hooks_of(tensor)):
                return f"hooks of a tensor ({describe(tensor)})"
        for what, value in present_defaults().items():
            if self.defaults[what] != value:
                return f"the default {what} is {value}, was {self.defaults[what]}"
        return None


def present_defaults() -> dict[str, str]:
    return {"dtype": show(DefaultDType.float), "device": backends.DefaultDevice.name}


def hooks_of(tensor: Tensor) -> Any:
    extra = tensor.node and tensor.node.extra
    if not extra or not (extra.hooks or extra.post_hooks):
        return None
    return list(extra.hooks), list(extra.post_hooks)


def present(name: str, value: Any) -> Any:
    """A value; empty hooks are none."""
    return None if name == "_hooks" and value and not any(value) else value


def chosen(own: dict[str, Any], parts: bool) -> dict[str, Any]:
    if not parts:
        return dict(own)
    return {name: x for name, x in own.items() if isinstance(x, Tensor | Tree)}


def difference(note: Note) -> str | None:
    x = note.ref()
    if x is None:
        return f"a {note.what} isn't there any more"
    if note.name == "__dict__":
        now = chosen(object.__getattribute__(x, "__dict__"), note.parts)
    elif note.name == "param_groups":
        now = {note.name: [tuple(group["params"]) for group in x.param_groups]}
    else:
        try:
            now = {note.name: present(note.name, object.__getattribute__(x, note.name))}
        except AttributeError:
            now = {}
    for name in dict.fromkeys([*note.seen, *now]):
        seen, value = note.seen.get(name, Seen(ABSENT)), now.get(name, ABSENT)
        if not seen.is_still(value):
            return worded(note.what, name, seen, value)
    if note.name == "__dict__" and list(now) != list(note.seen):
        return f"the order of {note.what}'s attributes"
    return None


def worded(what: str, name: str, seen: Seen, value: Any) -> str:
    if name == "_hooks":
        return f"hooks of {what}"
    if name == "param_groups":
        return f"params in {what}.param_groups"
    if issubclass(seen.kind, Tensor):
        return f"parameter {name} of {what} was replaced"
    if issubclass(seen.kind, Tree):
        return f"module {name} of {what} was replaced"
    if isinstance(value, PLAIN) and isinstance(seen.value, PLAIN):
        return f"{what}.{name} is {value!r}, was {seen.value!r}"
    return f"{what}.{name}"
