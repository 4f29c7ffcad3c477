"""Which part of the samples a rank has in data-parallel training, and the seed of all ranks."""

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from .._foundation.errors import ArgumentError, DTypeError
from ..functions._arguments import as_count
from ._samplers import BatchSampler, Sampler


@runtime_checkable
class World(Protocol):
    """The part of `ad.distributed.World` that is needed."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def broadcast(self, x: Any, /) -> Any:
        """Rank 0's x, on all ranks, which all have to call this."""


class Shard(Sampler):
    """A rank's samples: its share of each batch of all ranks.

    A batch of all ranks has `batch_size` samples for each. The rest is padded with the first
    samples, so that all shares are equal, unless `drop_last` is set.
    """

    def __init__(
        self, sampler: Iterable[Any], batch_size: int | None, drop_last: bool, world: World
    ) -> None:
        size = 1 if batch_size is None else as_count("DataLoader", "batch_size", batch_size)
        self.batches = BatchSampler(sampler, size * world.size, drop_last)
        self.rank = world.rank
        self.size = world.size

    def __iter__(self) -> Iterator[Any]:
        first: list = []
        for batch in self.batches:
            first = first or batch
            padded = [*batch, *itertools.islice(itertools.cycle(first), -len(batch) % self.size)]
            share = len(padded) // self.size
            yield from padded[self.rank * share : (self.rank + 1) * share]

    def __len__(self) -> int:
        batch_size = self.batches.batch_size
        whole, rest = divmod(len(self.batches.sampler), batch_size)  # type: ignore[arg-type]
        share = 0 if self.batches.drop_last else math.ceil(rest / self.size)
        return whole * batch_size // self.size + share


def world_of_several(shard: Any) -> World | None:
    """The world that was given, unless it has one rank, which has all samples."""
    if shard is None:
        return None
    if not isinstance(shard, World):
        raise DTypeError(
            "DataLoader: shard is a world, from ad.distributed.init(), or else has the integers "
            f"rank and size and a method broadcast; got {type(shard).__name__}"
        )
    size = as_count("DataLoader", "shard.size", shard.size)
    if as_count("DataLoader", "shard.rank", shard.rank, 0) >= size:
        raise ArgumentError(f"DataLoader: shard.rank={shard.rank} must be less than size={size}")
    return shard if size > 1 else None


def check_divisible(is_stream: bool, batch_sampler: Any) -> None:
    if is_stream or batch_sampler is not None:
        what = "an iterable dataset" if is_stream else "batch_sampler"
        raise ArgumentError(
            f"DataLoader: {what} can't be divided by shard; leave shard out, and have it yield "
            "the part of its rank, by world.rank and world.size"
        )


def common_seed(world: World, seed: int, is_given: bool) -> int:
    """Rank 0's seed; an error on a rank that was given another."""
    common = world.broadcast(seed)
    if is_given and seed != common:
        raise ArgumentError(
            f"DataLoader: ranks need one seed, rank 0 has {common} and rank {world.rank} was given "
            f"{seed}; pass the same to all, or none"
        )
    return common
