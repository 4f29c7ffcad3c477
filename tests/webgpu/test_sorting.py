"""Sorting, searching, sets and what runs along an axis, on a GPU: the same as NumPy's functions."""

import math

import numpy as np
import pytest

from tests.webgpu.calls import computed, laid_out, same

pytestmark = [pytest.mark.webgpu, pytest.mark.usefixtures("ieee")]

LAYOUTS = ("plain", "transposed", "backwards", "strided")
SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 3e38, -3e38]


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def recurrences(webgpu, a: np.ndarray, b: np.ndarray, **attrs):
    """The device's and NumPy's; those with exponents have the same values."""
    (found,), (wanted,) = computed(webgpu, "recurrence", a, b, **attrs)
    scaled = computed(webgpu, "scaled_recurrence", a, b, np.zeros_like(b), **attrs)
    for results, expected in zip(scaled, (found, wanted), strict=True):
        out = np.ldexp(results[0], results[-1].astype("i4"))
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=2e-6)
    return found, wanted


def values(rng, shape, dtype="f4") -> np.ndarray:
    """Numbers of which some occur more than once, and all special ones."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind == "f":
        x = rng.standard_normal(shape).astype(dtype).round(1)
        places = rng.random(shape) < 0.2
        special = np.array(SPECIAL, "f4").astype(dtype)
        return np.where(places, rng.choice(special, shape), x)
    ends = np.iinfo(dtype)
    x = rng.integers(0 if kind == "u" else -20, 20, shape).astype(dtype)
    special = rng.choice(np.array([ends.min, ends.max], dtype), shape)
    return np.where(rng.random(shape) < 0.2, special, x)


DTYPES = ["f4", "i4", "u4", "?", "f2"]
# shape, axis, how many are wanted
SORTS = [
    ((1,), 0, 1),
    ((7,), 0, 7),
    ((2, 3), 1, 2),
    ((5, 100), 1, 100),
    ((100, 5), 0, 3),
    ((3, 33, 4), 1, 33),
    ((3, 1024), 1, 1024),
    ((1025,), 0, 1025),
    ((2, 4100), 1, 4100),
    ((4100, 2), 0, 300),
    ((2, 5000), 1, 7),
    ((3000, 3), 0, 256),
    ((300, 2), 1, 2),
    ((2, 5, 2, 3, 2, 2, 3, 2), 4, 2),
    ((4, 3), 1, 0),
    ((0, 3), 1, 2),
    ((3, 0), 1, 0),
]


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")  # 3e38 as float16
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize(("shape", "axis", "k"), SORTS)
def test_topk(webgpu, rng, shape, axis, k, largest) -> None:
    """Equals stay in their order, and NaN counts as the largest, for every dtype."""
    for dtype in DTYPES:
        if np.dtype(dtype) in webgpu.gpu.dtypes:
            x = values(rng, shape, dtype)
            same(webgpu, "topk", x, k=k, axis=axis, largest=largest)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("axis", [0, 1])
def test_topk_of_any_layout(webgpu, rng, axis, layout) -> None:
    x = rng.integers(0, 50, (70, 90)).astype("f4")
    same(webgpu, "topk", x, k=60, axis=axis, largest=True, layout=layout)


def test_a_long_row_with_many_equals(webgpu, rng) -> None:
    """All passes of merging, and of handing on, keep equals in order."""
    x = rng.integers(0, 3, 20000).astype("i4")
    for k in (20000, 200):
        same(webgpu, "topk", x, k=k, axis=0, largest=True)
        same(webgpu, "topk", x * 0, k=k, axis=0, largest=False)


def test_the_largest_of_all_keys_comes_before_what_fills_a_tile(webgpu) -> None:
    x = np.full(1500, 2**32 - 1, "u4")
    same(webgpu, "topk", x, k=1500, axis=0, largest=False)
    same(webgpu, "topk", x, k=200, axis=0, largest=False)
    same(webgpu, "topk", x * 0, k=200, axis=0, largest=True)


def test_topk_of_one_number(webgpu) -> None:
    x = webgpu.Array((3, 5), np.dtype("f4"), None, number=2.0)
    found, indices = webgpu.FUNCTIONS["topk"](x, k=4, axis=1, largest=True)
    assert webgpu.to_numpy(found).tolist() == [[2.0] * 4] * 3
    assert webgpu.to_numpy(indices).tolist() == [[0, 1, 2, 3]] * 3


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_searchsorted(webgpu, rng, dtype, after) -> None:
    if np.dtype(dtype) not in webgpu.gpu.dtypes:
        pytest.skip(f"the adapter has no {dtype}")
    with np.errstate(over="ignore"):
        x, wanted = np.sort(values(rng, 333, dtype)), values(rng, (40, 9), dtype)
    same(webgpu, "searchsorted", x, wanted, after=after)
    same(webgpu, "searchsorted", x, wanted, after=after, layout="backwards")
    same(webgpu, "searchsorted", x[:0], wanted, after=after)
    same(webgpu, "searchsorted", x, wanted[:, :0], after=after)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [0, 1, 9, 1000, 5000])
def test_unique(webgpu, rng, size, dtype) -> None:
    """Each NaN is distinct; 0.0 and -0.0 aren't."""
    if np.dtype(dtype) not in webgpu.gpu.dtypes:
        pytest.skip(f"the adapter has no {dtype}")
    with np.errstate(over="ignore"):
        x = values(rng, size, dtype)
    same(webgpu, "unique", x)
    same(webgpu, "unique", x, layout="backwards")


# What runs along an axis

RUNS = [
    ((1,), 0),
    ((7,), 0),
    ((300,), 0),
    ((5000,), 0),
    ((100_000,), 0),
    ((3, 2049), 1),
    ((70, 9), 1),
    ((70, 9), 0),
    ((2, 700, 5), 1),
    ((3, 100, 70), 1),
    ((1, 20_000, 3), 1),
    ((300, 600), 1),
    ((5000, 40), 0),
    ((2, 3, 2, 4, 2, 3, 2, 2), 3),
    ((0, 3), 1),
    ((3, 0), 1),
]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "axis"), RUNS)
def test_running_sums_and_products_of_integers(webgpu, rng, shape, axis, reverse) -> None:
    """Exact, also where they wrap around."""
    for dtype in ("i4", "u4"):
        x = rng.integers(0, 2**31, shape).astype(dtype)
        same(webgpu, "cumulative_sum", x, axis=axis, reverse=reverse)
        same(webgpu, "cumulative_prod", x | np.array(1, dtype), axis=axis, reverse=reverse)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "axis"), RUNS)
def test_running_floats(webgpu, rng, shape, axis, reverse) -> None:
    """NumPy adds in float64. Sums of positive terms are good to a few roundings. A product has a
    rounding for each factor: half a unit times the root of their number, and more for the worst."""
    x = rng.random(shape).astype("f4")
    found, wanted = computed(webgpu, "cumulative_sum", x, axis=axis, reverse=reverse)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-6)
    x = (1 + (x - 0.5) * 1e-2).astype("f4")
    found, wanted = computed(webgpu, "cumulative_prod", x, axis=axis, reverse=reverse)
    np.testing.assert_allclose(found[0], wanted[0], rtol=2e-7 + 3e-7 * math.sqrt(shape[axis]))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [*RUNS, ((4200, 256), 0), ((4200, 300), 0)])
def test_recurrence(webgpu, rng, shape, axis, reverse) -> None:
    """Factors up to 1 in size: what is rounded away doesn't grow."""
    a = rng.uniform(-1, 1, shape).astype("f4")
    a[rng.random(shape) < 0.05] = 0
    b = rng.standard_normal(shape).astype("f4")
    found, wanted = recurrences(webgpu, a, b, axis=axis, reverse=reverse)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_running_along_any_layout(webgpu, rng, layout) -> None:
    x = rng.integers(-9, 9, (50, 70)).astype("f4")
    for axis in (0, 1):
        same(webgpu, "cumulative_sum", x, axis=axis, reverse=False, layout=layout)


def test_running_bools_and_halves(webgpu, rng) -> None:
    x = rng.random((4, 30)) < 0.1
    same(webgpu, "cumulative_sum", x, axis=1, reverse=False)
    same(webgpu, "cumulative_prod", ~x, axis=1, reverse=True)
    if np.dtype("f2") in webgpu.gpu.dtypes:
        half = rng.integers(-3, 4, (4, 300)).astype("f2")
        same(webgpu, "cumulative_sum", half, axis=1, reverse=False)
        same(webgpu, "cumulative_prod", half[:, :5], axis=1, reverse=False)
        np.testing.assert_array_equal(
            *recurrences(webgpu, half[:, :5], half[:, 5:10], axis=1, reverse=True)
        )


def test_running_is_always_the_same(webgpu, rng) -> None:
    x = laid_out(webgpu, rng.standard_normal((3, 30_000)).astype("f4"))
    runs = [webgpu.FUNCTIONS["cumulative_sum"](x, axis=1, reverse=False) for _ in range(2)]
    assert webgpu.to_numpy(runs[0]).tobytes() == webgpu.to_numpy(runs[1]).tobytes()


@pytest.mark.parametrize("length", [40, 3000, 300_000])
def test_products_whose_parts_leave_the_range(webgpu, length) -> None:
    """A product of some factors is too large or too small for a float where that of all isn't."""
    x = np.ones(length, "f4")
    x[:12] = [1e-30, 1e20, 1e15, 1e-30, 1e-30, 1e30, 1e25, -1.0, 1e-44, 1e20, 1e20, 1.0]
    x[-12:] = [1e30, 1e-30, 1e30, 1e-30, 1e-30, 1e30, 1e-20, 1e-20, 1e20, 0.5, 1e20, 2.0]
    for reverse in (False, True):
        found, wanted = computed(webgpu, "cumulative_prod", x, axis=0, reverse=reverse)
        # A device may take a result below the normal numbers for 0.
        np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5, atol=1.2e-38)


@pytest.mark.parametrize("length", [40, 3000, 300_000])
@pytest.mark.parametrize("special", [0.0, math.inf, math.nan, -0.0])
def test_products_after_a_special_factor(webgpu, length, special) -> None:
    """A zero stays zero, whatever large factors come after it."""
    x = np.full(length, 1e20, "f4")
    x[7] = special
    with np.errstate(over="ignore"):
        same(webgpu, "cumulative_prod", x[:7], axis=0, reverse=False)
        found, wanted = computed(webgpu, "cumulative_prod", x, axis=0, reverse=False)
    np.testing.assert_array_equal(found[0][7:], wanted[0][7:])


@pytest.mark.parametrize("length", [60, 3000, 300_000])
def test_recurrences_whose_factors_leave_the_range(webgpu, length) -> None:
    """Products of factors are too large for a float; what they multiply is 0, or very small."""
    a, b = np.full(length, 8, "f4"), np.zeros(length, "f4")
    a[60:] = np.resize(np.array([0.125, 8], "f4"), length - 60)
    np.testing.assert_array_equal(*recurrences(webgpu, a, b, axis=0, reverse=False))
    b[0] = 2.0**-100
    np.testing.assert_array_equal(*recurrences(webgpu, a, b, axis=0, reverse=False))


@pytest.mark.parametrize("length", [60, 5000, 300_000])
def test_a_factor_of_zero_starts_a_recurrence_anew(webgpu, length) -> None:
    """After an infinity, too, and after a NaN."""
    a, b = np.full(length, 0.5, "f4"), np.ones(length, "f4")
    b[5], a[10], b[20], a[25], a[length // 2] = math.inf, 0, math.nan, 0, 0
    for reverse in (False, True):
        found, wanted = recurrences(webgpu, a, b, axis=0, reverse=reverse)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
