"""Copies of dicts of an optimizer, in which settings are Numbers."""

from collections.abc import Callable, Iterator
from typing import Any

from .lines import present_line

UNREAD = ("params", "param_names")


class View(dict):
    """A dict whose values are asked for where they are read; what is done to it is done to nothing
    else, and can be found: `changed`."""

    def __init__(self, values: dict, what: str, read: Callable[[str, Any], Any]) -> None:
        super().__init__(values)
        self.what = what
        self.read = read
        self.start = dict(values)
        self.lines: dict[Any, str] = {}

    def __getitem__(self, key: Any) -> Any:
        value = super().__getitem__(key)
        if key in UNREAD or key not in self.start or value is not self.start[key]:
            return value
        return self.read(key, value)

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key] if key in self else default

    def items(self) -> Any:
        return {key: self[key] for key in self}.items()

    def values(self) -> Any:
        return {key: self[key] for key in self}.values()

    def __iter__(self) -> Iterator:  # with a method of its own, copies are made by __getitem__
        return super().__iter__()

    def copy(self) -> dict:
        return {key: self[key] for key in self}

    def __setitem__(self, key: Any, value: Any) -> None:
        self.lines[key] = present_line()
        super().__setitem__(key, value)

    def changed(self) -> str | None:
        """The key of what isn't as it was, and the line that changed it."""
        for key in dict.fromkeys([*dict.keys(self), *self.start]):
            own, start = super().get(key, UNREAD), self.start.get(key, UNREAD)
            lists = key == "params" and isinstance(own, list)
            if own is start or (lists and list(map(id, own)) == list(map(id, start))):
                continue
            return f"{self.what}[{key!r}]" + (f" ({self.lines[key]})" if key in self.lines else "")
        return None
