"""Computing on raw arrays in silence: NumPy neither warns nor raises for IEEE results, whatever
the user told it by np.seterr, which is for their own code.

NumPy keeps that setting in the interpreter's context, so what works on raw arrays runs in a context
of ours. To run a function in one takes a tenth of the time of np.errstate.
"""

import contextvars
import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

is_computing = contextvars.ContextVar("is_computing", default=False)


def silent_context() -> contextvars.Context:
    """A context in which NumPy says nothing. Only one thread can be in it, and only once."""
    context = contextvars.Context()
    context.run(np.seterr, all="ignore")
    context.run(is_computing.set, True)
    return context


class Silence(threading.local):
    """`run(function, *args)` calls a function in this thread's context, if it isn't there yet."""

    run: Callable[..., Any]

    def __init__(self) -> None:
        self.run = silent_context().run


silence = Silence()


def compute(function: Callable, *args: Any, **kwargs: Any) -> Any:
    """Call a function of ours that works on raw arrays, in silence."""
    if is_computing.get():
        return function(*args, **kwargs)
    return silence.run(function, *args, **kwargs)


def computing(function: Callable) -> Callable:
    """A function that `compute` calls."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_computing.get():
            return function(*args, **kwargs)
        return silence.run(function, *args, **kwargs)

    return call
