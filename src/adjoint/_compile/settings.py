"""Settings: floats of optimizers' groups and of some layers, read anew at each run of a program."""

import weakref
from collections.abc import Callable
from operator import is_, itemgetter
from typing import Any, NamedTuple

from .._foundation.numbers import Ledger, Number, is_exactly
from .seen import Seen


class Owner(NamedTuple):
    """Who has settings, known weakly; what makes a function of it that reads those with names."""

    ref: weakref.ref
    reader: Callable[[list[str]], Callable[[Any], Any]]
    names: list[str]
    kinds: list[Any]  # of each: a Seen that must be so still, or positions of numbers
    values: list[Any]  # at first


def of_attributes(names: list[str]) -> Callable:
    return lambda x: [getattr(x, name) for name in names]


def of_nobody(values: list) -> Callable:
    return lambda _: values


def of_group(k: int) -> Callable[[list[str]], Callable]:
    def reader(names: list[str]) -> Callable:
        get = itemgetter(*names, names[0])  # at least two, so that it gives a tuple
        return lambda optimizer: get(optimizer.param_groups[k])[:-1]

    return reader


def of_state(parameter: Any) -> Callable[[list[str]], Callable]:
    known = weakref.ref(parameter)

    def reader(names: list[str]) -> Callable:
        get = itemgetter(*names, names[0])
        return lambda optimizer: get(dict.__getitem__(optimizer._state, known()))[:-1]

    return reader


class Settings:
    """What a recording read of settings, and what followed from that.

    `numbers` are the expressions that the graph uses, in the order of what `read` gives.
    """

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.owners: dict[Any, Owner] = {}
        self.numbers: list[Number] = []
        self.readers: list[tuple[weakref.ref, Callable]] = []
        self.known: tuple[list, tuple] | None = None

    # While the function is recorded.

    def meet(self, owner: Any, part: Any, reader: Callable, name: str, value: Any) -> Any:
        """A setting that is read: a Number, or a list or tuple with Numbers, if it is of floats;
        anything else must be the same at each run."""
        key = id(owner), part
        if key not in self.owners:
            self.owners[key] = Owner(weakref.ref(owner), reader, [], [], [])
        known = self.owners[key]
        known.names.append(name)
        known.values.append(value)
        if isinstance(value, float):
            position, number = self.ledger.given(float(value))
            known.kinds.append(position)
            return number
        if type(value) in (tuple, list) and any(isinstance(x, float) for x in value):
            pairs = [
                self.ledger.given(float(x)) if isinstance(x, float) else (Seen(x), x) for x in value
            ]
            known.kinds.append((type(value), [position for position, _ in pairs]))
            return type(value)(x for _, x in pairs)
        known.kinds.append(Seen(value))
        return value

    def finish(self, numbers: list[Number]) -> "Settings":
        """Nothing more is recorded. Owners that are gone with the recording were the function's
        own."""
        self.numbers = numbers
        for owner in self.owners.values():
            gone = owner.ref() is None
            read = of_nobody(owner.values.copy()) if gone else owner.reader(owner.names)
            self.readers.append((owner.ref, read))
            owner.values.clear()
        return self

    # At each run.

    def read(self) -> tuple[float, ...] | None:
        """The values of `numbers` now; None if a setting is such that the function would do
        something else. The same tuple, if nothing has changed."""
        now: list[Any] = []
        try:
            for ref, values in self.readers:
                now += values(ref())
        except (AttributeError, KeyError, IndexError, TypeError):
            return None
        if self.known is not None and all(map(is_, now, self.known[0])):
            return self.known[1]
        given = self.given(now)
        lines = None if given is None else self.ledger.evaluate(given)
        if lines is None:
            return None
        out = tuple([lines[number.place] for number in self.numbers])
        if self.known is not None and all(map(is_exactly, out, self.known[1])):
            out = self.known[1]
        # A list can change and stay the same object: it is looked at each time.
        self.known = [tuple(x) if type(x) is list else x for x in now], out
        return out

    def given(self, now: list) -> list[float] | None:
        """The floats among the settings, in the ledger's order; None if anything else changed."""
        out = [0.0] * self.ledger.count
        kinds = [kind for owner in self.owners.values() for kind in owner.kinds]
        for kind, value in zip(kinds, now, strict=True):
            if isinstance(kind, tuple):
                inner, values = kind[1], value
                if not isinstance(value, tuple | list) or len(inner) != len(value):
                    return None
            else:
                inner, values = [kind], (value,)
            for part, x in zip(inner, values, strict=True):
                if isinstance(part, Seen):
                    if not part.is_still(x):
                        return None
                elif isinstance(x, float | int) and not isinstance(x, bool):
                    out[part] = float(x)
                else:
                    return None
        return out
