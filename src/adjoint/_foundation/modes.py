"""The thread-local mode word, read once per op, and the context managers that change it."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from .blocks import Block, ends
from .errors import DTypeError
from .stepwise import within

__all__ = ["detect_anomaly", "enable_grad", "is_grad_enabled", "is_recomputing", "is_tracing"]
__all__ += ["no_grad"]

# SYMBOLIC: a derivative rule is being turned into an expression; ops return Exprs.
# PROFILE: how long things take is noted in `mode.logs`.
GRAD, ANOMALY, TRACE, SYMBOLIC, PROFILE = 1, 2, 4, 8, 16


class Mode(threading.local):
    """Bits of `word` say what happens to an op besides being computed; `trace` records it.

    In a checkpoint's function `draws` decides where random numbers come from; `recomputing` knows
    since when it runs for the second time. `logs` are those of the profiles that are on, the
    outermost first.
    """

    word: int = GRAD
    trace: Any = None
    draws: Any = None
    recomputing: Any = None
    logs: tuple = ()


mode = Mode()


class Switch(Block):
    """A context manager and decorator that sets and clears bits of the mode word."""

    sets = 0
    clears = 0

    def __new__(cls, function: Callable | None = None) -> Any:
        """Allow `@no_grad` beside `@no_grad()`."""
        self = object.__new__(cls)
        return self if function is None else self(function)

    def __enter__(self) -> None:
        word = mode.word
        end = partial(setattr, mode, "word", word)
        ends.stack += (end,)
        mode.word = word & ~self.clears | self.sets

    def __call__(self, function: Callable) -> Callable:
        """The function with its body in this mode: of a generator or a coroutine only the body, and
        not what runs while it waits."""
        if not callable(function) or isinstance(function, type):
            raise DTypeError(f"{type(self).__name__}: it decorates functions, {wrong(function)}")
        return within(type(self), function)


def wrong(function: Any) -> str:
    """Why something isn't a function, in an error."""
    if isinstance(function, type):
        return f"and {function.__name__} is a class: decorate its methods"
    return f"got {type(function).__name__}; use it as `with` or `@`, without an argument"


class no_grad(Switch):
    """Within it (or in a function decorated with it) nothing is recorded for gradients.

    >>> x = ad.tensor(2.0, requires_grad=True)
    >>> with ad.no_grad():
    ...     y = x * 3
    >>> y.requires_grad
    False
    """

    clears = GRAD


class enable_grad(Switch):
    """Within it gradients are recorded again, also inside `no_grad`.

    >>> x = ad.tensor(2.0, requires_grad=True)
    >>> with ad.no_grad(), ad.enable_grad():
    ...     y = x * 3
    >>> y.requires_grad
    True
    """

    sets = GRAD


class detect_anomaly(Switch):
    """Within it the first NaN or infinity in a value or a gradient raises `AnomalyError`.

    >>> x = ad.tensor(0.0, requires_grad=True)
    >>> with ad.detect_anomaly():
    ...     ad.log(x)
    Traceback (most recent call last):
    adjoint.AnomalyError: ...
    """

    sets = ANOMALY


class symbolic(Switch):
    """Within it ops compute nothing and return expressions."""

    sets = SYMBOLIC


def is_tracing() -> bool:
    """Whether a function is being traced in this thread, so that tensors have no values.

    >>> ad.is_tracing()
    False
    """
    return bool(mode.word & TRACE)


def is_recomputing() -> bool:
    """Whether a checkpoint's function is being run again in this thread, by a backward pass.

    >>> ad.is_recomputing()
    False
    """
    return mode.recomputing is not None


def is_grad_enabled() -> bool:
    """Whether ops are recorded for gradients in this thread.

    >>> ad.is_grad_enabled()
    True
    """
    return bool(mode.word & GRAD)
