"""Random numbers on a GPU: the CPU's bits, and gamma variates from the same counters."""

from typing import Any

import numpy as np
import pytest

from adjoint.backends.cpu import NUMPY

pytestmark = [pytest.mark.webgpu, pytest.mark.usefixtures("ieee")]

SHAPES = [(), (0,), (3, 0), (1,), (2,), (3,), (511,), (512,), (513,), (7, 5, 3), (100_001,)]
STATES = {
    "start": (7, 0, 0, 0),
    "key of two words": (0xDEADBEEF, 0xFFFFFFFF, 12, 0),
    "carry within the numbers": (1, 2, 0xFFFFFFF0, 3),
    "carry at the first": (1, 2, 0xFFFFFFFF, 3),
    "carry over 64 bits": (5, 6, 0xFFFFFFFE, 0xFFFFFFFF),
}


def draw(webgpu: Any, op: str, *inputs: Any, **attrs: Any) -> tuple:
    """The results of an op, and the state after it, on the device."""
    return webgpu.FUNCTIONS[op](webgpu.gpu, *inputs, **attrs)


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bits_and_the_state_after_them_are_the_cpu_s(webgpu, shape: tuple, state: tuple) -> None:
    start = np.array(state, np.uint32)
    expected = NUMPY["random_bits"](start, shape=shape)
    found = draw(webgpu, "random_bits", webgpu.from_numpy(start), shape=shape)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == np.uint32 and one.shape == other.shape
        np.testing.assert_array_equal(webgpu.to_numpy(one), other)


def test_a_state_is_followed_on_the_device(webgpu) -> None:
    start = np.array([3, 4, 0xFFFFFFFD, 0], np.uint32)
    here, there, reads = start, webgpu.from_numpy(start), webgpu.gpu.counts["reads"]
    drawn = []
    for size in (3, 1, 0, 8):
        expected, here = NUMPY["random_bits"](here, shape=(size,))
        bits, there = draw(webgpu, "random_bits", there, shape=(size,))
        drawn.append((bits, expected))
    assert webgpu.gpu.counts["reads"] == reads
    for bits, expected in drawn:
        np.testing.assert_array_equal(webgpu.to_numpy(bits), expected)
    np.testing.assert_array_equal(webgpu.to_numpy(there), here)


def test_a_state_may_be_a_part_of_an_array(webgpu) -> None:
    words = np.arange(20, dtype=np.uint32)
    whole = webgpu.from_numpy(words)
    bits, after = draw(webgpu, "random_bits", whole.view((4,), (2,), 3), shape=(9,))
    expected = NUMPY["random_bits"](words[3:11:2], shape=(9,))
    np.testing.assert_array_equal(webgpu.to_numpy(bits), expected[0])
    np.testing.assert_array_equal(webgpu.to_numpy(after), expected[1])


@pytest.mark.parametrize("alpha", [1e-3, 0.3, 0.9, 1.0, 4 / 3, 1.5, 30.0, 1e6, 1e30])
def test_gamma_variates_are_the_cpu_s_but_for_rounding(webgpu, alpha: float) -> None:
    """The same counters make them, so that only a number whose acceptance is decided by the last
    bits may be another: the logarithms compared there are precise to 1e-5, thus one in 1e5."""
    state = np.array([11, 12, 0xFFFFFFFF, 1], np.uint32)
    alphas = np.full((2, 10_007), alpha, np.float32)
    expected, after = NUMPY["random_log_gamma"](state, alphas)
    inputs = webgpu.from_numpy(state), webgpu.from_numpy(alphas)
    out, moved = map(webgpu.to_numpy, draw(webgpu, "random_log_gamma", *inputs))
    np.testing.assert_array_equal(moved, after)
    assert out.shape == alphas.shape and out.dtype == np.float32
    others = ~np.isclose(out, expected, rtol=1e-5, atol=1e-5)
    assert others.sum() <= 2


def test_gamma_parameters_of_many_layouts(webgpu) -> None:
    state = webgpu.from_numpy(np.array([1, 2, 3, 4], np.uint32))
    alphas = np.random.default_rng(0).uniform(0.1, 9, (5, 6)).astype(np.float32)
    whole = webgpu.from_numpy(alphas)
    turned = whole.view((6, 5), (1, 6))
    repeated = whole.view((3, 6), (0, 1), 6)
    for view, same in ((turned, alphas.T), (repeated, np.tile(alphas[1], (3, 1)))):
        out, _ = draw(webgpu, "random_log_gamma", state, view)
        expected, _ = NUMPY["random_log_gamma"](np.array([1, 2, 3, 4], np.uint32), same)
        np.testing.assert_allclose(webgpu.to_numpy(out), expected, rtol=1e-5, atol=1e-5)


def test_gamma_variates_that_there_are_none_of(webgpu) -> None:
    state = np.array([1, 2, 3, 4], np.uint32)
    alphas = np.array([0, -1, np.nan, np.inf, -np.inf, -0.0, 2], np.float32)
    out, _ = draw(webgpu, "random_log_gamma", webgpu.from_numpy(state), webgpu.from_numpy(alphas))
    assert np.isnan(webgpu.to_numpy(out)).tolist() == [True] * 6 + [False]
    none, after = draw(
        webgpu, "random_log_gamma", webgpu.from_numpy(state), webgpu.from_numpy(alphas[:0])
    )
    assert webgpu.to_numpy(none).shape == (0,)
    assert webgpu.to_numpy(after).tolist() == [1, 2, 4, 4]


def test_logarithms_of_tiny_gamma_variates_are_finite(webgpu) -> None:
    state, alphas = np.array([1, 2, 3, 4], np.uint32), np.full(1000, 2e-38, np.float32)
    expected, _ = NUMPY["random_log_gamma"](state, alphas)
    inputs = webgpu.from_numpy(state), webgpu.from_numpy(alphas)
    out = webgpu.to_numpy(draw(webgpu, "random_log_gamma", *inputs)[0])
    assert np.isfinite(out).all() and (out == out.min()).sum() > 1
    np.testing.assert_allclose(out, expected, rtol=1e-5)
