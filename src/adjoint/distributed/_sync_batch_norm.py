"""Batch norm by the statistics of all ranks' batches together."""

from typing import Any

from .._core.tensor import Tensor
from .._foundation.errors import ShapeError
from .._foundation.modes import is_recomputing, is_tracing
from ..functions._arguments import as_number
from ..functions.creation import full
from ..functions.reductions import sum as sum_of
from ..functions.shapes import concat
from ..nn._norms import move, narrowed, per_channel, scaled_channels, widened
from ..nn.modules.module import Module
from ..nn.modules.norms import BatchNorm
from ..primitives.elementwise import maximum, sqrt
from ._world import init


class SyncBatchNorm(BatchNorm, forms=("NC", "NCL", "NCHW", "NCDHW")):
    """Batch norm whose statistics in training are those of all ranks' batches together, which may
    be of different sizes. So it does what `BatchNorm` does with one batch of all samples.

    >>> layer = ad.distributed.SyncBatchNorm(2)
    >>> layer(ad.asarray([[1.0, 5.0], [3.0, 5.0]]))
    tensor([[-1.,  0.],
            [ 1.,  0.]], grad_fn=<add>)
    """

    def forward(self, x: Any) -> Tensor:
        """x by the statistics of all ranks' batches in training, else by the running ones."""
        world = init()
        if not self.training or world.size == 1:
            return super().forward(x)
        x = self._checked(x)
        wide = widened(x)
        count, mean, var = statistics(world, wide)
        few = None if is_tracing() else count.item()
        if few == 1:
            raise ShapeError(
                "SyncBatchNorm: more than one value per channel is needed in training, all ranks "
                f"together have one; here x has shape {x.shape}"
            )
        scale = 1 / sqrt(var + as_number("SyncBatchNorm", "eps", self.eps))
        out = (wide - per_channel(wide, mean)) * per_channel(wide, scale)
        if self.track_running_stats:
            step = self._step() if few != 0 else 0.0
            move(self.running_mean, mean, step)
            move(self.running_var, var * (count / maximum(count - 1, 1.0)), step)
            if self.num_batches_tracked is not None and not is_recomputing():
                self.num_batches_tracked += 1
        return narrowed(scaled_channels(out, self.weight, self.bias), x, self.weight, self.bias)

    @classmethod
    def convert(cls, module: Module) -> Module:
        """The module with each batch norm in it replaced by one of this kind, which has its
        parameters and statistics.

        >>> model = ad.nn.Sequential(ad.nn.Linear(3, 2), ad.nn.BatchNorm1d(2))
        >>> ad.distributed.SyncBatchNorm.convert(model)[1]
        SyncBatchNorm(2, eps=1e-05, ...)
        """
        return converted(cls, module, {})


def converted(cls: Any, module: Module, known: dict[int, Module]) -> Module:
    """`known`: what has come of modules by their ids, as one may be in several places."""
    if id(module) not in known:
        own = known[id(module)] = module
        if isinstance(module, BatchNorm) and not isinstance(module, cls):
            own = known[id(module)] = cls.__new__(cls)
            vars(own).update(vars(module))
        for name, child in own._attributes():
            setattr(own, name, converted(cls, child, known))
    return known[id(module)]


def statistics(world: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """How many values of each channel all ranks have, their mean, and their variance, from those of
    each rank: the differences are to its own mean, so no digits are lost."""
    axes, channels = (0, *range(2, x.ndim)), x.shape[1]
    count = x.size // max(1, channels)
    mean = sum_of(x, axis=axes) / max(1, count)
    var = sum_of((x - per_channel(x, mean)) ** 2, axis=axes) / max(1, count)
    own = concat([mean, var, full((1,), float(count), dtype=x.dtype, device=x.device)])
    found = world.all_gather(own)
    means, variances, counts = found[:, :channels], found[:, channels:-1], found[:, -1:].detach()
    total = sum_of(counts)
    shares = counts / maximum(total, 1.0)
    mean = sum_of(means * shares, axis=0)
    return total, mean, sum_of((variances + (means - mean) ** 2) * shares, axis=0)
