"""Generators: a state that moves on, and what can be done with it besides drawing numbers."""

import os
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.promotion import lift
from .._core.tensor import Tensor, describe, share, wrap
from .._foundation.errors import ArgumentError, DTypeError
from .._foundation.modes import mode
from ..functions._arguments import as_integer
from ..functions.assignment import rebind
from ..functions.creation import zeros
from ..functions.shapes import concat
from ..primitives.creation import random_bits
from ..primitives.devices import move

generators: "weakref.WeakSet[Generator]" = weakref.WeakSet()


def unlock() -> None:
    """A forked child has no thread that could release a lock that was taken."""
    for generator in list(generators):
        generator._turn = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=unlock)


class Generator:
    """A stream of random numbers of its own, started from a number (or from chance, without one).

    The functions of `ad.random` are its methods: `ad.random.Generator(0).normal((2,))` draws from
    this stream, and neither sees nor moves any other. Generators can be pickled and copied, and
    threads may share one.

    >>> one, same = ad.random.Generator(7), ad.random.Generator(7)
    >>> ad.all(one.normal((3,)) == same.normal((3,)))
    tensor(True)
    """

    if TYPE_CHECKING:  # bound where the functions are: random/__init__
        bits: Callable[..., Tensor]
        uniform: Callable[..., Tensor]
        normal: Callable[..., Tensor]
        truncated_normal: Callable[..., Tensor]
        exponential: Callable[..., Tensor]
        laplace: Callable[..., Tensor]
        gumbel: Callable[..., Tensor]
        cauchy: Callable[..., Tensor]
        gamma: Callable[..., Tensor]
        beta: Callable[..., Tensor]
        dirichlet: Callable[..., Tensor]
        bernoulli: Callable[..., Tensor]
        integers: Callable[..., Tensor]
        categorical: Callable[..., Tensor]
        permutation: Callable[..., Tensor]
        choice: Callable[..., Tensor]

    def __init__(self, seed: int | None = None) -> None:
        self._turn = threading.Lock()
        generators.add(self)
        self._state = initial_state(by_chance() if seed is None else seed)

    def seed(self, n: int) -> None:
        """Start anew, from a number of up to 64 bits.

        >>> generator = ad.random.Generator(3)
        >>> first = generator.uniform((2,))
        >>> generator.seed(3)
        >>> ad.all(first == generator.uniform((2,)))
        tensor(True)
        """
        self._move(initial_state(n))

    @property
    def state(self) -> Tensor:
        """Where the stream is: two words of the key, then a counter, low word first.

        Assign one that was read before, or its 16 bytes, to draw the same numbers again.

        >>> generator = ad.random.Generator(3)
        >>> generator.state
        tensor([3, 0, 0, 0], dtype=adjoint.uint32)
        >>> before = generator.state
        >>> first = generator.uniform((2,))
        >>> generator.state = before
        >>> ad.all(first == generator.uniform((2,)))
        tensor(True)
        """
        return share(self._here())

    @state.setter
    def state(self, value: Any) -> None:
        self._move(as_state(value))

    def spawn(self, n: int) -> "list[Generator]":
        """n new generators, independent of each other and of this one.

        Their keys are the next words of this stream, which moves on: 64 bits of Threefry output
        each, so the same state always has the same children, and later ones are different.

        >>> workers = ad.random.Generator(0).spawn(2)
        >>> ad.any(workers[0].bits((4,)) == workers[1].bits((4,)))
        tensor(False)
        """
        count = as_integer("random.spawn", "the number of generators", n)
        if count < 0:
            raise ArgumentError(f"random.spawn: n must not be negative, got {count}")
        keys = self.draw(random_bits, shape=(count, 2), device="cpu")
        counter = zeros(2, dtype=keys.dtype, device="cpu")
        return [from_state(concat([keys[k], counter])) for k in range(count)]

    def draw(self, op: Callable[..., Any], *inputs: Any, **attrs: Any) -> Tensor:
        """What an op makes of the state; its last result is the state after it."""
        with self._turn:
            state = self._here()
            out, after = op(state, *inputs, **attrs)
            rebind(state, after)
        return out

    def _move(self, state: Tensor) -> None:
        with self._turn:
            rebind(self._here(), state)

    def _here(self) -> Tensor:
        """The state to go on from; where a checkpoint's function runs again, as it was then."""
        return self._state if mode.draws is None else mode.draws.state_of(self)

    def __repr__(self) -> str:
        return f"Generator(state={self._state!r})"

    def __reduce__(self) -> tuple:
        return from_state, (self.state.numpy().tobytes(),)


def initial_state(seed: int) -> Tensor:
    number = as_integer("random.seed", "the seed", seed)
    if not 0 <= number < 2**64:
        raise ArgumentError(f"random.seed: an integer from 0 to 2**64 - 1 is needed, got {seed}")
    return lift(words(number))


def words(seed: int) -> np.ndarray:
    return np.array([seed & 0xFFFFFFFF, seed >> 32, 0, 0], np.uint32)


def by_chance() -> int:
    return int.from_bytes(os.urandom(8), "little")


def from_state(state: Any) -> Generator:
    """A generator that goes on from a state."""
    generator = Generator(0)
    generator.state = state
    return generator


def as_state(value: Any) -> Tensor:
    """A state from a tensor or an array of four words, or from their bytes."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        if len(value) != 16:
            raise ArgumentError(f"random: a state has 16 bytes, got {len(value)}")
        value = np.frombuffer(bytes(value), "<u4").astype(np.uint32)
    if isinstance(value, np.ndarray):
        value = lift(np.array(value))
    if not isinstance(value, Tensor):
        raise DTypeError(f"random: a state is a tensor or bytes, got {type(value).__name__}")
    if value.device != "cpu":
        value = move(value, device="cpu", source=value.device)
    if value.shape != (4,) or value.dtype.name != "uint32":
        raise ArgumentError(f"random: a state is uint32[4], got {describe(value)}")
    return value


# The generator behind the functions of `ad.random`. Its state comes from outside of every trace,
# also of one in which this module is first used.
default = Generator(0)
default._state = wrap(words(by_chance()))
