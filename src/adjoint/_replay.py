"""Random numbers of functions that run twice.

A generator asks `mode.draws`, if there is one, for the state to draw from.
"""

from contextlib import contextmanager
from typing import Any

from ._modes import mode
from ._tensor import Tensor, share


class Noted:
    """During the first run: remembers where each generator was whenever it was asked."""

    def __init__(self, outer: Any) -> None:
        self.outer = outer
        self.seen: dict[Any, list[Tensor]] = {}

    def state_of(self, generator: Any) -> Tensor:
        state = generator._state if self.outer is None else self.outer.state_of(generator)
        self.seen.setdefault(generator, []).append(share(state))
        return state


class Replayed:
    """When the function runs again: every generator is each time where it was, for this alone."""

    def __init__(self, seen: dict[Any, list[Tensor]]) -> None:
        self.left = {generator: list(reversed(states)) for generator, states in seen.items()}
        self.last: dict[Any, Tensor] = {}

    def state_of(self, generator: Any) -> Tensor:
        left = self.left.get(generator)
        if left:
            self.last[generator] = share(left.pop())
        elif generator not in self.last:
            self.last[generator] = share(generator._state)
        return self.last[generator]


@contextmanager
def drawing(draws: Any) -> Any:
    former, mode.draws = mode.draws, draws
    try:
        yield draws
    finally:
        mode.draws = former
