"""Padding of the last axes, and channels traded for pixels."""

from collections.abc import Sequence
from typing import Any

from .._core.tensor import Tensor
from .._foundation.errors import ArgumentError, ShapeError
from ..functions._arguments import as_integer, as_tensor
from ..functions.arrangement import pad as padded
from ..functions.elementwise import positive
from ..functions.shapes import permute_dims, reshape
from ..primitives.shapes import slice_
from ._operands import as_scalar

__all__ = ["pad", "pixel_shuffle", "pixel_unshuffle"]

# PyTorch's name, NumPy's name, and how much of the axis may be added at most.
OWN_ELEMENTS = {"reflect": ("reflect", -1), "replicate": ("edge", None), "circular": ("wrap", 0)}
Widths = tuple[tuple[int, int], ...]


def pad(x: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Elements put before and after the last axes: (before, after) of the last, then of others.

    Modes are "constant" (`value`, 0 unless given), "reflect", "replicate" and "circular". Negative
    widths take elements away.

    >>> ad.nn.functional.pad(ad.asarray([[1.0, 2.0]]), (1, 0, 0, 1))
    tensor([[0., 1., 2.],
            [0., 0., 0.]])
    """
    x = as_tensor("pad", x)
    widths = by_axis(x, pad)
    if mode not in ("constant", *OWN_ELEMENTS):
        raise ArgumentError(f"pad: mode {mode!r} is none of 'constant', {list(OWN_ELEMENTS)}")
    if not any(map(any, widths)):
        return positive(x)
    if mode == "circular":  # what is taken away doesn't come round again
        x, widths = cropped(x, widths), without_negative(widths)
    return cropped(extended(x, without_negative(widths), mode, value), widths)


def extended(x: Tensor, widths: Widths, mode: str, value: float | None) -> Tensor:
    if mode == "constant":
        given = 0 if value is None else value
        number = given if x.raw.dtype.kind == "c" else as_scalar("pad", "value", given)
        return padded(x, widths, constant_values=number)
    if value is not None:
        raise ArgumentError(f"pad: value={value} goes with mode 'constant', not {mode!r}")
    name, spare = OWN_ELEMENTS[mode]
    if spare is not None and any(max(w) > n + spare for w, n in zip(widths, x.shape, strict=True)):
        raise ShapeError(
            f"pad: mode {mode!r} can't add {widths} to a tensor of shape {x.shape}: at most "
            f"{'one less than its length' if spare else 'its length'} along each axis"
        )
    return padded(x, widths, name)


def without_negative(widths: Widths) -> Widths:
    return tuple((max(before, 0), max(after, 0)) for before, after in widths)


def by_axis(x: Tensor, flat: Any) -> Widths:
    """(before, after) for each axis, from pairs that begin with the last axis."""
    given = tuple(flat) if isinstance(flat, (tuple, list)) else ()
    if len(given) % 2 or len(given) > 2 * x.ndim or not isinstance(flat, (tuple, list)):
        raise ArgumentError(
            f"pad: pairs of (before, after) for up to {x.ndim} axes, the last one first, are needed"
            f" in one flat tuple; got {flat!r} for shape {x.shape}"
        )
    numbers = [as_integer("pad", "a width", n) for n in given]
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    return (*((0, 0) for _ in range(x.ndim - len(pairs))), *reversed(pairs))


def cropped(x: Tensor, widths: Widths) -> Tensor:
    """x without what negative widths take away."""
    if min(map(min, widths), default=0) >= 0:
        return x
    bounds = [
        (max(-before, 0), n + min(after, 0))
        for n, (before, after) in zip(x.shape, widths, strict=True)
    ]
    if any(start > stop for start, stop in bounds):
        raise ShapeError(f"pad: {widths} takes more away than the shape {x.shape} has")
    return slice_(x, index=tuple(slice(start, stop) for start, stop in bounds))


def pixel_shuffle(x: Any, upscale_factor: int) -> Tensor:
    """(..., C r r, H, W) as (..., C, H r, W r): channels become pixels.

    >>> ad.nn.functional.pixel_shuffle(ad.reshape(ad.arange(4), (4, 1, 1)), 2)
    tensor([[[0, 1],
             [2, 3]]])
    """
    x, r = image("pixel_shuffle", x, "upscale_factor", upscale_factor)
    *batch, channels, height, width = x.shape
    if channels % (r * r):
        raise ShapeError(
            f"pixel_shuffle: {channels} channels of shape {x.shape} aren't a multiple of {r} * {r}"
        )
    count = len(batch)
    apart = reshape(x, (*batch, channels // (r * r), r, r, height, width))
    order = (*range(count), *(count + k for k in (0, 3, 1, 4, 2)))
    return reshape(permute_dims(apart, order), (*batch, channels // (r * r), height * r, width * r))


def pixel_unshuffle(x: Any, downscale_factor: int) -> Tensor:
    """(..., C, H r, W r) as (..., C r r, H, W): pixels become channels.

    >>> ad.nn.functional.pixel_unshuffle(ad.ones((1, 4, 6)), 2).shape
    (4, 2, 3)
    """
    x, r = image("pixel_unshuffle", x, "downscale_factor", downscale_factor)
    *batch, channels, height, width = x.shape
    if height % r or width % r:
        raise ShapeError(
            f"pixel_unshuffle: height and width of shape {x.shape} aren't multiples of {r}"
        )
    count = len(batch)
    apart = reshape(x, (*batch, channels, height // r, r, width // r, r))
    order = (*range(count), *(count + k for k in (0, 2, 4, 1, 3)))
    return reshape(permute_dims(apart, order), (*batch, channels * r * r, height // r, width // r))


def image(function: str, x: Any, name: str, factor: Any) -> tuple[Tensor, int]:
    x, factor = as_tensor(function, x), as_integer(function, name, factor)
    if x.ndim < 3 or factor < 1:
        raise ShapeError(
            f"{function}: (..., C, H, W) and a {name} of at least 1 are needed, got shape {x.shape}"
            f" and {factor}"
        )
    return x, factor
