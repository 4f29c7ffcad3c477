"""Windows of images as columns of a matrix, and back."""

import math
from typing import Any

import numpy as np

from .._core.promotion import placed_indices
from .._core.tensor import Tensor
from .._foundation.errors import ShapeError
from ..functions._arguments import as_tensor
from ..functions.shapes import reshape
from ..primitives.indexing import index, scatter
from ..primitives.shapes import pad, slice_
from ..primitives.windows import window_count
from ._operands import in_float32
from ._windows import Ints, batched, check_window, per_axis, symmetric, unbatched

__all__ = ["fold", "unfold"]

FLAT = (slice(None), slice(None), "array")


def unfold(
    x: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The windows of images (N, C, H, W) as columns: (N, C h w, windows).

    >>> ad.nn.functional.unfold(ad.reshape(ad.arange(4.0), (1, 1, 2, 2)), (1, 2))
    tensor([[[0., 2.],
             [1., 3.]]])
    """
    images, single = batched("unfold", as_tensor("unfold", x), 2)
    kernel, dilation, padding, stride = geometry("unfold", kernel_size, dilation, padding, stride)
    check_window("unfold", images.shape, kernel, symmetric(padding), dilation)
    widths = ((0, 0), (0, 0), *symmetric(padding))
    padded = pad(images, pad_width=widths, value=0) if any(padding) else images
    places = window_places(padded.shape[2:], kernel, dilation, stride)
    flat = reshape(padded, (*images.shape[:2], math.prod(padded.shape[2:])))
    columns = index(flat, placed_indices(places, images.device), spec=FLAT)
    shape = (images.shape[0], images.shape[1] * math.prod(kernel), places.shape[1])
    return unbatched(reshape(columns, shape), single)


@in_float32
def fold(
    x: Any,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Tensor:
    """Images from columns (N, C h w, windows): what falls on one pixel adds up.

    >>> ad.nn.functional.fold(ad.ones((1, 2, 2)), (1, 3), (1, 2))
    tensor([[[[1., 2., 1.]]]])
    """
    columns, single = batched("fold", as_tensor("fold", x), 1)
    size = per_axis("fold", "output_size", output_size, 2, 1)
    kernel, dilation, padding, stride = geometry("fold", kernel_size, dilation, padding, stride)
    count = math.prod(kernel)
    check_window("fold", (1, 1, *size), kernel, symmetric(padding), dilation)
    canvas = tuple(n + 2 * p for n, p in zip(size, padding, strict=True))
    places = window_places(canvas, kernel, dilation, stride)
    images, rows, length = columns.shape
    if rows % count or length != places.shape[1]:
        raise ShapeError(
            f"fold: columns (N, C * {count}, {places.shape[1]}) are needed for windows of {kernel} "
            f"in {size}, got shape {columns.shape}"
        )
    channels = rows // count
    apart = reshape(columns, (images, channels, count, length))
    flat = (images, channels, math.prod(canvas))
    out = scatter(apart, placed_indices(places, columns.device), spec=FLAT, shape=flat)
    out = reshape(out, (images, channels, *canvas))
    inner = tuple(slice(p, p + n) for p, n in zip(padding, size, strict=True))
    return unbatched(slice_(out, index=(slice(None), slice(None), *inner)), single)


def geometry(
    function: str, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> tuple[Ints, Ints, Ints, Ints]:
    return (
        per_axis(function, "kernel_size", kernel_size, 2, 1),
        per_axis(function, "dilation", dilation, 2, 1),
        per_axis(function, "padding", padding, 2, 0),
        per_axis(function, "stride", stride, 2, 1),
    )


def window_places(size: Ints, kernel: Ints, dilation: Ints, stride: Ints) -> np.ndarray:
    """Flat indices (elements of a window, windows) into an image."""
    counts = window_count((1, 1, *size), kernel, stride, symmetric((0, 0)), dilation)
    rows, columns = (
        (np.arange(k) * d)[:, None] + np.arange(n) * s
        for k, d, n, s in zip(kernel, dilation, counts, stride, strict=True)
    )
    places = rows[:, None, :, None] * size[1] + columns[None, :, None, :]
    return places.reshape(math.prod(kernel), math.prod(counts))
