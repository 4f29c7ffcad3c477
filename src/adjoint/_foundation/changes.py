"""A count that moves with every change of Python state that could change a recorded function."""

import itertools
from typing import Any

following = itertools.count(1).__next__


class Changes:
    """`latest` is different after each change; a thread that comes late with its own can't bring an
    earlier number back, as each is given out once."""

    latest = 0


def note_change() -> None:
    """Something changed that a recorded function may have read: a module's attribute, a hook, a
    default."""
    Changes.latest = following()


class Watched:
    """An object whose attributes recorded functions read; those in `_numbers` they read anew at
    each run."""

    _numbers: tuple[str, ...] = ()

    def __setattr__(self, name: str, value: Any) -> None:
        note_change()
        object.__setattr__(self, name, value)
