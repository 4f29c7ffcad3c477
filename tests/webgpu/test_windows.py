"""Convolution and pooling on a GPU: the same as the NumPy functions compute.

Where sums aren't the point, elements are small whole numbers: their sums are exact in any order, so
results are equal bit for bit.
"""

import math
from typing import Any

import numpy as np
import pytest

from adjoint.backends.cpu import NUMPY
from tests.support.convolutions import case, geometry
from tests.webgpu.calls import laid_out, same

pytestmark = [pytest.mark.webgpu, pytest.mark.usefixtures("ieee")]

Ints = tuple[int, ...]
LAYOUTS = ("transposed", "sliced", "backwards")


def need(webgpu, dtype: str) -> None:
    if np.dtype(dtype) not in webgpu.gpu.dtypes:
        pytest.skip(f"{webgpu.gpu.name} has no {dtype}")


def whole(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def real(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


CASES = {
    "many images": case((19, 3, 7, 5), (9, 3, 3, 3), padding=1),
    "one image": case((1, 3, 13, 11), (9, 3, 3, 3), padding=1),
    "one small image": case((1, 5, 4, 3), (11, 5, 3, 3), padding=1),
    "three images": case((3, 2, 13, 9), (5, 2, 3, 2)),
    "more channels than are read at once": case((2, 35, 5, 6), (10, 35, 2, 3), padding=1),
    "one output channel": case((5, 9, 6, 7), (1, 9, 3, 3), padding=1),
    "three output channels": case((5, 9, 6, 7), (3, 9, 3, 3)),
    "one output": case((2, 3, 5, 5), (4, 3, 5, 5)),
    "one place": case((2, 9, 6, 18), (5, 9, 1, 1)),
    "one place, strided": case((2, 9, 7, 18), (5, 9, 1, 1), 2),
    "one place, padded": case((2, 3, 5, 5), (4, 3, 1, 1), padding=2),
    "stride": case((9, 3, 9, 17), (6, 3, 3, 3), 2, 1),
    "stride larger than the filter": case((2, 3, 17, 19), (6, 3, 2, 2), (5, 3)),
    "patches": case((2, 3, 16, 12), (9, 3, 4, 4), 4),
    "dilation": case((2, 3, 12, 13), (6, 3, 3, 3), padding=2, dilation=2),
    "stride and dilation": case((2, 3, 17, 23), (6, 3, 3, 3), (4, 2), (1, 3), (2, 3)),
    "a common divisor": case((5, 3, 19, 17), (4, 3, 3, 3), (4, 6), (2, 3), (2, 4)),
    "uneven padding": case((2, 3, 9, 8), (4, 3, 3, 2), 2, ((2, 0), (1, 3))),
    "an end that isn't read": case((2, 3, 9, 8), (4, 3, 3, 2), 1, ((1, -2), (0, -3))),
    "padding larger than the image": case((2, 3, 2, 3), (4, 3, 3, 3), padding=(7, 4)),
    "groups": case((2, 6, 8, 17), (9, 2, 3, 3), padding=1, groups=3),
    "large groups": case((9, 18, 6, 5), (20, 9, 3, 3), 2, 1, groups=2),
    "a channel each": case((9, 7, 9, 8), (7, 1, 3, 3), padding=1, groups=7),
    "two of each channel": case((2, 5, 9, 11), (10, 1, 3, 3), 2, 1, groups=5),
    "a sum in parts": case((5, 3, 33, 31), (4, 3, 2, 3)),
    "a sum in parts of many images": case((130, 9, 5, 5), (3, 9, 3, 3)),
    "signals": case((3, 4, 97), (6, 4, 5), 3, ((2, 1),), 2),
    "many signals": case((11, 9, 30), (9, 9, 3), 1, 1),
    "grouped signals": case((2, 6, 31), (4, 3, 4), 2, 1, 3, groups=2),
    "volumes": case((2, 3, 5, 6, 7), (5, 3, 2, 3, 2), (1, 2, 3), 1, (2, 1, 1)),
    "volumes of a channel each": case((9, 4, 5, 4, 6), (4, 1, 3, 2, 3), 2, (1, 0, 2), groups=4),
    "no images": case((0, 3, 7), (2, 3, 3)),
    "no input channels": case((2, 0, 7), (3, 0, 3)),
    "no output channels": case((2, 3, 7), (0, 3, 3)),
    "empty images": case((2, 3, 0), (4, 3, 3), padding=2),
}


@pytest.mark.parametrize("name", CASES)
class TestConvolution:
    def test_output(self, webgpu, name):
        shape_x, shape_w, geometry = CASES[name]
        x, w, bias = whole(*shape_x), whole(*shape_w, seed=1), whole(shape_w[0], seed=2)
        same(webgpu, "conv", x, w, bias, **geometry)

    def test_input_gradient(self, webgpu, name):
        case = CASES[name]
        g, w = whole(*case.out), whole(*case.w, seed=1)
        same(webgpu, "conv_input", g, w, x_shape=case.x, **case.geometry)

    def test_weight_gradient(self, webgpu, name):
        case = CASES[name]
        x, g = whole(*case.x), whole(*case.out, seed=1)
        same(webgpu, "conv_weight", x, g, w_shape=case.w, **case.geometry)


LAID_OUT = case((3, 6, 9, 8), (4, 3, 3, 2), (2, 1), (1, 2), groups=2)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_convolution_of_any_layout(webgpu, layout):
    x, w, bias, g = whole(*LAID_OUT.x), whole(*LAID_OUT.w), whole(4), whole(*LAID_OUT.out)
    geometry = LAID_OUT.geometry
    same(webgpu, "conv", x, w, bias, layout=layout, **geometry)
    same(webgpu, "conv_input", g, w, layout=layout, x_shape=x.shape, **geometry)
    same(webgpu, "conv_weight", x, g, layout=layout, w_shape=w.shape, **geometry)


def test_convolution_without_a_bias(webgpu):
    same(webgpu, "conv", whole(2, 3, 5, 6), whole(5, 3, 2, 2), **geometry(2), groups=1)


def test_convolution_of_known_numbers(webgpu):
    """An array of one number has no memory until a program needs it."""
    x, w = np.full((2, 3, 5, 6), 2, np.float32), np.full((4, 3, 2, 2), 3, np.float32)
    numbers = [webgpu.Array(z.shape, z.dtype, None, number=z.flat[0].item()) for z in (x, w)]
    found = webgpu.FUNCTIONS["conv"](*numbers, None, **geometry(2, padding=1), groups=1)
    expected = NUMPY["conv"](x, w, None, **geometry(2, padding=1), groups=1)
    np.testing.assert_array_equal(webgpu.to_numpy(found), expected)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "float16"])
def test_convolution_of_other_dtypes(webgpu, dtype):
    need(webgpu, dtype)
    x, w, g = (abs(whole(*shape, dtype=dtype)) for shape in ((9, 9, 20, 20), (5, 9, 3, 3), (5,)))
    shape = geometry(2, 2, 1)
    same(webgpu, "conv", x, w, g, **shape, groups=1)
    g = abs(whole(9, 5, 10, 10, dtype=dtype))
    same(webgpu, "conv_input", g, w, x_shape=x.shape, **shape, groups=1)
    g[1:] = 0  # what float16 has exactly
    same(webgpu, "conv_weight", x, g, w_shape=w.shape, **shape, groups=1)


def test_float16_is_summed_in_float32(webgpu):
    """4096 ones: float16 would stop at 2048."""
    need(webgpu, "float16")
    x, w = np.ones((1, 4096, 2), np.float16), np.ones((2, 4096, 1), np.float16)
    same(webgpu, "conv", x, w, **geometry(1), groups=1)
    x, g = np.ones((1, 1, 4096), np.float16), np.ones((1, 1, 4096), np.float16)
    same(webgpu, "conv_weight", x, g, w_shape=(1, 1, 1), **geometry(1), groups=1)
    same(webgpu, "window_sum", x, kernel=(4095,), stride=(1,), padding=((0, 0),))
    x = np.ones((1, 1, 61, 67), np.float16)
    x += np.float16(2**-10)
    attrs = {"stride": (1, 1), "padding": ((0, 0), (0, 0))}
    same(webgpu, "window_sum", x, kernel=(61, 66), **attrs)
    same(webgpu, "window_spread", x[..., :22, :28], shape=x.shape, kernel=(40, 40), **attrs)


def magnitude(name: str, *arrays: np.ndarray, **attrs: Any) -> np.ndarray:
    """The sum of the magnitudes of the terms."""
    return NUMPY[name](*[np.abs(x).astype(np.float64) for x in arrays], **attrs)


def test_sums_of_products_are_rounded_as_often_as_there_are_terms_at_most(webgpu):
    """Relative to the magnitudes of the terms, as terms may cancel: a unit in the last place, 6e-8,
    times the square root of the number of terms is what is expected, 10 of those the limit."""
    case = CASES["more channels than are read at once"]
    x, w, g = real(*case.x), real(*case.w, seed=1), real(*case.out, seed=2)
    calls = [
        ("conv", (x, w), {}, math.prod(case.w[1:])),
        ("conv_input", (g, w), {"x_shape": case.x}, case.w[0] * 6),
        ("conv_weight", (x, g), {"w_shape": case.w}, g.size // case.w[0]),
    ]
    for name, arrays, attrs, terms in calls:
        attrs = {**attrs, **case.geometry}
        exact = NUMPY[name](*[z.astype(np.float64) for z in arrays], **attrs)
        found = webgpu.to_numpy(
            webgpu.FUNCTIONS[name](*[laid_out(webgpu, z) for z in arrays], **attrs)
        )
        error = np.abs(found - exact) / magnitude(name, *arrays, **attrs)
        assert error.max() < 10 * 6e-8 * math.sqrt(terms), name


def test_weight_gradients_are_the_same_each_time(webgpu):
    case = CASES["a sum in parts"]
    x, g = laid_out(webgpu, real(*case.x)), laid_out(webgpu, real(*case.out, seed=1))
    run = webgpu.FUNCTIONS["conv_weight"]
    results = [run(x, g, w_shape=case.w, **case.geometry) for _ in range(3)]
    first, *others = [webgpu.to_numpy(out).tobytes() for out in results]
    assert others == [first, first]


def test_nan_reaches_only_windows_that_have_it(webgpu):
    x, w = whole(9, 2, 6, 5), whole(3, 2, 3, 3)
    x[0, 0, 0, 0] = np.nan
    x[4, 1, 3, 2] = np.inf
    same(webgpu, "conv", x, abs(w) + 1, **geometry(2, 1, 2), groups=1)
    g = whole(9, 3, 6, 5)
    g[0, 0, 0, 0] = np.nan
    same(webgpu, "conv_input", g, w, x_shape=x.shape, **geometry(2, 1, 1), groups=1)


POOLS = {
    "side by side": ((3, 2, 8, 9), (2, 3), geometry(2, (2, 3))),
    "overlapping": ((2, 3, 9, 11), (3, 2), geometry(2, (2, 1), (1, 1))),
    "apart": ((2, 3, 9, 11), (2, 2), geometry(2, 3, (1, 0))),
    "uneven padding": ((2, 3, 9, 7), (3, 3), geometry(2, 2, ((1, 2), (0, 1)))),
    "whole images": ((2, 3, 5, 7), (5, 7), geometry(2)),
    "large": ((2, 2, 23, 25), (12, 9), geometry(2, (2, 3), (5, 4))),
    "large, close": ((2, 2, 23, 25), (12, 11), geometry(2, 1, (5, 4))),
    "large, few": ((2, 3, 20, 22), (15, 18), geometry(2, (5, 4), (2, 3))),
    "signals": ((3, 4, 31), (4,), geometry(1, 3, 2)),
    "volumes": ((2, 3, 5, 6, 7), (2, 3, 2), geometry(3, (2, 1, 2), (1, 0, 1))),
    "large volumes": ((1, 2, 11, 12, 10), (5, 6, 7), geometry(3, (2, 3, 1), (2, 3, 3))),
    "no images": ((0, 3, 5, 6), (2, 2), geometry(2)),
}


def without_dilation(geometry: dict[str, Any]) -> dict[str, Any]:
    return {"stride": geometry["stride"], "padding": geometry["padding"]}


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint32"])
@pytest.mark.parametrize("name", POOLS)
class TestPooling:
    @pytest.fixture(autouse=True)
    def has_dtype(self, webgpu, dtype):
        need(webgpu, dtype)

    def test_largest(self, webgpu, name, dtype):
        """Of few different numbers, so that many are equal."""
        shape, kernel, geometry = POOLS[name]
        same(webgpu, "max_pool", whole(*shape, dtype=dtype), kernel=kernel, **geometry)

    def test_sum(self, webgpu, name, dtype):
        shape, kernel, geometry = POOLS[name]
        plain = without_dilation(geometry)
        same(webgpu, "window_sum", whole(*shape, dtype=dtype), kernel=kernel, **plain)

    def test_sum_gradient(self, webgpu, name, dtype):
        shape, kernel, geometry = POOLS[name]
        plain = {"kernel": kernel, **without_dilation(geometry)}
        g = whole(*NUMPY["window_sum"](np.empty(shape), **plain).shape, dtype=dtype)
        same(webgpu, "window_spread", g, shape=shape, **plain)


@pytest.mark.parametrize("kernel", [(3, 2), (11, 13)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_pooling_of_any_layout(webgpu, layout, kernel):
    x, plain = whole(2, 3, 17, 15), without_dilation(geometry(2, 2, 1))
    same(webgpu, "max_pool", x, layout=layout, kernel=kernel, **geometry(2, 2, 1))
    same(webgpu, "window_sum", x, layout=layout, kernel=kernel, **plain)
    g = whole(*NUMPY["window_sum"](x, kernel=kernel, **plain).shape)
    same(webgpu, "window_spread", g, layout=layout, shape=x.shape, kernel=kernel, **plain)


def test_pooling_of_known_numbers(webgpu):
    x = np.full((2, 3, 5, 6), 2, np.float32)
    number = webgpu.Array(x.shape, x.dtype, None, number=2.0)
    for name, shape in (("max_pool", geometry(2, 2, 1)), ("window_sum", {})):
        attrs = {"kernel": (2, 3), **(shape or without_dilation(geometry(2, 2, 1)))}
        expected, found = NUMPY[name](x, **attrs), webgpu.FUNCTIONS[name](number, **attrs)
        if name == "window_sum":
            expected, found = (expected,), (found,)
        for e, f in zip(expected, found, strict=True):
            np.testing.assert_array_equal(webgpu.to_numpy(f), e)


@pytest.mark.parametrize("dilation", [2, (3, 1)])
def test_largest_of_dilated_windows(webgpu, dilation):
    same(webgpu, "max_pool", whole(2, 3, 11, 9), kernel=(3, 2), **geometry(2, 2, 1, dilation))
    same(webgpu, "max_pool", whole(2, 3, 40, 31), kernel=(9, 10), **geometry(2, 1, 4, dilation))


@pytest.mark.parametrize("kernel", [(2, 2), (9, 9)])
def test_largest_of_special_values(webgpu, kernel):
    """NaN is larger than all, -inf than padding, and the first of both zeros is taken."""
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42, -1e-42], np.float32)
    x = np.random.default_rng(3).choice(special, (4, 5, 21, 23))
    x[0], x[1] = -np.inf, np.random.default_rng(4).choice(special[2:], (5, 21, 23))
    x[2] = np.random.default_rng(5).choice(special[4:6], (5, 21, 23))
    shape = {"kernel": kernel, **geometry(2, 2, 1)}
    expected, places = NUMPY["max_pool"](x, **shape)
    found, indices = map(
        webgpu.to_numpy, webgpu.FUNCTIONS["max_pool"](laid_out(webgpu, x), **shape)
    )
    np.testing.assert_array_equal(indices, places)
    np.testing.assert_array_equal(found, expected)


def test_window_of_nothing_but_padding_is_lower_than_all(webgpu):
    shape = {"kernel": (2,), **geometry(1, 1, 3, 2)}
    same(webgpu, "max_pool", whole(2, 3, 1), **shape)


def test_sum_over_large_windows_is_exact_to_float32(webgpu):
    """Positive terms, so nothing cancels: 1e-6 of the sum is some tens of its last place."""
    x = abs(real(2, 2, 300, 280))
    for kernel in ((300, 280), (250, 260)):
        attrs = {"kernel": kernel, "stride": (20, 10), "padding": ((0, 0), (0, 0))}
        exact = NUMPY["window_sum"](x.astype(np.float64), **attrs)
        found = webgpu.to_numpy(webgpu.FUNCTIONS["window_sum"](laid_out(webgpu, x), **attrs))
        np.testing.assert_allclose(found, exact, rtol=1e-6, atol=0)
