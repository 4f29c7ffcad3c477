"""Context managers whose end can't be interrupted.

Ctrl-C is a signal, and its handler runs between two bytecodes: when a Python function is entered,
after a call, when a loop goes back. In an `__exit__` that is written in Python it may come before
the first statement, and what the block changed would stay so for good. Here what is to be called at
the end of a block is called by C code alone.

To begin a block is safe if its last acts are to put that on the stack, by `+=`, and then to assign:
none of this is a call, so either both happen or none.
"""

import threading
from _io import _IOBase
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import starmap
from operator import attrgetter, call
from typing import Any


class Leave(_IOBase):
    """Its `__exit__` is in C, takes what `with` gives it, and calls `close`."""

    closed: Any = True  # else it would be closed once more when it is freed
    close: Callable[[], Any]


class Ends(threading.local):
    """Functions to call at the ends of the blocks that a thread is in, the innermost last."""

    def __init__(self) -> None:
        self.stack: list[Callable[[], Any]] = []
        leave = Leave()
        leave.close = map(call, iter(self.stack.pop, None)).__next__
        self.exit: Any = leave.__exit__


ends = Ends()


class Exit(property):
    """The `__exit__` of a block."""

    def __call__(self, block: Any, *exception: object) -> Any:
        """Where it is asked of the class, as an ExitStack does."""
        return ends.exit(*exception)


class Block:
    """Base of context managers: at the end what `__enter__` put on the stack is called."""

    _ends = ends
    __exit__: Any = Exit(attrgetter("_ends.exit"))  # type: ignore[assignment]


def all_of(calls: list[tuple]) -> Callable[[], Any]:
    """A function that makes all calls in a list, each a function and its arguments; calls may be
    appended until then."""
    return partial(deque, starmap(call, calls), 0)


def at_once(calls: list[tuple]) -> None:
    """Make calls of functions that are C code: no signal is handled before the last one is done."""
    deque(starmap(call, calls), 0)


class undoing(Block):
    """A block in which things may be changed: at its end `calls` are made, in order."""

    def __init__(self, *calls: tuple) -> None:
        self.calls = list(calls)

    def __enter__(self) -> "undoing":
        end = all_of(self.calls)
        ends.stack += (end,)
        return self
