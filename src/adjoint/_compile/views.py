"""Dicts of an optimizer, as a recorded function sees them: settings are Numbers in them."""

from collections.abc import Callable, Iterator
from typing import Any

from .journal import Journal
from .seen import ABSENT

UNREAD = frozenset(("params", "param_names"))


class View(dict):
    """A copy of a dict whose values are asked for where they are read. What the function does to it
    is done to nothing else."""

    def __init__(
        self, real: dict, what: str, advice: str, journal: Journal, read: Callable[[Any, Any], Any]
    ) -> None:
        super().__init__(real)
        self.factory = getattr(real, "default_factory", None)
        self.start = journal.keep(what, self, advice)
        self.journal = journal
        self.read = read

    def __getitem__(self, key: Any) -> Any:
        value = super().__getitem__(key)
        is_read = key not in UNREAD and value is self.start.get(key, ABSENT)
        return self.read(key, value) if is_read else value

    def __missing__(self, key: Any) -> Any:
        """A defaultdict makes an entry, which alone is no change."""
        if self.factory is None:
            raise KeyError(key)
        self.start[key] = entry = self.factory()
        super().__setitem__(key, entry)
        return entry

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key] if key in self else default

    def copy(self) -> dict:
        return {key: self[key] for key in self}

    def items(self) -> Any:
        return self.copy().items()

    def values(self) -> Any:
        return self.copy().values()

    def __iter__(self) -> Iterator:  # with a method of its own, copies are made by __getitem__
        return super().__iter__()

    def __setitem__(self, key: Any, value: Any) -> None:
        self.journal.note_line(self, key)
        super().__setitem__(key, value)
