"""Data: the same batches for any number of workers, in an order that a seed fixes."""

import collections
import copy
import itertools
import os
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    default_collate,
    random_split,
    train_test_split,
)
from tests.support.helpers import default_device, leaf, values
from tests.support.processes import python

each_number = pytest.mark.parametrize("workers", [0, 1, 3])


class Augmented(Dataset):
    """Samples with noise from the global generator, that take an uneven time."""

    def __init__(self, n: int = 23) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, k: int) -> dict[str, Any]:
        time.sleep(0.001 * (k % 3))
        return {"x": ad.random.normal((2,)) + k, "k": k}


class Stream(IterableDataset):
    """Samples one after the other, with noise from the global generator."""

    def __iter__(self) -> Iterator[tuple[int, ad.Tensor]]:
        for k in range(11):
            yield k, ad.random.uniform((2,))


class Failing(Dataset):
    """A sample can't be had."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __len__(self) -> int:
        return 8

    def __getitem__(self, k: int) -> int:
        if k == 5:
            raise copy.copy(self.error)
        return k


class Slow(Dataset):
    """Counts the samples that were asked for."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.asked = 0
        self.seconds = seconds

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, k: int) -> int:
        self.asked += 1
        time.sleep(self.seconds)
        return k


def flat(batches: Any) -> list[Any]:
    """All values of batches, to compare."""
    return [
        ad.tree_map(lambda x: x.tolist() if isinstance(x, ad.Tensor) else x, b) for b in batches
    ]


def numbers(loader: DataLoader) -> list[int]:
    return [k for batch in loader for k in batch.tolist()]


def worker_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("adjoint-data")]


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, "it didn't come about"
        time.sleep(0.002)


def no_workers_are_left() -> None:
    wait_until(lambda: not worker_threads())


@pytest.fixture(autouse=True)
def _workers_end() -> Iterator[None]:
    yield
    no_workers_are_left()


# Order


def test_workers_change_nothing() -> None:
    for dataset in (Augmented(), Stream()):
        shuffle = not isinstance(dataset, Stream)
        runs = [
            [
                flat(loader)
                for loader in [DataLoader(dataset, 4, shuffle, num_workers=n, seed=1)]
                for _ in range(2)
            ]
            for n in (0, 1, 3, 8)
        ]
        assert all(run == runs[0] for run in runs)
        assert runs[0][0] != runs[0][1]
    no_workers_are_left()


@each_number
def test_the_order_is_new_in_each_epoch_and_fixed_by_the_seed(workers: int) -> None:
    def epochs(seed: int) -> list[list[int]]:
        loader = DataLoader(range(50), 7, shuffle=True, seed=seed, num_workers=workers)
        return [numbers(loader) for _ in range(3)]

    one, other = epochs(1), epochs(2)
    assert one == epochs(1)
    assert len({tuple(order) for order in one + other}) == 6
    assert all(sorted(order) == list(range(50)) for order in one)


def test_an_order_is_the_same_on_every_platform() -> None:
    loader = DataLoader(range(10), 10, shuffle=True, seed=7)
    assert numbers(loader) == [1, 2, 6, 5, 8, 0, 3, 7, 4, 9]
    assert train_test_split(list(range(10)), seed=3)[1] == [1, 2, 6]
    parts = random_split(range(6), [4, 2], seed=5)
    assert [list(part) for part in parts] == [[4, 1, 3, 5], [0, 2]]


def test_without_a_seed_the_global_generator_decides() -> None:
    def order() -> list[int]:
        return numbers(DataLoader(range(50), shuffle=True))

    ad.random.seed(4)
    one, other = order(), order()
    ad.random.seed(4)
    assert (order(), order()) == (one, other) and one != other
    given = [
        numbers(DataLoader(range(50), shuffle=True, generator=ad.random.Generator(k)))
        for k in (1, 1, 2)
    ]
    assert given[0] == given[1] != given[2]


def test_samples_draw_nothing_from_the_global_generator() -> None:
    loader = DataLoader(Augmented(), 4, shuffle=True, seed=0)
    before = ad.random.get_state().tolist()
    list(loader)
    assert ad.random.get_state().tolist() == before


def test_a_generator_of_ones_own_is_drawn_from() -> None:
    generator = ad.random.Generator(0)
    expected = ad.random.Generator(0).uniform((1,))

    class Own(Augmented):
        def __getitem__(self, k: int) -> Any:
            return generator.uniform(())

    assert next(iter(DataLoader(Own()))).tolist() == expected.tolist()


@each_number
def test_a_resumed_run_goes_on_as_if_uninterrupted(workers: int) -> None:
    def loader(seed: int | None = None) -> DataLoader:
        return DataLoader(Augmented(), 5, shuffle=True, num_workers=workers, seed=seed)

    whole = loader(3)
    epochs = [flat(whole) for _ in range(4)]
    first, second = loader(3), loader()
    assert [flat(first) for _ in range(2)] == epochs[:2]
    second.load_state_dict(first.state_dict())
    assert [flat(second) for _ in range(2)] == epochs[2:]
    second.set_epoch(1)
    assert flat(second) == epochs[1]


def test_iterations_at_once_are_epochs_of_their_own() -> None:
    for workers in (0, 2):
        loader = DataLoader(range(12), 3, shuffle=True, seed=0, num_workers=workers)
        expected = [flat(loader), flat(loader)]
        loader.set_epoch(0)
        one, other = iter(loader), iter(loader)
        mixed = list(zip(other, one, strict=True))
        assert [flat(epoch) for epoch in zip(*mixed, strict=True)] == expected[::-1]


def test_a_sampler_draws_by_the_seed_and_the_epoch() -> None:
    def orders(workers: int) -> list[list[int]]:
        sampler = RandomSampler(range(9), replacement=True, num_samples=20)
        loader = DataLoader(range(9), 4, sampler=sampler, seed=2, num_workers=workers)
        return [numbers(loader) for _ in range(2)]

    assert orders(0) == orders(2)
    assert orders(0)[0] != orders(0)[1]


@each_number
def test_grad_mode_holds_in_workers_too(workers: int) -> None:
    x = leaf([1.0, 2.0, 3.0])
    loader = DataLoader(TensorDataset(x), 3, num_workers=workers)
    with ad.no_grad():
        ((batch,),) = loader
        assert not batch.requires_grad
    ((batch,),) = loader
    batch.sum().backward()
    assert values(x.grad).tolist() == [1.0, 1.0, 1.0]


# Batches


@each_number
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [[0], [1], [2], [3], [4]]),
        ({"batch_size": 2}, [[0, 1], [2, 3], [4]]),
        ({"batch_size": 2, "drop_last": True}, [[0, 1], [2, 3]]),
        ({"batch_size": 9}, [[0, 1, 2, 3, 4]]),
        ({"batch_size": 9, "drop_last": True}, []),
        ({"batch_size": None}, [0, 1, 2, 3, 4]),
        ({"sampler": [3, 1, 1], "batch_size": 2}, [[3, 1], [1]]),
        ({"batch_sampler": [[4], [0, 2, 1]]}, [[4], [0, 2, 1]]),
        ({"batch_size": 2, "collate_fn": sum}, [1, 5, 4]),
        ({"batch_size": None, "collate_fn": str}, ["0", "1", "2", "3", "4"]),
    ],
    ids=str,
)
def test_batches(workers: int, options: dict[str, Any], expected: list) -> None:
    loader = DataLoader(range(5), num_workers=workers, **options)
    assert flat(loader) == expected
    assert len(loader) == len(expected)


@each_number
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"batch_size": 4}, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]),
        ({"batch_size": 4, "drop_last": True}, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ({"batch_size": None}, list(range(11))),
    ],
    ids=str,
)
def test_batches_of_a_stream(workers: int, options: dict[str, Any], expected: list) -> None:
    loader = DataLoader(Stream(), num_workers=workers, **options)
    assert [ks for ks, _ in flat(loader)] == expected
    with pytest.raises(TypeError, match="the number of batches isn't known"):
        len(loader)


def test_an_empty_dataset_has_no_batches() -> None:
    for workers, shuffle in itertools.product((0, 2), (False, True)):
        loader = DataLoader([], 4, shuffle, num_workers=workers)
        assert list(loader) == [] and len(loader) == 0


def test_a_tensor_dataset_is_asked_once_per_batch() -> None:
    class Watched(TensorDataset):
        asked: list[int]

        def __getitems__(self, indices: Any) -> Any:
            self.asked.append(len(indices))
            return super().__getitems__(indices)

    x, y = np.arange(20.0, dtype=np.float32).reshape(5, 4), np.arange(5)
    dataset = Watched(x, ad.asarray(y))
    dataset.asked = []
    batches = list(DataLoader(dataset, 2))
    assert dataset.asked == [2, 2, 1]
    by_samples = list(DataLoader(dataset, 2, collate_fn=lambda samples: default_collate(samples)))
    assert dataset.asked == [2, 2, 1]
    assert flat(batches) == flat(by_samples)
    assert [type(batch) for batch in batches] == [type(batch) for batch in by_samples] == [list] * 3
    assert [a.dtype for a in batches[0]] == [a.dtype for a in by_samples[0]]
    part = Subset(dataset, [4, 0, 2])
    assert flat(DataLoader(part, 3)) == [[x[[4, 0, 2]].tolist(), [4, 0, 2]]]
    assert dataset.asked == [2, 2, 1, 3]


def test_a_dataset_may_give_many_samples_in_a_list() -> None:
    class Many(Dataset):
        def __len__(self) -> int:
            return 4

        def __getitems__(self, indices: list[int]) -> list[dict[str, int]]:
            return [{"k": k} for k in indices]

    assert flat(DataLoader(Many(), 2)) == [{"k": [0, 1]}, {"k": [2, 3]}]


Pair = collections.namedtuple("Pair", ["a", "b"])


def collate_cases() -> list[list[Any]]:
    arrays = [np.array([1.5, 2.5], np.float32), np.array([3.5, 4.5], np.float32)]
    return [
        arrays,
        [np.int16(3), np.int16(4)],
        [np.float64(3), np.float64(4)],
        [np.zeros((2, 0)), np.zeros((2, 0))],
        [1, 2, 3],
        [True, False],
        ["a", "bc"],
        [b"a"],
        [{"x": arrays[0], "y": {"z": 1}}, {"x": arrays[1], "y": {"z": 2}}],
        [(arrays[0], 1), (arrays[1], 2)],
        [[1, 2], [3, 4], [5, 6]],
        [Pair(1, arrays[0]), Pair(2, arrays[1])],
        [collections.OrderedDict(a=1), collections.OrderedDict(a=2)],
    ]


@pytest.mark.parametrize("samples", collate_cases(), ids=str)
def test_collate_is_pytorchs(samples: list[Any]) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = default_collate(samples), torch.utils.data.default_collate(samples)
    same_batch(ours, theirs, torch)


def same_batch(ours: Any, theirs: Any, torch: Any) -> None:
    if isinstance(theirs, torch.Tensor):
        np.testing.assert_array_equal(values(ours), theirs.numpy(), strict=True)
        return
    assert type(ours) is type(theirs)
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        ours, theirs = list(ours.values()), list(theirs.values())
    if isinstance(theirs, (list, tuple)):
        for one, other in zip(ours, theirs, strict=True):
            same_batch(one, other, torch)
    else:
        assert ours == theirs


def test_collate_of_tensors_and_floats() -> None:
    assert default_collate([0.5, 1.5]).dtype == ad.float32
    x = leaf([1.0, 2.0])
    default_collate([x, x, x]).sum().backward()
    assert values(x.grad).tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("samples", "error", "message"),
    [
        ([], ValueError, "there are no samples"),
        ([ad.ones((2, 3)), ad.ones((2, 3)), ad.ones((2, 4))], ValueError,
         r"sample 2 of the batch is float32\[2, 4\], the first float32\[2, 3\]"),
        ([np.ones(2), np.ones(3)], ValueError, r"sample 1 of the batch is float64\[3\]"),
        ([ad.ones(2), 1.0], TypeError, "sample 1 of the batch is a float, the first a Tensor"),
        ([1, None], TypeError, "sample 1 of the batch is a NoneType"),
        ([{"a": 1}, {"b": 1}], ValueError, r"sample 1 of the batch has the keys \['b'\]"),
        ([(1, 2), (1,)], ValueError, "sample 1 of the batch has 1 parts, the first 2"),
        ([None, None], TypeError, "samples are NoneType.*pass collate_fn"),
        ([np.array(["a"])], TypeError, "isn't a dtype"),
    ],
    ids=str,
)  # fmt: skip
def test_collate_says_which_sample_is_wrong(
    samples: list[Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        default_collate(samples)
    assert isinstance(caught.value, ad.AdjointError)


def test_single_samples_are_converted_not_collated() -> None:
    dataset = [{"x": np.ones(2, np.float32), "name": np.str_("a")}]
    (sample,) = DataLoader(dataset, batch_size=None)
    assert isinstance(sample["x"], ad.Tensor) and sample["name"] == "a"


@pytest.mark.webgpu
@each_number
def test_batches_are_moved_to_a_device(workers: int) -> None:
    dataset = TensorDataset(np.ones((5, 2), np.float32), np.arange(5, dtype=np.int32))
    on_cpu = DataLoader(dataset, 2, True, num_workers=workers, seed=0)
    on_gpu = DataLoader(dataset, 2, True, num_workers=workers, seed=0, device="webgpu")
    assert flat(on_gpu) == flat(on_cpu)
    assert {x.device for batch in on_gpu for x in batch} == {ad.ones(1, device="webgpu").device}
    with default_device("webgpu"):
        assert numbers(DataLoader(range(9), 3, True, seed=0)) == numbers(
            DataLoader(range(9), 3, True, seed=0, device="cpu")
        )


# Threads


@each_number
def test_an_error_surfaces_as_it_is_with_where_it_was(workers: int) -> None:
    loader = DataLoader(Failing(KeyError("lost")), 2, num_workers=workers)
    each = iter(loader)
    assert flat(itertools.islice(each, 2)) == [[0, 1], [2, 3]]
    with pytest.raises(KeyError, match="lost") as caught:
        next(each)
    notes = "\n".join(caught.value.__notes__)
    assert "dataset[5]" in notes and "batch 2, of the samples [4, 5]" in notes
    assert ("in worker" in notes) == bool(workers)
    assert "__getitem__" in "".join(traceback.format_tb(caught.value.__traceback__))
    assert next(each, "over") == "over"
    del caught
    no_workers_are_left()


@each_number
def test_errors_of_collate_fn_samplers_and_streams_surface(workers: int) -> None:
    def failing(*_: Any) -> Any:
        raise ZeroDivisionError

    class Sampler:
        def __iter__(self) -> Iterator[int]:
            yield 0
            failing()

    class Broken(IterableDataset):
        def __iter__(self) -> Iterator[int]:
            yield 0
            failing()

    loaders = [
        DataLoader(range(3), collate_fn=failing, num_workers=workers),
        DataLoader(range(3), sampler=Sampler(), num_workers=workers),
        DataLoader(Broken(), num_workers=workers),
    ]
    for loader in loaders:
        with pytest.raises(ZeroDivisionError):
            list(loader)
    no_workers_are_left()


@each_number
def test_a_stray_stop_iteration_does_not_end_an_epoch(workers: int) -> None:
    def failing(samples: list[int]) -> Any:
        raise StopIteration

    for options, where in (
        ({}, r"dataset\[5\]"),
        ({"batch_size": None}, r"dataset\[5\]"),
        ({"collate_fn": failing}, r"batch 0, of the samples \[0, 1\]"),
    ):
        given: dict[str, Any] = {"batch_size": 2, "num_workers": workers} | options
        message = f"DataLoader: {where} raised StopIteration"
        with pytest.raises(RuntimeError, match=message) as caught:
            list(DataLoader(Failing(StopIteration()), **given))
        assert isinstance(caught.value, ad.AdjointError)
        del caught
    no_workers_are_left()


def test_workers_are_no_more_than_the_prefetched_batches_ahead() -> None:
    dataset = Slow()
    each = iter(DataLoader(dataset, 5, num_workers=3, prefetch_factor=2))
    for delivered in range(1, 5):
        next(each)
        wait_until(lambda: dataset.asked >= (delivered + 6) * 5)  # noqa: B023
        time.sleep(0.02)
        assert dataset.asked == (delivered + 6) * 5
    each.close()
    no_workers_are_left()


def test_batches_that_were_delivered_are_not_held() -> None:
    class Big(Augmented):
        def __getitem__(self, k: int) -> np.ndarray:
            return np.empty(1000)

    for workers in (0, 2):
        seen: list[weakref.ref] = []
        for batch in DataLoader(Big(), 2, num_workers=workers):
            assert sum(ref() is not None for ref in seen) <= 1
            seen.append(weakref.ref(batch))


@pytest.mark.parametrize("how", ["break", "close", "drop", "error"])
def test_leaving_an_epoch_ends_the_workers(how: str) -> None:
    loader = DataLoader(Slow(0.001), 2, num_workers=3)
    each = iter(loader)
    next(each)
    assert len(worker_threads()) == 3
    if how == "close":
        each.close()
    del each
    if how == "break":
        for _ in loader:
            break
    if how == "error":
        with pytest.raises(ZeroDivisionError):
            raise_within(loader)
    no_workers_are_left()


def raise_within(loader: DataLoader) -> None:
    for _ in loader:
        raise ZeroDivisionError


def test_a_worker_stops_within_a_batch_that_nobody_waits_for() -> None:
    dataset = Slow(0.005)
    each = iter(DataLoader(dataset, batch_sampler=[[0], [0] * 10_000], num_workers=1))
    next(each)
    wait_until(lambda: dataset.asked > 2)
    each.close()
    no_workers_are_left()
    assert dataset.asked < 10_000


PROGRAM = """
import time, adjoint as ad
class Slow(ad.data.Dataset):
    def __len__(self): return 10**6
    def __getitem__(self, k):
        time.sleep({seconds})
        return ad.random.normal((100,)).numpy()
each = iter(ad.data.DataLoader(Slow(), 2, num_workers=4))
next(each)
"""


def test_the_interpreter_ends_while_workers_are_busy() -> None:
    out = python("-c", PROGRAM.format(seconds=0.001) + "print('end')", timeout=60)
    assert (out.returncode, out.stdout, out.stderr) == (0, "end\n", "")


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupt_ends_waiting_and_the_workers() -> None:
    code = PROGRAM.format(seconds=0.01) + (
        "import os, signal, threading\n"
        "each.close()\n"
        "each = iter(ad.data.DataLoader(Slow(), 10**5, num_workers=2))\n"
        "threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n"
        "    next(each)\n"
        "except KeyboardInterrupt:\n"
        "    deadline = time.monotonic() + 20\n"
        "    while any(t.name.startswith('adjoint-data') for t in threading.enumerate()):\n"
        "        assert time.monotonic() < deadline\n"
        "    print('interrupted')\n"
    )
    out = python("-c", code, timeout=60)
    assert (out.stdout, out.stderr) == ("interrupted\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_iterates_anew_and_refuses_its_parents_iterator() -> None:
    code = (
        "import os, adjoint as ad\n"
        "loader = ad.data.DataLoader(range(100), 2, num_workers=2)\n"
        "each = iter(loader)\n"
        "next(each)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try:\n"
        "        next(each)\n"
        "    except RuntimeError as error:\n"
        "        assert 'forked' in str(error) and isinstance(error, ad.AdjointError)\n"
        "        assert len(list(loader)) == 50\n"
        "        os._exit(7)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7\n"
        "assert len(list(each)) == 49\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert out.returncode == 0, out.stderr


# Datasets and splits


def test_a_tensor_dataset_has_tensors_of_one_length() -> None:
    dataset = TensorDataset(np.eye(3, dtype=np.float32), [1.0, 2.0, 3.0])
    assert len(dataset) == 3
    assert flat(dataset[-1]) == [[0.0, 0.0, 1.0], 3.0]
    assert flat(dataset[1:]) == [[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [2.0, 3.0]]
    assert len(list(dataset)) == 3
    with pytest.raises(IndexError):
        dataset[3]
    for wrong in ((), (np.ones(2), np.ones(3)), (np.ones(()),)):
        with pytest.raises(ValueError, match="TensorDataset"):
            TensorDataset(*wrong)


TENSORS = TensorDataset(np.arange(3), np.arange(3))


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (TENSORS, "TensorDataset(3 samples)"),
        (ad.data.Subset(TENSORS, [1]), "Subset(1 sample of TensorDataset(3 samples))"),
        (ad.data.Subset("abc", [0, 1]), "Subset(2 samples of str(3 samples))"),
        (ConcatDataset([TENSORS, [7]]), "ConcatDataset(4 samples)"),
        (ad.data.IterableDataset(), "IterableDataset()"),
        (
            DataLoader(TENSORS, 64, shuffle=True, num_workers=2, drop_last=True, device="cpu"),
            "DataLoader(dataset=TensorDataset(3 samples), batch_size=64, shuffle=True, "
            "drop_last=True, num_workers=2, device='cpu')",
        ),
        (DataLoader(range(9)), "DataLoader(dataset=range(9 samples), batch_size=1)"),
        (
            DataLoader(range(9), None, sampler=np.arange(9)),
            "DataLoader(dataset=range(9 samples), batch_size=None, sampler=<ndarray>)",
        ),
        (
            DataLoader(range(9), batch_sampler=[[1], [2]]),
            "DataLoader(dataset=range(9 samples), batch_sampler=<list>)",
        ),
    ],
)
def test_they_are_shown_short(made: Any, text: str) -> None:
    assert repr(made) == text


def test_datasets_one_after_the_other() -> None:
    one, other = TensorDataset(np.arange(2)), TensorDataset(np.arange(2, 5))
    both = one + TensorDataset(np.arange(0)) + other
    assert flat(both) == [(0,), (1,), (2,), (3,), (4,)]
    assert flat(DataLoader(both, 4)) == [[[0, 1, 2, 3]], [[4]]]
    assert flat(both[-5]) == [0]
    for wrong in (5, -6):
        with pytest.raises(IndexError, match="out of range for 5 samples"):
            both[wrong]
    with pytest.raises(ValueError, match="at least one dataset"):
        ConcatDataset([])
    with pytest.raises(TypeError, match="got generator"):
        ConcatDataset([(k for k in range(3))])


@pytest.mark.parametrize(
    ("n", "lengths", "expected"),
    [
        (10, [7, 3], [7, 3]),
        (10, [0.5, 0.3, 0.2], [5, 3, 2]),
        (10, [1 / 3] * 3, [4, 3, 3]),
        (11, [0.5, 0.5], [6, 5]),
        (3, [3, 0], [3, 0]),
        (0, [0.5, 0.5], [0, 0]),
        (3, [1.0], [3]),
    ],
)
def test_random_split(n: int, lengths: list, expected: list[int]) -> None:
    parts = random_split(range(n), lengths, seed=1)
    assert [len(part) for part in parts] == expected
    assert sorted(k for part in parts for k in part) == list(range(n))
    again = random_split(range(n), lengths, ad.random.Generator(1))
    assert [list(part) for part in again] == [list(part) for part in parts]


@pytest.mark.parametrize("lengths", [[3, 3], [-1, 11], [0.5, 0.4], [1.5, -0.5], []])
def test_random_split_refuses_lengths_that_do_not_fit(lengths: list) -> None:
    with pytest.raises(ValueError, match="random_split"):
        random_split(range(10), lengths)


def test_train_test_split_splits_all_alike_and_keeps_their_kinds() -> None:
    x, y, z = ad.arange(40).reshape(20, 2), np.arange(20), list(range(20))
    parts = train_test_split(x, y, z, tuple(z), seed=5)
    assert [type(part) for part in parts] == [
        ad.Tensor, ad.Tensor, np.ndarray, np.ndarray, list, list, list, list,
    ]  # fmt: skip
    train, test = parts[4:6]
    assert sorted(train + test) == z and len(test) == 5
    assert parts[2].tolist() == parts[6] == train and parts[3].tolist() == test
    assert parts[1].tolist() == [[2 * k, 2 * k + 1] for k in test]
    assert train_test_split(z, seed=5)[1] == test != train_test_split(z, seed=6)[1]


@pytest.mark.parametrize(
    ("n", "sizes", "expected"),
    [
        (10, {}, (7, 3)),
        (10, {"test_size": 0.2}, (8, 2)),
        (100, {"test_size": 0.07}, (93, 7)),
        (10, {"test_size": 4}, (6, 4)),
        (10, {"train_size": 0.55}, (5, 5)),
        (10, {"train_size": 3}, (3, 7)),
        (10, {"train_size": 0.5, "test_size": 2}, (5, 2)),
    ],
)
def test_sizes_of_train_test_split(n: int, sizes: dict, expected: tuple[int, int]) -> None:
    for shuffle in (True, False):
        train, test = train_test_split(list(range(n)), shuffle=shuffle, **sizes)
        assert (len(train), len(test)) == expected
        assert len({*train, *test}) == sum(expected)
    assert train + test == list(range(sum(expected)))


def test_stratified_parts_have_labels_in_proportion() -> None:
    labels = ["a"] * 60 + ["b"] * 30 + ["c"] * 10
    for given in (labels, np.asarray(labels)):
        train, test = train_test_split(labels, test_size=0.2, stratify=given)
        assert collections.Counter(test) == {"a": 12, "b": 6, "c": 2}
        assert collections.Counter(train) == {"a": 48, "b": 24, "c": 8}
        assert test != sorted(test) and train != sorted(train)
    numbers = ad.asarray([0, 1] * 11)
    train, test = train_test_split(numbers, train_size=5, test_size=7, stratify=numbers)
    assert (len(train), len(test)) == (5, 7)
    assert int(test.sum()) in (3, 4) and int(train.sum()) in (2, 3)


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ((), {}, "at least one array"),
        (([1, 2], [1]), {}, r"they have \[2, 1\]"),
        (([1],), {}, "each needs at least one"),
        (([1, 2, 3],), {"test_size": 3}, "each needs at least one"),
        (([1, 2, 3],), {"test_size": 1.5}, "between 0 and 1"),
        (([1, 2, 3],), {"test_size": 2, "train_size": 2}, "no more than 3"),
        (([1, 2, 3],), {"stratify": [0, 0, 1]}, "the rarest"),
        (([1, 2, 3, 4],), {"stratify": [0, 0, 1]}, "a label for each of 4 samples"),
        (([1, 2, 3, 4],), {"stratify": [0, 0, 1, 1], "shuffle": False}, "needs shuffle=True"),
    ],
)
def test_train_test_split_refuses(arrays: tuple, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        train_test_split(*arrays, **options)
    assert isinstance(caught.value, ad.AdjointError)
    for wrong in ("text", 3):
        with pytest.raises(TypeError, match="tensors, arrays and lists"):
            train_test_split(wrong)


def test_samplers() -> None:
    assert list(SequentialSampler([5, 6, 7])) == [0, 1, 2] and len(SequentialSampler([5])) == 1
    once = list(RandomSampler(range(30), generator=ad.random.Generator(0)))
    assert sorted(once) == list(range(30)) != once
    more = list(RandomSampler(range(4), num_samples=10))
    assert sorted(more[:4]) == sorted(more[4:8]) == [0, 1, 2, 3] and len(more) == 10
    some = list(RandomSampler(range(4), replacement=True, num_samples=100))
    assert set(some) == {0, 1, 2, 3} and len(some) == 100
    assert len(BatchSampler(range(10), 4)) == 3 and len(BatchSampler(range(10), 4, True)) == 2
    with pytest.raises(ValueError, match="an empty dataset"):
        list(RandomSampler([], num_samples=3))


class Wrong(NamedTuple):
    """Arguments of a DataLoader that are refused."""

    options: dict[str, Any]
    error: type[Exception]
    message: str
    dataset: Any = range(3)


@pytest.mark.parametrize(
    "case",
    [
        Wrong({"shuffle": True, "sampler": [1]}, ValueError, "both say the order"),
        Wrong({"batch_sampler": [[1]], "batch_size": 2}, ValueError, "leave batch_size"),
        Wrong({"batch_sampler": [[1]], "shuffle": True}, ValueError, "leave batch_size"),
        Wrong({"batch_size": 0}, ValueError, "batch_size=0 must be at least 1"),
        Wrong({"batch_size": 1.5}, TypeError, "batch_size must be an integer"),
        Wrong({"batch_size": True}, TypeError, "batch_size must be an integer, got True"),
        Wrong({"batch_size": None, "drop_last": True}, ValueError, "drop_last needs batches"),
        Wrong({"num_workers": -1}, ValueError, "num_workers=-1 must be at least 0"),
        Wrong({"num_workers": 10**6}, ValueError, "num_workers is a positive integer of at most"),
        Wrong({"prefetch_factor": 0}, ValueError, "prefetch_factor=0 must be at least 1"),
        Wrong({"seed": 1, "generator": ad.random.Generator(1)}, ValueError, "two ways"),
        Wrong({"seed": -1}, ValueError, "integer from 0"),
        Wrong({"generator": np.random.default_rng(0)}, TypeError, "ad.random.Generator"),
        Wrong({"pin_memory": True}, TypeError, "no argument pin_memory=; device="),
        Wrong({"device": "abacus"}, RuntimeError, "abacus"),
        Wrong({}, TypeError, "got int", 3),
        Wrong({"shuffle": True}, ValueError, "its own order", Stream()),
        Wrong({"sampler": 3}, TypeError, "can't be iterated"),
        Wrong({"collate_fn": 3}, TypeError, "collate_fn is a function, got 3"),
        Wrong({}, TypeError, "Dataset has no __len__; write one", Dataset()),
    ],
    ids=lambda case: f"{list(case.options)}-{case.message}",
)
def test_a_loader_refuses(case: Wrong) -> None:
    with pytest.raises(case.error, match=case.message) as caught:
        DataLoader(case.dataset, **case.options)
    assert isinstance(caught.value, ad.AdjointError)


@pytest.mark.parametrize("state", [{}, {"seed": 1}, {"seed": -1, "epoch": 0}, None])
def test_a_state_that_is_none_is_refused_and_changes_nothing(state: Any) -> None:
    loader = DataLoader(range(3), seed=4)
    with pytest.raises(ad.AdjointError):
        loader.load_state_dict(state)
    with pytest.raises(ad.AdjointError):
        loader.load_state_dict({"seed": 1, "epoch": -1})
    assert loader.state_dict() == {"seed": 4, "epoch": 0}
