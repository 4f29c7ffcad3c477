"""Fourier transforms agree with NumPy's, in the precision of their input; gradients are refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

RNG = np.random.default_rng(0)
REAL = RNG.standard_normal((4, 5))
COMPLEX = REAL + 1j * RNG.standard_normal((4, 5))
NORMS = ("backward", "ortho", "forward")


def agree(out: ad.Tensor, expected: np.ndarray, tolerance: float = 1e-13) -> None:
    assert out.shape == expected.shape
    assert out.dtype.name == expected.dtype.name
    np.testing.assert_allclose(out.numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [None, 1, 3, 4, 9])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_transform_along_an_axis(name: str, axis: int, n: int | None, norm: Any) -> None:
    x = REAL if name in ("rfft", "ihfft") else COMPLEX
    out = getattr(ad.fft, name)(ad.asarray(x), n=n, axis=axis, norm=norm)
    agree(out, getattr(np.fft, name)(x, n, axis, norm))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    ("s", "axes"),
    [(None, None), (None, (0,)), (None, (1, 0)), ((3, 6), (0, 1)), ((2,), (-1,)), (None, ())],
)
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_transform_over_axes(name: str, s: Any, axes: Any, norm: Any) -> None:
    x = REAL if name == "rfftn" else COMPLEX
    call = getattr(ad.fft, name)
    if axes == () and name in ("rfftn", "irfftn"):
        with pytest.raises(ad.ArgumentError, match="at least one axis"):
            call(ad.asarray(x), s=s, axes=axes, norm=norm)
        return
    expected = getattr(np.fft, name)(x, s, axes, norm)
    agree(call(ad.asarray(x), s=s, axes=axes, norm=norm), expected)


def test_lengths_without_axes_are_those_of_the_last() -> None:
    x = RNG.standard_normal((2, 3, 4)) + 0j
    agree(ad.fft.fftn(ad.asarray(x), s=(2, 5)), np.fft.fftn(x, (2, 5), (1, 2)))


@pytest.mark.parametrize("n", range(1, 8))
def test_frequencies(n: int) -> None:
    agree(ad.fft.fftfreq(n, d=0.3, dtype=ad.float64), np.fft.fftfreq(n, 0.3))
    agree(ad.fft.rfftfreq(n, d=0.3, dtype=ad.float64), np.fft.rfftfreq(n, 0.3))
    assert ad.fft.fftfreq(n).dtype == ad.float32


@pytest.mark.parametrize("axes", [None, 0, (1,), (0, 1)])
def test_shifts_move_zero_to_the_middle_and_back(axes: Any) -> None:
    x = ad.asarray(REAL)
    agree(ad.fft.fftshift(x, axes=axes), np.fft.fftshift(REAL, axes))
    agree(ad.fft.ifftshift(ad.fft.fftshift(x, axes=axes), axes=axes), REAL)


@pytest.mark.parametrize(
    ("dtype", "found"),
    [
        ("float16", "complex64"),
        ("float32", "complex64"),
        ("float64", "complex128"),
        ("int64", "complex64"),
        ("complex64", "complex64"),
    ],
)
def test_precision_is_the_input_s(dtype: str, found: str) -> None:
    assert ad.fft.fft(ad.ones(3, dtype=dtype)).dtype.name == found


@pytest.mark.parametrize("call", [ad.fft.fft, ad.fft.rfft, ad.fft.fftn])
def test_a_trace_knows_shapes_and_dtypes(call: Callable) -> None:
    x = ad.ones((3, 4))
    out = ad.trace(call, x)(x)
    agree(out, call(x).numpy())


@pytest.mark.parametrize(
    ("error", "call", "says"),
    [
        (ad.GradientError, lambda: ad.fft.fft(ad.ones(3, requires_grad=True)), "fft has no grad"),
        (ad.DTypeError, lambda: ad.fft.rfft(ad.ones(3) * 1j), "rfft: real .* ad.fft.fft"),
        (ad.ArgumentError, lambda: ad.fft.ihfft(ad.ones(3), norm="no"), "ihfft: norm"),
        (ad.ArgumentError, lambda: ad.fft.fft(ad.ones(3), n=0), "fft: lengths .* at least 1"),
        (ad.ArgumentError, lambda: ad.fft.irfft(ad.ones(1)), "irfft: lengths"),
        (ad.ArgumentError, lambda: ad.fft.fftn(ad.ones(3), s=(1,), axes=(0, 0)), "fftn: .* twice"),
        (ad.ArgumentError, lambda: ad.fft.fftn(ad.ones((3, 3)), s=(1,), axes=(0, 1)), "1 lengths"),
        (ad.AxisError, lambda: ad.fft.fft(ad.ones(3), axis=1), "fft: axis 1"),
        (ad.KeywordError, lambda: ad.fft.fft(ad.ones(3), dim=0), "fft: .* axis="),
        (ad.ArgumentError, lambda: ad.fft.fftfreq(0), "fftfreq: n"),
        (ad.DTypeError, lambda: ad.fft.rfftfreq(3, dtype=ad.int64), "rfftfreq: a float dtype"),
    ],
)
def test_misuse_is_explained(error: type[Exception], call: Callable, says: str) -> None:
    with pytest.raises(error, match=says):
        call()
