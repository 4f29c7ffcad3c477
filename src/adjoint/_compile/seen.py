"""Values as a recording has seen them, to be compared with what is there later."""

import weakref
from types import MethodType
from typing import Any

PLAIN = (bool, int, float, complex, str, bytes, type(None))
DEPTH = 3  # containers in containers that are compared by their items


class Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT = Absent()  # an attribute that isn't there


class Seen:
    """A value: a plain one by type and value, a container by its items, anything else by identity,
    without keeping it alive."""

    __slots__ = ("kind", "value")

    kind: Any
    value: Any

    def __init__(self, x: Any, depth: int = DEPTH) -> None:
        self.kind = type(x)
        if isinstance(x, PLAIN):
            self.value = x
        elif isinstance(x, MethodType):
            self.value = [Seen(x.__self__, 0), Seen(x.__func__, 0)]
        elif isinstance(x, (list, tuple, dict, set, frozenset)) and depth:
            self.value = [Seen(item, depth - 1) for item in items(x)]
        else:
            try:
                self.value = weakref.ref(x)
            except TypeError:
                self.value = id(x)

    def is_still(self, x: Any) -> bool:
        if type(x) is not self.kind:
            return False
        value = self.value
        if isinstance(x, PLAIN):
            return x == value or (x != x and value != value)
        if isinstance(x, MethodType):
            return value[0].is_still(x.__self__) and value[1].is_still(x.__func__)
        if isinstance(value, list):
            now = items(x)
            pairs = zip(value, now, strict=False)
            return len(now) == len(value) and all(seen.is_still(y) for seen, y in pairs)
        return value() is x if isinstance(value, weakref.ref) else value == id(x)


def in_class(x: Any, name: str) -> Any:
    """A plain attribute of an object's class, as it stands there: no method, nor what a property
    gives."""
    for cls in type(x).__mro__:
        if name in vars(cls):
            value = vars(cls)[name]
            return value if isinstance(value, (*PLAIN, dict)) else ABSENT
    return ABSENT


def items(x: Any) -> list:
    """The items of a container; of a dict, keys and values."""
    return [*x, *x.values()] if isinstance(x, dict) else list(x)
