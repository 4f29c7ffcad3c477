"""A module that several ranks train together, each on its part of the data."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._core.tensor import Tensor
from .._foundation.changes import Changes
from .._foundation.dtypes import show
from .._foundation.errors import DTypeError
from .._foundation.modes import no_grad
from ..functions._arguments import as_count
from ..functions.creation import asarray
from ..functions.elementwise import to_device
from ..nn.modules.module import Module
from ._exchange import Exchange
from ._world import World, init


class DataParallel(Module):
    """A module whose gradients are the average of those of all ranks, after each `backward`.

    When it is made, all ranks must have parameters and buffers of the same names, shapes and
    dtypes; they get the values of rank 0. From then on each rank computes with its own part of the
    data (`ad.data.DataLoader(..., shard=world)`), and all update their parameters alike.

    Gradients are exchanged in buckets of about `bucket_bytes` (by default an eighth of all, at most
    4 MB, less at the end, and more for more than 160 ranks), while the backward pass goes on.
    They are added in the order of the ranks, and so have the bits of one process that adds up the
    gradients of all parts, and then multiplies them by 1 / size. `ad.grad`, `ad.gradients` and
    `ad.autograd.grad`, which set no `.grad`, give those of the rank alone.

    >>> world = ad.distributed.init()
    >>> model = ad.distributed.DataParallel(ad.nn.Linear(3, 1))
    >>> optimizer = ad.optim.SGD(model.parameters(), lr=0.1)
    >>> loss = ad.mean(model(ad.ones((8, 3))) ** 2)
    >>> loss.backward()
    >>> optimizer.step()
    """

    def __init__(
        self, module: Module, world: World | None = None, *, bucket_bytes: int | None = None
    ) -> None:
        super().__init__()
        if not isinstance(module, Module):
            raise DTypeError(f"DataParallel: a Module is needed, got {type(module).__name__}")
        self.module = module
        self.world = world or init()
        if bucket_bytes is not None:
            as_count("DataParallel", "bucket_bytes", bucket_bytes)
        self._exchange = Exchange(self.world, bucket_bytes) if self.world.size > 1 else None
        if self._exchange is not None:
            share_values(self.world, module)
            self._exchange.attach(module.named_parameters())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        exchange = self._exchange
        if exchange is not None and exchange.seen != Changes.latest:
            exchange.attach(self.module.named_parameters())
        return self.module(*args, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it gradients are added up on each rank; the next `backward` outside averages all
        of them.

        >>> model = ad.distributed.DataParallel(ad.nn.Linear(3, 1))
        >>> with model.no_sync():
        ...     model(ad.ones((8, 3))).sum().backward()
        >>> model(ad.ones((8, 3))).sum().backward()
        """
        if self._exchange is None:
            yield
            return
        former, self._exchange.is_on = self._exchange.is_on, False
        try:
            yield
        finally:
            self._exchange.is_on = former

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """That of the module, which it loads alone, too."""
        return self.module.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Load what the module's `state_dict` gave; all ranks load the same."""
        return self.module.load_state_dict(*args, **kwargs)


@no_grad()
def share_values(world: World, module: Module) -> None:
    """Give the parameters and buffers of all ranks the values of rank 0."""
    named = [*module.named_parameters(), *module.named_buffers()]
    kinds = [f"{name}: {show(x.raw.dtype)}{list(x.shape)}{frozen(x)}" for name, x in named]
    link = world._link
    link.run(("DataParallel", *kinds), lambda: None)
    for name, x in named:
        array = np.array(to_device(x.detach(), "cpu").numpy(), order="C")
        link.run((f"DataParallel, {name}",), lambda array=array: link.broadcast(array, 0))
        if not world.is_first:
            x[...] = asarray(array, device=x.device)


def frozen(x: Tensor) -> str:
    return "" if x.requires_grad else ", which doesn't require grad"
