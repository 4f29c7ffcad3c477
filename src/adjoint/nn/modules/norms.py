"""Normalisation over batches, single examples, groups of channels, and last axes."""

from collections.abc import Sequence
from typing import Any

from ..._core.tensor import Tensor
from ..._foundation.dtypes import float64, int64
from ..._foundation.errors import ShapeError
from ..._foundation.modes import is_recomputing, is_tracing, no_grad
from ...functions._arguments import as_number, as_real, as_shape
from ...functions.creation import ones, tensor, zeros
from ...functions.elementwise import astype
from ...functions.shapes import expand_dims, squeeze
from .. import functional as F
from .._norms import moving_batch_norm
from .._parameter import Parameter
from .applied import Kind, check_multiple, count, kind, settings

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d"]
__all__ += ["InstanceNorm2d", "InstanceNorm3d", "LayerNorm", "RMSNorm"]


class Norm(Kind):
    """A norm whose result, if it is affine, is scaled and shifted by parameters."""

    weight: Parameter | None
    bias: Parameter | None

    def _set_parameters(self, shape: Any, affine: bool, bias: bool, **placement: Any) -> None:
        self.weight = Parameter(ones(shape, **placement)) if affine else None
        self.bias = Parameter(zeros(shape, **placement)) if affine and bias else None

    @no_grad()
    def reset_parameters(self) -> None:
        """Let the weight be 1 and the bias 0."""
        for parameter, value in ((self.weight, 1), (self.bias, 0)):
            if parameter is not None:
                parameter[...] = value


class ChannelNorm(Norm):
    """A norm of each channel, with running statistics if it keeps track of them."""

    words = ("forms",)
    forms: tuple[str, ...]  # the axes that x may have, such as "NCHW"
    on_host = ("num_batches_tracked",)
    _numbers = ("momentum",)
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: str | None = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        name, placement = kind(self), {"device": device, "dtype": dtype}
        self.num_features, self.eps = count(self, "num_features", num_features), eps
        as_number(name, "eps", eps)
        self.momentum = None if momentum is None else as_number(name, "momentum", momentum)
        self.affine, self.track_running_stats = affine, track_running_stats
        self._set_parameters(self.num_features, affine, bias, **placement)
        for buffer in ("running_mean", "running_var", "num_batches_tracked"):
            self.register_buffer(buffer, None)
        if track_running_stats:
            self.running_mean = zeros(self.num_features, **placement)
            self.running_var = ones(self.num_features, **placement)
            self.num_batches_tracked = tensor(0, dtype=int64, device="cpu")

    @no_grad()
    def reset_running_stats(self) -> None:
        """Forget all batches, if they are tracked: the running mean is 0, the variance 1."""
        if not self.track_running_stats:
            return
        statistics = self.running_mean, self.running_var, self.num_batches_tracked
        for statistic, value in zip(statistics, (0, 1, 0), strict=True):
            if statistic is not None:
                statistic[...] = value

    def reset_parameters(self) -> None:
        """Let the weight be 1 and the bias 0, and forget all batches."""
        self.reset_running_stats()
        super().reset_parameters()

    def _checked(self, x: Any) -> Tensor:
        x = as_real(kind(self), x)
        form = next((form for form in self.forms if len(form) == x.ndim), None)
        if form is None:
            known = " or ".join(f"({', '.join(form)})" for form in self.forms)
            raise ShapeError(f"{known} is needed, got shape {x.shape}")
        if x.shape[form.index("C")] != self.num_features:
            raise ShapeError(
                f"x of shape {x.shape} has {x.shape[form.index('C')]} channels, the layer was made "
                f"for {self.num_features}"
            )
        return x

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class BatchNorm(ChannelNorm):
    """BatchNorm1d, BatchNorm2d, BatchNorm3d."""

    def forward(self, x: Any) -> Tensor:
        """x by the batch's statistics in training, or without running ones, else by these."""
        tracks = self.training and self.track_running_stats
        mean, var = self.running_mean, self.running_var
        if self.training and not tracks:
            mean = var = None  # they stay as they are
        step = self._step() if tracks else 0.0
        normal = moving_batch_norm if isinstance(step, Tensor) else F.batch_norm
        out = normal(
            self._checked(x),
            mean,
            var,
            self.weight,
            self.bias,
            self.training or (mean is None and var is None),
            step,  # type: ignore[arg-type]
            self.eps,
        )
        if tracks and self.num_batches_tracked is not None and not is_recomputing():
            self.num_batches_tracked += 1
        return out

    def _step(self) -> float | Tensor:
        """How far running statistics move; without momentum they are the mean of all batches."""
        if self.momentum is not None:
            return self.momentum
        mean, counted = self.running_mean, self.num_batches_tracked
        if mean is None or counted is None:
            return 0.0
        if is_tracing() and mean.device == counted.device:
            return 1 / (astype(counted, float64) + 1)  # it will be another one at each run
        return 1 / (int(counted.item()) + 1)


class BatchNorm1d(BatchNorm, forms=("NC", "NCL")):
    """x (N, C) or (N, C, L) with mean 0 and variance 1 in each channel, times weight, plus bias.

    In training the statistics are the batch's, and the running ones move towards them by
    `momentum`, or are the mean of all batches if it is None. In evaluation the running ones count.

    >>> layer = ad.nn.BatchNorm1d(1)
    >>> layer(ad.asarray([[1.0], [3.0]]))
    tensor([[-1.],
            [ 1.]], grad_fn=...)
    >>> layer.running_mean, layer.num_batches_tracked
    (tensor([0.2]), tensor(1))
    """


class BatchNorm2d(BatchNorm, forms=("NCHW",)):
    """x (N, C, H, W) with mean 0 and variance 1 in each channel, times weight, plus bias.

    Training and evaluation differ as in `BatchNorm1d`.

    >>> ad.nn.BatchNorm2d(3)(ad.random.normal((4, 3, 8, 8))).shape
    (4, 3, 8, 8)
    """


class BatchNorm3d(BatchNorm, forms=("NCDHW",)):
    """x (N, C, D, H, W) with mean 0 and variance 1 in each channel, times weight, plus bias.

    >>> ad.nn.BatchNorm3d(3)(ad.random.normal((2, 3, 4, 4, 4))).shape
    (2, 3, 4, 4, 4)
    """


class InstanceNorm(ChannelNorm):
    """InstanceNorm1d, InstanceNorm2d, InstanceNorm3d."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: str | None = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        statistics = eps, momentum, affine, track_running_stats
        super().__init__(num_features, *statistics, device, dtype, bias=bias)

    def forward(self, x: Any) -> Tensor:
        """x by the statistics of each example; by the running ones in evaluation, if tracked."""
        x = self._checked(x)
        single = x.ndim == len(self.forms[0])
        tracked = self.track_running_stats
        out = F.instance_norm(
            expand_dims(x, 0) if single else x,
            self.running_mean if tracked else None,
            self.running_var if tracked else None,
            self.weight,
            self.bias,
            self.training or not tracked,
            self.momentum or 0.0,
            self.eps,
        )
        return squeeze(out, 0) if single else out


class InstanceNorm1d(InstanceNorm, forms=("CL", "NCL")):
    """x (N, C, L) or (C, L) with mean 0 and variance 1 in each channel of each example.

    >>> ad.nn.InstanceNorm1d(2)(ad.asarray([[1.0, 3.0], [5.0, 9.0]]))
    tensor([[-1.,  1.],
            [-1.,  1.]])
    """


class InstanceNorm2d(InstanceNorm, forms=("CHW", "NCHW")):
    """x (N, C, H, W) or (C, H, W) with mean 0 and variance 1 in each channel of each example.

    >>> ad.nn.InstanceNorm2d(3, affine=True)(ad.random.normal((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """


class InstanceNorm3d(InstanceNorm, forms=("CDHW", "NCDHW")):
    """x (N, C, D, H, W) or (C, D, H, W) with mean 0 and variance 1 in each channel of each example.

    >>> ad.nn.InstanceNorm3d(2)(ad.random.normal((1, 2, 3, 3, 3))).shape
    (1, 2, 3, 3, 3)
    """


class GroupNorm(Norm):
    """x (N, num_channels, …) with mean 0 and variance 1 over each of `num_groups` groups.

    >>> ad.nn.GroupNorm(2, 4)(ad.ones((1, 4, 3)) * 5)[0, 0]
    tensor([0., 0., 0.], grad_fn=...)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: str | None = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_groups = count(self, "num_groups", num_groups)
        self.num_channels = count(self, "num_channels", num_channels)
        check_multiple(self, "num_channels", "num_groups")
        as_number("GroupNorm", "eps", eps)
        self.eps, self.affine = eps, affine
        self._set_parameters(self.num_channels, affine, bias, device=device, dtype=dtype)

    def forward(self, x: Any) -> Tensor:
        """x, normalised within groups of channels."""
        x = as_real("GroupNorm", x)
        if x.ndim < 2 or x.shape[1] != self.num_channels:
            raise ShapeError(f"(N, {self.num_channels}, ...) is needed, got shape {x.shape}")
        return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, {settings(self, 'eps', 'affine')}, "
            f"bias={self.bias is not None}"
        )


class LastAxesNorm(Norm):
    """A norm over last axes, whose lengths are `normalized_shape`."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None,
        elementwise_affine: bool,
        bias: bool,
        **placement: Any,
    ) -> None:
        super().__init__()
        self.normalized_shape = as_shape(kind(self), normalized_shape)
        if not self.normalized_shape:
            raise ShapeError(f"{kind(self)}: normalized_shape must have at least one axis")
        if eps is not None:
            as_number(kind(self), "eps", eps)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._set_parameters(self.normalized_shape, elementwise_affine, bias, **placement)


class LayerNorm(LastAxesNorm):
    """x with mean 0 and variance 1 over its last axes, times weight, plus bias.

    >>> ad.nn.LayerNorm(2)(ad.asarray([[1.0, 3.0], [5.0, 9.0]]))
    tensor([[-1.,  1.],
            [-1.,  1.]], grad_fn=...)
    """

    eps: float

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        affine = elementwise_affine, bias
        super().__init__(normalized_shape, eps, *affine, device=device, dtype=dtype)

    def forward(self, x: Any) -> Tensor:
        """x, normalised over its last axes."""
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, {settings(self, 'eps', 'elementwise_affine')}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(LastAxesNorm):
    """x over the root of the mean of its squares over the last axes, times weight.

    `eps` is added to that mean; if None, the smallest step from 1.

    >>> ad.nn.RMSNorm(2)(ad.asarray([1.0, 7.0]))
    tensor([0.2, 1.4], grad_fn=...)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        affine = elementwise_affine, False
        super().__init__(normalized_shape, eps, *affine, device=device, dtype=dtype)

    def forward(self, x: Any) -> Tensor:
        """x, divided by its size over the last axes."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, {settings(self, 'eps', 'elementwise_affine')}"
