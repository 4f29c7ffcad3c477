"""Images of another size: each new pixel is a weighted sum of neighbours, axis after axis."""

import functools
import math
from typing import Any

import numpy as np

from .._core.promotion import placed_indices
from .._core.tensor import Tensor
from .._foundation.errors import ArgumentError, ShapeError
from ..functions._arguments import as_number
from ..functions.creation import asarray
from ..functions.elementwise import positive
from ..functions.indexing import take
from ..functions.shapes import reshape
from ..primitives.elementwise import add
from ._operands import as_reals, in_float32
from ._pooling import adaptive_average
from ._windows import per_axis

__all__ = ["interpolate"]

# Modes that belong to a number of spatial axes; the others go with any.
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}
SHARPNESS = -0.75  # of cubic interpolation, as PyTorch and OpenCV have it
Taps = list[tuple[np.ndarray, np.ndarray | None]]


@in_float32
def interpolate(
    x: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Images (N, C, ...) of one to three spatial axes, brought to a size or scaled by a factor.

    Modes are "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic" and "area".
    `align_corners` lets the centres of corner pixels stay where they are, instead of the corners.

    >>> ad.nn.functional.interpolate(ad.asarray([[[1.0, 3.0]]]), 4, mode="linear")
    tensor([[[1. , 1.5, 2.5, 3. ]]])
    """
    x = as_reals("interpolate", x)
    count = x.ndim - 2
    if count not in LINEAR or 0 in x.shape[2:]:
        raise ShapeError(
            f"interpolate: images (N, C, ...) of 1, 2 or 3 spatial axes are needed, got {x.shape}"
        )
    check_mode(mode, count, align_corners)
    out, factors = wanted_size(x.shape[2:], size, scale_factor)
    if mode == "area":
        return adaptive_average("interpolate", count, x, out)
    images = positive(x)
    for axis, (n, factor) in enumerate(zip(out, factors, strict=True), 2):
        if n != x.shape[axis] or (factor != 1 and mode not in LINEAR.values()):
            neighbours = taps(mode, x.shape[axis], n, factor, bool(align_corners))
            images = functools.reduce(add, [weighted(images, axis, *tap) for tap in neighbours])
    return images


def check_mode(mode: str, count: int, align_corners: bool | None) -> None:
    smooth = (LINEAR[count], *(("bicubic",) if count == 2 else ()))
    known = ("nearest", "nearest-exact", "area", *smooth)
    if mode not in known:
        raise ArgumentError(
            f"interpolate: mode {mode!r} isn't one of those for {count} spatial axes: {known}"
        )
    if align_corners is not None and mode not in smooth:
        raise ArgumentError(f"interpolate: align_corners goes with {smooth}, not with {mode!r}")


def wanted_size(
    spatial: tuple[int, ...], size: Any, scale_factor: Any
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The new size, and by how much each axis shrinks."""
    count = len(spatial)
    if (size is None) == (scale_factor is None):
        raise ArgumentError("interpolate: give either size or scale_factor")
    if size is not None:
        out = per_axis("interpolate", "size", size, count, 1)
        return out, tuple(n / m for n, m in zip(spatial, out, strict=True))
    several = isinstance(scale_factor, (tuple, list))
    given = [
        as_number("interpolate", "scale_factor", s)
        for s in (scale_factor if several else (scale_factor,) * count)
    ]
    if len(given) != count or not all(s > 0 for s in given):
        raise ArgumentError(
            f"interpolate: scale_factor must be a positive number, or {count} of them, got "
            f"{scale_factor!r}"
        )
    out = tuple(math.floor(n * s) for n, s in zip(spatial, given, strict=True))
    if min(out) < 1:
        raise ShapeError(f"interpolate: {spatial} times {scale_factor} leaves nothing: {out}")
    return out, tuple(1 / s for s in given)


def taps(mode: str, n: int, m: int, factor: float, align_corners: bool) -> Taps:
    """The neighbours of each of m new pixels among n, and their weights (None: 1)."""
    pixels = np.arange(m)
    if mode == "nearest":
        return [(inside(np.floor(pixels * factor), n), None)]
    if mode == "nearest-exact":
        return [(inside(np.floor((pixels + 0.5) * factor), n), None)]
    place = pixels * ((n - 1) / max(m - 1, 1)) if align_corners else (pixels + 0.5) * factor - 0.5
    if mode != "bicubic":
        place = np.maximum(place, 0)
    first = np.floor(place)
    part = place - first
    if mode != "bicubic":
        return [(inside(first, n), 1 - part), (inside(first + 1, n), part)]
    return [(inside(first + k, n), cubic(np.abs(part - k))) for k in (-1, 0, 1, 2)]


def inside(place: np.ndarray, n: int) -> np.ndarray:
    return np.clip(place, 0, n - 1).astype(np.int64)


def cubic(distance: np.ndarray) -> np.ndarray:
    """The weight of a pixel at a distance of up to 2: two cubic polynomials."""
    a, t = SHARPNESS, distance
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, near, far)


def weighted(x: Tensor, axis: int, places: np.ndarray, weight: np.ndarray | None) -> Tensor:
    out = take(x, placed_indices(places, x.device), axis=axis)
    if weight is None:
        return out
    factors = asarray(weight.astype(x.raw.dtype), device=x.device)
    return out * reshape(factors, (-1, *(1 for _ in x.shape[axis + 1 :])))
