"""Settings: floats of optimizers' groups and of some layers, read anew at each run of a program."""

import weakref
from collections.abc import Callable
from operator import is_, itemgetter
from typing import Any, NamedTuple

from .._foundation.numbers import Ledger, Number, is_exactly
from .seen import seen

Place = Callable[[Any], dict[str, Any]]  # where an owner has settings


class Owner(NamedTuple):
    """Who has settings in some place, known weakly."""

    ref: weakref.ref
    place: Place
    met: dict[str, Any]  # by name, what the function got
    kinds: list[Any]  # what each part must be like at each run, or the position of a number

    def reader(self) -> Callable[[Any], tuple]:
        names, place = [*self.met], self.place
        get = itemgetter(*names, names[0])  # at least two, so that it gives a tuple
        return lambda owner: get(place(owner))[:-1]


class Settings:
    """What a recording read of settings, and what followed from that.

    `numbers` are the expressions that the graph uses, in the order of what `read` gives.
    """

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.owners: dict[Any, Owner] = {}
        self.numbers: list[Number] = []
        self.readers: list[tuple[weakref.ref, Callable]] = []
        self.kinds: list[Any] = []
        self.known: tuple[list, tuple] | None = None

    # While the function is recorded.

    def meet(self, owner: Any, place: Place, name: str, value: Any) -> Any:
        """A setting that is read: a Number, or a list or tuple with Numbers, if it is of floats;
        anything else must be the same at each run."""
        known = self.owners.setdefault((id(owner), place), Owner(weakref.ref(owner), place, {}, []))
        if name not in known.met:
            pairs = [
                self.ledger.given(float(x)) if isinstance(x, float) else (seen(x), x)
                for x in flat(value)
            ]
            known.kinds.extend(kind for kind, _ in pairs)
            given = [x for _, x in pairs]
            if any(isinstance(x, Number) for x in given):
                value = given[0] if len(given) == 1 else type(value)(given[1:])
            known.met[name] = value
        return known.met[name]

    def finish(self, numbers: list[Number]) -> None:
        """Nothing more is recorded: forget what the function got."""
        self.numbers = numbers
        for owner in self.owners.values():
            self.readers.append((owner.ref, owner.reader()))
            self.kinds += owner.kinds
            owner.met.clear()

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
        values = [x for value in now for x in flat(value)]
        if len(values) != len(self.kinds):
            return None
        for kind, x in zip(self.kinds, values, strict=True):
            if type(kind) is not int:
                if kind != seen(x):
                    return None
            elif isinstance(x, float | int) and not isinstance(x, bool):
                out[kind] = float(x)
            else:
                return None
        return out


def flat(value: Any) -> list[Any]:
    """The parts of a setting: itself, or what is in a list or tuple, behind a mark of that."""
    return [tuple, *value] if type(value) in (tuple, list) else [value]
