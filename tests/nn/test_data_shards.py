"""DataLoader(shard=world): what ranks have together is what one process has."""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint.data import DataLoader, Dataset, IterableDataset, RandomSampler, TensorDataset
from tests.nn.test_data import Augmented, flat

SIZES = [2, 3, 4]


class World:
    """A rank of a world whose ranks make their calls one after the other, rank 0 first."""

    def __init__(self, rank: int, size: int, sent: list[int]) -> None:
        self.rank = rank
        self.size = size
        self.sent = sent

    def broadcast(self, x: int) -> int:
        if self.rank == 0:
            self.sent.append(x)
        return self.sent[-1]


def worlds(size: int) -> list[World]:
    sent: list[int] = []
    return [World(rank, size, sent) for rank in range(size)]


def loaders(size: int, *args: Any, **options: Any) -> list[DataLoader]:
    return [DataLoader(*args, shard=world, **options) for world in worlds(size)]


def epoch(each: list[DataLoader]) -> list[list[Any]]:
    """The batches of each rank in one epoch."""
    return [flat(loader) for loader in each]


def joined(ranks: list[list[list[int]]]) -> list[list[int]]:
    """The ranks' k-th batches one after the other, for each k."""
    return [list(itertools.chain(*batches)) for batches in zip(*ranks, strict=True)]


# Shares


@pytest.mark.parametrize(
    ("n", "options", "expected"),
    [
        (8, {"batch_size": 2}, [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]),
        (6, {"batch_size": 2}, [[[0, 1], [4]], [[2, 3], [5]]]),
        (7, {"batch_size": 2}, [[[0, 1], [4, 5]], [[2, 3], [6, 0]]]),
        (7, {"batch_size": 2, "drop_last": True}, [[[0, 1]], [[2, 3]]]),
        (3, {"batch_size": 9}, [[[0, 1]], [[2, 0]]]),
        (3, {"batch_size": None}, [[0, 2], [1, 0]]),
        (3, {"batch_size": 2, "collate_fn": sum}, [[1], [2]]),
        (0, {"batch_size": 2}, [[], []]),
        (3, {"sampler": [2, 2, 1, 0], "batch_size": 2}, [[[2, 2]], [[1, 0]]]),
    ],
    ids=str,
)
def test_shares_of_two_ranks(n: int, options: dict[str, Any], expected: list) -> None:
    for workers in (0, 2):
        each = loaders(2, range(n), num_workers=workers, **options)
        assert epoch(each) == expected
        assert [len(loader) for loader in each] == [len(batches) for batches in expected]


@pytest.mark.parametrize("size", [*SIZES, 7])
def test_a_small_dataset_is_repeated_until_every_rank_has_a_sample(size: int) -> None:
    assert epoch(loaders(size, range(2), 5)) == [[[rank % 2]] for rank in range(size)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("batch_size", [1, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 12, 13, 20, 23])
def test_batches_of_all_ranks_are_those_of_one_process(n: int, batch_size: int, size: int) -> None:
    for drop_last, shuffle in itertools.product((False, True), repeat=2):
        options: dict[str, Any] = {"shuffle": shuffle, "drop_last": drop_last, "seed": 5}
        each = loaders(size, range(n), batch_size, **options)
        ranks = epoch(each)
        one = flat(DataLoader(range(n), size * batch_size, **options))
        assert {len(loader) for loader in each} == {len(one)}
        assert joined(ranks)[:-1] == one[:-1]
        order = list(itertools.chain(*one))
        if one:
            *_, last = joined(ranks)
            padding = itertools.islice(itertools.cycle(order), -len(one[-1]) % size)
            assert last == [*one[-1], *padding]
        assert set(order) == {k for batches in ranks for batch in batches for k in batch}
        assert drop_last or set(order) == set(range(n))
        shapes = [[len(batch) for batch in batches] for batches in ranks]
        assert shapes == [shapes[0]] * size


def test_samples_are_shared_as_batches_are() -> None:
    options: dict[str, Any] = {"shuffle": True, "seed": 1}
    ranks = epoch(loaders(3, range(8), None, **options))
    order = flat(DataLoader(range(8), None, **options))
    assert [k for ks in zip(*ranks, strict=True) for k in ks] == [*order, order[0]]


def test_a_sampler_without_an_end_is_divided_as_it_goes() -> None:
    each = loaders(2, range(9), 2, sampler=itertools.cycle(range(9)))
    assert flat(itertools.islice(each[0], 2)) == [[0, 1], [4, 5]]
    with pytest.raises(TypeError, match="the number of batches isn't known"):
        len(each[0])


def test_tensors_are_batched_at_once_and_moved() -> None:
    dataset = TensorDataset(np.arange(6, dtype=np.float32))
    each = loaders(2, dataset, 2, device="cpu")
    assert epoch(each) == [[[[0.0, 1.0]], [[4.0]]], [[[2.0, 3.0]], [[5.0]]]]


# Order, and random numbers


def test_ranks_shuffle_alike_and_anew_in_each_epoch() -> None:
    options: list[dict[str, Any]] = [
        {"shuffle": True},
        {"shuffle": True, "seed": 3},
        {"sampler": RandomSampler(range(24), replacement=True)},
    ]
    for given in options:
        each = loaders(3, range(24), 4, **given)
        one = DataLoader(range(24), 12, **{**given, "seed": each[0].seed})
        orders = [joined(epoch(each)) for _ in range(3)]
        assert orders == [flat(one) for _ in range(3)]
        assert orders[0] != orders[1] != orders[2]


def test_ranks_without_a_seed_take_that_of_rank_0() -> None:
    ad.random.seed(4)
    first = DataLoader(range(9)).seed
    ad.random.seed(4)
    each = loaders(3, range(9))
    assert [loader.seed for loader in each] == [first] * 3
    generators = [ad.random.Generator(k) for k in (1, 2)]
    pairs = zip(worlds(2), generators, strict=True)
    each = [DataLoader(range(9), generator=one, shard=world) for world, one in pairs]
    assert each[0].seed == each[1].seed


def test_ranks_with_different_seeds_are_an_error_that_names_both() -> None:
    first, second, third = worlds(3)
    assert DataLoader(range(9), seed=7, shard=first).seed == 7
    with pytest.raises(ad.AdjointError, match="rank 0 has 7 and rank 1 was given 8") as caught:
        DataLoader(range(9), seed=8, shard=second)
    assert isinstance(caught.value, ValueError)
    assert DataLoader(range(9), shard=third).seed == 7


@pytest.mark.parametrize("workers", [0, 2])
def test_a_resumed_run_goes_on_as_if_uninterrupted(workers: int) -> None:
    options: dict[str, Any] = {"shuffle": True, "num_workers": workers}
    whole = loaders(2, Augmented(11), 3, seed=3, **options)
    epochs = [epoch(whole) for _ in range(3)]
    states = [loader.state_dict() for loader in whole]
    assert states == [{"seed": 3, "epoch": 3}] * 2
    again = loaders(2, Augmented(11), 3, **options)
    for loader in again:
        loader.load_state_dict({"seed": 3, "epoch": 1})
    assert [epoch(again) for _ in range(2)] == epochs[1:]
    for loader in again:
        loader.set_epoch(0)
    assert epoch(again) == epochs[0]


def test_workers_change_nothing() -> None:
    runs = [
        [epoch(each) for _ in range(2)]
        for workers in (0, 2)
        for each in [loaders(2, Augmented(11), 3, shuffle=True, seed=1, num_workers=workers)]
    ]
    assert runs[0] == runs[1]


class Noise(Dataset):
    """Random numbers alone."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, k: int) -> ad.Tensor:
        return ad.random.uniform(())


def test_each_rank_draws_numbers_of_its_own_and_rank_0_those_of_one_process() -> None:
    def collate(samples: list[ad.Tensor]) -> list[float]:
        return [float(x) for x in (*samples, ad.random.uniform(()))]

    each = loaders(3, Noise(), 2, collate_fn=collate, seed=0)
    epochs = [epoch(each) for _ in range(2)]
    drawn = [x for ranks in epochs for batches in ranks for batch in batches for x in batch]
    assert len(set(drawn)) == len(drawn) == 2 * 3 * 2 * 3
    one = DataLoader(Noise(), 2, collate_fn=collate, seed=0)
    assert [flat(one)[:2] for _ in range(2)] == [ranks[0] for ranks in epochs]


# Arguments


class Stream(IterableDataset):
    """Samples one after the other."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


class Alone(World):
    """A world of one, which has nobody to ask."""

    def broadcast(self, x: int) -> int:
        raise AssertionError(x)


@pytest.mark.parametrize(
    ("dataset", "options"),
    [
        (Augmented(7), {"batch_size": 3, "shuffle": True}),
        (Augmented(7), {"batch_size": None}),
        (Augmented(7), {"batch_sampler": [[1, 2], [0]]}),
        (Stream(), {"batch_size": 2}),
    ],
    ids=str,
)
def test_a_world_of_one_changes_nothing(dataset: Any, options: dict[str, Any]) -> None:
    one = DataLoader(dataset, seed=2, **options)
    other = DataLoader(dataset, seed=2, shard=Alone(0, 1, []), **options)
    assert repr(other) == repr(one) and type(other.sampler) is type(one.sampler)
    assert flat(other) == flat(one)


def test_repr_says_which_rank_it_is() -> None:
    text = "DataLoader(dataset=range(9 samples), batch_size=2, shuffle=True, shard=rank 1 of 4)"
    assert repr(loaders(4, range(9), 2, shuffle=True)[1]) == text
    endless = loaders(2, range(9), sampler=itertools.count())[0]
    assert repr(endless).endswith("batch_size=1, sampler=<count>, shard=rank 0 of 2)")


class Wrong(NamedTuple):
    """Arguments of a sharded DataLoader that are refused."""

    options: dict[str, Any]
    error: type[Exception]
    message: str
    dataset: Any = range(3)
    shard: Any = World(1, 2, [0])


@pytest.mark.parametrize(
    "case",
    [
        Wrong({"batch_sampler": [[1]]}, ValueError,
              "batch_sampler can't be divided by shard; .* by world.rank and world.size"),
        Wrong({}, ValueError, "an iterable dataset can't be divided by shard; leave shard out, "
              "and have it yield the part of its rank", Stream()),
        Wrong({"batch_size": 0}, ValueError, "batch_size=0 must be at least 1"),
        Wrong({"batch_size": -3}, ValueError, "batch_size=-3 must be at least 1"),
        Wrong({"batch_size": True}, TypeError, "batch_size must be an integer, got True"),
        Wrong({"sampler": 3}, TypeError, "can't be iterated"),
        Wrong({}, TypeError, r"from ad.distributed.init\(\), or else has the integers rank and "
              "size and a method broadcast; got int", shard=4),
        Wrong({}, TypeError, "shard.rank must be an integer, got 'a'", shard=World("a", 2, [])),  # type: ignore[arg-type]
        Wrong({}, ValueError, "shard.size=0 must be at least 1", shard=World(0, 0, [])),
        Wrong({}, ValueError, "shard.rank=2 must be less than size=2", shard=World(2, 2, [])),
    ],
    ids=lambda case: case.message,
)  # fmt: skip
def test_a_loader_refuses(case: Wrong) -> None:
    with pytest.raises(case.error, match=case.message) as caught:
        DataLoader(case.dataset, shard=case.shard, **case.options)
    assert isinstance(caught.value, ad.AdjointError)
