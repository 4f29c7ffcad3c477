"""The world: all ranks of a program, and what they can exchange."""

import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.tensor import Tensor, wrap
from .._foundation.dtypes import SCALAR_RANK, show
from .._foundation.errors import ArgumentError, DTypeError, GradientError, RangeError
from .._foundation.modes import is_grad_enabled
from .._foundation.trees import map_tree, with_paths
from ..functions._arguments import as_integer, as_number, as_tensor
from ..functions.creation import asarray
from ..functions.elementwise import to_device
from ..functions.shapes import expand_dims
from ..random import Generator
from ..random._generator import default
from . import _ops
from ._launch import communicator
from ._link import Link

TIMEOUT = 60.0
INTEGERS: dict[str, Callable[[list[int]], Any]] = {  # of Python, which have no largest one
    "sum": sum,
    "mean": lambda x: sum(x) / len(x),
    "max": max,
    "min": min,
    "prod": math.prod,
}


class World:
    """The ranks of a program: as many processes as mpiexec or srun started, or this one alone.

    All ranks make the same calls of its methods, in the same order, or there is an error which says
    what differs. Methods take tensors, NumPy arrays, numbers, and dicts, lists and tuples of these.

    >>> world = ad.distributed.init()
    >>> world
    World(rank=0, size=1)
    """

    def __init__(self, link: Link | None) -> None:
        self._link: Any = link
        self.rank = link.rank if link else 0
        self.size = link.size if link else 1

    def __repr__(self) -> str:
        return f"World(rank={self.rank}, size={self.size})"

    def __reduce__(self) -> Any:
        return init, ()

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which prints and saves for all."""
        return self.rank == 0

    def print(self, *args: Any, **kwargs: Any) -> None:
        """Print on rank 0 alone.

        >>> ad.distributed.init().print("epoch", 1)
        epoch 1
        """
        if self.is_first:
            print(*args, **kwargs)

    def seed(self, n: int) -> None:
        """Start the global generator of each rank with random numbers of its own, from one seed;
        rank 0 has those of `ad.random.seed(n)`."""
        own = Generator(n)
        default.state = (own.spawn(self.rank)[-1] if self.rank else own).state

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        if self.size > 1:
            self._link.run(("barrier",), lambda: None)

    def broadcast(self, x: Any, root: int = 0) -> Any:
        """The value of rank `root`, on all ranks; those of the others don't matter. There may be
        strings and None in it, too.

        >>> ad.distributed.init().broadcast({"lr": 0.1, "w": ad.ones(2)})
        {'lr': 0.1, 'w': tensor([1., 1.])}
        """
        root = as_integer("broadcast", "root", root)
        if not 0 <= root < self.size:
            raise ArgumentError(f"broadcast: root={root} is none of the {self.size} ranks")
        arrays: list[np.ndarray] = []
        outline = map_tree(lambda leaf: outlined(leaf, arrays), x) if root == self.rank else None
        if self.size > 1:
            outline, arrays = self._sent(outline, arrays, root)
        following = iter(arrays)
        return map_tree(lambda x: x.filled(next(following)) if type(x) is Outline else x, outline)

    def _sent(
        self, outline: Any, arrays: list[np.ndarray], root: int
    ) -> tuple[Any, list[np.ndarray]]:
        """The outline and the arrays of rank `root`."""
        text = np.frombuffer(pickle.dumps(outline), np.uint8).copy()
        link = self._link

        def send() -> tuple[Any, list[np.ndarray]]:
            size = np.array([text.size])
            link.broadcast(size, root)
            found = text if link.rank == root else np.empty(size.item(), np.uint8)
            link.broadcast(found, root)
            known = pickle.loads(found.tobytes())
            made = arrays
            if link.rank != root:
                made = [leaf.empty() for _, leaf in with_paths(known) if type(leaf) is Outline]
            for array in made:
                link.broadcast(array, root)
            return known, made

        return link.run((f"broadcast from rank {root}",), send)

    def all_reduce(self, x: Any, how: str = "sum") -> Any:
        """The sum of all ranks' values, on each of them, or "mean", "max", "min", "prod".

        It is added in the order of the ranks, so all have the same bits. Sums and means are
        differentiable: the gradient is the sum, or mean, of the ranks' gradients.

        >>> ad.distributed.init().all_reduce(ad.asarray([1.0, 2.0]), "mean")
        tensor([1., 2.])
        """
        if not isinstance(how, str) or how not in _ops.ADDING:
            raise ArgumentError(f"all_reduce: how={how!r} is none of {', '.join(_ops.ADDING)}")

        def reduce(x: Tensor) -> Tensor:
            check_reducible("all_reduce", x, how)
            if self.size == 1:
                return expand_dims(x, axis=0)[0]  # a tensor of its own
            return _ops.all_reduce(x, world=self, how=how)

        return self._each(f"all_reduce {how}", reduce, x, INTEGERS[how])

    def all_gather(self, x: Any) -> Any:
        """The values of all ranks, along a new first axis; differentiable.

        >>> ad.distributed.init().all_gather(ad.asarray([1.0, 2.0]))
        tensor([[1., 2.]])
        """

        def gather(x: Tensor) -> Tensor:
            return _ops.all_gather(x, world=self) if self.size > 1 else expand_dims(x, axis=0)

        return self._each("all_gather", gather, x)

    def reduce_scatter(self, x: Any) -> Any:
        """One part of the sum of all ranks' values for each rank: x[rank], as if x were added up
        first. The first axis of x has the length of the world; differentiable.

        >>> ad.distributed.init().reduce_scatter(ad.asarray([[1.0, 2.0]]))
        tensor([1., 2.])
        """

        def scatter(x: Tensor) -> Tensor:
            if x.ndim < 1 or x.shape[0] != self.size:
                raise ArgumentError(
                    f"reduce_scatter: the first axis has one part for each of {self.size} ranks, "
                    f"got shape {x.shape}"
                )
            check_reducible("reduce_scatter", x, "sum")
            return _ops.reduce_scatter(x, world=self) if self.size > 1 else x[0]

        return self._each("reduce_scatter", scatter, x)

    def _each(
        self, name: str, exchange: Callable, tree: Any, of_integers: Callable | None = None
    ) -> Any:
        """A tree with each leaf exchanged, of which all ranks have the same paths. `of_integers`:
        where numbers stay numbers, what becomes of all ranks' integers, which have any size."""

        def exchanged(leaf: Any) -> Any:
            leaf = leaf.copy() if isinstance(leaf, np.ndarray) else leaf
            is_number = type(leaf) in SCALAR_RANK
            x = number(leaf, name) if is_number else as_tensor(name.split()[0], leaf)
            if isinstance(leaf, int) and of_integers:
                return of_integers(self.all_gather(x).tolist())
            out = exchange(to_device(x, "cpu"))
            return out.item() if is_number and of_integers else to_device(out, x.device)

        if self.size > 1 and isinstance(tree, dict | list | tuple):
            paths = [f"{path}: {kind(leaf)}" for path, leaf in with_paths(tree)]
            self._link.run((name, *paths), lambda: None)
        return map_tree(exchanged, tree)


@dataclass
class Outline:
    """Shape, dtype and device of an array of another rank."""

    shape: tuple[int, ...]
    dtype: str
    device: str

    def empty(self) -> np.ndarray:
        return np.empty(self.shape, self.dtype)

    def filled(self, array: np.ndarray) -> Tensor:
        return to_device(wrap(array), self.device)


def outlined(leaf: Any, arrays: list[np.ndarray]) -> Any:
    """An Outline in the place of an array, which joins the others."""
    if not isinstance(leaf, Tensor | np.ndarray):
        return leaf
    x = as_tensor("broadcast", leaf)
    if x.requires_grad and is_grad_enabled():
        raise GradientError(
            "broadcast: its results have no gradient; use x.detach() or ad.no_grad(), or "
            "all_gather(x)[root], which has one"
        )
    raw = to_device(x.detach(), "cpu").numpy()
    arrays.append(np.array(raw, order="C"))
    return Outline(raw.shape, raw.dtype.str, x.device)


def number(x: Any, name: str) -> Tensor:
    """A Python number as a tensor that has all of its digits."""
    dtype = {complex: np.complex128, float: np.float64}.get(type(x), np.int64)
    try:
        return asarray(np.array(x, dtype), device="cpu")
    except OverflowError:
        raise RangeError(f"{name.split()[0]}: {x} has more than 64 bits") from None


def kind(leaf: Any) -> str:
    if isinstance(leaf, Tensor):
        return f"{show(leaf.raw.dtype)}{list(leaf.shape)}"
    return type(leaf).__name__


def check_reducible(name: str, x: Tensor, how: str) -> None:
    """Raise if numbers of this kind can't be added up, or if a gradient would be lost."""
    if x.raw.dtype.kind == "b" and how not in ("max", "min"):
        instead = "astype(x, ad.int64)" + (", or how='max'" if name == "all_reduce" else "")
        raise DTypeError(f"{name}: a {how} of booleans; use {instead}")
    if how == "mean" and x.raw.dtype.kind not in "fc":
        raise DTypeError(f"{name}: a mean of {x.dtype.name}; use astype(x, ad.float32)")
    if how not in ("sum", "mean") and x.requires_grad and is_grad_enabled():
        raise GradientError(f"{name}: how={how!r} has no gradient; use x.detach() or ad.no_grad()")


class Known:
    """The world of this process, once it is made."""

    world: World | None = None


def init(timeout: float | None = None) -> World:
    """The world of this program; where mpiexec or srun started several processes, link them.

    A rank that doesn't come to a call for `timeout` seconds (60 unless they are given) is given up,
    with an error that says where it is. Called again it gives the same world.

    >>> world = ad.distributed.init()
    >>> world.rank, world.size
    (0, 1)
    """
    if timeout is not None and not as_number("distributed.init", "timeout", timeout) > 0:
        raise ArgumentError(f"distributed.init: timeout is a time in seconds, got {timeout:g}")
    if Known.world is None:
        comm = communicator(timeout or TIMEOUT)
        Known.world = World(None if comm is None else Link(comm, timeout or TIMEOUT))
    elif Known.world._link is not None:
        Known.world._link.timeout = timeout or Known.world._link.timeout
    return Known.world
