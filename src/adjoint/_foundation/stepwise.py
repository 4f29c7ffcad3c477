"""Functions whose body runs within a context, also where it is run bit by bit.

The body of a generator, a coroutine or an async generator runs in steps, and between two of them
the caller runs, or another task does. The context holds for each step, and only there.
"""

import functools
import inspect
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager
from typing import Any


class Steps:
    """A generator, a coroutine or the like, each step of which runs within a context."""

    def __init__(self, context: Callable[[], AbstractContextManager], body: Any) -> None:
        self.context = context
        self.body = body

    def __iter__(self) -> "Steps":
        return self

    __await__ = __iter__

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        with self.context():
            return self.body.send(value)

    def throw(self, *error: Any) -> Any:
        with self.context():
            return self.body.throw(*error)

    def close(self) -> None:
        with self.context():
            self.body.close()


def within(context: Callable[[], AbstractContextManager], function: Callable) -> Callable:
    """A function of the same kind, whose body runs within a context."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with context():
            return function(*args, **kwargs)

    def generate(*args: Any, **kwargs: Any) -> Generator:
        return (yield from Steps(context, function(*args, **kwargs)))

    async def work(*args: Any, **kwargs: Any) -> Any:
        return await Steps(context, function(*args, **kwargs))

    async def generate_later(*args: Any, **kwargs: Any) -> AsyncGenerator:
        body = function(*args, **kwargs)
        try:
            value = await Steps(context, first_step(body))
            while True:
                try:
                    sent = yield value
                except GeneratorExit:
                    raise
                except BaseException as error:
                    step = body.athrow(error)
                else:
                    step = body.asend(sent)
                value = await Steps(context, step)
        except StopAsyncIteration:
            return
        finally:
            await Steps(context, body.aclose())

    kinds = (
        (inspect.isgeneratorfunction, generate),
        (inspect.iscoroutinefunction, work),
        (inspect.isasyncgenfunction, generate_later),
    )
    called = type(function).__call__  # that of an object may be a coroutine
    wrapper = next((w for is_kind, w in kinds if is_kind(function) or is_kind(called)), call)
    return functools.wraps(function)(wrapper)


def first_step(body: AsyncGenerator) -> Any:
    """The first step of an async generator that the event loop isn't to know of: it closes those
    that it knows, and this one is closed by the one around it."""
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, None)
    try:
        return body.asend(None)
    finally:
        sys.set_asyncgen_hooks(*hooks)
