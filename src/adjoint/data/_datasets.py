"""Where samples come from."""

import bisect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from .._core.tensor import Tensor
from .._foundation.errors import ArgumentError, DTypeError, IndexingError, ShapeError
from ..functions._arguments import as_integer
from ..functions.creation import asarray

T = TypeVar("T")


class Dataset(Generic[T]):
    """Samples by number: a subclass has `__len__` and `__getitem__`.

    One that can give many samples at once more cheaply has `__getitems__(indices)` too, which
    returns a list of them, or a whole batch in anything but a list.

    >>> class Squares(ad.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, k):
    ...         return k * k
    >>> list(ad.data.DataLoader(Squares(), batch_size=3))
    [tensor([0, 1, 4]), tensor([9])]
    """

    def __getitem__(self, index: Any) -> T:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__")

    def __iter__(self) -> Iterator[T]:
        return (self[k] for k in range(len(self)))  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return counted(self)

    def __add__(self, other: "Dataset[T]") -> "ConcatDataset[T]":
        return ConcatDataset([self, other])


class IterableDataset(Generic[T]):
    """Samples in the order in which they come: a subclass has `__iter__`.

    A `DataLoader` goes through it once per epoch, whatever its number of workers: one of them at a
    time asks for samples, and all put them together to batches.

    >>> class Lines(ad.data.IterableDataset):
    ...     def __iter__(self):
    ...         yield from (1.0, 2.0, 3.0)
    >>> list(ad.data.DataLoader(Lines(), batch_size=2))
    [tensor([1., 2.]), tensor([3.])]
    """

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")

    def __repr__(self) -> str:
        return counted(self)


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Tensors, or NumPy arrays, of one length: sample k has element k of each.

    >>> dataset = ad.data.TensorDataset(ad.asarray([[1.0, 2.0], [3.0, 4.0]]), ad.asarray([0, 1]))
    >>> dataset[1]
    (tensor([3., 4.]), tensor(1))
    """

    def __init__(self, *tensors: Any) -> None:
        if not tensors:
            raise ArgumentError("TensorDataset: at least one tensor is needed")
        self.tensors = tuple(asarray(x) for x in tensors)
        shapes = [x.shape for x in self.tensors]
        if len({shape[:1] for shape in shapes}) > 1 or () in shapes:
            raise ShapeError(
                f"TensorDataset: tensors of one length are needed, shapes are {shapes}"
            )

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(x[index] for x in self.tensors)

    def __getitems__(self, indices: Sequence[int]) -> tuple[Tensor, ...]:
        """A batch, by one look into each tensor."""
        return self[np.asarray(indices, np.int64)]


class Subset(Dataset[T]):
    """Some samples of another dataset, by their numbers there.

    >>> some = ad.data.Subset(ad.data.TensorDataset(ad.asarray([10, 20, 30])), [2, 0])
    >>> some[0]
    (tensor(30),)
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __repr__(self) -> str:
        return f"{counted(self)[:-1]} of {described(self.dataset)})"

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> T:
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: Sequence[int]) -> Any:
        return samples(self.dataset, [self.indices[k] for k in indices])


class ConcatDataset(Dataset[T]):
    """Datasets one after the other; `one + other` makes it too.

    >>> dataset = ad.data.ConcatDataset([[1, 2], [3, 4, 5]])
    >>> len(dataset), dataset[2], dataset[-1]
    (5, 3, 5)
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ArgumentError("ConcatDataset: at least one dataset is needed")
        for dataset in self.datasets:
            if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
                raise DTypeError(
                    "ConcatDataset: datasets with __len__ and __getitem__ are needed, got "
                    f"{type(dataset).__name__}"
                )
        self.ends = list(itertools.accumulate(map(len, self.datasets)))

    def __len__(self) -> int:
        return self.ends[-1]

    def __getitem__(self, index: int) -> T:
        k = as_integer("ConcatDataset", "an index", index)
        if not -len(self) <= k < len(self):
            raise IndexingError(f"ConcatDataset: index {k} is out of range for {len(self)} samples")
        k %= len(self)
        which = bisect.bisect_right(self.ends, k)
        return self.datasets[which][k - (self.ends[which - 1] if which else 0)]


def described(dataset: Any) -> str:
    """A dataset of anyone's, short: a list doesn't show what is in it."""
    return repr(dataset) if isinstance(dataset, Dataset | IterableDataset) else counted(dataset)


def counted(dataset: Any) -> str:
    """Its kind, and how many samples it has if that is known."""
    name = type(dataset).__name__
    if not hasattr(dataset, "__len__"):
        return f"{name}()"
    count = len(dataset)
    return f"{name}({count} {'sample' if count == 1 else 'samples'})"


def samples(dataset: Any, indices: list[int]) -> Any:
    """A list of samples, or a batch, if the dataset makes them itself."""
    if hasattr(dataset, "__getitems__"):
        return dataset.__getitems__(indices)
    return [dataset[k] for k in indices]
