"""Pooling over windows of images with one, two or three spatial axes, as in PyTorch."""

import functools
import math
from typing import Any

import numpy as np

from .._core.promotion import placed_indices, to_dtype
from .._core.tensor import Tensor
from .._foundation.errors import ArgumentError, ShapeError
from ..functions._arguments import as_integer, as_tensor
from ..functions._families import member
from ..functions.creation import asarray
from ..functions.reductions import as_float
from ..primitives import reductions, windows
from ..primitives.indexing import index, take_along_axis
from ..primitives.shapes import pad, reshape
from ._windows import (
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

__all__ = ["adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"]
__all__ += ["adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "avg_pool1d"]
__all__ += ["avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d"]


def max_pooled(function: str, count: int):
    """max_pool1d, max_pool2d, max_pool3d."""

    def pool(
        x: Any,
        kernel_size: Counts,
        stride: Counts | None = None,
        padding: Counts = 0,
        dilation: Counts = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        images, single = batched(function, as_tensor(function, x), count)
        kernel = per_axis(function, "kernel_size", kernel_size, count, 1)
        strides = kernel if stride is None else per_axis(function, "stride", stride, count, 1)
        dilations = per_axis(function, "dilation", dilation, count, 1)
        paddings = pool_padding(function, padding, kernel)
        widths = pool_widths(images.shape, kernel, strides, paddings, dilations, ceil_mode)
        check_window(function, images.shape, kernel, widths, dilations)
        check_elements(function, images.shape, kernel, strides, widths, dilations)
        values, indices = windows.max_pool(
            images, kernel=kernel, stride=strides, padding=widths, dilation=dilations
        )
        values = unbatched(values, single)
        return (values, unbatched(indices, single)) if return_indices else values

    return pool


@member(max_pooled, 1)
def max_pool1d() -> None:
    """The largest element of each window of signals (N, C, L); the first of equals counts.

    `ceil_mode` keeps a last window that is partly outside. `return_indices` gives the places too.

    >>> ad.nn.functional.max_pool1d(ad.asarray([[[1.0, 3.0, 2.0, 5.0]]]), 2)
    tensor([[[3., 5.]]])
    """


@member(max_pooled, 2)
def max_pool2d() -> None:
    """The largest element of each window of images (N, C, H, W); the first of equals counts.

    >>> ad.nn.functional.max_pool2d(ad.reshape(ad.arange(16), (1, 1, 4, 4)), 2)
    tensor([[[[ 5,  7],
              [13, 15]]]])
    """


@member(max_pooled, 3)
def max_pool3d() -> None:
    """The largest element of each window of volumes (N, C, D, H, W); the first of equals counts.

    >>> ad.nn.functional.max_pool3d(ad.zeros((1, 2, 4, 4, 4)), 2).shape
    (1, 2, 2, 2, 2)
    """


def averaged(function: str, count: int):
    """avg_pool1d, which has no `divisor_override`, avg_pool2d, avg_pool3d."""

    def pool(
        x: Any,
        kernel_size: Counts,
        stride: Counts | None = None,
        padding: Counts = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        images, single = batched(function, as_float(as_tensor(function, x)), count)
        kernel = per_axis(function, "kernel_size", kernel_size, count, 1)
        strides = kernel if stride is None else per_axis(function, "stride", stride, count, 1)
        paddings = pool_padding(function, padding, kernel)
        widths = pool_widths(images.shape, kernel, strides, paddings, (1,) * count, ceil_mode)
        check_window(function, images.shape, kernel, widths, (1,) * count)
        wide = widened(images)
        out = windows.window_sum(wide, kernel=kernel, stride=strides, padding=widths)
        if divisor_override is None:
            counted = paddings if count_include_pad else (0,) * count
            divisor = divisors(wide, out, kernel, strides, paddings, counted)
        else:
            divisor = as_integer(function, "divisor_override", divisor_override)
            if divisor == 0:
                raise ArgumentError(f"{function}: divisor_override must not be 0")
        return unbatched(to_dtype(out / divisor, images.raw.dtype), single)

    return pool


average_signals = averaged("avg_pool1d", 1)


def avg_pool1d(
    x: Any,
    kernel_size: Counts,
    stride: Counts | None = None,
    padding: Counts = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of signals (N, C, L).

    `count_include_pad=False` divides by the number of elements that aren't padding.

    >>> ad.nn.functional.avg_pool1d(ad.asarray([[[1.0, 3.0, 2.0, 5.0]]]), 2)
    tensor([[[2. , 3.5]]])
    """
    return average_signals(x, kernel_size, stride, padding, ceil_mode, count_include_pad)


@member(averaged, 2)
def avg_pool2d() -> None:
    """The mean of each window of images (N, C, H, W), or its sum over `divisor_override`.

    >>> ad.nn.functional.avg_pool2d(ad.ones((1, 1, 2, 2)), 2, padding=1)
    tensor([[[[0.25, 0.25],
              [0.25, 0.25]]]])
    """


@member(averaged, 3)
def avg_pool3d() -> None:
    """The mean of each window of volumes (N, C, D, H, W), or its sum over `divisor_override`.

    >>> ad.nn.functional.avg_pool3d(ad.ones((1, 2, 4, 4, 4)), 2).shape
    (1, 2, 2, 2, 2)
    """


def adaptive_avg_pool1d(x: Any, output_size: Any) -> Tensor:
    """Means over `output_size` windows that share a signal (N, C, L) evenly.

    >>> ad.nn.functional.adaptive_avg_pool1d(ad.asarray([[[1.0, 2.0, 6.0]]]), 2)
    tensor([[[1.5, 4. ]]])
    """
    return adaptive_average("adaptive_avg_pool1d", 1, x, output_size)


def adaptive_avg_pool2d(x: Any, output_size: Any) -> Tensor:
    """Means over windows that share images (N, C, H, W) evenly; None keeps an axis as it is.

    >>> ad.nn.functional.adaptive_avg_pool2d(ad.ones((1, 3, 7, 5)), (1, None)).shape
    (1, 3, 1, 5)
    """
    return adaptive_average("adaptive_avg_pool2d", 2, x, output_size)


def adaptive_avg_pool3d(x: Any, output_size: Any) -> Tensor:
    """Means over windows that share volumes (N, C, D, H, W) evenly.

    >>> ad.nn.functional.adaptive_avg_pool3d(ad.ones((1, 3, 4, 4, 4)), 1).shape
    (1, 3, 1, 1, 1)
    """
    return adaptive_average("adaptive_avg_pool3d", 3, x, output_size)


def adaptive_max_pool1d(x: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of `output_size` windows that share a signal (N, C, L) evenly.

    >>> ad.nn.functional.adaptive_max_pool1d(ad.asarray([[[1.0, 2.0, 6.0]]]), 2)
    tensor([[[2., 6.]]])
    """
    return adaptive_max("adaptive_max_pool1d", 1, x, output_size, return_indices)


def adaptive_max_pool2d(x: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of windows that share images (N, C, H, W) evenly.

    >>> ad.nn.functional.adaptive_max_pool2d(ad.ones((1, 3, 7, 5)), 2).shape
    (1, 3, 2, 2)
    """
    return adaptive_max("adaptive_max_pool2d", 2, x, output_size, return_indices)


def adaptive_max_pool3d(x: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of windows that share volumes (N, C, D, H, W) evenly.

    >>> ad.nn.functional.adaptive_max_pool3d(ad.ones((1, 3, 4, 4, 4)), 3).shape
    (1, 3, 3, 3, 3)
    """
    return adaptive_max("adaptive_max_pool3d", 3, x, output_size, return_indices)


def pool_padding(function: str, padding: Any, kernel: Ints) -> Ints:
    paddings = per_axis(function, "padding", padding, len(kernel), 0)
    if any(2 * p > k for p, k in zip(paddings, kernel, strict=True)):
        raise ArgumentError(f"{function}: padding {paddings} is more than half of kernel {kernel}")
    return paddings


def pool_widths(
    x: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Pairs:
    """(before, after) for each axis: in ceil_mode what the last, partly outside window needs.

    A window that would start after the image and the padding before it doesn't count.
    """
    if not ceil_mode:
        return symmetric(padding)
    widths = []
    for n, k, s, p, d in zip(x[2:], kernel, stride, padding, dilation, strict=True):
        extent = d * (k - 1) + 1
        last = math.ceil((n + 2 * p - extent) / s)
        if last * s >= n + p:
            last -= 1
        widths.append((p, max(p, last * s + extent - n - p)))
    return tuple(widths)


def check_elements(
    function: str, x: Ints, kernel: Ints, stride: Ints, widths: Pairs, dilation: Ints
) -> None:
    """With dilation a window may lie between and beside all elements: it has no largest."""
    if max(dilation) == 1:
        return
    size = windows.window_count(x, kernel, stride, widths, dilation)
    axes = zip(x[2:], kernel, stride, widths, dilation, size, strict=True)
    for n, k, s, (before, _), d, count in axes:
        places = np.arange(count)[:, None] * s - before + np.arange(k) * d
        if not ((places >= 0) & (places < n)).any(axis=1).all():
            raise ArgumentError(
                f"{function}: with kernel {kernel}, padding {tuple(p for p, _ in widths)} and "
                f"dilation {dilation} a window has only padding in it; the image is {x[2:]}"
            )


def divisors(
    x: Tensor, out: Tensor, kernel: Ints, stride: Ints, padding: Ints, counted: Ints
) -> Any:
    """The number of elements of each window that lie in the image and `counted` padding."""
    axes = zip(x.shape[2:], out.shape[2:], kernel, stride, padding, counted, strict=True)
    lengths = []
    for n, count, k, s, p, extra in axes:
        start = np.arange(count) * s - p
        lengths.append(np.minimum(start + k, n + extra) - np.maximum(start, -extra))
    if all((length == k).all() for length, k in zip(lengths, kernel, strict=True)):
        return math.prod(kernel)
    whole = functools.reduce(np.multiply, np.meshgrid(*lengths, indexing="ij", sparse=True))
    return asarray(whole.astype(x.raw.dtype), device=x.device)


def adaptive_size(function: str, images: Tensor, count: int, output_size: Any) -> Ints:
    """The output's spatial shape; None keeps an axis."""
    given = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * count
    if len(given) == count:
        kept = zip(given, images.shape[2:], strict=True)
        given = tuple(n if wanted is None else wanted for wanted, n in kept)
    size = per_axis(function, "output_size", given, count, 1)
    if 0 in images.shape[2:]:
        raise ShapeError(f"{function}: the images have no elements: shape {images.shape}")
    return size


def is_even(images: Tensor, size: Ints) -> bool:
    """Whether the windows of an adaptive pool are equal and side by side."""
    return all(n % m == 0 for n, m in zip(images.shape[2:], size, strict=True))


def adaptive_average(function: str, count: int, x: Any, output_size: Any) -> Tensor:
    images, single = batched(function, as_float(as_tensor(function, x)), count)
    size = adaptive_size(function, images, count, output_size)
    average = even_average if is_even(images, size) else uneven_average
    means = average(widened(images), size)
    return unbatched(to_dtype(means, images.raw.dtype), single)


def even_average(images: Tensor, size: Ints) -> Tensor:
    kernel = tuple(n // m for n, m in zip(images.shape[2:], size, strict=True))
    none = symmetric((0,) * len(size))
    sums = windows.window_sum(images, kernel=kernel, stride=kernel, padding=none)
    return sums / math.prod(kernel)


def uneven_average(images: Tensor, size: Ints) -> Tensor:
    table, inside = adaptive_windows(images.shape, size)
    # What isn't inside a window reads a zero, put behind the image.
    places = np.where(inside, table, math.prod(images.shape[2:]))
    flat = pad(flattened(images), pad_width=((0, 0), (0, 0), (0, 1)), value=0)
    elements = index(
        flat, placed_indices(places, images.device), spec=(slice(None), slice(None), "array")
    )
    lengths = asarray(inside.sum(axis=1).astype(images.raw.dtype), device=images.device)
    means = reductions.sum_(elements, axis=(3,), keepdims=False) / lengths
    return reshape(means, shape=(*images.shape[:2], *size))


def adaptive_max(function: str, count: int, x: Any, output_size: Any, return_indices: bool) -> Any:
    images, single = batched(function, as_tensor(function, x), count)
    size = adaptive_size(function, images, count, output_size)
    if is_even(images, size):
        kernel = tuple(n // m for n, m in zip(images.shape[2:], size, strict=True))
        none = symmetric((0,) * count)
        values, indices = windows.max_pool(
            images, kernel=kernel, stride=kernel, padding=none, dilation=(1,) * count
        )
    else:
        values, indices = uneven_max(images, size)
    values = unbatched(values, single)
    return (values, unbatched(indices, single)) if return_indices else values


def uneven_max(images: Tensor, size: Ints) -> tuple[Tensor, Tensor]:
    """The largest elements of windows of different lengths, and their flat indices."""
    table, inside = adaptive_windows(images.shape, size)
    # What isn't inside a window repeats its first element: it is never the first of equals.
    places = placed_indices(np.where(inside, table, table[:, :1]), images.device)
    flat = flattened(images)
    elements = index(flat.detach(), places, spec=(slice(None), slice(None), "array"))
    best = reductions.argmax(elements, axis=3, keepdims=True)
    every = reductions.broadcast_to(places, shape=elements.shape)
    chosen = take_along_axis(every, best, axis=3)
    chosen = reshape(chosen, shape=(*images.shape[:2], len(table)))
    values = take_along_axis(flat, chosen, axis=2)
    shape = (*images.shape[:2], *size)
    return reshape(values, shape=shape), reshape(chosen, shape=shape)


def adaptive_windows(x: Ints, size: Ints) -> tuple[np.ndarray, np.ndarray]:
    """Flat image indices (windows, elements), and which of them are inside their window.

    Window i of m along an axis of n elements goes from floor(i n / m) to ceil((i + 1) n / m).
    """
    count = len(size)
    table = np.zeros((1,) * 2 * count, np.int64)
    inside = np.ones((1,) * 2 * count, bool)
    for axis, (n, m) in enumerate(zip(x[2:], size, strict=True)):
        start = np.arange(m) * n // m
        stop = -(-(np.arange(1, m + 1) * n) // m)
        places = start[:, None] + np.arange((stop - start).max())
        shape = [1] * 2 * count
        shape[axis], shape[count + axis] = places.shape
        step = math.prod(x[3 + axis :])
        table = table + (np.minimum(places, n - 1) * step).reshape(shape)
        inside = inside & (places < stop[:, None]).reshape(shape)
    rows = math.prod(size)
    return table.reshape(rows, -1), inside.reshape(rows, -1)


def flattened(images: Tensor) -> Tensor:
    return reshape(images, shape=(*images.shape[:2], math.prod(images.shape[2:])))
