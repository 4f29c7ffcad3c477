"""Parameters in a list, and in a dict."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from ..._core.tensor import Tensor, describe
from ..._foundation.errors import DTypeError
from .._parameter import Parameter
from .containers import Named, place_in
from .module import Module

__all__ = ["ParameterDict", "ParameterList"]


class Held(Module):
    """Parameters by name; a plain tensor becomes one, with its values."""

    def _put(self, name: str, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise DTypeError(
                f"{type(self).__name__}: parameters or tensors are needed, got a "
                f"{type(value).__name__}"
            )
        own = value if isinstance(value, Parameter) else Parameter(value)
        self.register_parameter(name, own)

    def __len__(self) -> int:
        return len(self._own_parameters())

    def extra_repr(self) -> str:
        """The names, dtypes and shapes that repr shows."""
        rows = (f"({name}): {describe(p)}" for name, p in self._own_parameters().items())
        return ", ".join(rows)


class ParameterList(Held):
    """A list of parameters, which are found as those of the module that holds it.

    >>> factors = ad.nn.ParameterList([ad.ones(2), ad.zeros(3)])
    >>> list(factors.state_dict())
    ['0', '1']
    >>> factors[0]
    Parameter(tensor([1., 1.], requires_grad=True))
    """

    def __init__(self, values: Iterable[Tensor] = ()) -> None:
        super().__init__()
        self.extend(values)

    def append(self, value: Tensor) -> Self:
        """Add a parameter at the end; returns the list."""
        self._put(str(len(self)), value)
        return self

    def extend(self, values: Iterable[Tensor]) -> Self:
        """Add parameters at the end; returns the list."""
        for value in list(values):
            self.append(value)
        return self

    __iadd__ = extend

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._own_parameters().values())

    def __contains__(self, value: object) -> bool:
        return any(value is own for own in self)

    def __getitem__(self, index: int | slice) -> Any:
        """A parameter, or for a slice a list of those in it."""
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return list(self)[place_in(self, "parameter", index)]

    def __setitem__(self, index: int, value: Tensor) -> None:
        self._put(str(place_in(self, "parameter", index)), value)


class ParameterDict(Held, Named[Parameter]):
    """A dict of parameters, which are found as those of the module that holds it.

    >>> scales = ad.nn.ParameterDict({"left": ad.ones(2), "right": ad.zeros(3)})
    >>> [name for name, _ in scales.named_parameters()]
    ['left', 'right']
    >>> scales["left"]
    Parameter(tensor([1., 1.], requires_grad=True))
    """

    def __init__(
        self, parameters: Mapping[str, Tensor] | Iterable[tuple[str, Tensor]] = ()
    ) -> None:
        super().__init__()
        self.update(parameters)

    def _own(self) -> dict[str, Parameter]:
        return self._own_parameters()

    def __setitem__(self, name: str, value: Tensor) -> None:
        self._put(name, value)

    def get(self, name: str, default: Any = None) -> Any:
        """A parameter, or the default if there is none of this name."""
        return self._own().get(name, default)
