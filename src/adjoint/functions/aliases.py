"""`x.data`: another name of a leaf, to read and write its values without recording anything.

It is the one exception to "a write changes this tensor object only", made because programs for
PyTorch write to parameters this way.
"""

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

from .._core.tensor import Tensor, check_like, describe, journal, new_tensor, share, wrap
from .._foundation.errors import DTypeError, GradientError, TraceError
from .._foundation.modes import mode, no_grad
from ..primitives.shapes import slice_
from ._marks import property_named
from .assignment import assign
from .indexing import getitem, parse


class Alias(Tensor):
    """What `.data` gives: a name of a tensor, which it holds.

    It doesn't hold the array: a second holder would have each write to the tensor copy it first.
    `maker` is what computed the tensor, if it isn't a leaf; then this is a name of a value that
    nobody else has, and may not be written to.
    """

    __slots__ = ("_maker", "_tensor", "_trace")

    _tensor: Tensor
    _maker: str | None
    _trace: Any  # the trace under way when it was made

    @property
    def node(self) -> None:  # type: ignore[override]
        return None

    @node.setter
    def node(self, value: Any) -> None:
        """What is written through an alias are values; their graph stays behind."""

    @property
    def raw(self) -> Any:  # type: ignore[override]
        return self._tensor.raw

    @raw.setter
    def raw(self, value: Any) -> None:
        self._tensor.raw = value

    def _owner(self) -> Tensor:
        return self._tensor

    def _value(self) -> Tensor:
        return share(self)

    def change(self, function: str, write: Callable[[Tensor], Any]) -> None:
        """Let `write` change the tensor that this is a name of."""
        maker = self._maker or (None if self._tensor.is_leaf else self._tensor.node.name)  # type: ignore[union-attr]
        if maker is not None:
            raise GradientError(
                f"{function}: this is .data of a tensor that was computed by {maker}, not of a "
                "leaf: a value that nobody else would see change; write to y = x.detach(), or to "
                "the leaf itself"
            )
        with no_grad():
            write(self._tensor)

    def __getitem__(self, index: Any) -> Tensor:
        """A name of that part where the index is basic, else a value."""
        place = parse(self, index)
        return getitem(self, index) if place.arrays else part_of(self, place.spec)

    def __setitem__(self, index: Any, value: Any) -> None:
        own = isinstance(value, Part) and value._whole is self
        if own and value._index == parse(self, index).spec:
            return  # x.data[0] *= 2 has written to x already
        self.change("assignment", lambda tensor: assign(tensor, index, value))

    def end(self) -> None:
        """Be a name of the values as they are now, which the tensor is about to lose."""
        if mode.trace is not None and mode.trace is not self._trace:
            raise TraceError(
                f"data: another name of this tensor ({describe(self)}), made by .data before the "
                "function was traced, would lose it; make it within the function"
            )
        self._tensor = share(self._tensor)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        if requires_grad:
            raise GradientError(
                "requires_grad_: .data is another name of a tensor's values, which never requires "
                "grad; call x.requires_grad_(), or x.detach().requires_grad_() for a new leaf"
            )
        return self

    @property
    def grad(self) -> None:
        """None: the gradient is the tensor's."""
        return None

    @grad.setter
    def grad(self, value: Any) -> NoReturn:
        raise GradientError("grad: .data has no gradient; set x.grad, without .data")


class Part(Alias):
    """A basic index of an alias, `x.data[0]`: a name of that part of the tensor."""

    __slots__ = ("_index", "_whole")

    _whole: Alias
    _index: tuple

    @property
    def raw(self) -> Any:
        return slice_(self._whole, index=self._index).raw

    @raw.setter
    def raw(self, value: Any) -> None:
        self.change("data", lambda part: assign(part, ..., wrap(value)))

    def _owner(self) -> Tensor:
        return self._whole._owner()

    def change(self, function: str, write: Callable[[Tensor], Any]) -> None:
        def write_part(whole: Tensor) -> None:
            part = slice_(whole, index=self._index)
            write(part)
            assign(whole, self._index, part)

        self._whole.change(function, write_part)


# The alias of each tensor that has one now, by the tensor's id: it keeps the tensor alive.
_aliases: weakref.WeakValueDictionary[int, Alias] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def present(x: Tensor) -> Alias | None:
    """The alias that a tensor has now."""
    alias = _aliases.get(id(x))
    return alias if alias is not None and alias._tensor is x else None  # it may have ended


def alias_of(x: Tensor, maker: str | None = None) -> Alias:
    alias = new_tensor(Alias)
    alias._grad = None
    alias._tensor, alias._maker, alias._trace = x, maker, mode.trace
    return alias


def part_of(whole: Alias, index: tuple) -> Part:
    part = new_tensor(Part)
    part._grad = None
    part._whole, part._index = whole, index
    return part


def set_data(x: Tensor, value: Tensor) -> None:
    """x.data = value: replaces a leaf's values, and ends its alias, which keeps the former ones."""
    former = present(x)
    if value is x or value is former:
        return  # x.data *= 2 has written to x already
    if not isinstance(value, Tensor):
        raise DTypeError(f"data: a tensor is needed, got {type(value).__name__}")
    check_like("data", x, value, "value")
    if not x.is_leaf:
        raise GradientError(
            "data: only the values of leaves can be replaced; this tensor was computed by "
            f"{x.node.name}"  # type: ignore[union-attr]
        )
    if isinstance(x, Alias):
        raise GradientError("data: this is .data of a tensor already; write x[...] = value")
    raw = share(value).raw
    if former is not None:
        former.end()
    journal(x)
    x.raw = raw


@property_named("data", set_data)
def data(x: Tensor) -> Tensor:
    """Another name of a leaf: what is written to it, is written to x, and nothing is recorded. Of a
    tensor that was computed, its values without a graph, which can't be written to.

    Assigning a tensor of the same shape and dtype puts its values in the place of a leaf's.

    >>> x = ad.tensor([1.0, 2.0], requires_grad=True)
    >>> x.data[0] = 5
    >>> x.data.mul_(10)
    tensor([50., 20.])
    >>> x.data = x.data + 1
    >>> x
    tensor([51., 21.], requires_grad=True)
    """
    if isinstance(x, Alias):
        return x
    if not x.is_leaf:
        return alias_of(share(x), x.node.name)  # type: ignore[union-attr]
    with _lock:
        alias = present(x)
        if alias is None:
            alias = _aliases[id(x)] = alias_of(x)
    return alias


def through(name: str, method: Callable) -> Callable:
    """An in-place method of tensors, as that of an alias."""

    @functools.wraps(method)
    def call(x: Alias, *args: Any, **kwargs: Any) -> Alias:
        x.change(name, lambda tensor: method(tensor, *args, **kwargs))
        return x

    return call
