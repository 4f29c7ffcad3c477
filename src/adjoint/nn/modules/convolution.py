"""Convolutions and their transposes, over one, two or three spatial axes."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..._core.tensor import Tensor
from ..._foundation.errors import ArgumentError, ShapeError
from ...functions._arguments import as_shape, as_tensor
from ...functions.creation import empty
from .. import functional as F
from .. import init
from .._convolution import as_widths, check_output_padding, transposed_size
from .._parameter import Parameter
from .._windows import Counts, batched, per_axis
from .applied import Kind, check_multiple, count, kind, one_of

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class Filters(Kind):
    """What convolutions and transposed ones share: filters, a bias, and how windows move."""

    words = ("spatial", "function")
    spatial: int
    function: Callable[..., Tensor]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Counts,
        stride: Counts,
        padding: Counts | str,
        dilation: Counts,
        groups: int,
        padding_mode: str,
    ) -> None:
        super().__init__()
        self.in_channels = count(self, "in_channels", in_channels)
        self.out_channels = count(self, "out_channels", out_channels)
        self.groups = count(self, "groups", groups)
        check_multiple(self, "in_channels", "groups")
        check_multiple(self, "out_channels", "groups")
        self.kernel_size = self._per_axis("kernel_size", kernel_size, 1)
        self.stride = self._per_axis("stride", stride, 1)
        self.dilation = self._per_axis("dilation", dilation, 1)
        self.padding = padding
        if not isinstance(padding, str):
            self.padding = self._per_axis("padding", padding, 0)
        self.output_padding = (0,) * self.spatial
        self.padding_mode = one_of(self, "padding_mode", padding_mode, PADDING_MODES)

    def _per_axis(self, name: str, value: Any, least: int) -> tuple[int, ...]:
        return per_axis(kind(self), name, value, self.spatial, least)

    def _set_parameters(self, channels: tuple[int, int], bias: bool, **placement: Any) -> None:
        self.weight = Parameter(empty((*channels, *self.kernel_size), **placement))
        self.bias = Parameter(empty(self.out_channels, **placement)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, uniformly from ±1/√(elements of a filter)."""
        init.uniform_within(1 / math.sqrt(math.prod(self.weight.shape[1:])), self.weight, self.bias)

    def extra_repr(self) -> str:
        """The settings that repr shows: those that aren't as usual."""
        usual = {
            "padding": (0,) * self.spatial,
            "dilation": (1,) * self.spatial,
            "output_padding": (0,) * self.spatial,
            "groups": 1,
            "bias": True,
            "padding_mode": "zeros",
        }
        own = vars(self) | {"bias": self.bias is not None}
        return ", ".join(
            [
                f"{self.in_channels}, {self.out_channels}",
                f"kernel_size={self.kernel_size}, stride={self.stride}",
                *(f"{name}={own[name]}" for name, value in usual.items() if own[name] != value),
            ]
        )


class Convolution(Filters):
    """Conv1d, Conv2d, Conv3d."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Counts,
        stride: Counts = 1,
        padding: Counts | str = 0,
        dilation: Counts = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        window = kernel_size, stride, padding, dilation
        super().__init__(in_channels, out_channels, *window, groups, padding_mode)
        self._widths()  # which refuses words that aren't paddings
        channels = self.out_channels, self.in_channels // self.groups
        self._set_parameters(channels, bias, device=device, dtype=dtype)

    def forward(self, x: Any) -> Tensor:
        """Images (N, in_channels, …) as (N, out_channels, …)."""
        padding = self.padding
        if self.padding_mode != "zeros":
            flat = [width for pair in reversed(self._widths()) for width in pair]
            x, padding = F.pad(x, flat, self.padding_mode), 0
        window = self.stride, padding, self.dilation
        return self.function(x, self.weight, self.bias, *window, self.groups)

    def _widths(self) -> tuple[tuple[int, int], ...]:
        window = self.kernel_size, self.stride, self.dilation
        return as_widths(kind(self), self.padding, *window)


class Conv1d(Convolution, spatial=1, function=F.conv1d):
    """Cross-correlation of signals (N, in_channels, L) with filters that are learnt.

    `padding` is a number, "same" or "valid"; `padding_mode` is "zeros", "reflect", "replicate" or
    "circular".

    >>> layer = ad.nn.Conv1d(3, 8, 5, padding="same")
    >>> layer(ad.ones((2, 3, 10))).shape
    (2, 8, 10)
    """


class Conv2d(Convolution, spatial=2, function=F.conv2d):
    """Cross-correlation of images (N, in_channels, H, W) with filters that are learnt.

    `padding` and `padding_mode` are as in `Conv1d`; sizes are a number for both axes, or a pair.

    >>> layer = ad.nn.Conv2d(3, 8, 3, stride=2, padding=1)
    >>> layer
    Conv2d(3, 8, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))
    >>> layer(ad.ones((1, 3, 16, 16))).shape
    (1, 8, 8, 8)
    """


class Conv3d(Convolution, spatial=3, function=F.conv3d):
    """Cross-correlation of volumes (N, in_channels, D, H, W) with filters that are learnt.

    >>> ad.nn.Conv3d(2, 4, (1, 2, 2))(ad.ones((1, 2, 3, 4, 4))).shape
    (1, 4, 3, 3, 3)
    """


class ConvolutionTranspose(Filters):
    """ConvTranspose1d, ConvTranspose2d, ConvTranspose3d."""

    padding: tuple[int, ...]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Counts,
        stride: Counts = 1,
        padding: Counts = 0,
        output_padding: Counts = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Counts = 1,
        padding_mode: str = "zeros",
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        window = kernel_size, stride, padding, dilation
        super().__init__(in_channels, out_channels, *window, groups, padding_mode)
        self._per_axis("padding", padding, 0)
        if padding_mode != "zeros":
            raise ArgumentError(f"{kind(self)}: padding_mode is 'zeros', got {padding_mode!r}")
        self.output_padding = self._per_axis("output_padding", output_padding, 0)
        check_output_padding(kind(self), self.output_padding, self.stride, self.dilation)
        channels = self.in_channels, self.out_channels // self.groups
        self._set_parameters(channels, bias, device=device, dtype=dtype)

    def forward(self, x: Any, output_size: Sequence[int] | int | None = None) -> Tensor:
        """Images (N, in_channels, …) as (N, out_channels, …), of one of the sizes that a
        convolution makes x's size of: `output_size`, or that which `output_padding` says."""
        extras = self.output_padding if output_size is None else self._extras(x, output_size)
        window = self.stride, self.padding, extras, self.groups, self.dilation
        return self.function(x, self.weight, self.bias, *window)

    def _extras(self, x: Any, output_size: Any) -> tuple[int, ...]:
        """What is missing at the end to an output of a size, of spatial axes or of all."""
        x = as_tensor(kind(self), x)
        images, _ = batched(kind(self), x, self.spatial)
        wanted = as_shape("output_size", output_size)
        wanted = wanted[-self.spatial :] if len(wanted) == x.ndim else wanted
        window = self.stride, self.padding, (0,) * self.spatial, self.dilation
        least = transposed_size(images.shape, self.weight.shape, *window)
        most = tuple(n + s - 1 for n, s in zip(least, self.stride, strict=True))
        if len(wanted) != self.spatial or not all(
            low <= n <= high for low, n, high in zip(least, wanted, most, strict=True)
        ):
            raise ShapeError(
                f"output_size {output_size} can't be had: x of shape {x.shape} gives from {least} "
                f"to {most}"
            )
        return tuple(n - low for n, low in zip(wanted, least, strict=True))


class ConvTranspose1d(ConvolutionTranspose, spatial=1, function=F.conv_transpose1d):
    """The transpose of `Conv1d` as a linear map: signals (N, in_channels, L) become longer.

    >>> ad.nn.ConvTranspose1d(4, 2, 2, stride=2)(ad.ones((1, 4, 5))).shape
    (1, 2, 10)
    """


class ConvTranspose2d(ConvolutionTranspose, spatial=2, function=F.conv_transpose2d):
    """The transpose of `Conv2d` as a linear map: images (N, in_channels, H, W) become larger.

    >>> down = ad.nn.Conv2d(3, 8, 3, stride=2, padding=1)
    >>> up = ad.nn.ConvTranspose2d(8, 3, 3, stride=2, padding=1)
    >>> x = ad.ones((1, 3, 12, 12))
    >>> up(down(x), output_size=(12, 12)).shape
    (1, 3, 12, 12)
    """


class ConvTranspose3d(ConvolutionTranspose, spatial=3, function=F.conv_transpose3d):
    """The transpose of `Conv3d` as a linear map: volumes (N, in_channels, D, H, W) become larger.

    >>> ad.nn.ConvTranspose3d(2, 1, 3)(ad.ones((1, 2, 2, 2, 2))).shape
    (1, 1, 4, 4, 4)
    """
