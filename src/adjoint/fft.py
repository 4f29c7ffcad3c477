"""Fourier transforms, with the array API's names: `ad.fft`.

They have no gradients yet, as complex numbers have none: tensors that require grad are refused.
Lengths `n` and `s` cut the input or fill it with zeros. `norm` says where 1 / n goes: "backward",
into the inverse; "forward", into the transform; "ortho", its root into both.
"""

import math
from collections.abc import Sequence
from typing import Any

from ._core.tensor import Tensor
from ._foundation.dtypes import REAL_PART, as_numpy, complex64, complex128, float64
from ._foundation.errors import ArgumentError, DTypeError
from .functions._arguments import (
    Axis,
    as_axes,
    as_axis,
    as_integer,
    as_integers,
    as_number,
    as_tensor,
    reject,
    undifferentiated,
)
from .functions._families import member
from .functions.arrangement import roll
from .functions.creation import arange
from .functions.elementwise import conj
from .functions.reductions import as_float
from .functions.shapes import concat
from .primitives.conversions import cast
from .primitives.fourier import fourier

__all__ = ["fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft"]
__all__ += ["irfft", "irfftn", "rfft", "rfftfreq", "rfftn"]


def __dir__() -> list[str]:
    return __all__


SWAPPED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def fft(
    x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward", **unknown: Any
) -> Tensor:
    """The Fourier transform along an axis.

    >>> ad.fft.fft(ad.asarray([1.0, 0.0, 0.0])).real
    tensor([1., 1., 1.])
    """
    return along_axis("fft", x, n, axis, norm, unknown)


def ifft(
    x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward", **unknown: Any
) -> Tensor:
    """The inverse of `fft`.

    >>> ad.fft.ifft(ad.fft.fft(ad.asarray([1.0, 2.0]))).real
    tensor([1., 2.])
    """
    return along_axis("ifft", x, n, axis, norm, unknown)


def rfft(
    x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward", **unknown: Any
) -> Tensor:
    """The Fourier transform of real numbers, without the half that mirrors the other.

    >>> ad.fft.rfft(ad.asarray([1.0, 0.0, 0.0, 0.0])).real
    tensor([1., 1., 1.])
    """
    return along_axis("rfft", x, n, axis, norm, unknown)


def irfft(
    x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward", **unknown: Any
) -> Tensor:
    """The inverse of `rfft`; `n` is the length of the result, even unless given.

    >>> ad.fft.irfft(ad.fft.rfft(ad.asarray([1.0, 2.0, 3.0])), n=3)
    tensor([1., 2., 3.])
    """
    return along_axis("irfft", x, n, axis, norm, unknown)


def hfft(
    x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward", **unknown: Any
) -> Tensor:
    """The Fourier transform, which is real, of what is given by half: the rest mirrors it.

    >>> ad.fft.hfft(ad.asarray([1.0, 0.0, 0.0]))
    tensor([1., 1., 1., 1.])
    """
    return along_axis("irfft", conj(x), n, axis, swapped("hfft", norm), unknown, "hfft")


def ihfft(
    x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward", **unknown: Any
) -> Tensor:
    """The inverse of `hfft`.

    >>> ad.fft.ihfft(ad.asarray([1.0, 1.0, 1.0, 1.0])).real
    tensor([1., 0., 0.])
    """
    return conj(along_axis("rfft", x, n, axis, swapped("ihfft", norm), unknown, "ihfft"))


def over_axes(function: str, transform: str):
    """fftn, ifftn, rfftn, irfftn."""

    def transform_over_axes(
        x: Any,
        /,
        *,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        norm: str = "backward",
    ) -> Tensor:
        x = as_tensor(function, x)
        if axes is None:
            count = x.ndim if s is None else len(s)
            axes = range(x.ndim - count, x.ndim)
        found = [as_axis(function, k, x.ndim) for k in axes]
        if len(set(found)) < len(found):
            raise ArgumentError(f"{function}: axes {tuple(axes)} name an axis twice")
        return transformed(function, transform, x, s, found, norm)

    return transform_over_axes


@member(over_axes, "fft")
def fftn() -> None:
    """The Fourier transform over axes: the last `len(s)`, or all, unless named.

    >>> ad.fft.fftn(ad.ones((2, 2))).real
    tensor([[4., 0.],
            [0., 0.]])
    """


@member(over_axes, "ifft")
def ifftn() -> None:
    """The inverse of `fftn`.

    >>> ad.fft.ifftn(ad.fft.fftn(ad.ones((2, 2)))).real
    tensor([[1., 1.],
            [1., 1.]])
    """


@member(over_axes, "rfft")
def rfftn() -> None:
    """The Fourier transform of real numbers over axes, half of it along the last.

    >>> ad.fft.rfftn(ad.ones((2, 4))).shape
    (2, 3)
    """


@member(over_axes, "irfft")
def irfftn() -> None:
    """The inverse of `rfftn`; `s` are the lengths of the result.

    >>> ad.fft.irfftn(ad.fft.rfftn(ad.ones((2, 3))), s=(2, 3))
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    """


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: str | None = None) -> Tensor:
    """The frequencies of `fft` of n samples that are d apart.

    >>> ad.fft.fftfreq(4)
    tensor([ 0.  ,  0.25, -0.5 , -0.25])
    """
    count, raw = samples("fftfreq", n), real_dtype("fftfreq", dtype)
    half = (count + 1) // 2
    parts = [arange(0, half, device=device), arange(half - count, 0, device=device)]
    return scaled("fftfreq", concat(parts), count, d, raw)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: str | None = None) -> Tensor:
    """The frequencies of `rfft` of n samples that are d apart.

    >>> ad.fft.rfftfreq(4)
    tensor([0.  , 0.25, 0.5 ])
    """
    count, raw = samples("rfftfreq", n), real_dtype("rfftfreq", dtype)
    return scaled("rfftfreq", arange(0, count // 2 + 1, device=device), count, d, raw)


def fftshift(x: Any, /, *, axes: Axis = None) -> Tensor:
    """The frequency 0 moved to the middle of axes, all if none is named.

    >>> ad.fft.fftshift(ad.asarray([0, 1, 2, -2, -1]))
    tensor([-2, -1,  0,  1,  2])
    """
    x = as_tensor("fftshift", x)
    moved = as_axes("fftshift", axes, x.ndim)
    return roll(x, [x.shape[k] // 2 for k in moved], moved)


def ifftshift(x: Any, /, *, axes: Axis = None) -> Tensor:
    """The inverse of `fftshift`.

    >>> ad.fft.ifftshift(ad.asarray([-2, -1, 0, 1, 2]))
    tensor([ 0,  1,  2, -2, -1])
    """
    x = as_tensor("ifftshift", x)
    moved = as_axes("ifftshift", axes, x.ndim)
    return roll(x, [-(x.shape[k] // 2) for k in moved], moved)


def along_axis(
    transform: str,
    x: Any,
    n: int | None,
    axis: int,
    norm: str,
    unknown: dict,
    function: str | None = None,
) -> Tensor:
    function = function or transform
    if unknown:
        reject(function, unknown)
    x = as_tensor(function, x)
    lengths = None if n is None else [n]
    return transformed(function, transform, x, lengths, [as_axis(function, axis, x.ndim)], norm)


def transformed(
    function: str, transform: str, x: Tensor, lengths: Any, axes: list[int], norm: str
) -> Tensor:
    x = in_precision(function, undifferentiated(function, as_float(x)), transform == "rfft")
    if not axes and transform in ("rfft", "irfft"):
        raise ArgumentError(f"{function}: at least one axis is needed")
    sizes = input_lengths(function, transform, x, lengths, axes)
    swapped(function, norm)
    dtype = x.raw.dtype
    shape = list(x.shape)
    for axis, n in zip(axes, sizes, strict=True):
        shape[axis] = n
    if transform == "rfft":
        shape[axes[-1]] = sizes[-1] // 2 + 1
        dtype = COMPLEX[dtype]
    if transform == "irfft":
        dtype = REAL_PART[dtype]
    return fourier(
        x,
        transform=transform,
        lengths=tuple(sizes),
        axis=tuple(axes),
        norm=norm,
        dtype=dtype,
        shape=tuple(shape),
    )


COMPLEX = {real: complex_ for complex_, real in REAL_PART.items()}


def in_precision(function: str, x: Tensor, real: bool) -> Tensor:
    """x in the precision that it is transformed in, complex unless the transform is of reals."""
    raw = x.raw.dtype
    if real and raw.kind == "c":
        raise DTypeError(f"{function}: real numbers are needed, got {x.dtype.name}; use ad.fft.fft")
    if raw.kind != "c":
        wide = complex128 if raw == float64.dtype else complex64
        raw = REAL_PART[wide.dtype] if real else wide.dtype
    return cast(x, dtype=raw)


def input_lengths(
    function: str, transform: str, x: Tensor, lengths: Any, axes: list[int]
) -> list[int]:
    """The length along each axis: the one given, or what there is."""
    if lengths is None:
        sizes = [x.shape[k] for k in axes]
        if transform == "irfft" and sizes:
            sizes[-1] = 2 * (sizes[-1] - 1)
    else:
        sizes = as_integers(function, "a length", tuple(lengths))
    if len(sizes) != len(axes):
        raise ArgumentError(f"{function}: {len(sizes)} lengths for {len(axes)} axes")
    if any(n < 1 for n in sizes):
        raise ArgumentError(
            f"{function}: lengths must be at least 1, got {tuple(sizes)} for shape {x.shape}"
        )
    return sizes


def swapped(function: str, norm: str) -> str:
    """The norm of the inverse."""
    if norm not in SWAPPED:
        raise ArgumentError(f"{function}: norm is one of {', '.join(SWAPPED)}, got {norm!r}")
    return SWAPPED[norm]


def samples(function: str, n: Any) -> int:
    count = as_integer(function, "n", n)
    if count < 1:
        raise ArgumentError(f"{function}: n must be at least 1, got {n}")
    return count


def real_dtype(function: str, dtype: Any) -> Any:
    raw = as_numpy(float if dtype is None else dtype)
    if raw.kind != "f":
        raise DTypeError(f"{function}: a float dtype is needed, got {raw}")
    return raw


def scaled(function: str, numbers: Tensor, count: int, d: float, raw: Any) -> Tensor:
    spacing = as_number(function, "d", d)
    if spacing == 0 or math.isnan(spacing):
        raise ArgumentError(f"{function}: d must not be {d}")
    return cast(numbers, dtype=raw) / (count * spacing)
