"""Random numbers: counter-based (Threefry), so equal on every device and easy to replay.

Each function draws from a `Generator`: the one given as `generator=`, else a global one, which
`seed`, `get_state` and `set_state` are about. Every function is a method of generators too:
`generator.normal((2,))` is `ad.random.normal((2,), generator=generator)`.

Parameters are Python numbers or tensors. `shape` is the shape of the result, to which they
broadcast; left out, it is the shape that they broadcast to. Where the result is a fixed
distribution moved and scaled, it carries gradients to tensor parameters; a parameter without a
gradient that requires one is refused.

A generator's state is a tensor. While a function is traced it is a capture like any other, and its
new value is put back; values of parameters aren't checked then.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._core.tensor import Tensor
from ..functions.hints import missing
from ._choice import categorical, choice, permutation
from ._continuous import cauchy, exponential, gumbel, laplace, normal, uniform
from ._gamma import beta, dirichlet, gamma
from ._generator import Generator, default
from ._hints import RANDOM
from ._integers import bernoulli, bits, integers
from ._truncated import truncated_normal

__all__ = ["Generator", "bernoulli", "beta", "bits", "categorical", "cauchy", "choice", "dirichlet"]
__all__ += ["exponential", "gamma", "get_state", "gumbel", "integers", "laplace", "normal"]
__all__ += ["permutation", "seed", "set_state", "spawn", "truncated_normal", "uniform"]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # else every name would be right

    def __getattr__(name: str) -> Any:
        raise missing("module 'adjoint.random'", name, RANDOM)


# What isn't a way to draw numbers, and so isn't bound to generators as a method.
ABOUT_GENERATORS = {"Generator", "get_state", "seed", "set_state", "spawn"}
FUNCTIONS = [globals()[name] for name in __all__ if name not in ABOUT_GENERATORS]


def seed(n: int) -> None:
    """Start the global generator anew, from a number of up to 64 bits.

    >>> ad.random.seed(0)
    >>> a = ad.random.uniform((2,))
    >>> ad.random.seed(0)
    >>> ad.all(a == ad.random.uniform((2,)))
    tensor(True)
    """
    default.seed(n)


def get_state() -> Tensor:
    """Where the global generator is; `set_state` goes back there.

    >>> before = ad.random.get_state()
    >>> a = ad.random.normal((2,))
    >>> ad.random.set_state(before)
    >>> ad.all(a == ad.random.normal((2,)))
    tensor(True)
    """
    return default.state


def set_state(state: Any) -> None:
    """Let the global generator go on from a state: a tensor, or its 16 bytes.

    >>> ad.random.set_state(ad.random.get_state().numpy().tobytes())
    """
    default.state = state


def spawn(n: int) -> list[Generator]:
    """n generators, independent of each other and of the global one; see `Generator.spawn`.

    >>> len(ad.random.spawn(2))
    2
    """
    return default.spawn(n)


def bind() -> None:
    for function in FUNCTIONS:
        setattr(Generator, function.__name__, method(function))


def method(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function as a method of generators."""

    @functools.wraps(function)
    def call(self: Generator, *args: Any, **kwargs: Any) -> Tensor:
        return function(*args, **kwargs, generator=self)

    return call


bind()
