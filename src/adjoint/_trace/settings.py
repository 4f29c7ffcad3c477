"""Settings: floats of optimizers' groups and of some layers, read anew at each run of a program."""

import weakref
from collections.abc import Callable
from operator import is_, itemgetter
from typing import Any, NamedTuple

from .._foundation.numbers import Ledger, Number, is_exactly
from .keys import key_of

Place = Callable[[Any], Any]  # gives the dict in which an owner has settings


class Owner(NamedTuple):
    """Who has settings in some place, known weakly; what the function got, by name."""

    ref: weakref.ref
    place: Place
    met: dict[str, Any]
    positions: list[int]  # of their parts, among all that the ledger is given

    def reader(self) -> Callable[[], tuple]:
        ref, place, names = self.ref, self.place, [*self.met]
        get = itemgetter(*names) if len(names) > 1 else lambda found: (found[names[0]],)
        return lambda: get(place(ref()))


class Settings:
    """What a recording read of settings, and what followed from that.

    `numbers` are the expressions that the graph uses, in the order of what `read` gives.
    """

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.owners: dict[Any, Owner] = {}
        self.numbers: list[Number] = []
        self.readers: list[Callable[[], tuple]] = []
        self.positions: list[int] = []
        self.known: tuple[list, tuple] | None = None

    def meet(self, owner: Any, place: Place, name: str, value: Any) -> Any:
        """A setting that is read: a Number, or a list or tuple with Numbers, if it is of floats;
        anything else must be the same at each run."""
        new = Owner(weakref.ref(owner), place, {}, [])
        known = self.owners.setdefault((id(owner), place), new)
        if name not in known.met:
            parts = [self.given(x, known.positions) for x in flat(value)]
            if any(isinstance(x, Number) for x in parts):
                value = parts[0] if len(parts) == 1 else type(value)(parts[1:])
            known.met[name] = value
        return known.met[name]

    def given(self, x: Any, positions: list[int]) -> Any:
        key = None if isinstance(x, float) else key_of(x)
        position, number = self.ledger.given(None if key else x)
        positions.append(position)
        if not key:
            return self.ledger.apply(as_float, number.place)
        self.ledger.add(lambda now: key_of(now) == key, (number.place,), True)
        return x

    def finish(self, numbers: list[Number]) -> None:
        """Nothing more is recorded: forget what the function got."""
        self.numbers = numbers
        for owner in self.owners.values():
            self.readers.append(owner.reader())
            self.positions += owner.positions
            owner.met.clear()

    def read(self) -> tuple[float, ...] | None:
        """The values of `numbers` now; None if a setting is such that the function would do
        something else. The same tuple, if nothing has changed."""
        now: list[Any] = []
        try:
            for values in self.readers:
                now += values()
        except (AttributeError, KeyError, IndexError, TypeError):
            return None
        if self.known is not None and all(map(is_, now, self.known[0])):
            return self.known[1]
        parts = [x for value in now for x in flat(value)]
        if len(parts) != len(self.positions):
            return None
        lines = self.ledger.evaluate(dict(zip(self.positions, parts, strict=True)))
        if lines is None:
            return None
        out = tuple([lines[number.place] for number in self.numbers])
        if self.known is not None and all(map(is_exactly, out, self.known[1])):
            out = self.known[1]
        # A list can change and stay the same object: it is looked at each time.
        self.known = [tuple(x) if type(x) is list else x for x in now], out
        return out


def flat(value: Any) -> list[Any]:
    """The parts of a setting: itself, or what is in a list or tuple, behind a mark of that."""
    return [tuple, *value] if type(value) in (tuple, list) else [value]


def as_float(x: Any) -> float:
    if isinstance(x, float | int) and not isinstance(x, bool):
        return float(x)
    raise ArithmeticError("not a number")
