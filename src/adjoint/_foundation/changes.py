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


CHANGING = (
    "__setitem__ __delitem__ __iadd__ __imul__ __ior__ append clear extend insert pop popitem "
    "remove reverse setdefault sort update"
).split()


def watched(kind: Any) -> Any:
    """A kind of list or dict whose methods note changes; copies and pickles are the usual one."""

    def noting(usual: Any) -> Any:
        def change(self: Any, *args: Any, **kwargs: Any) -> Any:
            note_change()
            return usual(self, *args, **kwargs)

        return change

    methods = {name: noting(getattr(kind, name)) for name in CHANGING if hasattr(kind, name)}
    methods["__reduce_ex__"] = lambda self, protocol: (kind, (kind(self),))
    return type(f"Watched{kind.__name__.capitalize()}", (kind,), methods)


WatchedList, WatchedDict = watched(list), watched(dict)
