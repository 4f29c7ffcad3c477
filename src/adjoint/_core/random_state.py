"""Random numbers of functions that run twice.

A generator asks `mode.draws`, if there is one, for the state to draw from.
"""

from functools import partial
from typing import Any

from .._foundation.blocks import Block, ends
from .._foundation.modes import mode
from .tensor import Tensor, share


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


class drawing(Block):
    """Within it `draws` decides where random numbers come from."""

    def __init__(self, draws: Any) -> None:
        self.draws = draws

    def __enter__(self) -> Any:
        end = partial(setattr, mode, "draws", mode.draws)
        ends.stack += (end,)
        mode.draws = draws = self.draws
        return draws
