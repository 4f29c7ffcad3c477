"""Random numbers that depend on what they are for, and not on which thread is first."""

import hashlib
from typing import Any

from .._core.tensor import Tensor
from .._foundation.errors import ArgumentError, DTypeError
from .._foundation.modes import mode
from ..random import Generator
from ..random._generator import default


def generator_for(*what: int | str) -> Generator:
    """The generator for something, named by numbers and words: always the same one."""
    digest = hashlib.blake2b(repr(what).encode(), digest_size=8).digest()
    return Generator(int.from_bytes(digest, "little"))


def choose_seed(function: str, seed: int | None, generator: Generator | None) -> int:
    """The seed that was given, or else the next 64 bits of a generator."""
    chosen = chosen_generator(function, seed, generator)
    if seed is not None:
        return int(seed)
    low, high = chosen.bits((2,), device="cpu").tolist()
    return high << 32 | low


def chosen_generator(function: str, seed: int | None, generator: Generator | None) -> Generator:
    """The generator that was given, or one with the seed, or else the global one."""
    if seed is not None and generator is not None:
        raise ArgumentError(f"{function}: seed and generator are two ways to say one thing")
    if not isinstance(generator, Generator | None):
        kind = type(generator).__name__
        raise DTypeError(f"{function}: generator must be an ad.random.Generator, not {kind}")
    return generator or (default if seed is None else Generator(seed))


class Draws:
    """Within `drawing(this)` the functions of `ad.random` draw from a generator of its own."""

    def __init__(self, *what: int | str) -> None:
        self.what = what
        self.state: Tensor | None = None
        self.outer = mode.draws

    def state_of(self, generator: Any) -> Tensor:
        if generator is not default:
            return generator._state if self.outer is None else self.outer.state_of(generator)
        if self.state is None:
            self.state = generator_for(*self.what)._state
        return self.state
