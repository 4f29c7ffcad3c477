"""Random numbers: the same again, distributed as they should be, independent, traced, refused."""

import copy
import inspect
import itertools
import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

import adjoint as ad
from adjoint._core.tensor import wrap
from adjoint._foundation.modes import mode
from adjoint.backends.cpu import gamma as gamma_kernel
from adjoint.backends.cpu import threefry
from adjoint.random import FUNCTIONS, Generator, _choice, _truncated
from tests.support.helpers import leaf

FLOATS = (ad.float16, ad.float32, ad.float64)
INTEGERS = tuple(getattr(ad, f"{sign}int{n}") for sign in ("", "u") for n in (8, 16, 32, 64))
LOGITS = np.log([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]])

# Each function, as it draws about `shape` numbers from a generator.
Draw = Callable[[Generator, Any], ad.Tensor]
DRAWS: dict[str, Draw] = {
    "bits": lambda g, shape: g.bits(shape),
    "uniform": lambda g, shape: g.uniform(shape),
    "uniform between": lambda g, shape: g.uniform(shape, -2.0, 3.5),
    "uniform between tensors": lambda g, shape: g.uniform(shape, ad.tensor(-2.0), ad.tensor(3.5)),
    "normal": lambda g, shape: g.normal(shape),
    "truncated_normal": lambda g, shape: g.truncated_normal(shape),
    "exponential": lambda g, shape: g.exponential(shape),
    "laplace": lambda g, shape: g.laplace(shape),
    "gumbel": lambda g, shape: g.gumbel(shape),
    "cauchy": lambda g, shape: g.cauchy(shape),
    "gamma": lambda g, shape: g.gamma(0.7, shape),
    "beta": lambda g, shape: g.beta(0.5, 2.0, shape),
    "dirichlet": lambda g, shape: g.dirichlet(ad.tensor([0.5, 1.0, 2.0]), shape),
    "bernoulli": lambda g, shape: g.bernoulli(0.3, shape),
    "integers": lambda g, shape: g.integers(-3, 10, shape),
    "integers of 64 bits": lambda g, shape: g.integers(0, 2**63, shape),
    "integers below a tensor": lambda g, shape: g.integers(ad.tensor(5), shape=shape),
    "integers between tensors": lambda g, shape: g.integers(
        ad.tensor([-3], dtype=ad.int8), ad.tensor([[9]], dtype=ad.uint32), (*shape, 1, 1)
    ),
    "categorical": lambda g, shape: g.categorical(ad.tensor(LOGITS[0]), shape),
    "categorical of many": lambda g, shape: g.categorical(ad.tensor(LOGITS), (*shape, 2)),
    "permutation": lambda g, shape: g.permutation(math.prod(shape)),
    "permutation of a tensor": lambda g, shape: g.permutation(ad.arange(math.prod(shape))),
    "choice": lambda g, shape: g.choice(5, shape),
    "choice with p": lambda g, shape: g.choice(3, shape, p=[0.1, 0.2, 0.7]),
    "choice of distinct": lambda g, shape: g.choice(60, shape, replace=False),
    "choice of distinct with p": lambda g, shape: g.choice(
        60, shape, replace=False, p=np.arange(60) / 1770
    ),
}
every_draw = pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)


def equal(x: ad.Tensor, y: ad.Tensor) -> bool:
    return x.dtype is y.dtype and np.array_equal(x.numpy(), y.numpy())


# The same numbers again


def test_numbers_stay_what_they_were() -> None:
    ad.random.seed(0)
    uniform, normal = ad.random.uniform((4,)), ad.random.normal((3,), 1.0, 2.0)
    words = np.array([7020545, 10074702, 5279483, 12639807])
    np.testing.assert_array_equal(uniform.numpy(), (words / 2**24).astype(np.float32))
    np.testing.assert_allclose(normal.numpy(), [0.6423563, 6.7357073, -0.966727], rtol=1e-6)
    np.testing.assert_array_equal(ad.random.get_state().numpy(), [0, 0, 4, 0])


@every_draw
def test_a_seed_gives_the_same_numbers_again(draw: Draw) -> None:
    generator, other = Generator(5), Generator(6)
    first = draw(generator, (50,))
    assert not equal(first, draw(generator, (50,)))
    assert not equal(first, draw(other, (50,)))
    generator.seed(5)
    assert equal(first, draw(generator, (50,)))


@every_draw
@pytest.mark.parametrize(
    "save",
    [lambda s: s, lambda s: s.numpy().tobytes(), lambda s: s.numpy(), lambda s: ad.tensor(s)],
    ids=["tensor", "bytes", "array", "copy"],
)
def test_a_saved_state_replays(draw: Draw, save: Callable) -> None:
    generator = Generator(5)
    generator.uniform((3,))
    saved = save(generator.state)
    first = draw(generator, (20,))
    generator.state = saved
    assert equal(first, draw(generator, (20,)))


@pytest.mark.parametrize(
    "duplicate",
    [lambda g: pickle.loads(pickle.dumps(g)), copy.deepcopy, copy.copy],
    ids=["pickle", "deepcopy", "copy"],
)
def test_a_copy_goes_on_by_itself(duplicate: Callable) -> None:
    generator = Generator(5)
    generator.uniform((3,))
    other = duplicate(generator)
    first = generator.normal((4,))
    np.testing.assert_array_equal(first.numpy(), other.normal((4,)).numpy())
    assert equal(generator.state, other.state)
    generator.bits((1,))
    assert not equal(generator.state, other.state)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions_are_methods_of_generators(function: Callable) -> None:
    method = getattr(Generator, function.__name__)
    assert method.__doc__ == function.__doc__
    assert f"{function.__name__}: Callable[..., Tensor]" in inspect.getsource(Generator)
    assert "generator" in inspect.signature(function).parameters
    assert function.__name__ in ad.random.__all__


def test_a_function_uses_the_generator_it_is_given() -> None:
    one, other = Generator(1), Generator(1)
    assert equal(one.normal((3,)), ad.random.normal((3,), generator=other))
    assert equal(one.state, other.state)


def test_the_global_generator_and_others_leave_each_other_alone() -> None:
    generator = Generator(0)
    ad.random.seed(0)
    before = ad.random.get_state()
    generator.normal((10,))
    assert equal(ad.random.get_state(), before)
    state = generator.state
    ad.random.normal((10,))
    ad.random.seed(9)
    assert equal(generator.state, state)


def test_a_state_that_was_read_stays() -> None:
    before = ad.random.get_state()
    ad.random.bits((10,))
    assert equal(before, ad.tensor([0, 0, 0, 0], dtype=ad.uint32))


def test_generators_without_a_seed_differ() -> None:
    assert not equal(Generator().state, Generator().state)


def test_children_are_reproducible_and_later_ones_are_new() -> None:
    parent, same = Generator(3), Generator(3)
    first, second = parent.spawn(2), parent.spawn(2)
    again = same.spawn(2)
    assert all(equal(x.state, y.state) for x, y in zip(first, again, strict=True))
    states = {x.state.numpy().tobytes() for x in (*first, *second, parent)}
    assert len(states) == 5
    assert parent.spawn(0) == []
    assert equal(ad.random.spawn(1)[0].state, Generator(0).spawn(1)[0].state)


@pytest.mark.parametrize("size", [0, 1, 5, 16, 17, 100])
def test_bits_don_t_depend_on_how_the_work_is_divided(size: int, monkeypatch) -> None:
    state = np.array([1, 2, 2**32 - 5, 7], np.uint32)  # the counter passes 32 bits
    bits, after = threefry.random_bits(state, shape=(size,))
    monkeypatch.setattr(threefry, "CHUNK", 4)
    for one, other in zip((bits, after), threefry.random_bits(state, shape=(size,)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_words_follow_each_other_from_call_to_call() -> None:
    generator, whole = Generator(1), Generator(1).bits((30,))
    parts = [generator.bits((n,)).numpy() for n in (10, 2, 18)]
    np.testing.assert_array_equal(np.concatenate(parts), whole.numpy())


def test_a_gamma_variate_depends_on_its_place_and_alpha_only(monkeypatch) -> None:
    state = np.array([1, 2, 3, 4], np.uint32)
    alpha = np.linspace(0.05, 3, 100)
    whole, after = gamma_kernel.random_log_gamma(state, alpha)
    changed = np.where(np.arange(100) % 3 == 0, alpha, 0.5)
    other, same = gamma_kernel.random_log_gamma(state, changed)
    np.testing.assert_array_equal(whole[::3], other[::3])
    assert not np.any(whole[1::3] == other[1::3])
    np.testing.assert_array_equal(after, same)
    monkeypatch.setattr(gamma_kernel, "CHUNK", 7)
    np.testing.assert_array_equal(gamma_kernel.random_log_gamma(state, alpha)[0], whole)


def test_gamma_of_what_isn_t_checked_in_a_trace_is_nan_and_ends() -> None:
    alpha = np.array([0.0, -1.0, np.nan, np.inf, 1.0, 1e300, 5e-324])
    with np.errstate(all="ignore"):
        out, _ = gamma_kernel.random_log_gamma(np.zeros(4, np.uint32), alpha)
    np.testing.assert_array_equal(np.isnan(out), [True, True, True, True, False, False, False])
    assert np.isfinite(out[4:]).all()


# Distributions


def kolmogorov_smirnov(x: np.ndarray, cdf: Callable) -> float:
    """The largest distance between cumulative distributions, times sqrt(n).

    It is above 1.95 once in a thousand times.
    """
    values = np.sort(x.astype(np.float64).reshape(-1))
    expected, n = cdf(values), len(values)
    steps = np.arange(n + 1) / n
    return math.sqrt(n) * max(np.max(steps[1:] - expected), np.max(expected - steps[:-1]))


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    """How far counts are from those expected, in standard deviations of chi-square."""
    degrees = len(counts) - 1
    return (np.sum((counts - expected) ** 2 / expected) - degrees) / math.sqrt(2 * degrees)


erf: Any = np.vectorize(math.erf, otypes=[float])
erfc: Any = np.vectorize(math.erfc, otypes=[float])


def normal_cdf(x: np.ndarray) -> np.ndarray:
    return erfc(-x / math.sqrt(2)) / 2


def normal_tail_between(low: float, high: float) -> Callable:
    """The cdf of the normal distribution between two bounds in the upper tail."""
    tail = lambda x: erfc(x / math.sqrt(2))  # noqa: E731
    return lambda x: (tail(low) - tail(x)) / (tail(low) - tail(high))


def gamma_cdf(alpha: int) -> Callable:
    def cdf(x: np.ndarray) -> np.ndarray:
        logs = [k * np.log(x) - math.lgamma(k + 1) for k in range(alpha)]
        return 1 - np.sum(np.exp(np.array(logs) - x), axis=0)

    return cdf


class Law(NamedTuple):
    """What `draw` of a generator, a shape and a dtype should be distributed as."""

    draw: Callable[[Generator, Any, Any], ad.Tensor]
    cdf: Callable[[np.ndarray], np.ndarray]
    dtypes: tuple = FLOATS


WIDE = FLOATS[1:]  # where float16 is too coarse to tell
LAWS = {
    "uniform": Law(lambda g, n, d: g.uniform(n, -1.0, 3.0, dtype=d), lambda x: (x + 1) / 4),
    "normal": Law(lambda g, n, d: g.normal(n, 1, 2, dtype=d), lambda x: normal_cdf((x - 1) / 2)),
    "exponential": Law(lambda g, n, d: g.exponential(n, 2.0, dtype=d), lambda x: -np.expm1(-x / 2)),
    "laplace": Law(
        lambda g, n, d: g.laplace(n, 1.0, 2.0, dtype=d),
        lambda x: 0.5 - np.sign(x - 1) * np.expm1(-np.abs(x - 1) / 2) / 2,
    ),
    "gumbel": Law(
        lambda g, n, d: g.gumbel(n, 1.0, 2.0, dtype=d), lambda x: np.exp(-np.exp((1 - x) / 2))
    ),
    "cauchy": Law(
        lambda g, n, d: g.cauchy(n, 1.0, 2.0, dtype=d),
        lambda x: 0.5 + np.arctan((x - 1) / 2) / np.pi,
    ),
    "truncated normal": Law(
        lambda g, n, d: g.truncated_normal(n, mean=3.0, std=0.5, dtype=d),
        lambda x: 0.5 + erf((x - 3) * math.sqrt(2)) / (2 * math.erf(math.sqrt(2))),
    ),
    "truncated normal, one side": Law(
        lambda g, n, d: g.truncated_normal(n, -math.inf, 1.0, dtype=d),
        lambda x: normal_cdf(x) / normal_cdf(np.array(1.0)),
    ),
    "truncated normal, no bounds": Law(
        lambda g, n, d: g.truncated_normal(n, -math.inf, math.inf, dtype=d), normal_cdf
    ),
    "truncated normal, upper tail": Law(
        lambda g, n, d: g.truncated_normal(n, 8.0, 9.0, dtype=d), normal_tail_between(8, 9), WIDE
    ),
    "truncated normal, lower tail": Law(
        lambda g, n, d: -g.truncated_normal(n, -math.inf, -20.0, dtype=d),
        normal_tail_between(20, math.inf),
        WIDE,
    ),
    "gamma 1/2": Law(lambda g, n, d: g.gamma(0.5, n, dtype=d), lambda x: erf(np.sqrt(x))),
    "gamma 1": Law(lambda g, n, d: g.gamma(1.0, n, 3.0, dtype=d), lambda x: -np.expm1(-x / 3)),
    "gamma 3": Law(lambda g, n, d: g.gamma(3, n, dtype=d), gamma_cdf(3)),
    "gamma 60": Law(lambda g, n, d: g.gamma(60.0, n, dtype=d), gamma_cdf(60), WIDE),
    "beta 1/2 1/2": Law(
        lambda g, n, d: g.beta(0.5, 0.5, n, dtype=d),
        lambda x: 2 / np.pi * np.arcsin(np.sqrt(x)),
        WIDE,
    ),
    "beta 2 1": Law(lambda g, n, d: g.beta(2.0, 1.0, n, dtype=d), np.square),
    "beta 0.05 1": Law(lambda g, n, d: g.beta(0.05, 1.0, n, dtype=d), lambda x: x**0.05, WIDE),
    "dirichlet": Law(
        lambda g, n, d: g.dirichlet(ad.tensor([1.0, 1.0, 1.0]), n, dtype=d)[:, 2],
        lambda x: 1 - (1 - x) ** 2,
    ),
}


@pytest.mark.parametrize(
    "name, dtype",
    [(name, dtype) for name, law in LAWS.items() for dtype in law.dtypes],
    ids=lambda x: getattr(x, "name", x),
)
def test_numbers_follow_their_distribution(name: str, dtype: Any) -> None:
    law = LAWS[name]
    x = law.draw(Generator(11), (20000,), dtype)
    assert x.shape == (20000,) and x.dtype is dtype
    assert kolmogorov_smirnov(x.numpy(), law.cdf) < 1.95


def test_the_test_of_distributions_notices_a_wrong_one() -> None:
    x = Generator(11).normal((20000,), 0.0, 1.1).numpy()
    assert kolmogorov_smirnov(x, normal_cdf) > 1.95


MOMENTS = {
    "uniform": (lambda g, n: g.uniform(n, 2.0, 5.0), 3.5, 3 / math.sqrt(12)),
    "normal": (lambda g, n: g.normal(n, 2.0, 3.0), 2.0, 3.0),
    "exponential": (lambda g, n: g.exponential(n, 3.0), 3.0, 3.0),
    "laplace": (lambda g, n: g.laplace(n, 1.0, 3.0), 1.0, 3 * math.sqrt(2)),
    "gumbel": (lambda g, n: g.gumbel(n), np.euler_gamma, math.pi / math.sqrt(6)),
    "gamma": (lambda g, n: g.gamma(0.1, n, 5.0), 0.5, 5 * math.sqrt(0.1)),
    "large gamma": (lambda g, n: g.gamma(1e5, n), 1e5, math.sqrt(1e5)),
    "beta": (lambda g, n: g.beta(2.0, 3.0, n), 0.4, 0.2),
    "tiny beta": (lambda g, n: g.beta(1e-3, 1e-3, n), 0.5, math.sqrt(0.25 / 1.002)),
    "bernoulli": (lambda g, n: g.bernoulli(0.2, n, dtype=ad.float32), 0.2, 0.4),
    "integers": (lambda g, n: g.integers(1, 7, n), 3.5, math.sqrt(35 / 12)),
}


@pytest.mark.parametrize("draw, mean, std", MOMENTS.values(), ids=MOMENTS)
def test_mean_and_standard_deviation(draw: Callable, mean: float, std: float) -> None:
    n = 100_000
    x = draw(Generator(2), (n,)).numpy().astype(np.float64)
    assert abs(np.mean(x) - mean) < 4 * std / math.sqrt(n)
    kurtosis = np.mean((x - mean) ** 4) / std**4
    assert abs(np.var(x) / std**2 - 1) < 4 * math.sqrt(kurtosis / n)


def test_parameters_apply_element_by_element() -> None:
    generator, alpha = Generator(1), ad.tensor([0.1, 1.0, 50.0])
    x = generator.gamma(alpha, (20000, 3), ad.tensor([[2.0]])).numpy()
    np.testing.assert_allclose(x.mean(axis=0), [0.2, 2.0, 100.0], rtol=0.05)
    p = ad.tensor([[0.0], [0.5], [1.0]])
    hits = generator.bernoulli(p, (3, 1000)).numpy().mean(axis=1)
    assert hits[0] == 0 and 0.45 < hits[1] < 0.55 and hits[2] == 1
    bounds = generator.truncated_normal((5, 2), ad.tensor([-9.0, 4.0]), ad.tensor([-8.0, 4.5]))
    assert np.all((bounds.numpy() >= [-9, 4]) & (bounds.numpy() <= [-8, 4.5]))


@pytest.mark.parametrize("p", [1e-6, 1 - 2.0**-20])
def test_bernoulli_is_right_for_probabilities_near_the_ends(p: float) -> None:
    n = 2**22
    rare = min(p, 1 - p)
    hits = int(Generator(3).bernoulli(p, (n,)).sum().item())
    count = hits if p < 0.5 else n - hits
    assert 0 < count < rare * n + 5 * math.sqrt(rare * n)


def test_small_exponentials_have_all_their_digits() -> None:
    x = Generator(3).exponential((2**20,)).numpy()
    small = x[x < 1e-4]
    assert np.all(x > 0) and len(np.unique(small)) == len(small)
    assert kolmogorov_smirnov(small, lambda v: v / 1e-4) < 1.95


def test_tiny_parameters_neither_underflow_nor_give_nan() -> None:
    generator = Generator(4)
    x = generator.dirichlet(ad.tensor([1e-30, 1e-30, 1e-30]), (3000,)).numpy()
    np.testing.assert_array_equal(np.sort(x, axis=1), np.broadcast_to([0, 0, 1], x.shape))
    assert abs(chi_square(x.sum(axis=0), np.full(3, 1000.0))) < 4
    for dtype in FLOATS:
        x = generator.beta(1e-4, 1e-4, (1000,), dtype=dtype).numpy()
        assert np.all((x >= 0) & (x <= 1)) and 0.4 < x.astype(float).mean() < 0.6


# The inverse of the normal distribution


def test_log_cdf_of_the_normal_distribution() -> None:
    x = np.linspace(-37, 8, 901)
    out = _truncated.log_cdf(wrap(x)).numpy()
    np.testing.assert_allclose(out, np.log(normal_cdf(x)), rtol=2e-14, atol=2e-15)
    single = _truncated.log_cdf(wrap(x.astype(np.float32))).numpy()
    np.testing.assert_allclose(single, out, rtol=1e-6, atol=2e-7)


# -log P(normal > t) and t, from mpmath with 50 digits.
QUANTILES = (
    (math.log(2), 0.0),
    (1.0, 0.33747496376420245528),
    (10.0, 3.9139462405318930773),
    (1000.0, 44.61574773196940302),
    (1e6, 1414.207782991017327),
)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_quantiles_of_the_normal_distribution(dtype: str) -> None:
    given, expected = np.array(QUANTILES).T
    out = _truncated.tail_quantile(wrap(given.astype(dtype))).numpy()
    eps = np.finfo(dtype).eps
    assert np.all(np.abs(out - expected) <= 2 * eps * (1 + expected))
    t = np.concatenate([np.linspace(0.01, 40, 500), np.geomspace(40, 1e15, 100)]).astype(dtype)
    tail = -_truncated.log_cdf(wrap(-t))
    back = _truncated.tail_quantile(tail).numpy()
    assert np.all(np.abs(back - t) <= 4 * eps * (1 + t))


def test_scipy_agrees_about_the_normal_distribution() -> None:
    special = pytest.importorskip("scipy.special")
    x = np.concatenate([np.linspace(-40, 8, 500), -np.geomspace(40, 1e8, 100)])
    np.testing.assert_allclose(
        _truncated.log_cdf(wrap(x)).numpy(), special.log_ndtr(x), rtol=1e-13, atol=2e-15
    )
    logs = np.linspace(0.7, 700, 500)
    np.testing.assert_allclose(
        _truncated.tail_quantile(wrap(logs)).numpy(), -special.ndtri_exp(-logs), rtol=2e-13
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize(
    "lower, upper", [(-2, 2), (-0.01, 0.0), (5, 5.5), (100, math.inf), (-math.inf, -30), (1e4, 2e4)]
)
def test_truncated_normals_stay_within_the_bounds(lower: float, upper: float, dtype: Any) -> None:
    x = Generator(1).truncated_normal((5000,), lower, upper, dtype=dtype).numpy()
    assert np.all((x >= np.array(lower, x.dtype)) & (x <= np.array(upper, x.dtype)))
    assert dtype is not ad.float64 or len(np.unique(x)) > 4000


# Ranges


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize(
    "low, high", [(0, 1), (0.0, 1e-4), (-3, -1), (1, 1.25), (1000, 1001), (-0.1, 0)]
)
@pytest.mark.parametrize("tensors", [False, True], ids=["numbers", "tensors"])
def test_uniform_numbers_never_reach_high(
    low: float, high: float, dtype: Any, tensors: bool
) -> None:
    given = [ad.tensor(x, dtype=dtype) if tensors else x for x in (low, high)]
    x = Generator(1).uniform((50_000,), *given, dtype=dtype)
    first, end = np.array([low, high], x.numpy().dtype)
    assert x.dtype is dtype
    assert np.all((x.numpy() >= first) & (x.numpy() < end))


def test_uniform_numbers_between_equal_bounds_are_those() -> None:
    np.testing.assert_array_equal(ad.random.uniform((3,), 2.0, 2.0).numpy(), [2, 2, 2])
    between = ad.random.uniform((2,), ad.tensor([1.0, 2.0]), 2.0).numpy()
    assert 1 <= between[0] < 2 and between[1] == 2


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.name)
def test_integers_cover_the_whole_range_of_a_dtype(dtype: Any) -> None:
    limits = np.iinfo(dtype.name)
    low, high = int(limits.min), int(limits.max) + 1
    x = Generator(1).integers(low, high, (20_000,), dtype=dtype)
    assert x.dtype is dtype
    scaled = (x.numpy().astype(np.float64) - low) / (high - low)
    assert kolmogorov_smirnov(scaled, lambda v: v) < 1.95 + 0.6 * (dtype.itemsize == 1)
    if dtype.itemsize == 1:
        assert x.numpy().min() == limits.min and x.numpy().max() == limits.max
    last = Generator(1).integers(high - 1, high, (3,), dtype=dtype)
    np.testing.assert_array_equal(last.numpy(), np.full(3, limits.max))


@pytest.mark.parametrize(
    "low, high",
    [(0, 1), (0, 7), (-5, 2**31), (0, 2**32), (0, 2**32 + 1), (-(2**63), 2**63), (3, 3 * 2**61)],
)
def test_integers_are_exactly_scaled_words(low: int, high: int) -> None:
    span = high - low
    count = 2 if span <= 2**32 else 4
    words = Generator(1).bits((count, 200)).numpy()
    wide = [sum(int(w) << 32 * k for k, w in enumerate(column)) for column in words.T]
    expected = [low + w * span // 2 ** (32 * count) for w in wide]
    out = Generator(1).integers(low, high, (200,)).numpy()
    assert out.tolist() == expected
    if high < 2**63:
        given = np.array(low), ad.tensor(high)
        assert Generator(1).integers(low, given[1], (200,)).tolist() == (
            Generator(1).integers(*given, (200,)).tolist()
        )
        tensors = Generator(1).integers(*given, (200,)).numpy()
        assert tensors.min() >= low and tensors.max() < high
        assert count == 2 or tensors.tolist() == expected


def test_bounds_of_integers_may_be_tensors() -> None:
    low, high = ad.tensor([-5, 0, 10], dtype=ad.int8), ad.tensor([[0], [100]], dtype=ad.uint8)
    x = Generator(1).integers(low, high + 11, (500, 2, 3), dtype=ad.int16).numpy()
    assert x.min(axis=0).tolist() == [[-5, 0, 10], [-5, 0, 10]]
    assert x[:, 0].max(axis=0).tolist() == [10, 10, 10]
    assert np.all(x[:, 1].max(axis=0) > 100) and x.max() <= 110


# Choices


def test_integers_are_equally_likely() -> None:
    for high in (2, 7, 100):
        x = Generator(1).integers(0, high, (50_000,)).numpy()
        counts = np.bincount(x, minlength=high)
        assert abs(chi_square(counts, np.full(high, 50_000 / high))) < 4


def test_integers_of_a_large_span_have_no_low_bit_pattern() -> None:
    x = Generator(1).integers(0, 3 * 2**62, (50_000,), dtype=ad.uint64).numpy()
    thirds = np.bincount((x // 2**62).astype(int), minlength=3)
    assert abs(chi_square(thirds, np.full(3, 50_000 / 3))) < 4
    bits = np.bincount((x % 16).astype(int), minlength=16)
    assert abs(chi_square(bits, np.full(16, 50_000 / 16))) < 4


P = np.array([0.0, 0.1, 0.2, 0.0, 0.7, 0.0])
with np.errstate(divide="ignore"):
    LOG_P = np.log(P)
CHOICES = {
    "choice": lambda g, n: g.choice(6, n, p=P),
    "choice, list": lambda g, n: g.choice(6, n, p=P.tolist()),
    "choice, float32": lambda g, n: g.choice(6, n, p=ad.tensor(P, dtype=ad.float32)),
    "categorical": lambda g, n: g.categorical(ad.tensor(LOG_P), n),
    "categorical, float16": lambda g, n: g.categorical(ad.tensor(LOG_P.astype(np.float16) + 3), n),
    "categorical, axis": lambda g, n: g.categorical(
        ad.tensor(np.stack([LOG_P, LOG_P[::-1]]).T), (*n, 2), axis=0
    )[:, 0],
    "categorical, batch": lambda g, n: g.categorical(
        ad.tensor(np.stack([LOG_P[::-1], LOG_P])), (*n, 2)
    )[:, 1],
    "gumbel": lambda g, n: ad.argmax(ad.tensor(LOG_P) + g.gumbel((*n, 6)), axis=1),
    "distinct": lambda g, n: ad.stack([g.choice(6, (2,), False, P)[0] for _ in range(n[0])]),
}


@pytest.mark.parametrize("name", CHOICES)
def test_choices_have_their_probabilities(name: str) -> None:
    n = 2000 if name == "distinct" else 50_000
    x = CHOICES[name](Generator(1), (n,))
    counts = np.bincount(x.numpy(), minlength=6)
    assert x.dtype is ad.int64
    assert np.all(counts[P == 0] == 0)
    assert abs(chi_square(counts[P > 0], n * P[P > 0])) < 4


def test_all_orders_are_equally_likely() -> None:
    generator, n = Generator(1), 6000
    orders = [tuple(generator.permutation(4).tolist()) for _ in range(n)]
    counts = [orders.count(order) for order in itertools.permutations(range(4))]
    assert sum(counts) == n
    assert abs(chi_square(np.array(counts), np.full(24, n / 24))) < 4


def test_choices_without_replacement_go_one_after_the_other() -> None:
    p, n, generator = np.array([0.5, 0.3, 0.2]), 6000, Generator(1)
    pairs = [tuple(generator.choice(3, (2,), replace=False, p=p).tolist()) for _ in range(n)]
    orders = list(itertools.permutations(range(3), 2))
    expected = np.array([p[i] * p[j] / (1 - p[i]) for i, j in orders])
    counts = np.array([pairs.count(order) for order in orders])
    assert counts.sum() == n
    assert abs(chi_square(counts, n * expected)) < 4


def test_a_permutation_sorts_by_both_words_of_its_keys(monkeypatch) -> None:
    keys = np.array([[2, 5, 1, 2], [1, 0, 1, 1]], np.uint32)  # low words, high words
    monkeypatch.setattr(_choice, "words", lambda draw, count: wrap(keys))
    assert ad.random.permutation(4).tolist() == [1, 2, 0, 3]


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_a_permutation_has_every_number_once(n: int) -> None:
    assert sorted(ad.random.permutation(n).tolist()) == list(range(n))


@pytest.mark.parametrize("batch", [(), (1,)], ids=["one", "many"])
def test_what_is_impossible_isn_t_chosen_at_the_very_ends(batch: tuple, monkeypatch) -> None:
    ends = np.array([0.0, 0.5, 0.75, 1 - 2.0**-53])
    monkeypatch.setattr(_choice, "unit", lambda draw: wrap(ends))
    p = ad.tensor([0.0, 0.5, 0.25, 0.25, 0.0], dtype=ad.float64)
    logits = ad.broadcast_to(ad.log(p), (*batch, 5))
    assert ad.random.categorical(logits, (4,)).tolist() == [1, 2, 3, 3]


def test_parts_of_tensors_are_permuted_and_chosen_along_an_axis() -> None:
    x = ad.reshape(ad.arange(12), (3, 4))
    for axis in (0, 1, -1):
        out = Generator(2).permutation(x, axis=axis)
        order = Generator(2).permutation(x.shape[axis])
        assert equal(out, ad.take(x, order, axis=axis))
    chosen = Generator(2).choice(x, (2, 5), axis=1)
    assert chosen.shape == (3, 2, 5)
    assert equal(chosen, ad.take(x, Generator(2).choice(4, (2, 5)), axis=1))
    distinct = Generator(2).choice(x, (2, 2), replace=False, axis=1).numpy()
    assert all(len(set(row.reshape(-1).tolist())) == 4 for row in distinct)


def test_one_permutation_shuffles_several_tensors_alike() -> None:
    x = ad.arange(10)
    order = ad.random.permutation(10)
    assert equal(x[order] * 3, (x * 3)[order])


# Independence


def test_every_bit_is_even() -> None:
    words = Generator(1).bits((2**15,)).numpy()
    ones = np.array([np.count_nonzero(words & np.uint32(1 << k)) for k in range(32)])
    assert np.all(np.abs(ones - 2**14) < 4.5 * math.sqrt(2**13))
    assert len(np.unique(words)) > 2**15 - 8


def streams() -> list[Generator]:
    """Generators that are as close relatives as can be."""
    parent = Generator(9)
    seeds = [0, 1, 2, 3, 2**32, 2**32 + 1, 2**64 - 1]
    children = [*parent.spawn(3), parent, *parent.spawn(1)[0].spawn(2)]
    return [*(Generator(seed) for seed in seeds), *children]


def test_streams_are_not_correlated() -> None:
    n = 20_000
    x = np.stack([g.normal((n,), dtype=ad.float64).numpy() for g in streams()])
    lagged = np.concatenate([x, np.roll(x, 1, axis=1)])
    correlations = np.corrcoef(lagged)[np.triu_indices(len(lagged), 1)]
    assert len(correlations) > 300
    assert np.max(np.abs(correlations)) < 4.5 / math.sqrt(n)


def test_streams_share_no_words() -> None:
    words = np.concatenate([g.bits((2, 2000)).numpy().T for g in streams()])
    assert len({tuple(pair) for pair in words.tolist()}) == len(words)


# Shapes, dtypes


@every_draw
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (3, 2)], ids=str)
def test_any_shape_is_drawn(draw: Draw, shape: tuple) -> None:
    x = draw(Generator(1), shape)
    assert type(x.raw) is np.ndarray
    if x.ndim >= len(shape) and x.shape[: len(shape)] != shape:
        assert x.shape == (math.prod(shape),)  # a permutation


FLOAT_FUNCTIONS: dict[str, Callable] = {
    "uniform": lambda p, **options: ad.random.uniform(None, p, **options),
    "normal": lambda p, **options: ad.random.normal(None, p, **options),
    "truncated_normal": lambda p, **options: ad.random.truncated_normal(None, -2, p, **options),
    "exponential": lambda p, **options: ad.random.exponential(None, p, **options),
    "laplace": lambda p, **options: ad.random.laplace(None, p, **options),
    "gumbel": lambda p, **options: ad.random.gumbel(None, 0.0, p, **options),
    "cauchy": lambda p, **options: ad.random.cauchy(None, p, p, **options),
    "gamma": lambda p, **options: ad.random.gamma(p, None, **options),
    "beta": lambda p, **options: ad.random.beta(p, 2, **options),
}


@pytest.mark.parametrize("function", FLOAT_FUNCTIONS.values(), ids=FLOAT_FUNCTIONS)
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_shape_and_dtype_come_from_the_parameters(function: Callable, dtype: Any) -> None:
    p = ad.full((2, 1), 0.5, dtype=dtype)
    assert function(p).shape == (2, 1)
    assert function(p).dtype is dtype
    assert function(p, dtype=ad.float32).dtype is ad.float32
    assert function(0.5).shape == () and function(0.5).dtype is ad.float32
    assert function(np.full(3, 0.5)).shape == (3,)
    assert function(ad.ones((3,), dtype=ad.int32) * 0 + 1).dtype is ad.float32
    leaf = function(0.5, requires_grad=True)
    assert leaf.requires_grad and leaf.is_leaf


def test_the_default_dtype_is_followed() -> None:
    ad.set_default_dtype(ad.float64)
    try:
        assert ad.random.normal((2,)).dtype is ad.float64
        assert ad.random.gamma(1.0).dtype is ad.float64
    finally:
        ad.set_default_dtype(ad.float32)


def test_bernoulli_gives_the_dtype_asked_for() -> None:
    assert ad.random.bernoulli(0.5).dtype is ad.bool
    assert ad.random.bernoulli(0.5, dtype=ad.int8).dtype is ad.int8


def test_float16_normals_are_rounded_float32_ones() -> None:
    half, single = (Generator(1).normal((1000,), dtype=d).numpy() for d in FLOATS[:2])
    np.testing.assert_array_equal(half, single.astype(np.float16))


# Tracing, threads, modes


@every_draw
def test_a_trace_replays_and_moves_the_state_on(draw: Draw) -> None:
    generator = Generator(8)
    graph = ad.trace(lambda: draw(generator, (4, 2)))
    assert equal(generator.state, Generator(8).state)
    eager = Generator(8)
    for _ in range(2):
        assert equal(graph(), draw(eager, (4, 2)))
        assert equal(generator.state, eager.state)


def test_parameters_of_a_traced_draw_are_read_at_replay() -> None:
    graph = ad.trace(lambda alpha: ad.random.gamma(alpha, (1000,)), ad.tensor(1.0))
    small, large = graph(ad.tensor(0.1)).numpy(), graph(ad.tensor(100.0)).numpy()
    assert small.mean() < 1 and 90 < large.mean() < 110


def test_states_may_be_saved_and_set_inside_a_trace() -> None:
    def twice() -> tuple[ad.Tensor, ad.Tensor]:
        before = ad.random.get_state()
        first = ad.random.normal((3,))
        ad.random.set_state(before)
        return first, ad.random.normal((3,))

    graph = ad.trace(twice)
    for _ in range(2):
        first, second = graph()
        assert equal(first, second)
    assert equal(ad.random.get_state(), ad.tensor([0, 0, 4, 0], dtype=ad.uint32))


def test_generators_may_be_made_inside_a_trace() -> None:
    parent = Generator(1)

    def draw() -> list[ad.Tensor]:
        return [g.normal((3,)) for g in (*parent.spawn(2), Generator(4))]

    graph = ad.trace(draw)
    expected = [g.normal((3,)) for g in (*Generator(1).spawn(2), Generator(4))]
    assert all(equal(x, y) for x, y in zip(graph(), expected, strict=True))
    children = graph()
    assert not equal(children[0], expected[0]) and equal(children[2], expected[2])


def test_threads_share_a_generator_without_losing_or_repeating_numbers() -> None:
    generator, count = Generator(1), 200
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda _: generator.bits((10,)).tolist(), range(count)))
    serial = Generator(1).bits((count, 10)).tolist()
    assert sorted(parts) == sorted(serial)


@every_draw
def test_no_draw_is_an_anomaly(draw: Draw) -> None:
    with ad.detect_anomaly():
        draw(Generator(1), (20,))


def test_an_error_in_the_middle_leaves_the_generator_usable() -> None:
    generator = Generator(1)
    with pytest.raises(ad.DeviceError):
        generator.normal((2,), device="tpu")
    assert equal(generator.state, Generator(1).state)
    assert generator.normal((2,)).shape == (2,)
    assert mode.trace is None


# Gradients


LOCATION_SCALE = {
    "uniform": lambda g, x, y: g.uniform((4, 2), x - 3, y),
    "normal": lambda g, x, y: g.normal((4, 2), x, y),
    "truncated_normal": lambda g, x, y: g.truncated_normal((4, 2), -1.0, 2.0, x, y),
    "exponential": lambda g, x, y: g.exponential((4, 2), x * y),
    "laplace": lambda g, x, y: g.laplace((4, 2), x, y),
    "gumbel": lambda g, x, y: g.gumbel((4, 2), x, y),
    "cauchy": lambda g, x, y: g.cauchy((4, 2), x, y),
    "gamma": lambda g, x, y: g.gamma(2.0, (4, 2), x * y),
}


@pytest.mark.parametrize("draw", LOCATION_SCALE.values(), ids=LOCATION_SCALE)
def test_location_and_scale_get_gradients(draw: Callable) -> None:
    x, y = np.array([0.5, 1.5]), np.array([[2.0], [1.0], [3.0], [0.7]])
    ad.testing.check_grads(lambda x, y: draw(Generator(1), x, y), [x, y], order=2)


def test_what_is_permuted_or_chosen_gets_gradients() -> None:
    x = leaf([1.0, 2.0, 3.0])
    (ad.random.permutation(x) * ad.random.permutation(x)).sum().backward()
    assert x.grad is not None
    y = leaf([1.0, 2.0, 3.0])
    chosen = ad.random.choice(y, (50,))
    chosen.sum().backward()
    counts = [np.count_nonzero(chosen.detach().numpy() == v) for v in (1, 2, 3)]
    np.testing.assert_array_equal(y.grad.numpy(), counts)


def test_a_result_with_a_graph_can_t_be_a_leaf() -> None:
    with pytest.raises(ad.GradientError, match=r"requires_grad .* leaves"):
        ad.random.normal(None, leaf([1.0]), requires_grad=True)


WITHOUT_GRADIENT: dict[str, Callable[[ad.Tensor], Any]] = {
    "gamma alpha": lambda x: ad.random.gamma(x),
    "beta a": lambda x: ad.random.beta(x, 1.0),
    "beta b": lambda x: ad.random.beta(1.0, x),
    "dirichlet alpha": lambda x: ad.random.dirichlet(x),
    "bernoulli p": lambda x: ad.random.bernoulli(x),
    "categorical logits": lambda x: ad.random.categorical(x),
    "choice p": lambda x: ad.random.choice(2, p=x),
    "truncated_normal lower": lambda x: ad.random.truncated_normal(None, x, 2.0),
    "truncated_normal upper": lambda x: ad.random.truncated_normal(None, -2.0, x),
}


@pytest.mark.parametrize("name", WITHOUT_GRADIENT)
def test_a_missing_gradient_is_refused(name: str) -> None:
    function, parameter = name.split()
    x = leaf([0.5, 0.5])
    with pytest.raises(ad.GradientError, match=rf"random\.{function}.* {parameter}.*detach"):
        WITHOUT_GRADIENT[name](x)
    WITHOUT_GRADIENT[name](x.detach())
    with ad.no_grad():
        WITHOUT_GRADIENT[name](x)


# Misuse

R = ad.random
MISUSE: tuple[tuple[type[Exception], Callable[[], Any], str], ...] = (
    (ad.ArgumentError, lambda: R.uniform((2,), 3, 1), "random.uniform: low | larger than high | 3"),
    (ad.ArgumentError, lambda: R.uniform((2,), math.nan, 1), "random.uniform: low | nan"),
    (ad.ArgumentError, lambda: R.uniform((2,), 0, math.inf), "random.uniform: high - low | inf"),
    (
        ad.ArgumentError,
        lambda: R.uniform((2,), -6e4, 6e4, dtype=ad.float16),
        "random.uniform: high - low | 120000",
    ),
    (
        ad.ArgumentError,
        lambda: R.uniform((2,), ad.tensor([0.0, 5.0]), 1.0),
        "random.uniform: low | larger than high | 5.0",
    ),
    (ad.ShapeError, lambda: R.uniform((-1, 2)), "random.uniform: | negative | (-1, 2)"),
    (ad.ShapeError, lambda: R.normal((3,), ad.ones(2)), "random.normal: | (2,) | (3,)"),
    (ad.ShapeError, lambda: R.normal((), ad.ones(2)), "random.normal: | (2,) | ()"),
    (ad.ShapeError, lambda: R.normal(None, ad.ones(2), ad.ones(3)), "random.normal: | (2,) | (3,)"),
    (ad.DTypeError, lambda: R.uniform(cast(Any, 1.5)), "random.uniform: a shape is integers | 1.5"),
    (ad.DTypeError, lambda: R.uniform((2,), dtype=ad.int32), "random.uniform: a float | int32"),
    (ad.DTypeError, lambda: R.gamma(1.0, dtype=ad.bool), "random.gamma: a float | bool"),
    (ad.DTypeError, lambda: R.normal((2,), "0"), "random.normal: mean | real number | str"),
    (ad.DTypeError, lambda: R.normal((2,), 0, 1j), "random.normal: std | real number | complex"),
    (ad.DTypeError, lambda: R.normal((2,), [0.0]), "random.normal: mean | tensor | list"),
    (ad.ArgumentError, lambda: R.normal((2,), std=-1), "random.normal: std | negative | -1"),
    (
        ad.ArgumentError,
        lambda: R.normal((2,), std=ad.tensor([1.0, -2.0])),
        "random.normal: std | negative | -2.0",
    ),
    (ad.ArgumentError, lambda: R.exponential(scale=-1), "random.exponential: scale | negative"),
    (ad.ArgumentError, lambda: R.laplace(scale=-1), "random.laplace: scale | negative"),
    (ad.ArgumentError, lambda: R.gumbel(scale=-1), "random.gumbel: scale | negative"),
    (ad.ArgumentError, lambda: R.cauchy(scale=-1), "random.cauchy: scale | negative"),
    (ad.ArgumentError, lambda: R.truncated_normal(None, 2, 2), "random.truncated_normal: lower"),
    (ad.ArgumentError, lambda: R.truncated_normal(std=-1), "random.truncated_normal: std"),
    (ad.ArgumentError, lambda: R.gamma(0.0), "random.gamma: alpha must be positive | 0.0"),
    (ad.ArgumentError, lambda: R.gamma(math.inf), "random.gamma: alpha | finite | inf"),
    (ad.ArgumentError, lambda: R.gamma(1.0, scale=-1), "random.gamma: scale | negative | -1"),
    (ad.ArgumentError, lambda: R.beta(-1.0, 1.0), "random.beta: a must be positive | -1.0"),
    (ad.ArgumentError, lambda: R.beta(1.0, math.nan), "random.beta: b must be positive | nan"),
    (ad.ShapeError, lambda: R.dirichlet(1.0), "random.dirichlet: alpha | axis | 1.0"),
    (ad.ArgumentError, lambda: R.dirichlet(ad.zeros(2)), "random.dirichlet: alpha | positive"),
    (ad.ShapeError, lambda: R.dirichlet(ad.ones((3, 2)), (2,)), "random.dirichlet: | (3,) | (2,)"),
    (ad.ArgumentError, lambda: R.bernoulli(1.5), "random.bernoulli: p | 0 to 1 | 1.5"),
    (ad.ArgumentError, lambda: R.bernoulli(math.nan), "random.bernoulli: p | 0 to 1 | nan"),
    (ad.ArgumentError, lambda: R.bernoulli(ad.tensor([0.5, -1.0])), "p must be from 0 to 1 | -1.0"),
    (ad.ArgumentError, lambda: R.integers(3, 3), "random.integers: low | less than high | 3"),
    (ad.ArgumentError, lambda: R.integers(0), "random.integers: low | less than high"),
    (ad.ArgumentError, lambda: R.integers(0, 300, dtype=ad.int8), "int8, -128 to 127 | 300"),
    (ad.ArgumentError, lambda: R.integers(-1, 3, dtype=ad.uint8), "uint8, 0 to 255 | -1"),
    (ad.ArgumentError, lambda: R.integers(ad.tensor([1, 5]), 5), "less than high | 5"),
    (
        ad.ArgumentError,
        lambda: R.integers(ad.tensor([9, 300]), dtype=ad.int8),
        "int8, -128 to 127 | 300",
    ),
    (ad.DTypeError, lambda: R.integers(1.5), "random.integers: high | integer | 1.5"),
    (ad.DTypeError, lambda: R.integers(ad.ones(2)), "random.integers: high | float32[2]"),
    (ad.DTypeError, lambda: R.integers(5, dtype=ad.float32), "an integer dtype | float32"),
    (ad.ShapeError, lambda: R.permutation(-1), "random.permutation: | negative | -1"),
    (ad.AxisError, lambda: R.permutation(ad.tensor(1.0)), "random.permutation: axis 0"),
    (ad.AxisError, lambda: R.permutation(ad.ones((2, 3)), axis=2), "random.permutation: axis 2"),
    (ad.DTypeError, lambda: R.permutation([1, 2]), "random.permutation: | list | ad.asarray"),
    (ad.ArgumentError, lambda: R.choice(3, (4,), False), "random.choice: 4 of 3 | replacement"),
    (ad.ArgumentError, lambda: R.choice(0), "random.choice: there is nothing to choose from"),
    (ad.ShapeError, lambda: R.choice(3, p=[0.5, 0.5]), "random.choice: p | 3 things | (2,)"),
    (
        ad.ArgumentError,
        lambda: R.choice(2, p=[0.5, 0.6]),
        "random.choice: p must add up to 1 | 1.1",
    ),
    (ad.ArgumentError, lambda: R.choice(2, p=[1.5, -0.5]), "probabilities | negative | -0.5"),
    (ad.ArgumentError, lambda: R.choice(2, p=[math.nan, 0.5]), "random.choice: | nan"),
    (
        ad.ArgumentError,
        lambda: R.choice(3, (2,), False, [1.0, 0.0, 0.0]),
        "random.choice: to choose 2 | p > 0 | 1",
    ),
    (ad.ShapeError, lambda: R.categorical(ad.zeros((2, 0))), "random.categorical: | [2, 0]"),
    (ad.AxisError, lambda: R.categorical(ad.tensor(1.0)), "random.categorical: axis -1"),
    (ad.ShapeError, lambda: R.categorical(ad.zeros((3, 2)), (4,)), "random.categorical: | (3,)"),
    (ad.ArgumentError, lambda: R.categorical(ad.tensor([math.nan, 1.0])), "logits | nan"),
    (ad.ArgumentError, lambda: R.categorical(ad.tensor([math.inf, 1.0])), "logits | inf"),
    (ad.ArgumentError, lambda: R.categorical(ad.full(2, -math.inf)), "some category | possible"),
    (ad.ArgumentError, lambda: Generator(2**64), "random.seed: | 2**64 - 1"),
    (ad.DTypeError, lambda: Generator(cast(Any, "1")), "random.seed: | '1'"),
    (ad.ArgumentError, lambda: R.set_state(b"abc"), "16 bytes, got 3"),
    (ad.ArgumentError, lambda: R.set_state(ad.zeros(4)), "uint32[4], got float32[4]"),
    (ad.DTypeError, lambda: R.set_state(3), "a state is a tensor or bytes, got int"),
    (ad.ArgumentError, lambda: R.spawn(-1), "random.spawn: n | negative | -1"),
    (ad.DTypeError, lambda: R.spawn(cast(Any, 1.5)), "random.spawn: | 1.5"),
    (
        ad.DTypeError,
        lambda: R.normal((2,), generator=cast(Any, 3)),
        "random.normal: generator | ad.random.Generator | int",
    ),
    (ad.DeviceError, lambda: R.gamma(1.0, device="tpu"), "'tpu'"),
)


@pytest.mark.parametrize("error, call, message", MISUSE, ids=[m for _, _, m in MISUSE])
def test_misuse_is_explained_before_anything_is_drawn(
    error: type[Exception], call: Callable, message: str
) -> None:
    ad.random.seed(0)
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    for part in message.split(" | "):
        assert part in str(caught.value)
    assert equal(ad.random.get_state(), ad.tensor([0, 0, 0, 0], dtype=ad.uint32))


def test_random_numbers_may_be_first_used_in_a_trace() -> None:
    code = (
        "import adjoint as ad\n"
        "draw = ad.trace(lambda: ad.random.uniform((2,)))\n"
        "assert draw().tolist() != draw().tolist() != ad.random.uniform((2,)).tolist()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
