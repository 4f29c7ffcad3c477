"""Pooling over windows of one, two or three spatial axes."""

from typing import Any

from ..._foundation.errors import ArgumentError
from ...functions._arguments import as_integer
from .. import functional as F
from .._pooling import pool_padding
from .._windows import Counts, per_axis
from .applied import OfOne, kind

__all__ = ["AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d"]
__all__ += ["AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d"]
__all__ += ["MaxPool1d", "MaxPool2d", "MaxPool3d"]


class Pool(OfOne):
    """Windows that move over spatial axes; by their own size, unless a stride is given."""

    spatial: int

    def _set_window(self, kernel_size: Counts, stride: Counts | None, padding: Counts) -> None:
        name, axes = kind(self), self.spatial
        kernel = per_axis(name, "kernel_size", kernel_size, axes, 1)
        pool_padding(name, padding, kernel)
        self.kernel_size, self.padding = kernel_size, padding
        self.stride = kernel_size if stride is None else stride
        per_axis(name, "stride", self.stride, axes, 1)


class MaxPool(Pool):
    """MaxPool1d, MaxPool2d, MaxPool3d."""

    options = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
    shown = options[:-1]

    def __init__(
        self,
        kernel_size: Counts,
        stride: Counts | None = None,
        padding: Counts = 0,
        dilation: Counts = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self._set_window(kernel_size, stride, padding)
        per_axis(kind(self), "dilation", dilation, self.spatial, 1)
        self.dilation, self.return_indices, self.ceil_mode = dilation, return_indices, ceil_mode


class MaxPool1d(MaxPool, spatial=1, function=F.max_pool1d):
    """The largest element of each window of signals (N, C, L); the first of equals counts.

    `ceil_mode` keeps a last window that is partly outside. `return_indices` gives the places too.

    >>> ad.nn.MaxPool1d(2)(ad.asarray([[[1.0, 3.0, 2.0, 5.0]]]))
    tensor([[[3., 5.]]])
    """


class MaxPool2d(MaxPool, spatial=2, function=F.max_pool2d):
    """The largest element of each window of images (N, C, H, W); the first of equals counts.

    >>> ad.nn.MaxPool2d(3, stride=2, padding=1)(ad.ones((1, 4, 8, 8))).shape
    (1, 4, 4, 4)
    """


class MaxPool3d(MaxPool, spatial=3, function=F.max_pool3d):
    """The largest element of each window of volumes (N, C, D, H, W); the first of equals counts.

    >>> ad.nn.MaxPool3d((1, 2, 2))(ad.ones((1, 2, 3, 4, 4))).shape
    (1, 2, 3, 2, 2)
    """


class AvgPool1d(Pool, spatial=1, function=F.avg_pool1d):
    """The mean of each window of signals (N, C, L).

    `count_include_pad=False` divides by the number of elements that aren't padding.

    >>> ad.nn.AvgPool1d(2)(ad.asarray([[[1.0, 3.0, 2.0, 5.0]]]))
    tensor([[[2. , 3.5]]])
    """

    options = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")
    shown = options[:3]

    def __init__(
        self,
        kernel_size: Counts,
        stride: Counts | None = None,
        padding: Counts = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self._set_window(kernel_size, stride, padding)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad


class AvgPool2d(AvgPool1d, spatial=2, function=F.avg_pool2d):
    """The mean of each window of images (N, C, H, W), or its sum over `divisor_override`.

    >>> ad.nn.AvgPool2d(2)(ad.ones((1, 3, 4, 6))).shape
    (1, 3, 2, 3)
    """

    options = (*AvgPool1d.options, "divisor_override")

    def __init__(
        self,
        kernel_size: Counts,
        stride: Counts | None = None,
        padding: Counts = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        if divisor_override is not None:
            divisor_override = as_integer(kind(self), "divisor_override", divisor_override)
            if not divisor_override:
                raise ArgumentError(f"{kind(self)}: divisor_override must not be 0")
        self.divisor_override = divisor_override


class AvgPool3d(AvgPool2d, spatial=3, function=F.avg_pool3d):
    """The mean of each window of volumes (N, C, D, H, W), or its sum over `divisor_override`.

    >>> ad.nn.AvgPool3d(2)(ad.ones((1, 3, 4, 4, 4))).shape
    (1, 3, 2, 2, 2)
    """


class AdaptivePool(OfOne):
    """Windows that share the spatial axes evenly, as many as the output has elements."""

    spatial: int
    options = ("output_size",)

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        several = isinstance(output_size, (tuple, list))
        sizes = output_size if several else (output_size,) * self.spatial
        known = [1 if n is None else n for n in sizes]  # None keeps an axis as it is
        per_axis(kind(self), "output_size", known, self.spatial, 1)
        self.output_size = output_size


class AdaptiveAvgPool1d(AdaptivePool, spatial=1, function=F.adaptive_avg_pool1d):
    """Means over `output_size` windows that share a signal (N, C, L) evenly.

    >>> ad.nn.AdaptiveAvgPool1d(2)(ad.asarray([[[1.0, 2.0, 6.0]]]))
    tensor([[[1.5, 4. ]]])
    """


class AdaptiveAvgPool2d(AdaptivePool, spatial=2, function=F.adaptive_avg_pool2d):
    """Means over windows that share images (N, C, H, W) evenly; None keeps an axis as it is.

    >>> ad.nn.AdaptiveAvgPool2d((1, None))(ad.ones((1, 3, 7, 5))).shape
    (1, 3, 1, 5)
    """


class AdaptiveAvgPool3d(AdaptivePool, spatial=3, function=F.adaptive_avg_pool3d):
    """Means over windows that share volumes (N, C, D, H, W) evenly.

    >>> ad.nn.AdaptiveAvgPool3d(1)(ad.ones((1, 3, 4, 4, 4))).shape
    (1, 3, 1, 1, 1)
    """


class AdaptiveMaxPool(
    AdaptivePool, options=("output_size", "return_indices"), shown=("output_size",)
):
    """AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d."""

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices


class AdaptiveMaxPool1d(AdaptiveMaxPool, spatial=1, function=F.adaptive_max_pool1d):
    """The largest elements of `output_size` windows that share a signal (N, C, L) evenly.

    `return_indices` gives their places too.

    >>> ad.nn.AdaptiveMaxPool1d(2)(ad.asarray([[[1.0, 2.0, 6.0]]]))
    tensor([[[2., 6.]]])
    """


class AdaptiveMaxPool2d(AdaptiveMaxPool, spatial=2, function=F.adaptive_max_pool2d):
    """The largest elements of windows that share images (N, C, H, W) evenly.

    >>> ad.nn.AdaptiveMaxPool2d(2)(ad.ones((1, 3, 7, 5))).shape
    (1, 3, 2, 2)
    """


class AdaptiveMaxPool3d(AdaptiveMaxPool, spatial=3, function=F.adaptive_max_pool3d):
    """The largest elements of windows that share volumes (N, C, D, H, W) evenly.

    >>> ad.nn.AdaptiveMaxPool3d((None, 1, 1))(ad.ones((1, 3, 4, 4, 4))).shape
    (1, 3, 4, 1, 1)
    """
