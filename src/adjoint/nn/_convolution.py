"""Convolutions and their transposes, over one, two or three spatial axes, as in PyTorch."""

from typing import Any

from .._core.promotion import to_dtype
from .._core.tensor import Tensor
from .._foundation.errors import ArgumentError, ShapeError
from ..functions._arguments import as_integer, in_common_dtype
from ..functions._families import member
from ..primitives import windows
from ..primitives.shapes import reshape
from ._windows import (
    SPATIAL,
    Counts,
    Ints,
    Pairs,
    batched,
    check_window,
    per_axis,
    symmetric,
    unbatched,
    widened,
)

__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]


def convolution(function: str, count: int):
    """conv1d, conv2d, conv3d."""

    def convolve(
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Counts = 1,
        padding: Counts | str = 0,
        dilation: Counts = 1,
        groups: int = 1,
    ) -> Tensor:
        image, filters, bias = operands(function, x, weight, bias)
        image, single = batched(function, image, count)
        groups = checked_groups(function, groups)
        check_filters(function, count, filters.shape, "O, C / groups")
        check_channels(function, image.shape, filters.shape, bias, groups)
        strides = per_axis(function, "stride", stride, count, 1)
        dilations = per_axis(function, "dilation", dilation, count, 1)
        widths = as_widths(function, padding, filters.shape[2:], strides, dilations)
        check_window(function, image.shape, filters.shape[2:], widths, dilations)
        options = {"stride": strides, "padding": widths, "dilation": dilations, "groups": groups}
        return unbatched(windows.conv(image, filters, bias, **options), single)

    return convolve


def transposed(function: str, count: int):
    """conv_transpose1d, conv_transpose2d, conv_transpose3d."""

    def convolve_transposed(
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Counts = 1,
        padding: Counts = 0,
        output_padding: Counts = 0,
        groups: int = 1,
        dilation: Counts = 1,
    ) -> Tensor:
        image, filters, bias = operands(function, x, weight, bias)
        image, single = batched(function, image, count)
        groups = checked_groups(function, groups)
        check_filters(function, count, filters.shape, "C, O / groups")
        channels = filters.shape[1] * groups
        check_transposed(function, image.shape, filters.shape, channels, bias, groups)
        strides = per_axis(function, "stride", stride, count, 1)
        dilations = per_axis(function, "dilation", dilation, count, 1)
        paddings = per_axis(function, "padding", padding, count, 0)
        extras = per_axis(function, "output_padding", output_padding, count, 0)
        check_output_padding(function, extras, strides, dilations)
        size = transposed_size(image.shape, filters.shape, strides, paddings, extras, dilations)
        if min(size) < 1:
            raise ShapeError(
                f"{function}: an image of shape {image.shape} with filters {filters.shape}, stride "
                f"{strides} and padding {paddings} would give an image of {size}"
            )
        out = windows.conv_input(
            widened(image),
            widened(filters),
            x_shape=(image.shape[0], channels, *size),
            stride=strides,
            # What output_padding adds at the end, no window reads.
            padding=tuple((p, p - extra) for p, extra in zip(paddings, extras, strict=True)),
            dilation=dilations,
            groups=groups,
        )
        if bias is not None:
            out = out + reshape(bias, shape=(channels, *(1 for _ in range(count))))
        return unbatched(to_dtype(out, image.raw.dtype), single)

    return convolve_transposed


@member(convolution, 1)
def conv1d() -> None:
    """Cross-correlation of signals (N, C, L) with filters (O, C / groups, l).

    `padding` is a number, "valid" (none) or "same" (the output is as long as the input).

    >>> signal, sums = ad.asarray([[[1.0, 2.0, 4.0]]]), ad.ones((1, 1, 2))
    >>> ad.nn.functional.conv1d(signal, sums)
    tensor([[[3., 6.]]])
    """


@member(convolution, 2)
def conv2d() -> None:
    """Cross-correlation of images (N, C, H, W) with filters (O, C / groups, h, w).

    >>> image, blur = ad.ones((1, 1, 3, 3)), ad.full((1, 1, 2, 2), 0.25)
    >>> ad.nn.functional.conv2d(image, blur).shape
    (1, 1, 2, 2)
    """


@member(convolution, 3)
def conv3d() -> None:
    """Cross-correlation of volumes (N, C, D, H, W) with filters (O, C / groups, d, h, w).

    >>> volume, filters = ad.ones((1, 2, 4, 4, 4)), ad.ones((3, 2, 2, 2, 2))
    >>> ad.nn.functional.conv3d(volume, filters, padding="same").shape
    (1, 3, 4, 4, 4)
    """


@member(transposed, 1)
def conv_transpose1d() -> None:
    """The transpose of conv1d as a linear map; filters are (C, O / groups, l).

    >>> signal, filters = ad.asarray([[[1.0, 2.0]]]), ad.ones((1, 1, 2))
    >>> ad.nn.functional.conv_transpose1d(signal, filters)
    tensor([[[1., 3., 2.]]])
    """


@member(transposed, 2)
def conv_transpose2d() -> None:
    """The transpose of conv2d as a linear map; filters are (C, O / groups, h, w).

    >>> image, filters = ad.ones((1, 4, 5, 5)), ad.ones((4, 3, 2, 2))
    >>> ad.nn.functional.conv_transpose2d(image, filters, stride=2).shape
    (1, 3, 10, 10)
    """


@member(transposed, 3)
def conv_transpose3d() -> None:
    """The transpose of conv3d as a linear map; filters are (C, O / groups, d, h, w).

    >>> volume, filters = ad.ones((1, 2, 3, 3, 3)), ad.ones((2, 1, 3, 3, 3))
    >>> ad.nn.functional.conv_transpose3d(volume, filters, padding=1).shape
    (1, 1, 3, 3, 3)
    """


def operands(function: str, x: Any, weight: Any, bias: Any) -> tuple[Tensor, Tensor, Tensor | None]:
    """The tensors, in one dtype."""
    given = (x, weight) if bias is None else (x, weight, bias)
    image, filters, *biases = in_common_dtype(function, *given)
    return image, filters, biases[0] if biases else None


def checked_groups(function: str, groups: Any) -> int:
    number = as_integer(function, "groups", groups)
    if number < 1:
        raise ArgumentError(f"{function}: groups={number} must be at least 1")
    return number


def check_filters(function: str, count: int, filters: Ints, channels: str) -> None:
    if len(filters) != count + 2:
        raise ShapeError(
            f"{function}: filters ({channels}, {SPATIAL[count].lower()}) are needed, got shape "
            f"{filters}"
        )


def check_channels(function: str, x: Ints, filters: Ints, bias: Any, groups: int) -> None:
    if x[1] % groups or filters[0] % groups:
        raise ArgumentError(
            f"{function}: groups={groups} must divide the {x[1]} input and {filters[0]} output "
            "channels"
        )
    if x[1] != filters[1] * groups:
        raise ShapeError(
            f"{function}: the images {x} have {x[1]} channels, the filters {filters} are for "
            f"{filters[1]} x {groups} groups = {filters[1] * groups}"
        )
    check_bias(function, bias, filters[0])


def check_transposed(
    function: str, x: Ints, filters: Ints, channels: int, bias: Any, groups: int
) -> None:
    if x[1] != filters[0]:
        raise ShapeError(
            f"{function}: the images {x} have {x[1]} channels, the filters {filters} are for "
            f"{filters[0]}"
        )
    if x[1] % groups:
        raise ArgumentError(f"{function}: groups={groups} must divide the {x[1]} input channels")
    check_bias(function, bias, channels)


def check_bias(function: str, bias: Any, channels: int) -> None:
    if bias is not None and bias.shape != (channels,):
        raise ShapeError(f"{function}: bias has shape {bias.shape}, {(channels,)} is needed")


def as_widths(function: str, padding: Any, kernel: Ints, stride: Ints, dilation: Ints) -> Pairs:
    """(before, after) for each axis; "same" needs one more after where the window is even."""
    if not isinstance(padding, str):
        return symmetric(per_axis(function, "padding", padding, len(kernel), 0))
    if padding == "valid":
        return symmetric((0,) * len(kernel))
    if padding != "same":
        raise ArgumentError(f"{function}: padding {padding!r} isn't a number, 'valid' or 'same'")
    if set(stride) != {1}:
        raise ArgumentError(f"{function}: padding='same' needs stride 1, got {stride}")
    totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    return tuple((total // 2, total - total // 2) for total in totals)


def check_output_padding(function: str, extras: Ints, stride: Ints, dilation: Ints) -> None:
    for extra, s, d in zip(extras, stride, dilation, strict=True):
        if extra >= max(s, d):
            raise ArgumentError(
                f"{function}: output_padding {extras} must be smaller than stride {stride} or "
                f"dilation {dilation}"
            )


def transposed_size(
    x: Ints, filters: Ints, stride: Ints, padding: Ints, extras: Ints, dilation: Ints
) -> Ints:
    sizes = zip(x[2:], filters[2:], stride, padding, extras, dilation, strict=True)
    return tuple((n - 1) * s - 2 * p + d * (k - 1) + extra + 1 for n, k, s, p, extra, d in sizes)
