"""Averages of gradients: in buckets, which the link exchanges while the backward pass goes on.

In the first pass the order is found in which gradients become complete; the buckets are made of it,
as it was on rank 0. A bucket leaves when all of its gradients are complete and the one before has
left, so all ranks exchange them in one order. At the end of a bucket's array there is a 1 for each
parameter that has a gradient: where no rank has one there is none afterwards either.
"""

import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._core.node import exchange_by
from .._core.tensor import Tensor, wrap
from .._foundation.changes import Changes
from .._foundation.dtypes import show
from .._foundation.modes import is_tracing
from ..functions.elementwise import to_device
from ..functions.shapes import concat, reshape
from . import _ops
from ._link import Call

# Bytes of a bucket: 4 MB were best with few ranks on one machine (`python -m benchmarks scaling`).
# With many, exchanges cost latencies for each of them, which larger buckets share. Of small models
# there are several all the same, or nothing would be exchanged while backward goes on. The first is
# smaller, to begin sooner, and so are the last ones, which are waited for at the end.
MOST, OF_EACH_RANK, LEAST = 4_000_000, 25_000, 100_000
OF_FIRST, OF_ALL, OF_REST = 32, 8, 3  # at most these parts of all bytes, and of those to come
LINE = 64  # bytes, at a multiple of which each gradient begins


class Bucket(NamedTuple):
    """Parameters, by number, whose gradients are exchanged together, and where these are in the
    array that leaves, which has a 1 for each gradient at its end."""

    places: list[int]
    parts: list[slice]
    array: np.ndarray
    lines: tuple[str, ...]  # what it is, in words

    def flags(self, array: np.ndarray) -> np.ndarray:
        return array[self.array.size - len(self.places) : self.array.size]


class Exchange:
    """Averages gradients of parameters, which it knows weakly, pass by pass."""

    def __init__(self, world: Any, nbytes: int | None) -> None:
        self.world, self.nbytes = world, nbytes
        self.is_on = True
        self.seen = -1  # the changes of modules when the parameters were last looked at
        self.names: list[str] = []
        self.params: list[weakref.ref[Tensor]] = []
        self.kinds: list[tuple] = []  # their ids, dtypes and shapes
        self.numbers: dict[int, int] = {}  # of parameters, by their ids
        self.buckets: list[Bucket] = []
        self.lock = threading.Lock()
        self.begin()

    def __reduce__(self) -> Any:
        return Exchange, (self.world, self.nbytes)

    def begin(self) -> None:
        self.complete: dict[int, None] = {}  # in this pass, in order
        self.calls: list[Call] = []

    def cancel(self) -> None:
        """Forget a pass that has failed; what has left must arrive before its memory is used."""
        for call in self.calls:
            call.done.wait()
        self.begin()

    def attach(self, named: Iterable[tuple[str, Tensor]]) -> None:
        """Have a backward pass that reaches one of these parameters come here."""
        found = [(name, p) for name, p in named if p.node is not None]
        kinds = [(id(p), p.raw.dtype, p.shape) for _, p in found]
        if kinds != self.kinds or None in (ref() for ref in self.params):
            self.kinds = kinds
            for p in (ref() for ref in self.params):
                if p is not None and p.node is not None:  # it may belong to the module no more
                    exchange_by(p.node, None)
            self.names = [name for name, _ in found]
            self.params = [weakref.ref(p) for _, p in found]
            self.numbers = {id(p): k for k, (_, p) in enumerate(found)}
            self.buckets = []
        for _, p in found:
            exchange_by(p.node, self)  # type: ignore[arg-type]
        if not is_tracing():
            self.seen = Changes.latest

    # In a backward pass.

    def add(self, p: Tensor) -> None:
        """Note that the gradient of a parameter is complete."""
        with self.lock:
            self.complete[self.numbers[id(p)]] = None
            if is_tracing() or p.grad is None or p.grad.node is not None:
                return
            while len(self.calls) < len(self.buckets):
                bucket = self.buckets[len(self.calls)]
                if not self.complete.keys() >= set(bucket.places):
                    return
                self.leave(bucket)

    def leave(self, bucket: Bucket) -> None:
        array = self.filled(bucket)
        link, factor = self.world._link, 1 / self.world.size
        work = lambda: link.reduced(array, np.add, factor)  # noqa: E731
        self.calls.append(link.start(bucket.lines, work, any_thread=True))

    def filled(self, bucket: Bucket) -> np.ndarray:
        """The gradients of a bucket, one after the other."""
        flags = bucket.flags(bucket.array)
        for k, (place, part) in enumerate(zip(bucket.places, bucket.parts, strict=True)):
            p = self.params[place]()
            g = None if p is None else p.grad
            flags[k] = g is not None
            own = bucket.array[part]
            if g is None:
                own.fill(0)
            else:
                np.copyto(own.reshape(g.shape), to_device(g.detach(), "cpu").numpy())
        return bucket.array

    def finish(self) -> None:
        """Let all gradients be the average of the ranks'."""
        try:
            own = [p.grad for k in self.complete if (p := self.params[k]()) is not None]
            if is_tracing() or any(g is not None and g.node is not None for g in own):
                self.exchange_recorded()
                return
            if not self.buckets:
                self.buckets = self.agreed_buckets()
            for bucket in self.buckets[len(self.calls) :]:
                self.leave(bucket)
            found = self.world._link.await_all(self.calls)
            for bucket, array in zip(self.buckets, found, strict=True):
                self.take(bucket, array)
        finally:
            self.cancel()

    def take(self, bucket: Bucket, array: np.ndarray) -> None:
        exist = bucket.flags(array) != 0
        for is_there, place, part in zip(exist, bucket.places, bucket.parts, strict=True):
            p = self.params[place]()
            if is_there and p is not None:
                p.grad = to_device(wrap(array[part].reshape(p.shape)), p.device)

    def agreed_buckets(self) -> list[Bucket]:
        """Buckets in the order of rank 0, for parameters that all ranks must have."""
        rest = [k for k in range(len(self.params)) if k not in self.complete]
        params: list[Any] = [ref() for ref in self.params]
        kinds = [f"{show(p.raw.dtype)}{list(p.shape)}" for p in params]
        lines = [f"{name}: {kind}" for name, kind in zip(self.names, kinds, strict=True)]
        order = np.array([*self.complete, *rest], np.int64)
        link = self.world._link
        what = ("gradients of parameters", *lines)
        link.await_all([link.start(what, lambda: link.broadcast(order, 0), any_thread=True)])
        sizes = [p.raw.nbytes for p in params]
        limit = partial(usual_size, sum(sizes), ranks=self.world.size)
        return buckets_of(order.tolist(), params, lines, lambda rest: self.nbytes or limit(rest))

    def exchange_recorded(self) -> None:
        """The same by ops that are recorded: of a trace, or where gradients have a graph."""
        by_dtype: dict[np.dtype, list[Tensor]] = {}
        for k in sorted(self.complete):
            p = self.params[k]()
            if p is not None and p.grad is not None:
                by_dtype.setdefault(p.raw.dtype, []).append(p)
        for params in by_dtype.values():
            grads: list[Any] = [to_device(p.grad, "cpu") for p in params]  # type: ignore[arg-type]
            flat = concat([reshape(g, (-1,)) for g in grads])
            found = _ops.all_reduce(flat, world=self.world, how="mean")
            start = 0
            for p, g in zip(params, grads, strict=True):
                own = reshape(found[start : start + g.size], g.shape)
                p.grad = to_device(own, p.device)
                start += g.size


def usual_size(total: int, rest: int, ranks: int) -> int:
    """Bytes of a bucket, of `total` bytes in all, of which `rest` are still to come."""
    part = OF_FIRST if rest == total else OF_ALL
    return max(min(MOST, total // part, rest // OF_REST), LEAST, OF_EACH_RANK * ranks)


def buckets_of(
    order: Sequence[int],
    params: Sequence[Tensor],
    lines: Sequence[str],
    limit: Callable[[int], int],
) -> list[Bucket]:
    """Parameters in an order, in buckets of one dtype and of `limit(rest)` bytes or a little more,
    where `rest` are still to come."""
    groups: list[list[int]] = []
    open_groups: dict[np.dtype, list[int]] = {}
    rest = sum(params[k].raw.nbytes for k in order)
    for k in order:
        dtype = params[k].raw.dtype
        if dtype not in open_groups:
            open_groups[dtype] = []
            groups.append(open_groups[dtype])
        own = open_groups[dtype]
        own.append(k)
        nbytes = sum(params[j].raw.nbytes for j in own)
        if nbytes >= limit(rest):
            rest -= nbytes
            del open_groups[dtype]
    made = []
    for number, places in enumerate(groups, 1):
        dtype = params[places[0]].raw.dtype
        line = LINE // dtype.itemsize
        sizes = [params[k].size for k in places]
        *starts, end = itertools.accumulate((-(-n // line) * line for n in sizes), initial=0)
        parts = [slice(start, start + n) for start, n in zip(starts, sizes, strict=True)]
        words = f"gradients, bucket {number} of {len(groups)}", *(lines[k] for k in places)
        made.append(Bucket(places, parts, np.zeros(end + len(places), dtype), words))
    return made
