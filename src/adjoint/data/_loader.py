"""DataLoader: batches of a dataset's samples, epoch by epoch."""

import itertools
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, NamedTuple

from .. import backends
from .._core.random_state import drawing
from .._foundation.errors import ArgumentError, DTypeError, KeywordError, StrayStopError
from .._foundation.thread_limits import checked_threads
from ..functions._arguments import as_count
from ..random import Generator as RandomGenerator
from ._collate import default_collate, default_convert, moved
from ._datasets import IterableDataset, described, samples
from ._samplers import BatchSampler, RandomSampler, SequentialSampler
from ._seeds import Draws, choose_seed
from ._shards import Shard, World, check_divisible, common_seed, world_of_several
from ._workers import Line

HINTS = {
    "pin_memory": "device= moves batches to a device",
    "pin_memory_device": "device= moves batches to a device",
    "worker_init_fn": "what a worker draws from ad.random depends on the seed and the batch alone",
    "persistent_workers": "workers are threads, which start quickly",
    "multiprocessing_context": "workers are threads",
    "timeout": "it waits as long as a batch takes",
    "in_order": "batches always come in order",
}


class DataLoader:
    """Batches of a dataset's samples: each iteration over it is an epoch.

    `shuffle` puts samples in random order, another one in each epoch. The order depends on the
    seed and the number of the epoch alone. So does what the dataset, the sampler and `collate_fn`
    draw from `ad.random`, batch by batch; random numbers of others, such as NumPy's, depend on
    which worker is first. Without a seed the loader draws one when it is made.

    With `num_workers` threads batches are made ahead, up to `prefetch_factor` by each. They come in
    the same order, with the same values. Threads run at once while NumPy computes or files are
    read, but not plain Python. `batch_size=None` gives single samples, `device` moves batches.

    `shard=world` gives each rank of an `ad.distributed.World` its own batches, of `batch_size`:
    together, rank after rank, they are those of one process with `world.size` times that. All ranks
    have equally many, of equal sizes, for which the last ones repeat the first samples.

    >>> dataset = ad.data.TensorDataset(ad.arange(5) * 10, ad.arange(5))
    >>> loader = ad.data.DataLoader(dataset, batch_size=2, shuffle=True, seed=0)
    >>> len(loader)
    3
    >>> for x, y in loader:
    ...     assert ad.all(x == y * 10)
    >>> loader
    DataLoader(dataset=TensorDataset(5 samples), batch_size=2, shuffle=True)
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool = False,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        drop_last: bool = False,
        *,
        prefetch_factor: int = 2,
        seed: int | None = None,
        generator: RandomGenerator | None = None,
        device: str | None = None,
        shard: World | None = None,
        **unknown: Any,
    ) -> None:
        if unknown:
            reject(unknown)
        self._is_stream = is_stream(dataset)
        if batch_sampler is not None:
            check_alone(batch_size == 1 and not (shuffle or drop_last) and sampler is None)
        check_order(self._is_stream, shuffle, sampler, batch_sampler)
        world = world_of_several(shard)
        if world is not None:
            check_divisible(self._is_stream, batch_sampler)
        if batch_size is None and drop_last:
            raise ArgumentError("DataLoader: drop_last needs batches, batch_size is None")
        if not callable(collate_fn) and collate_fn is not None:
            raise DTypeError(f"DataLoader: collate_fn is a function, got {collate_fn!r}")
        if device is not None:
            backends.backend(device)
        self.dataset = dataset
        self.batch_size = batch_size if batch_sampler is None else None
        self.drop_last = drop_last
        self.num_workers = as_count("DataLoader", "num_workers", num_workers, 0)
        if self.num_workers:
            checked_threads(self.num_workers, "DataLoader: num_workers")
        self.prefetch_factor = as_count("DataLoader", "prefetch_factor", prefetch_factor)
        self.device = device
        self.seed = choose_seed("DataLoader", seed, generator)
        self.epoch = 0
        self._shuffle, self._given = shuffle, {"sampler": sampler, "batch_sampler": batch_sampler}
        given = sampler is not None or batch_sampler is not None
        self.sampler: Any = sampler if given else self._default_sampler(shuffle)
        self._rank, self._ranks = (0, 1) if world is None else (world.rank, world.size)
        if world is not None:
            self.seed = common_seed(world, self.seed, seed is not None)
            self.sampler = Shard(self.sampler, batch_size, drop_last, world)
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self.batch_sampler = batch_sampler
        default = default_convert if batch_sampler is None else default_collate
        self.collate_fn = default if collate_fn is None else collate_fn

    def __repr__(self) -> str:
        settings = {
            "dataset": described(self.dataset),
            "batch_size": str(self.batch_size),
            **{name: f"<{type(x).__name__}>" for name, x in self._given.items() if x is not None},
            "shuffle": self._shuffle,
            "drop_last": self.drop_last,
            "num_workers": self.num_workers,
            "device": self.device and repr(self.device),
            "shard": self._ranks > 1 and f"rank {self._rank} of {self._ranks}",
        }
        if "batch_sampler" in settings:
            del settings["batch_size"]
        return f"DataLoader({', '.join(f'{k}={x}' for k, x in settings.items() if x)})"

    def _default_sampler(self, shuffle: bool) -> Any:
        if self._is_stream:
            return self.dataset
        if not hasattr(self.dataset, "__len__"):
            kind = type(self.dataset).__name__
            raise DTypeError(f"DataLoader: {kind} has no __len__; write one, or pass sampler")
        return RandomSampler(self.dataset) if shuffle else SequentialSampler(self.dataset)

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        parts: Any = self.sampler if self.batch_sampler is None else self.batch_sampler
        try:
            return len(parts)
        except TypeError as error:
            raise DTypeError(f"DataLoader: the number of batches isn't known: {error}") from None

    def __iter__(self) -> Generator[Any, None, None]:
        epoch = Epoch(self)
        self.epoch += 1
        return epoch.batches()

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes next; without it they are counted from 0.

        >>> loader = ad.data.DataLoader(range(9), batch_size=9, shuffle=True, seed=0)
        >>> first, second = *loader, *loader
        >>> loader.set_epoch(1)
        >>> ad.all(next(iter(loader)) == second)
        tensor(True)
        """
        self.epoch = as_count("DataLoader", "epoch", epoch, 0)

    def state_dict(self) -> dict[str, int]:
        """The seed, and which epoch comes next: another loader can go on from there.

        >>> loader = ad.data.DataLoader(range(9), seed=3)
        >>> for batch in loader:
        ...     pass
        >>> loader.state_dict()
        {'seed': 3, 'epoch': 1}
        """
        return {"seed": self.seed, "epoch": self.epoch}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Go on as the loader would that the state is from."""
        if not isinstance(state_dict, dict) or state_dict.keys() != {"seed", "epoch"}:
            raise ArgumentError(
                f"DataLoader.load_state_dict: a dict with seed and epoch is needed, got "
                f"{state_dict!r}"
            )
        seed = as_count("DataLoader", "seed", state_dict["seed"], 0)
        seed = choose_seed("DataLoader", seed, None)
        self.set_epoch(state_dict["epoch"])
        self.seed = seed


class Task(NamedTuple):
    """A batch to be made: of which samples (or what is to be one), and its random numbers."""

    number: int
    what: Any
    draws: Draws


class Epoch:
    """One iteration over a loader."""

    def __init__(self, loader: DataLoader) -> None:
        self.loader = loader
        self.place = loader.seed, loader.epoch
        self.closed = threading.Event()

    def batches(self) -> Generator[Any, None, None]:
        workers, device = self.loader.num_workers, self.loader.device
        if workers:
            ahead = workers * self.loader.prefetch_factor
            batches = Line(self.tasks(), self.make, ahead, self.closed).batches(workers)
        else:
            batches = (self.make(task) for task in self.tasks())
        try:
            for batch in batches:
                yield batch if device is None else moved(batch, device)
                del batch  # only the next one is held while it is waited for
        finally:
            batches.close()

    def tasks(self) -> Iterator[Task]:
        loader, order = self.loader, Draws(*self.place, "order")
        parts = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
        rank = (loader._rank,) if loader._rank else ()  # rank 0 draws as one process would
        with drawing(order):
            each = iter(parts)
        for number in itertools.count():
            try:
                with drawing(order):
                    what = next(each)
            except StopIteration:
                return
            yield Task(number, what, Draws(*self.place, number, *rank))

    def make(self, task: Task) -> Any:
        """Make the batch; an error in it says which one it is."""
        of = "" if self.loader._is_stream else f", of the samples {task.what}"
        where = f"batch {task.number}{of}"
        try:
            with drawing(task.draws):
                return self.collate(task.what)
        except StopIteration as error:
            raise StrayStopError.of(where) from error
        except Exception as error:
            error.add_note(f"DataLoader: this was in {where}")
            raise

    def collate(self, what: Any) -> Any:
        loader, collate = self.loader, self.loader.collate_fn
        if loader._is_stream:
            return collate(what)
        if loader.batch_sampler is None:
            return collate(self.load_sample(what))
        if collate is default_collate and hasattr(loader.dataset, "__getitems__"):
            return batch_of(samples(loader.dataset, what))
        return collate([self.load_sample(index) for index in what])

    def load_sample(self, index: Any) -> Any:
        if self.closed.is_set():
            raise ClosedError
        try:
            return self.loader.dataset[index]
        except StopIteration as error:
            raise StrayStopError.of(f"dataset[{index!r}]") from error
        except Exception as error:
            error.add_note(f"DataLoader: this was in dataset[{index!r}]")
            raise


class ClosedError(Exception):
    """Nobody waits any more for what is being made."""


def batch_of(made: Any) -> Any:
    """What a dataset's `__getitems__` made, as a batch, which default_collate would make too."""
    if isinstance(made, list):
        return default_collate(made)
    return list(made) if type(made) is tuple else made


def is_stream(dataset: Any) -> bool:
    """Whether samples come in their own order instead of by number."""
    if isinstance(dataset, IterableDataset):
        return True
    if hasattr(dataset, "__getitem__"):
        return False
    if isinstance(dataset, Iterable):
        return True
    raise DTypeError(
        f"DataLoader: a dataset has __len__ and __getitem__, or __iter__; got "
        f"{type(dataset).__name__}"
    )


def check_order(is_stream: bool, shuffle: bool, sampler: Any, batch_sampler: Any) -> None:
    if is_stream and (shuffle or sampler is not None or batch_sampler is not None):
        raise ArgumentError(
            "DataLoader: an iterable dataset has its own order; leave shuffle, sampler and "
            "batch_sampler out"
        )
    if shuffle and sampler is not None:
        raise ArgumentError("DataLoader: shuffle and sampler both say the order; give one of them")


def check_alone(alone: bool) -> None:
    if not alone:
        raise ArgumentError(
            "DataLoader: batch_sampler says which samples are in which batch; leave batch_size, "
            "shuffle, sampler and drop_last out"
        )


def reject(unknown: dict[str, Any]) -> None:
    name = next(iter(unknown))
    hint = f"; {HINTS[name]}" if name in HINTS else ""
    raise KeywordError(f"DataLoader: there is no argument {name}={hint}")
