"""Telling in errors and in profiles where a module is in its tree."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from ..._foundation.errors import AdjointError, ArgumentError
from ..._foundation.spans import region
from .tree import Tree, joined, places


class finite:
    """Let recursion below a module that never ends say which module contains itself.

    Every module on the way tells it again, so that the path is that from the outermost one.
    """

    def __init__(self, module: Tree) -> None:
        self.module = module

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, RecursionError | ArgumentError):
            try:
                for _ in places(self.module):
                    pass
            except ArgumentError as endless:
                raise endless from None


class Location:
    """Where an error was raised: the layer, and its path from the outermost module known so far.

    Modules are known by their ids, as the error may be pickled, or outlive them.
    """

    def __init__(self, layer: Tree, message: Any) -> None:
        self.kind = self.outermost_kind = type(layer).__name__
        self.layer = self.outermost = id(layer)
        self.path, self.message, self.note = "", message, ""

    def restart(self) -> None:
        self.outermost, self.outermost_kind, self.path = self.layer, self.kind, ""

    def move_out(self, module: Any) -> None:
        names = (path for path, part in module.named_modules() if id(part) == self.outermost)
        name = next(names, f"<{self.outermost_kind}>")  # it isn't among the attributes
        self.path = joined(name, self.path) if self.path else name
        self.outermost, self.outermost_kind = id(module), type(module).__name__

    def __str__(self) -> str:
        return f"in layer {self.path} ({self.kind})" if self.path else f"in {self.kind}"


def locate(error: Exception, module: Tree) -> None:
    """Let an error that passes through a module's call say in which layer it was raised.

    The innermost module is the first to do so, and each one around it adds what it knows. Our own
    errors say it in their message, others in a note below it.
    """
    known: Any = getattr(error, "_adjoint_location", None)
    if known is None:
        known = Location(module, error.args[0] if error.args else None)
        error._adjoint_location = known  # type: ignore[attr-defined]
    elif id(module) == known.layer:  # raised once more
        known.restart()
    else:
        known.move_out(module)
    if isinstance(error, AdjointError) and isinstance(known.message, str):
        error.args = (f"{known}: {known.message}",)
        return
    notes = getattr(error, "__notes__", [])
    if known.note in notes:
        notes.remove(known.note)
    known.note = str(known)
    error.add_note(known.note)


class Names(threading.local):
    """The paths of modules, by id, from the one that was called first; for profiles."""

    known: dict[int, str] | None = None


names = Names()


@contextlib.contextmanager
def timed(module: Any) -> Iterator[None]:
    """Note a module's call in profiles, under its path from the module that was called first."""
    former = names.known
    if former is None or id(module) not in former:
        names.known = {id(part): path for path, part in module.named_modules()}
    known: Any = names.known
    try:
        with region(known[id(module)] or type(module).__name__):
            yield
    finally:
        names.known = former


@contextlib.contextmanager
def explained(path: str) -> Iterator[None]:
    """Let errors of what is done to a parameter or buffer name it."""
    try:
        yield
    except AdjointError as error:
        error.args = (f"{path}: {error}",)
        raise
