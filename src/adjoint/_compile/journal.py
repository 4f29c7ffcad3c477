"""What a function changed of Python objects while it was recorded: undone, and an error."""

from operator import is_, setitem
from typing import Any, NamedTuple, NoReturn

from .._core.tensor import Tensor
from .._foundation.errors import TraceError
from .lines import present_line
from .seen import ABSENT, PLAIN

OUTSIDE = "return what it is to have, and change it outside"


class Kept(NamedTuple):
    """A list, dict or set as the function met it, by keys; `of`: whose attributes it has."""

    what: str
    container: Any
    start: dict[Any, Any]
    advice: str
    of: Any


class Journal:
    """Containers as they were, which `calls_at_end` restore, and the lines that changed them."""

    def __init__(self, calls_at_end: list[tuple]) -> None:
        self.calls_at_end = calls_at_end
        self.held: dict[int, Any] = {}  # objects, so that their ids stay theirs
        self.bare: set[int] = set()  # those that had no attributes when they were met
        self.kept: dict[int, Kept] = {}
        self.lines: dict[tuple[int, Any], str] = {}

    def meet(self, x: Any, own: dict, name: str) -> None:
        """An object whose attribute is used; one without any may be in its constructor, unless it
        is called."""
        if id(x) not in self.held:
            self.held[id(x)] = x
            if not own:
                self.bare.add(id(x))
        if name == "_hooks" and not own:
            self.bare.discard(id(x))

    def is_made(self, x: Any, own: dict) -> bool:
        return bool(own) and id(x) in self.bare

    def is_set(self, own: dict, name: str) -> bool:
        return (id(own), name) in self.lines

    def made(self) -> set[int]:
        """The ids of the objects that the function made."""
        return {key for key in self.bare if attributes(self.held[key])}

    def before_setting(self, x: Any, name: str) -> None:
        own = attributes(x)
        self.meet(x, own, name)
        self.keep_attributes(x, own)
        if id(own) in self.kept:
            self.note_line(own, name)

    def keep_attributes(self, x: Any, own: dict) -> None:
        if id(x) not in self.bare:
            self.keep(type(x).__name__, own, "", x)

    def note_line(self, container: Any, key: Any) -> None:
        self.lines.setdefault((id(container), key), present_line())

    def meet_value(self, what: str, value: Any, advice: str = OUTSIDE) -> None:
        """A value that is read: if it is a container, or a tuple of these, the function may change
        it."""
        if isinstance(value, list | dict | set):
            self.keep(what, value, advice)
        elif isinstance(value, tuple) and hasattr(value, "_fields"):
            for part in value:
                self.meet_value(what, part, advice)

    def keep(self, what: str, container: Any, advice: str, of: Any = None) -> dict[Any, Any]:
        """What a container had when the function met it."""
        if id(container) in self.kept:
            return self.kept[id(container)].start
        start = entries(container)
        self.kept[id(container)] = Kept(what, container, start, advice, of)
        if isinstance(container, list):
            self.calls_at_end.append((setitem, container, slice(None), [*start.values()]))
        else:
            self.calls_at_end += [(container.clear,), (container.update, start)]
        return start

    def check(self) -> None:
        """Raise if something isn't as it was before the function ran."""
        for kept in self.kept.values():
            now = entries(kept.container if kept.of is None else attributes(kept.of))
            for key in {**kept.start, **now}:
                usual = ABSENT if kept.of is None else getattr(type(kept.of), key, ABSENT)
                value = now.get(key, usual)
                if not is_same(kept.start.get(key, usual), value):
                    self.refuse(kept, key, value)
            if kept.of is None and not all(map(is_, now, kept.start)):
                self.refuse(kept, "...", None)  # another order

    def refuse(self, kept: Kept, key: Any, value: Any) -> NoReturn:
        line = self.lines.get((id(kept.container), key))
        where = f" ({line})" if line else ""
        advice = kept.advice
        if kept.of is not None:
            what = f"{kept.what}.{key} is set{where}"
            advice = advice_for(key, value)
        elif isinstance(kept.container, dict):
            what = f"{name_of_item(kept.what, key)}{where} is changed"
        else:
            what = f"{kept.what}, a {type(kept.container).__name__}, is changed"
        raise TraceError(f"{what} in the function, which runs once, when it is recorded; {advice}")


def attributes(x: Any) -> dict[str, Any]:
    return object.__getattribute__(x, "__dict__")


def name_of_item(what: str, key: Any) -> str:
    return f"{what}[...]" if isinstance(key, Tensor) else f"{what}[{key!r}]"


def entries(container: Any) -> dict[Any, Any]:
    """The items of a container by what they are found by, as they are in the container itself."""
    if isinstance(container, dict):
        return dict(dict.items(container))
    return dict.fromkeys(container) if isinstance(container, set) else dict(enumerate(container))


def is_same(x: Any, y: Any) -> bool:
    return x is y or (isinstance(x, PLAIN) and type(x) is type(y) and x == y)


def advice_for(name: str, value: Any) -> str:
    if name == "training":
        return "call train() and eval() outside of it"
    if isinstance(value, Tensor):
        return (
            f"make it a buffer, self.register_buffer({name!r}, tensor), and write "
            f"self.{name}[...] = value"
        )
    return "keep what changes in a buffer (a tensor), or set it outside"
