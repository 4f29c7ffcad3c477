"""In which order samples come, and how many together."""

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

from .._foundation.errors import ArgumentError, DTypeError
from ..functions._arguments import as_count
from ..random import Generator
from ._seeds import chosen_generator


class Sampler:
    """The order in which samples come: a subclass has `__iter__`, which yields their numbers.

    Any iterable can be a `DataLoader`'s sampler. What it draws from `ad.random` there depends on
    the loader's seed and the epoch.

    >>> class Backwards(ad.data.Sampler):
    ...     def __iter__(self):
    ...         return iter([2, 1, 0])
    >>> list(ad.data.DataLoader([10, 20, 30], sampler=Backwards(), batch_size=None))
    [30, 20, 10]
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")


class SequentialSampler(Sampler):
    """Samples in their own order.

    >>> list(ad.data.SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """Samples in random order: each once, or with `replacement` each time any of them.

    `num_samples` is how many there are in an epoch. More than there are, without replacement, come
    in several random orders one after the other.

    >>> sorted(ad.data.RandomSampler("abc"))
    [0, 1, 2]
    >>> len(list(ad.data.RandomSampler("abc", replacement=True, num_samples=7)))
    7
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        chosen_generator("RandomSampler", None, generator)
        if num_samples is not None:
            as_count("RandomSampler", "num_samples", num_samples, 0)
        self.data_source = data_source
        self.replacement = replacement
        self.num_samples = num_samples
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        generator = chosen_generator("RandomSampler", None, self.generator)
        n, wanted = len(self.data_source), len(self)
        if wanted and not n:
            raise ArgumentError(f"RandomSampler: {wanted} samples of an empty dataset")
        if self.replacement:
            yield from generator.integers(0, n, (wanted,), device="cpu").tolist() if n else ()
            return
        for first in range(0, wanted, n or 1):
            yield from generator.permutation(n, device="cpu").tolist()[: wanted - first]

    def __len__(self) -> int:
        return len(self.data_source) if self.num_samples is None else self.num_samples


class BatchSampler(Sampler):
    """What a sampler yields, in lists of `batch_size`; the last one may be shorter, or be dropped.

    >>> list(ad.data.BatchSampler(range(5), 2))
    [[0, 1], [2, 3], [4]]
    >>> list(ad.data.BatchSampler(range(5), 2, drop_last=True))
    [[0, 1], [2, 3]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool = False) -> None:
        self.batch_size = as_count("BatchSampler", "batch_size", batch_size)
        if not isinstance(sampler, Iterable):
            raise DTypeError(f"BatchSampler: {type(sampler).__name__} can't be iterated over")
        self.sampler = sampler
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list]:
        each = iter(self.sampler)
        while batch := list(itertools.islice(each, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else math.ceil(n / self.batch_size)
