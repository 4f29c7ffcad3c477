"""Names: what a function finds under the names of its closure and of its module.

Tensors, modules, optimizers, numbers: whatever a name stands for when the function is recorded it
has to stand for at each run. Functions of the user's that are called by name are looked into, too;
what these and other objects contain isn't.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from .lines import is_users
from .seen import ABSENT, Seen

FIXED = (ModuleType, BuiltinFunctionType, type)


class Names:
    """Names that a function uses, and what they stood for."""

    def __init__(self, function: Callable) -> None:
        self.cells: list[tuple[str, CellType, Seen]] = []
        self.globals: list[tuple[str, Mapping[str, Any], Seen]] = []
        self.known: set[FunctionType] = set()
        self.add(function)

    def add(self, function: Any) -> None:
        """Note the names of a function, and of those that it calls by name."""
        waiting = [function]
        while waiting:
            for plain in plain_functions(waiting.pop()):
                if plain not in self.known:
                    self.known.add(plain)
                    waiting += self.note(plain)

    def note(self, function: FunctionType) -> Iterator[Any]:
        """Note the names of one function; returns what they stand for."""
        code, scope = function.__code__, function.__globals__
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            value = content(cell)
            if not is_fixed(value):
                self.cells.append((name, cell, Seen(value, 0)))
                yield value
        for name in sorted(global_names(code) & scope.keys()):
            if not is_fixed(scope[name]):
                self.globals.append((name, scope, Seen(scope[name], 0)))
                yield scope[name]

    def changed(self) -> str | None:
        """A name that stands for something else now."""
        for name, cell, seen in self.cells:
            if not seen.is_still(content(cell)):
                return f"{name!r}, which the function uses, is another one"
        for name, scope, seen in self.globals:
            if not seen.is_still(scope.get(name, ABSENT)):
                return f"{name!r}, which the function uses, is another one"
        return None


def plain_functions(x: Any) -> Iterator[FunctionType]:
    """The functions of the user's that are run if x is called."""
    if isinstance(x, partial):
        x = x.func
    if isinstance(x, MethodType):
        x = x.__func__
    if not isinstance(x, FunctionType):
        forward = getattr(type(x), "forward", None) or getattr(type(x), "__call__", None)
        x = forward if isinstance(forward, FunctionType) else None
    if x is not None and is_users(x.__code__.co_filename):
        yield x


def global_names(code: CodeType) -> set[str]:
    """Names that may be a module's, in a function and in those that are written in it."""
    inner = (global_names(part) for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names).union(*inner)


def content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return ABSENT


def is_fixed(x: Any) -> bool:
    """Whether nobody makes a name stand for another one of these: modules, classes, functions of
    libraries."""
    if isinstance(x, FunctionType):
        return not is_users(x.__code__.co_filename)
    return isinstance(x, FIXED)
