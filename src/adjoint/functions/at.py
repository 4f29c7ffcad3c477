"""`x.at[index]`: new tensors with a part changed, for code that doesn't assign."""

from typing import Any

from .._core.tensor import Tensor
from .._foundation.errors import DTypeError
from ..primitives import indexing
from ..primitives.creation import counting
from ..primitives.elementwise import divide, equal, maximum, minimum, multiply, negative, where
from ..primitives.products import recurrence, shifted
from ..primitives.shapes import reshape
from ._marks import property_named
from .assignment import as_value, assigned
from .elementwise import reciprocal
from .indexing import call_index_op, getitem, parse, viewed

ONE = ("array",)


@property_named("at")
class At:
    """x.at[index].set(v), .add(v), .multiply(v), .min(v), ..."""

    def __init__(self, x: Tensor) -> None:
        self._x = x

    def __getitem__(self, index: Any) -> "Place":
        return Place(self._x, index)


class Place:
    """A part of a tensor, to be changed in a copy. Where an index occurs twice, both changes count,
    but of two values that are set the last stays."""

    def __init__(self, x: Tensor, index: Any) -> None:
        self._x = x
        self._given = index
        self._index = parse(x, index)

    def _value(self, function: str, value: Any) -> Tensor:
        return as_value(function, self._x, value, self._index.shape)

    def get(self) -> Tensor:
        """What is here.

        >>> ad.asarray([1.0, 2.0]).at[1].get()
        tensor(2.)
        """
        return getitem(self._x, self._given)

    def set(self, value: Any) -> Tensor:
        """The tensor with `value` here; where an index occurs twice the last value stays.

        >>> ad.zeros(3).at[1].set(5.0)
        tensor([0., 5., 0.])
        """
        return assigned(self._x, self._value("at.set", value), self._index)

    def add(self, value: Any) -> Tensor:
        """The tensor with `value` added here, once for each time an index occurs.

        >>> ad.zeros(3).at[[1, 1]].add(5.0)
        tensor([ 0., 10.,  0.])
        """
        return self._plus(self._value("at.add", value))

    def subtract(self, value: Any) -> Tensor:
        """The tensor with `value` subtracted here, once for each time an index occurs.

        >>> ad.zeros(3).at[1].subtract(5.0)
        tensor([ 0., -5.,  0.])
        """
        return self._plus(negative(self._value("at.subtract", value)))

    def _plus(self, value: Tensor) -> Tensor:
        x, (spec, arrays, _, view) = self._x, self._index
        added = call_index_op(x, indexing.scatter, value, *arrays, spec=spec, shape=view)
        return x + viewed(added, x.shape)

    def multiply(self, value: Any) -> Tensor:
        """The tensor multiplied by `value` here, once for each time an index occurs.

        >>> ad.ones(3).at[[1, 1]].multiply(5.0)
        tensor([ 1., 25.,  1.])
        """
        value = self._value("at.multiply", value)
        return self._repeatedly(multiply, value, value)

    def divide(self, value: Any) -> Tensor:
        """The tensor divided by `value` here, once for each time an index occurs.

        >>> ad.ones(3).at[1].divide(4.0)
        tensor([1.  , 0.25, 1.  ])
        """
        if self._x.raw.dtype.kind in "iub":
            raise DTypeError(
                f"at.divide: quotients don't fit into a tensor of {self._x.dtype.name}; cast it "
                "with ad.astype"
            )
        value = self._value("at.divide", value)
        return self._repeatedly(divide, value, reciprocal(value))

    def _repeatedly(self, combine: Any, value: Tensor, factor: Tensor) -> Tensor:
        """x combined with a value, and times a factor for each further one in the same place.

        In order of their places, values of one place are neighbours: what comes out is a
        recurrence that starts anew at each place, and its last element stays when it is assigned.
        """
        if not self._index.arrays:
            return assigned(self._x, combine(self.get(), value), self._index)
        x = flat(self._x)
        place, value, factor = by_place(self._places(), value, factor)
        again = equal(place, shifted(place, 0, 1, -1))
        zero = False if x.raw.dtype.kind == "b" else 0
        start = combine(indexing.index(x, place, spec=ONE), value)
        running = recurrence(
            where(again, factor, zero), where(again, zero, start), axis=0, reverse=False
        )
        return reshape(indexing.assign(x, running, place, spec=ONE), shape=self._x.shape)

    def max(self, value: Any) -> Tensor:
        """The tensor, but at least `value` here.

        >>> ad.ones(3).at[[1, 1]].max(ad.asarray([7.0, 5.0]))
        tensor([1., 7., 1.])
        """
        return self._extreme(self._value("at.max", value), maximum, largest=True)

    def min(self, value: Any) -> Tensor:
        """The tensor, but at most `value` here.

        >>> ad.ones(3).at[[1, 1]].min(ad.asarray([-7.0, -5.0]))
        tensor([ 1., -7.,  1.])
        """
        return self._extreme(self._value("at.min", value), minimum, largest=False)

    def _extreme(self, value: Tensor, choose: Any, largest: bool) -> Tensor:
        """Sorted by value and then by place, the best value of each place is its last, and stays
        when they are assigned."""
        x = self._x
        if x.raw.dtype.kind == "c":
            raise DTypeError("at.min, at.max: complex numbers have no order")
        if not self._index.arrays:
            return assigned(x, choose(self.get(), value), self._index)
        by_value = value if largest or value.raw.dtype.kind != "f" else negative(value)
        rising = largest or by_value is not value  # NaN comes last, so that it stays
        order = ranking(flat(by_value), largest=not rising)
        places, values = (indexing.index(flat(t), order, spec=ONE) for t in (self._places(), value))
        place, value = by_place(places, values)
        best = indexing.assign(flat(x), value, place, spec=ONE)
        return choose(x, reshape(best, shape=x.shape))

    def _places(self) -> Tensor:
        """The flat position in the tensor of each element that is selected."""
        x, (spec, arrays, _, view) = self._x, self._index
        number = reshape(counting(x.size, x.device), shape=view)
        return call_index_op(x, indexing.index, number, *arrays, spec=spec)


def flat(x: Tensor) -> Tensor:
    return reshape(x, shape=(x.size,))


def by_place(place: Tensor, *values: Tensor) -> list[Tensor]:
    """Places in order, and the values that go there; those of one place stay in order."""
    order = ranking(flat(place), largest=False)
    return [indexing.index(flat(t), order, spec=ONE) for t in (place, *values)]


def ranking(x: Tensor, largest: bool) -> Tensor:
    """The indices that sort a 1-d tensor; equals stay in order."""
    return indexing.topk(x, k=x.size, axis=0, largest=largest)[1]
