"""Numbers that are right though parts of them leave the range of floats, or at special points.

The truth is computed in many digits.
"""

import itertools
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import adjoint as ad
from tests.support.helpers import DEVICES, derivative, leaf, values

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


# Roots of squares: the squares leave the range where the root doesn't.

# Sizes of data whose squares overflow or underflow in a dtype; float16 has no smaller numbers.
SIZES = [("f2", 300), ("f2", 5000), ("f4", 1.7e19), ("f4", 1e30), ("f4", 1e-25)]
SIZES += [("f8", 1e160), ("f8", 1e300), ("f8", 1e-200)]


def numbers(n: int, dtype: str, size: float) -> tuple[np.ndarray, np.ndarray]:
    """Of both signs, and the same in float64 divided by their size."""
    x = (np.random.default_rng(n).uniform(-1, 1, n) * size).astype(dtype)
    return x, x.astype("f8") / size


ROOTS: dict[str, tuple[Callable, Callable, Callable]] = {
    "std": (
        ad.std,
        np.std,
        lambda x: (x - x.mean()) / (len(x) * x.std()),
    ),
    "corrected std": (
        lambda x: ad.std(x, correction=1),
        lambda x: np.std(x, ddof=1),
        lambda x: (x - x.mean()) / ((len(x) - 1) * x.std(ddof=1)),
    ),
    "norm": (
        ad.linalg.vector_norm,
        np.linalg.norm,
        lambda x: x / np.linalg.norm(x),
    ),
    "norm of order 3": (
        lambda x: ad.linalg.vector_norm(x, ord=3),
        lambda x: np.linalg.norm(x, 3),
        lambda x: np.sign(x) * (x / np.linalg.norm(x, 3)) ** 2,
    ),
    "norm of order -2": (
        lambda x: ad.linalg.vector_norm(x, ord=-2),
        lambda x: np.linalg.norm(x, -2),
        lambda x: (np.linalg.norm(x, -2) / x) ** 3,
    ),
}


def sized(devices: str) -> list:
    """Device, dtype, size and count of numbers, for which all roots are finite."""
    return [
        pytest.param(device, dtype, size, n, marks=pytest.mark.webgpu if device != "cpu" else ())
        for device in devices.split()
        for dtype, size in SIZES
        for n in (7, 20_000)
        if (device == "cpu" or dtype != "f8") and size * n**0.5 < float(np.finfo(dtype).max)
    ]


@pytest.mark.parametrize("device, dtype, size, n", sized("cpu webgpu"))
@pytest.mark.parametrize("name", ROOTS)
def test_roots_of_squares_of_any_size(
    name: str, device: str, dtype: str, size: float, n: int
) -> None:
    call, value, gradient = ROOTS[name]
    data, scaled = numbers(n, dtype, size)
    x = ad.tensor(data, device=device, requires_grad=True)
    out = call(x)
    (g,) = ad.autograd.grad(out, [x])
    tolerance = 4 * n**0.25 * EPS[dtype]
    assert out.detach().to("cpu").item() / size == pytest.approx(value(scaled), rel=tolerance)
    expected = gradient(scaled)
    error = tolerance * np.abs(expected).max() + float(np.finfo(dtype).smallest_subnormal)
    np.testing.assert_allclose(values(g.to("cpu")), expected, rtol=0, atol=error)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ROOTS)
def test_roots_of_squares_of_zeros_have_gradient_zero_in_every_order(
    name: str, device: str
) -> None:
    x = ad.zeros(5, device=device, requires_grad=True)
    g = derivative(ROOTS[name][0](x), x, create_graph=True)
    second = derivative(g.sum(), x)
    for found in (g, second):
        np.testing.assert_array_equal(values(found.to("cpu")), 0)


def test_the_spread_of_more_numbers_than_float16_can_count_has_a_gradient() -> None:
    data = np.random.default_rng(0).uniform(-1, 1, 100_000).astype("f2")
    x = leaf(data, "f2")
    for spread, slope in ((ad.var, 2.0), (ad.std, 3**0.5)):
        g = derivative(spread(x), x)
        np.testing.assert_allclose(values(g), data.astype("f8") * slope / 1e5, rtol=0.02, atol=2e-7)


def test_the_norm_of_all_gradients_whose_squares_leave_the_range() -> None:
    for size in (1e25, 1e-25):
        x = ad.full(10_000, size)
        assert ad.nn.utils.get_total_norm([x, x]).item() == pytest.approx(141.42136 * size)
    p = ad.tensor([1.0, 1.0], requires_grad=True)
    p.grad = ad.full(2, 1e25)
    ad.nn.utils.clip_grad_norm_([p], 1.0)
    np.testing.assert_allclose(values(p.grad), 0.5**0.5, rtol=1e-6)


# Inner products: as exact as sums.

INNER = {
    "vecdot": ad.vecdot,
    "dot": ad.dot,
    "matmul": ad.matmul,
    "einsum": lambda x, y: ad.einsum("i,i->", x, y),
    "einsum of matrices": lambda x, y: ad.einsum("ij,ij->", x.reshape(2, -1), y.reshape(2, -1)),
    "tensordot": lambda x, y: ad.tensordot(x, y, axes=1),
}


@pytest.mark.parametrize("name", INNER)
def test_inner_products_lose_no_digits(name: str) -> None:
    """float32 alone would lose most of them: where the sum is large, terms are too small for it."""
    n = 3 * 2**20
    x, y = np.full(n, 1.1, "f4"), np.full(n, 0.7, "f4")
    expected = n * float(x[0]) * float(y[0])
    assert INNER[name](ad.asarray(x), ad.asarray(y)).item() == pytest.approx(expected, rel=1.2e-7)


def test_inner_products_of_any_layout_and_length() -> None:
    rng = np.random.default_rng(0)
    for n in (20_000, 300_001):
        rows = rng.uniform(-1, 1, (3, 2 * n)).astype("f4")
        for x, y in (
            (rows[:, ::-2], rows[:, 1::2]),
            (rows[0, :n], rows.reshape(2 * n, 3).T[:, :n]),
            (rows[:, :n], rows[0, n:]),
        ):
            exact = (x.astype("f8") * y.astype("f8")).sum(-1)
            size = np.abs(x.astype("f8") * y.astype("f8")).sum(-1)
            found = ad.vecdot(ad.asarray(x), ad.asarray(y)).numpy()
            assert found.shape == exact.shape
            np.testing.assert_array_less(np.abs(found - exact), 1.2e-7 * size)


@pytest.mark.webgpu
def test_rms_norms_of_long_rows_on_a_gpu() -> None:
    x = np.random.default_rng(0).standard_normal((2, 20_000)).astype("f4")
    found = ad.nn.functional.rms_norm(ad.asarray(x, device="webgpu"), 20_000).to("cpu").numpy()
    expected = x / np.sqrt((x.astype("f8") ** 2).mean(-1, keepdims=True))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
