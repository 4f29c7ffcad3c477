"""Numbers that are right though parts of them leave the range of floats, or at special points.

The truth is computed in many digits.
"""

import itertools
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from helpers import derivative, leaf, values

import adjoint as ad

DEVICES = ["cpu", pytest.param("webgpu", marks=pytest.mark.webgpu)]
EPS = {"f2": 2.0**-10, "f4": 2.0**-23, "f8": 2.0**-52}


# Powers: no mask cuts off what has a derivative.


def partial(order: str, x: float, y: float) -> float:
    """A mixed derivative of x ** y; "xy" is by x first."""
    variables = {"x": leaf(x), "y": leaf(y)}
    out = variables["x"] ** variables["y"]
    for name in order:
        out = derivative(out, variables[name], create_graph=True)
    return out.item()


ORDERS = ["".join(names) for n in (1, 2, 3) for names in itertools.product("xy", repeat=n)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("x, y", [(2.0, 0.0), (0.5, 0.0), (1.5, 1.0), (3.0, -1.0)])
def test_derivatives_of_a_power_by_base_and_exponent(x: float, y: float, order: str) -> None:
    counts = order.count("x"), order.count("y")
    expected = float(mpmath.diff(lambda x, y: x**y, (x, y), counts))
    assert partial(order, x, y) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_the_slope_of_a_power_by_its_exponent_at_zero_is_one_over_the_base() -> None:
    assert partial("xy", 4.0, 0.0) == partial("yx", 4.0, 0.0) == 0.25


@pytest.mark.parametrize("order", ORDERS)
def test_zero_to_the_zero_has_derivatives_of_zero(order: str) -> None:
    assert partial(order, 0.0, 0.0) == 0


@pytest.mark.parametrize("x", [0.0, 1e-320, np.nan, np.inf, -2.0])
def test_a_constant_exponent_of_zero_has_gradient_zero(x: float) -> None:
    base = leaf(x)
    g = derivative(base**0, base, create_graph=True)
    again = derivative(base ** ad.zeros((), dtype=ad.float64), base)
    assert g.item() == again.item() == 0


def test_a_power_that_vanishes_has_slope_zero_also_where_one_over_the_base_overflows() -> None:
    assert partial("x", 1e-320, 0.0) == 0
    assert partial("xy", 1e-320, 0.0) == np.inf


def test_the_second_derivative_of_elu_at_zero_is_that_of_its_left_side() -> None:
    x = leaf([0.0, -0.0])
    g = derivative(ad.nn.functional.elu(x, alpha=2.0).sum(), x, create_graph=True)
    second = derivative(g.sum(), x)
    np.testing.assert_array_equal(values(second), [2.0, 2.0])


# Products: factors before and after an element are too large or too small where all others aren't.


def gradient_of_prod(x: np.ndarray) -> np.ndarray:
    """Products of all other elements."""
    factors = [mpmath.mpf(float(v)) for v in x]
    ends = [[mpmath.mpf(1)], [mpmath.mpf(1)]]
    for end, run in zip(ends, (factors, factors[::-1]), strict=True):
        for factor in run:
            end.append(end[-1] * factor)
    before, after = ends
    return np.array([float(before[k] * after[len(x) - 1 - k]) for k in range(len(x))])


def gradient_of_running(x: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """And what it would be if all terms had the same sign: its error is a part of that."""
    factors, terms = ([mpmath.mpf(float(v)) for v in row] for row in (x, g))
    before = [mpmath.mpf(1)]
    for factor in factors:
        before.append(before[-1] * factor)
    out, size = np.empty(len(x)), np.empty(len(x))
    tail = total = following = mpmath.mpf(0)
    for k in reversed(range(len(x))):
        tail, total = terms[k] + following * tail, abs(terms[k]) + abs(following) * total
        out[k], size[k] = float(before[k] * tail), float(abs(before[k]) * total)
        following = factors[k]
    return out, size


def assert_near(found: np.ndarray, expected: np.ndarray, error: np.ndarray, dtype: str) -> None:
    """Equal, or within the error; what underflows or overflows may do so a little earlier."""
    info, found = np.finfo(dtype), found.astype("f8")
    with np.errstate(over="ignore", invalid="ignore"):
        near = np.abs(found - expected) <= error + 4 * float(info.tiny)
        large = (np.abs(expected) > float(info.max) / 8) & (found * np.sign(expected) > 0)
    np.testing.assert_array_equal(near | large, True)


def wild_factors(dtype: str, seed: int) -> np.ndarray:
    """Random signs and exponents, of narrow and of wide ranges; sometimes a zero."""
    rng = np.random.default_rng(seed)
    n = [2, 3, 5, 8, 40, 300][seed % 6]
    spread = {"f2": 0.3, "f4": 2.5, "f8": 20.0}[dtype] * [0.1, 1, 4, 12][seed % 4]
    most = {"f2": 14, "f4": 120, "f8": 1000}[dtype]
    exponents = rng.normal(0, spread, n).clip(-most, most)
    x = (np.exp2(exponents) * rng.choice([-1, 1], n)).astype(dtype)
    if rng.random() < 0.4:
        x[rng.integers(n)] = 0
    return x


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_gradients_of_products_of_any_range(dtype: str, seed: int) -> None:
    x = wild_factors(dtype, seed)
    expected = gradient_of_prod(x)
    error = len(x) * EPS[dtype] * np.abs(expected)
    for differentiable in (False, True):
        factors = leaf(x, dtype)
        g = derivative(ad.prod(factors), factors, create_graph=differentiable)
        assert_near(values(g), expected, error, dtype)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_gradients_of_running_products_of_any_range(dtype: str, seed: int, reverse: bool) -> None:
    x = wild_factors(dtype, seed)
    g = np.random.default_rng(seed).standard_normal(len(x)).astype(dtype)
    g[: -1 - seed % 3] *= seed % 2  # sometimes most are 0
    expected, size = gradient_of_running(x, g)
    step = -1 if reverse else 1
    for differentiable in (False, True):
        factors = leaf(x[::step], dtype)
        out = (
            ad.flip(ad.cumulative_prod(ad.flip(factors)))
            if reverse
            else ad.cumulative_prod(factors)
        )
        weights = ad.asarray(g[::step].copy())
        found = derivative(out, factors, weights, create_graph=differentiable)
        with np.errstate(over="ignore"):
            assert_near(values(found)[::step], expected, len(x) * EPS[dtype] * size, dtype)


def last_of_running(x: Any) -> Any:
    return ad.cumulative_prod(x)[-1]


@pytest.mark.parametrize("product", [ad.prod, last_of_running])
@pytest.mark.parametrize("device", DEVICES)
def test_a_zero_among_large_and_small_factors(device: str, product: Callable) -> None:
    x = ad.tensor([1e30, 1e30, 0, 1e-30, 1e-30], device=device, requires_grad=True)
    g = derivative(product(x), x)
    np.testing.assert_allclose(values(g.to("cpu")), [0, 0, 1, 0, 0], rtol=1e-6)


@pytest.mark.parametrize("product", [ad.prod, last_of_running])
@pytest.mark.parametrize("device", DEVICES)
def test_many_factors_around_one(device: str, product: Callable) -> None:
    x = np.exp(np.random.default_rng(0).normal(0, 0.5, 20_000)).astype("f4")
    factors = ad.tensor(x, device=device, requires_grad=True)
    g = derivative(product(factors), factors)
    np.testing.assert_allclose(values(g.to("cpu")), gradient_of_prod(x), rtol=2e-5)


@pytest.mark.parametrize("product", [ad.prod, last_of_running])
def test_second_derivatives_of_products_whose_gradients_underflow(product: Callable) -> None:
    hessian = ad.hessian(product)(ad.full(3, 1e-30))
    np.testing.assert_allclose(values(hessian), 1e-30 * (1 - np.eye(3)), rtol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_products_of_integers_in_one_place_are_exact(device: str) -> None:
    x = ad.asarray([2**24 + 1, 5], dtype=ad.int32, device=device)
    places = ad.asarray([0, 0], device=device)
    found = x.at[places].multiply(3)
    np.testing.assert_array_equal(found.to("cpu").numpy(), [9 * (2**24 + 1), 5])
