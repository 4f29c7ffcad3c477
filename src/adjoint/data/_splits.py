"""Datasets and arrays, split at random."""

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.tensor import Tensor
from .._foundation.errors import ArgumentError, DTypeError, ShapeError
from ..random import Generator
from ._datasets import Subset
from ._seeds import chosen_generator

Size = int | float


def random_split(
    dataset: Any,
    lengths: Sequence[Size],
    generator: Generator | None = None,
    *,
    seed: int | None = None,
) -> list[Subset]:
    """A dataset in parts that have no sample in common, of lengths or fractions of the whole.

    What fractions leave over by rounding down goes to the first parts, one sample each.

    >>> train, test = ad.data.random_split(range(10), [0.8, 0.2], seed=0)
    >>> len(train), len(test)
    (8, 2)
    >>> sorted([*train, *test])
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    n = len(dataset)
    counts = part_lengths(n, list(lengths))
    chosen = chosen_generator("random_split", seed, generator)
    order = chosen.permutation(n, device="cpu").tolist()
    ends = np.cumsum([0, *counts]).tolist()
    return [Subset(dataset, order[a:b]) for a, b in itertools.pairwise(ends)]


def part_lengths(n: int, lengths: list[Any]) -> list[int]:
    """How many samples each part has."""
    if any(isinstance(x, (float, np.floating)) for x in lengths):
        fractions = [float(x) for x in lengths]
        if not math.isclose(sum(fractions), 1) or not all(0 <= x <= 1 for x in fractions):
            raise ArgumentError(f"random_split: fractions from 0 to 1 add to 1, got {lengths}")
        counts = [math.floor(n * x) for x in fractions]
        rest = n - sum(counts)
        return [count + (k < rest) for k, count in enumerate(counts)]
    try:
        counts = [operator.index(x) for x in lengths]
    except TypeError:
        raise DTypeError(f"random_split: lengths are numbers, got {lengths}") from None
    if sum(counts) != n or min(counts, default=0) < 0:
        raise ArgumentError(
            f"random_split: lengths add to the dataset's, which is {n}; got {lengths}"
        )
    return counts


def train_test_split(
    *arrays: Any,
    test_size: Size | None = None,
    train_size: Size | None = None,
    shuffle: bool = True,
    stratify: Any = None,
    seed: int = 0,
) -> list[Any]:
    """Arrays, tensors or lists of one length, each in two parts: one to train with, one to test.

    Sizes are fractions of the whole, or whole numbers. One left out is the rest; a quarter is for
    the test unless a size is given. All are split alike, and one seed always splits in one way.
    With `stratify`, labels of all samples, both parts have each label as often as they can for
    their size. Without `shuffle` the test has the last samples.

    >>> x, y = ad.arange(8) * 10, list(range(8))
    >>> x_train, x_test, y_train, y_test = ad.data.train_test_split(x, y)
    >>> x_test.tolist() == [10 * k for k in y_test], len(y_test)
    (True, 2)
    """
    n = common_length(arrays)
    train, test = split_sizes(n, train_size, test_size)
    if stratify is not None:
        if not shuffle:
            raise ArgumentError("train_test_split: stratify needs shuffle=True")
        chosen = stratified(Generator(seed), n, train, test, stratify)
    else:
        order = Generator(seed).permutation(n, device="cpu").numpy() if shuffle else np.arange(n)
        chosen = order[:train], order[train : train + test]
    return [part(array, places) for array in arrays for places in chosen]


def common_length(arrays: tuple) -> int:
    if not arrays:
        raise ArgumentError("train_test_split: at least one array is needed")
    for array in arrays:
        if not isinstance(array, (Tensor, np.ndarray, Sequence)) or isinstance(array, (str, bytes)):
            raise DTypeError(
                "train_test_split: tensors, arrays and lists can be split, got "
                f"{type(array).__name__}"
            )
    lengths = [len(array) for array in arrays]
    if len(set(lengths)) > 1:
        raise ShapeError(f"train_test_split: all need one length, they have {lengths}")
    return lengths[0]


def split_sizes(n: int, train_size: Size | None, test_size: Size | None) -> tuple[int, int]:
    """How many samples are to train with, and how many to test."""
    if train_size is None and test_size is None:
        test_size = 0.25
    test = None if test_size is None else count("test_size", test_size, n, math.ceil)
    train = None if train_size is None else count("train_size", train_size, n, math.floor)
    train = n - (test or 0) if train is None else train
    test = n - train if test is None else test
    if train < 1 or test < 1 or train + test > n:
        raise ArgumentError(
            f"train_test_split: train_size={train_size} and test_size={test_size} of {n} samples "
            f"are {train} and {test}; each needs at least one, and there are no more than {n}"
        )
    return train, test


def count(name: str, size: Any, n: int, rounded: Any) -> int:
    if isinstance(size, (float, np.floating)):
        if not 0 < size < 1:
            raise ArgumentError(
                f"train_test_split: {name} is a fraction between 0 and 1, or a whole number; got "
                f"{size}"
            )
        # As the decimal that it is written as: 0.07 of 100 is 7, not what floats make of it.
        return rounded(round(n * float(size), 9))
    try:
        return operator.index(size)
    except TypeError:
        raise DTypeError(f"train_test_split: {name} must be a number, got {size!r}") from None


def stratified(
    generator: Generator, n: int, train: int, test: int, labels: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Places of samples in two parts, in random order, with the labels spread evenly."""
    values = labels.detach().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if values.shape != (n,):
        raise ShapeError(
            f"train_test_split: stratify has a label for each of {n} samples, its shape is "
            f"{values.shape}"
        )
    names, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    if counts.min() < 2 or min(train, test) < len(names):
        rarest = names[counts.argmin()]
        raise ArgumentError(
            f"train_test_split: {len(names)} labels can't all be in parts of {train} and {test} "
            f"samples: the rarest, {rarest!r}, occurs {counts.min()} times; each needs 2"
        )
    order = generator.permutation(n, device="cpu").numpy()
    in_test = shares(counts, test)
    in_train = shares(counts - in_test, train)
    ranks = ranks_in_label(which[order], counts)
    quota = in_test[which[order]]
    is_test = ranks < quota
    is_train = ~is_test & (ranks < quota + in_train[which[order]])
    return order[is_train], order[is_test]


def shares(counts: np.ndarray, total: int) -> np.ndarray:
    """A total divided in proportion to counts; what rounding leaves goes to the largest parts."""
    whole, rest = np.divmod(counts * total, counts.sum())
    first = np.argsort(-rest, kind="stable")[: total - whole.sum()]
    whole[first] += 1
    return whole


def ranks_in_label(which: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """For each sample how many of the same label are before it."""
    by_label = np.argsort(which, kind="stable")
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    ranks = np.empty_like(which)
    ranks[by_label] = np.arange(len(which)) - starts
    return ranks


def part(array: Any, places: np.ndarray) -> Any:
    if isinstance(array, (Tensor, np.ndarray)):
        return array[places]
    return [array[k] for k in places.tolist()]
