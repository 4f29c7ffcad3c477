"""Modules made of others: in a row, in a list, in a dict."""

import operator
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from ..._foundation.errors import DTypeError, IndexingError
from .module import Module

__all__ = ["ModuleDict", "ModuleList", "Sequential"]

T = TypeVar("T")


class Numbered(Module):
    """Modules under the names "0", "1", …"""

    def _fill(self, modules: Iterable[Any]) -> None:
        """Let these be all modules, in this order."""
        new = self._checked(modules)
        for name in list(self._names()):
            delattr(self, name)
        for number, module in enumerate(new):
            self.register_module(str(number), module)

    def _checked(self, modules: Iterable[Any]) -> list[Module]:
        new = list(modules)
        for module in new:
            if not isinstance(module, Module):
                raise DTypeError(
                    f"{type(self).__name__}: modules are needed, got a {type(module).__name__}; "
                    "for a function, write a Module whose forward calls it"
                )
        return new

    def _names(self) -> Iterator[str]:
        return (name for name, _ in self._attributes())

    def _all(self) -> list[Module]:
        return [module for _, module in self._attributes()]

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[Module]:
        return iter(self._all())

    def __contains__(self, module: object) -> bool:
        return any(module is own for own in self._all())

    def __getitem__(self, index: int | slice) -> Any:
        """A module, or for a slice those in it, as a container of the same kind."""
        if isinstance(index, slice):
            part = type(self).__new__(type(self))
            for name, module in self._part(index).items():
                part.register_module(name, module)
            return part
        return self._all()[place_in(self, "module", index)]

    def _part(self, index: slice) -> dict[str, Module]:
        """The modules of a slice, by the names that they have there."""
        return {str(number): module for number, module in enumerate(self._all()[index])}

    def __setitem__(self, index: int, module: Module) -> None:
        self.register_module(list(self._names())[place_in(self, "module", index)], module)

    def __delitem__(self, index: int | slice) -> None:
        modules = self._all()
        del modules[index if isinstance(index, slice) else place_in(self, "module", index)]
        self._fill(modules)

    def append(self, module: Module) -> Any:
        """Add a module at the end; returns the container."""
        return self.extend([module])

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add modules at the end; returns the container."""
        new = self._checked(modules)
        for number, module in enumerate(new, len(self)):
            self.register_module(str(number), module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Put a module before the one at a place; returns the container."""
        modules = self._all()
        modules.insert(index, module)
        self._fill(modules)
        return self


def place_in(container: Any, what: str, index: Any) -> int:
    """A place in a list, from one that may be counted from the end."""
    place, count = operator.index(index), len(container)
    if not -count <= place < count:
        name = type(container).__name__
        raise IndexingError(f"{name}: there is no {what} {place}, only {count} of them")
    return place % count


class Sequential(Numbered):
    """Modules called one after the other, each with what the former gave.

    A dict gives them names.

    >>> nn = ad.nn
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> model(ad.ones((3, 4))).shape
    (3, 2)
    >>> model[0]
    Linear(in_features=4, out_features=8, bias=True)
    >>> nn.Sequential({"first": nn.Linear(4, 8), "act": nn.ReLU()}).act
    ReLU()
    """

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                self.register_module(name, module)
        else:
            self._fill(modules)

    def _part(self, index: slice) -> dict[str, Module]:
        """They keep their names, and so do files of weights."""
        return dict(list(self._attributes())[index])

    def forward(self, x: Any) -> Any:
        """x through all modules."""
        for module in self._all():
            x = module(x)
        return x


class ModuleList(Numbered):
    """A list of modules, whose parameters are found; it isn't called itself.

    >>> layers = ad.nn.ModuleList([ad.nn.Linear(2, 2) for _ in range(3)])
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self._fill(modules)

    def __repr__(self) -> str:
        rows: list[tuple[str, str, int]] = []  # a first name, a module, how many such follow
        for name, module in self._attributes():
            if rows and rows[-1][1] == repr(module):
                first, shown, count = rows.pop()
                rows.append((first, shown, count + 1))
            else:
                rows.append((name, repr(module), 1))
        inside = "\n".join(counted(*row) for row in rows)
        return f"ModuleList(\n{textwrap.indent(inside, '  ')}\n)" if rows else "ModuleList()"


def counted(first: str, shown: str, count: int) -> str:
    """A line for modules that look alike."""
    if count == 1:
        return f"({first}): {shown}"
    return f"({first}-{int(first) + count - 1}): {count} x {shown}"


class Named(Module, Generic[T]):
    """A dict of modules, or of parameters."""

    def _own(self) -> dict[str, T]:
        raise NotImplementedError

    def update(self, entries: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        """Add entries, or put them in place of others."""
        for name, value in dict(entries).items():
            self[name] = value

    def __getitem__(self, name: str) -> T:
        return self._own()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        raise NotImplementedError

    def __delitem__(self, name: str) -> None:
        self.pop(name)

    def pop(self, name: str) -> T:
        """Take an entry out, and return it."""
        value = self[name]
        delattr(self, name)
        return value

    def clear(self) -> None:
        """Take all entries out."""
        for name in self.keys():
            delattr(self, name)

    def __len__(self) -> int:
        return len(self._own())

    def __iter__(self) -> Iterator[str]:
        return iter(self._own())

    def __contains__(self, name: object) -> bool:
        return name in self._own()

    def keys(self) -> list[str]:
        """The names."""
        return list(self._own())

    def values(self) -> list[T]:
        """The entries."""
        return list(self._own().values())

    def items(self) -> list[tuple[str, T]]:
        """Names and entries."""
        return list(self._own().items())


class ModuleDict(Named[Module]):
    """A dict of modules, whose parameters are found; it isn't called itself.

    >>> heads = ad.nn.ModuleDict({"age": ad.nn.Linear(4, 1), "name": ad.nn.Linear(4, 9)})
    >>> heads["age"]
    Linear(in_features=4, out_features=1, bias=True)
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    def _own(self) -> dict[str, Module]:
        return dict(self._attributes())

    def __setitem__(self, name: str, module: Module) -> None:
        self.register_module(name, module)
