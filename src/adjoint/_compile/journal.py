"""What a function changed of Python objects while it was recorded: undone, and an error."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from operator import is_, setitem
from typing import Any, NamedTuple

from .._core.tensor import Tensor
from .._foundation.errors import TraceError
from .._foundation.lines import present_line
from .._trace.keys import key_of

ABSENT = object()  # an attribute that isn't there
ONCE = " in the function, which runs once, when it is recorded; "
TRAINING = "{what}.training is set{line}" + ONCE + "call train() and eval() outside of it"
ATTRIBUTES = (
    "{what}.{key} is set{line}" + ONCE + "set it outside, or keep what changes in a buffer, "
    "self.register_buffer({key!r}, tensor), and write self.{key}[...] = value"
)
ITEMS = "{what}, a {kind}, is changed" + ONCE + "return what it is to have, and change it outside"
HOOKS = "{what} gets a hook{line}" + ONCE + "register it before, or remove it in the function"
GROUPS = "{item}{line} is changed" + ONCE + "use a scheduler, or do it outside"
STATE = (
    "{item}{line} is set" + ONCE + "make tensors in it before, as in __init__, and change them "
    "with state[name][...] = value"
)


class Kept(NamedTuple):
    """A list, dict or set as the function met it, by keys. `words`: the error if it is changed;
    `of`: whose attributes it has."""

    what: str
    words: str
    value: Any
    start: dict[Any, Any]
    of: Any

    def changes(self) -> Iterator[Any]:
        """The keys of what isn't as it was."""
        now = entries(self.value if self.of is None else attribute(self.of, "__dict__"))
        for key in {**self.start, **now}:
            usual = ABSENT if self.of is None else getattr(type(self.of), key, ABSENT)
            x, y = self.start.get(key, usual), now.get(key, usual)
            if x is not y and key_of(x, None, 0) != key_of(y, None, 0):
                yield key
        if self.of is None and not all(map(is_, now, self.start)):
            yield "..."  # another order


class Journal:
    """Containers as they were, which `calls_at_end` restore, and the lines that changed them."""

    def __init__(self, calls_at_end: list[tuple]) -> None:
        self.calls_at_end = calls_at_end
        self.held: dict[int, Any] = {}  # objects, so that their ids stay theirs
        self.bare: set[int] = set()  # those that had no attributes when they were met
        self.kept: dict[int, Kept] = {}
        self.lines: dict[tuple[int, Any], str] = {}

    def meet(self, x: Any, own: dict, name: str) -> bool:
        """Whether the function made an object whose attribute it uses. One that has none may be in
        its constructor, unless it is called."""
        if id(x) not in self.held:
            self.held[id(x)] = x
            if not own:
                self.bare.add(id(x))
        if name == "_hooks" and not own:
            self.bare.discard(id(x))
        return bool(own) and id(x) in self.bare

    def made(self) -> set[int]:
        """The ids of objects that the function made."""
        return {key for key in self.bare if attribute(self.held[key], "__dict__")}

    def before_setting(self, x: Any, name: str) -> None:
        own = attribute(x, "__dict__")
        self.meet(x, own, name)
        if id(x) not in self.bare:
            self.keep(type(x).__name__, own, ATTRIBUTES, x)
            self.note_line(own, name)

    def keep(self, what: str, value: Any, words: str = ITEMS, of: Any = None) -> dict[Any, Any]:
        """What a container has when the function meets it; of other values nothing is kept."""
        if isinstance(value, tuple):
            self.keep_parts(what, dict(enumerate(value)), words)
        if not isinstance(value, list | dict | set | deque):
            return {}
        if id(value) not in self.kept:
            start = entries(value)
            self.kept[id(value)] = Kept(what, words, value, start, of)
            if isinstance(value, list):
                self.calls_at_end.append((setitem, value, slice(None), [*start.values()]))
            elif isinstance(value, deque):
                self.calls_at_end += [(value.clear,), (value.extend, [*start.values()])]
            else:
                self.calls_at_end += [(value.clear,), (value.update, start)]
            if words is ITEMS:
                self.keep_parts(what, start, words)
        return self.kept[id(value)].start

    def keep_parts(self, what: str, parts: dict[Any, Any], words: str) -> None:
        for key, part in parts.items():
            if isinstance(part, tuple | list | dict | set | deque):
                self.keep(item_of(what, key), part, words)

    def note_line(self, container: Any, key: Any) -> None:
        line = present_line()
        self.lines.setdefault((id(container), key), f" ({line})" if line else "")

    def check(self) -> None:
        """Raise if something isn't as it was before the function ran."""
        for kept in self.kept.values():
            for key in kept.changes():
                words = TRAINING if kept.of is not None and key == "training" else kept.words
                kind, item = type(kept.value).__name__, item_of(kept.what, key)
                line = self.lines.get((id(kept.value), key), "")
                raise TraceError(
                    words.format(what=kept.what, key=key, line=line, kind=kind, item=item)
                )


def entries(container: Any) -> dict[Any, Any]:
    """The items of a container by what they are found by, as they are in the container itself."""
    if isinstance(container, dict):
        return dict(dict.items(container))
    return dict.fromkeys(container) if isinstance(container, set) else dict(enumerate(container))


def attribute(x: Any, name: str) -> Any:
    """An attribute, also where those who read it are watched."""
    try:
        return object.__getattribute__(x, name)
    except AttributeError:
        return ABSENT


def item_of(what: str, key: Any) -> str:
    return f"{what}[...]" if isinstance(key, Tensor) else f"{what}[{key!r}]"


class View(dict):
    """A copy of a dict whose values are asked for where they are read. What the function does to it
    is done to nothing else, and found."""

    def __init__(
        self, real: dict, what: str, words: str, journal: Journal, read: Callable[[Any, Any], Any]
    ) -> None:
        super().__init__(real)
        self.factory = getattr(real, "default_factory", None)
        self.start = journal.keep(what, self, words)
        self.journal, self.read = journal, read

    def __getitem__(self, key: Any) -> Any:
        value = super().__getitem__(key)
        return self.read(key, value) if value is self.start.get(key, ABSENT) else value

    def __missing__(self, key: Any) -> Any:
        """A defaultdict makes an entry, which alone is no change."""
        if self.factory is None:
            raise KeyError(key)
        self.start[key] = entry = self.factory()
        super().__setitem__(key, entry)
        return entry

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key] if key in self else default

    items, values = Mapping.items, Mapping.values  # type: ignore[assignment]

    def __iter__(self) -> Iterator:  # with a method of its own, copies are made by __getitem__
        return super().__iter__()

    def __setitem__(self, key: Any, value: Any) -> None:
        self.journal.note_line(self, key)
        super().__setitem__(key, value)
