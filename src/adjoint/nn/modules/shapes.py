"""Layers that change the shape of x: axes joined and parted, images of another size, borders."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..._core.tensor import Tensor
from ..._foundation.errors import ArgumentError
from ...functions._arguments import as_axis, as_integer, as_integers, as_number, as_tensor
from ...functions.shapes import reshape
from .. import functional as F
from .applied import Applied, OfOne, count, one_of, settings

__all__ = ["Flatten", "PixelShuffle", "PixelUnshuffle", "Unflatten", "Upsample"]

SMOOTH = ("linear", "bilinear", "trilinear", "bicubic")
MODES = ("nearest", "nearest-exact", "area", *SMOOTH)


class Flatten(Applied, shown=("start_axis", "end_axis")):
    """x with the axes from `start_axis` to `end_axis` joined; the first one, of examples, stays.

    >>> ad.nn.Flatten()(ad.ones((2, 3, 4, 5))).shape
    (2, 60)
    """

    def __init__(self, start_axis: int = 1, end_axis: int = -1, **unknown: Any) -> None:
        super().__init__(**unknown)
        self.start_axis = as_integer("Flatten", "start_axis", start_axis)
        self.end_axis = as_integer("Flatten", "end_axis", end_axis)

    def forward(self, x: Any) -> Tensor:
        """x with some axes joined."""
        x = as_tensor("Flatten", x)
        shape = x.shape or (1,)
        start = as_axis("start_axis", self.start_axis, len(shape))
        end = as_axis("end_axis", self.end_axis, len(shape)) + 1
        if start >= end:
            raise ArgumentError(
                f"start_axis={self.start_axis} comes after end_axis={self.end_axis} for shape "
                f"{x.shape}"
            )
        return reshape(x, (*shape[:start], math.prod(shape[start:end]), *shape[end:]))


class Unflatten(Applied, shown=("axis", "unflattened_size")):
    """x with an axis parted into several; one of their lengths may be -1.

    >>> ad.nn.Unflatten(1, (3, -1))(ad.ones((2, 60))).shape
    (2, 3, 20)
    """

    def __init__(self, axis: int, unflattened_size: Sequence[int], **unknown: Any) -> None:
        super().__init__(**unknown)
        self.axis = as_integer("Unflatten", "axis", axis)
        sizes = as_integers("Unflatten", "unflattened_size", unflattened_size)
        if not sizes or min(sizes) < -1 or sizes.count(-1) > 1:
            raise ArgumentError(
                f"Unflatten: unflattened_size must be lengths, one of them may be -1; got {sizes}"
            )
        self.unflattened_size = tuple(sizes)

    def forward(self, x: Any) -> Tensor:
        """x with an axis parted."""
        x = as_tensor("Unflatten", x)
        axis = as_axis("axis", self.axis, x.ndim)
        known = math.prod(n for n in self.unflattened_size if n >= 0)
        length = x.shape[axis]
        whole = -1 not in self.unflattened_size
        if length != known if whole else known == 0 or length % known:
            raise ArgumentError(
                f"axis {axis} of shape {x.shape} can't be parted into {self.unflattened_size}"
            )
        sizes = (length // known if n < 0 else n for n in self.unflattened_size)
        return reshape(x, (*x.shape[:axis], *sizes, *x.shape[axis + 1 :]))


class Upsample(OfOne, function=F.interpolate):
    """Images (N, C, …) of one to three spatial axes, brought to a size or scaled by a factor.

    Modes are "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic" and "area".
    `align_corners` lets the centres of corner pixels stay where they are, instead of the corners.

    >>> ad.nn.Upsample(scale_factor=2, mode="bilinear")(ad.ones((1, 3, 4, 5))).shape
    (1, 3, 8, 10)
    """

    options = ("size", "scale_factor", "mode", "align_corners")

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
    ) -> None:
        super().__init__()
        if (size is None) == (scale_factor is None):
            raise ArgumentError("Upsample: give either size or scale_factor")
        self.size = each(lambda n: count(self, "size", n), size)
        self.scale_factor = each(self._factor, scale_factor)
        self.mode = one_of(self, "mode", mode, MODES)
        if align_corners is not None and mode not in SMOOTH:
            raise ArgumentError(f"Upsample: align_corners goes with {SMOOTH}, not with {mode!r}")
        self.align_corners = align_corners

    def _factor(self, value: Any) -> float:
        factor = as_number("Upsample", "scale_factor", value)
        if not factor > 0:
            raise ArgumentError(f"Upsample: scale_factor={value} must be above 0")
        return factor

    def extra_repr(self) -> str:
        return settings(self, "scale_factor" if self.size is None else "size", "mode")


def each(check: Callable[[Any], Any], value: Any) -> Any:
    """What a check makes of a number, or of each in a tuple; None stays."""
    if isinstance(value, (tuple, list)):
        return tuple(map(check, value))
    return None if value is None else check(value)


class PixelShuffle(OfOne, function=F.pixel_shuffle, options=("upscale_factor",)):
    """(…, C r r, H, W) as (…, C, H r, W r): channels become pixels.

    >>> ad.nn.PixelShuffle(2)(ad.ones((1, 12, 4, 5))).shape
    (1, 3, 8, 10)
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = count(self, "upscale_factor", upscale_factor)


class PixelUnshuffle(OfOne, function=F.pixel_unshuffle, options=("downscale_factor",)):
    """(…, C, H r, W r) as (…, C r r, H, W): pixels become channels.

    >>> ad.nn.PixelUnshuffle(2)(ad.ones((1, 3, 8, 10))).shape
    (1, 12, 4, 5)
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = count(self, "downscale_factor", downscale_factor)
