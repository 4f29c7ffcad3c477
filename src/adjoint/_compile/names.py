"""Names of the user's: globals and variables of closures that have tensors, modules, optimizers or
the like are to have the same ones again."""

from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any
from weakref import ref

from .._core.tensor import Tensor
from .._foundation.lines import OWN
from ..nn.modules.tree import Tree
from ..random import Generator
from .watching import CLASSES

KINDS = (Tensor, Generator, *CLASSES)
MOST = 256  # functions that are looked at

Name = tuple[str, Callable[[], Any], ref]


def names_of(function: Any) -> list[Name]:
    """The names that a function reads, also in functions that it names: each with what looks what
    it has now, and with what it has."""
    found: dict[Any, Name] = {}
    waiting, seen = [plain(function)], set()
    while waiting and len(seen) < MOST:
        one = waiting.pop()
        if isinstance(one, FunctionType) and one not in seen and not is_ours(one):
            seen.add(one)
            for key, name, look in variables(one):
                value = look()
                if isinstance(value, KINDS):
                    found[key] = name, look, ref(value)
                else:
                    waiting.append(plain(value))
    return list(found.values())


def variables(function: FunctionType) -> Iterator[tuple[Any, str, Callable[[], Any]]]:
    """Variables of a function from outside: keys, names, and what looks at them."""
    scope = function.__globals__
    for name in dict.fromkeys(read_names(function.__code__)):
        if name in scope:
            yield (id(scope), name), name, partial(scope.get, name)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        yield id(cell), name, partial(getattr, cell, "cell_contents", None)


def read_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from read_names(inner)


def is_ours(function: FunctionType) -> bool:
    return str(function.__module__).partition(".")[0] == OWN


def plain(function: Any) -> Any:
    """The Python function in a method, a partial, a module, or what wraps one."""
    if isinstance(function, FunctionType | type) or not callable(function):
        return function
    if isinstance(function, MethodType):
        return plain(function.__func__)
    if isinstance(function, partial):
        return plain(function.func)
    if isinstance(function, Tree):
        return plain(getattr(function, "forward", None))
    wrapped = getattr(function, "__wrapped__", function)
    return wrapped if wrapped is function else plain(wrapped)
