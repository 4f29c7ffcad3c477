"""Kernels that are written by hand give what the NumPy functions give, on any number of threads.

Limits are lowered, so that small arrays are taken too, in many chunks.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from adjoint.backends.cpu import FUNCTIONS as TABLE
from adjoint.backends.cpu import NUMPY, indexing, reductions, threefry, thresholds, windows
from adjoint.backends.cpu.jit import threads
from adjoint.backends.cpu.lowering import places as fast_places
from adjoint.backends.cpu.lowering import pooling as fast_pooling
from adjoint.backends.cpu.lowering import running as fast_running
from adjoint.backends.cpu.lowering import threefry as fast_threefry
from tests.support.fast_forms import FAST
from tests.support.helpers import needs_kernels

pytestmark = needs_kernels

LOWERED = "PLACES GATHERED_BYTES GATHERED_ELEMENTS TAKEN_ALONG ADDED_BYTES POOLED WINDOW_SUMS"
ROWS = slice(None)
FLOATS = ("f2", "f4", "f8")
ADDED = (*FLOATS, "i4", "i8", "u4", "u8", "c8", "c16")
MOVED = (*ADDED, "b1", "i1", "u1", "i2", "u2")


class Launches:
    """Whether kernels were run since it was last asked."""

    def __init__(self, chunks: list[int]) -> None:
        self.chunks = chunks

    def taken(self) -> bool:
        count = len(self.chunks)
        self.chunks.clear()
        return count > 0


@pytest.fixture
def launches(chunks: list[int]) -> Launches:
    """Counts launches, with the limits as they are."""
    return Launches(chunks)


@pytest.fixture
def eager(launches: Launches, monkeypatch: pytest.MonkeyPatch) -> Launches:
    """The same, with limits that small arrays pass, and small chunks."""
    for name in LOWERED.split():
        monkeypatch.setattr(thresholds, name, 1)
    monkeypatch.setattr(fast_places, "CHUNK", 1 << 10)
    monkeypatch.setattr(fast_places, "OWNED", 1 << 8)
    monkeypatch.setattr(fast_pooling, "CHUNK", 1 << 9)
    monkeypatch.setattr(fast_running, "CHUNK", 1 << 8)
    monkeypatch.setattr(fast_threefry, "CHUNK", 1 << 6)
    return launches


@pytest.fixture(params=[1, 2, 3])
def any_threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = threads.get_num_threads()
    threads.set_num_threads(request.param)
    yield request.param
    threads.set_num_threads(before)


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Numbers without a pattern, of all magnitudes that a dtype's sums can take."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * np.exp(rng.standard_normal(shape))
    if dtype.startswith("c"):
        x = x + 1j * rng.standard_normal(shape)
    if np.dtype(dtype).kind in "iub":
        x = np.abs(x * 10)
    return x.astype(dtype)


def indices_up_to(length: int, shape: tuple[int, ...], dtype: str = "i8") -> np.ndarray:
    """Many of them occur several times, and some count from the end."""
    low = 0 if dtype.startswith("u") else -length
    return np.random.default_rng(1).integers(low, length, shape).astype(dtype)


def assert_same(out: np.ndarray, expected: np.ndarray) -> None:
    assert (out.shape, out.dtype) == (expected.shape, expected.dtype)
    assert out.tobytes() == np.ascontiguousarray(expected).tobytes()


# Gathers and scatter-adds.

# The shape of the tensor, the index, and the shapes of its arrays.
INDEXED = {
    "rows": ((23, 40), ("array", ROWS), [(17,)]),
    "rows, without the rest": ((23, 5, 8), ("array",), [(6, 7)]),
    "narrow rows": ((23, 3), ("array", ROWS), [(50,)]),
    "elements": ((61,), ("array",), [(333,)]),
    "elements of rows": ((9, 61), (ROWS, "array"), [(50,)]),
    "elements of many short rows": ((301, 2), (ROWS, "array"), [(3,)]),
    "middle axis": ((5, 11, 21), (ROWS, "array", ROWS), [(8, 3)]),
    "middle axis, one long row": ((1, 40, 33), (ROWS, "array", ROWS), [(80,)]),
    "two arrays": ((9, 7, 20), ("array", "array", ROWS), [(31,), (31,)]),
    "two arrays that broadcast": ((4, 9, 7), (ROWS, "array", "array"), [(6, 1), (1, 5)]),
    "three arrays": ((5, 6, 7), ("array",) * 3, [(90,), (90,), (1,)]),
    "one number": ((6, 200), ("array", ROWS), [()]),
    "a row of one": ((1, 70), ("array", ROWS), [(9,)]),
    "as many as are looked at together": ((8, 20), ("array", ROWS), [(8,)]),
}


def index_case(name: str, dtype: str = "i8") -> tuple[tuple[int, ...], tuple, list[np.ndarray]]:
    shape, spec, shapes = INDEXED[name]
    lengths = [n for n, entry in zip(shape, spec, strict=False) if entry == "array"]
    pairs = zip(lengths, shapes, strict=True)
    return shape, spec, [indices_up_to(n, s, dtype) for n, s in pairs]


@pytest.mark.parametrize("name", INDEXED)
def test_index(name: str, eager: Launches, any_threads: int) -> None:
    shape, spec, arrays = index_case(name)
    x = numbers(shape, "f4")
    out = FAST["index"](x, *arrays, spec=spec)
    assert eager.taken()
    assert_same(out, indexing.index(x, *arrays, spec=spec))


@pytest.mark.parametrize("dtype", MOVED)
@pytest.mark.parametrize("name", ["rows", "narrow rows", "elements of rows"])
def test_index_of_each_dtype(name: str, dtype: str, eager: Launches) -> None:
    shape, spec, arrays = index_case(name)
    x = numbers(shape, dtype)
    out = FAST["index"](x, *arrays, spec=spec)
    assert eager.taken()
    assert_same(out, indexing.index(x, *arrays, spec=spec))


@pytest.mark.parametrize("name", INDEXED)
@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_scatter(name: str, dtype: str, eager: Launches, any_threads: int) -> None:
    shape, spec, arrays = index_case(name)
    x = numbers(indexing.index(np.empty(shape), *arrays, spec=spec).shape, dtype)
    out = FAST["scatter"](x, *arrays, spec=spec, shape=shape)
    assert eager.taken()
    assert_same(out, indexing.scatter(x, *arrays, spec=spec, shape=shape))


@pytest.mark.parametrize("dtype", ADDED)
@pytest.mark.parametrize("name", ["rows", "narrow rows", "elements of rows", "two arrays"])
def test_scatter_of_each_dtype(name: str, dtype: str, eager: Launches) -> None:
    shape, spec, arrays = index_case(name)
    x = numbers(indexing.index(np.empty(shape), *arrays, spec=spec).shape, dtype)
    out = FAST["scatter"](x, *arrays, spec=spec, shape=shape)
    assert eager.taken()
    assert_same(out, indexing.scatter(x, *arrays, spec=spec, shape=shape))


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "u1", "u2", "u4"])
def test_indices_of_each_dtype(dtype: str, eager: Launches) -> None:
    shape, spec, arrays = index_case("rows", dtype)
    x = numbers(shape, "f4")
    out = FAST["index"](x, *arrays, spec=spec)
    assert eager.taken()
    assert_same(out, indexing.index(x, *arrays, spec=spec))


def test_all_in_one_place(eager: Launches, any_threads: int) -> None:
    """A long sum in the order of occurrence, also where one chunk owns all that happens."""
    x, index = numbers((1000, 40), "f4"), np.full(1000, 3)
    out = FAST["scatter"](x, index, spec=("array", ROWS), shape=(50, 40))
    assert eager.taken()
    assert_same(out, indexing.scatter(x, index, spec=("array", ROWS), shape=(50, 40)))


def test_layouts_of_indices_and_terms(eager: Launches) -> None:
    table, spec = numbers((23, 40), "f4"), ("array", ROWS)
    index = indices_up_to(23, (12, 10)).T[::2]
    taken = FAST["index"](table, index, spec=spec)
    assert eager.taken()
    assert_same(taken, indexing.index(table, index, spec=spec))
    for x in (taken[::-1], np.broadcast_to(taken[:1, :1], taken.shape), np.asfortranarray(taken)):
        out = FAST["scatter"](x, index, spec=spec, shape=table.shape)
        assert eager.taken()
        assert_same(out, indexing.scatter(x, index, spec=spec, shape=table.shape))


# What the kernels leave to NumPy.
LEFT = {
    "a number in the index": ((9, 8, 20), (2, "array"), ["i8"]),
    "a part of an axis": ((9, 8, 20), ("array", slice(1, None)), ["i8"]),
    "a new axis": ((9, 8, 20), ("array", None), ["i8"]),
    "arrays that stand apart": ((9, 8, 20), ("array", ROWS, "array"), ["i8", "i8"]),
    "indices that int64 can't hold": ((9, 8, 20), ("array",), ["u8"]),
}


@pytest.mark.parametrize("name", LEFT)
def test_indices_that_are_left_to_numpy(name: str, eager: Launches) -> None:
    shape, spec, dtypes = LEFT[name]
    arrays = [indices_up_to(8, (5,), dtype) for dtype in dtypes]
    x = numbers(shape, "f4")
    out = FAST["index"](x, *arrays, spec=spec)
    assert_same(out, indexing.index(x, *arrays, spec=spec))
    back = FAST["scatter"](out, *arrays, spec=spec, shape=shape)
    assert_same(back, indexing.scatter(out, *arrays, spec=spec, shape=shape))
    assert not eager.taken()


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("shape", [(6, 7, 45), (1, 90, 40), (300, 4, 1)])
def test_along_axis(shape: tuple, count: int, axis: int, eager: Launches, any_threads: int) -> None:
    x = numbers(shape, "f4")
    index = indices_up_to(shape[axis], (*shape[:axis], count, *shape[axis + 1 :]))
    out = FAST["take_along_axis"](x, index, axis=axis)
    assert eager.taken()
    assert_same(out, indexing.take_along_axis(x, index, axis=axis))
    back = FAST["scatter_along_axis"](out, index, axis=axis, shape=shape)
    assert eager.taken()
    assert_same(back, indexing.scatter_along_axis(out, index, axis=axis, shape=shape))


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("dtype", [dtype for dtype in MOVED if dtype != "c16"])
def test_take_along_axis_of_each_dtype(dtype: str, count: int, eager: Launches) -> None:
    x, index = numbers((40, 9), dtype), indices_up_to(9, (40, count), "i4")
    out = FAST["take_along_axis"](x, index, axis=1)
    assert eager.taken()
    assert_same(out, indexing.take_along_axis(x, index, axis=1))


@pytest.mark.parametrize(
    "dtype, count",
    [*((d, 1) for d in MOVED if d != "c16"), *((d, 5) for d in ADDED if d[0] != "c")],
)
def test_scatter_along_axis_of_each_dtype(dtype: str, count: int, eager: Launches) -> None:
    x, index = numbers((9, count, 40), dtype), indices_up_to(6, (9, count, 40))
    out = FAST["scatter_along_axis"](x, index, axis=1, shape=(9, 6, 40))
    assert eager.taken()
    assert_same(out, indexing.scatter_along_axis(x, index, axis=1, shape=(9, 6, 40)))


def test_split_rows_along_axis(eager: Launches, any_threads: int) -> None:
    x, index = numbers((2, 30, 333), "f4"), indices_up_to(40, (2, 30, 333))
    out = FAST["scatter_along_axis"](x, index, axis=1, shape=(2, 40, 333))
    assert eager.taken()
    assert_same(out, indexing.scatter_along_axis(x, index, axis=1, shape=(2, 40, 333)))


@pytest.mark.parametrize(
    "x, index, shape",
    [
        (numbers((6, 4), "c16"), indices_up_to(9, (6, 4)), (6, 9)),
        (numbers((6, 4), "f4"), indices_up_to(9, (6, 4)), (7, 9)),
        (numbers((6, 4), "b1"), indices_up_to(9, (6, 4)), (6, 9)),
    ],
    ids=["complex128", "another shape", "bool"],
)
def test_along_axis_that_is_left_to_numpy(x, index, shape, eager: Launches) -> None:
    out = FAST["scatter_along_axis"](x, index, axis=1, shape=shape)
    assert_same(out, indexing.scatter_along_axis(x, index, axis=1, shape=shape))
    assert not eager.taken()


X = numbers((12, 30), "f4")
OUT_OF_RANGE: dict[str, Callable[[Any, np.ndarray], Any]] = {
    "index": lambda table, i: table["index"](X, i, spec=("array",)),
    "index, elements": lambda table, i: table["index"](X, i, spec=(ROWS, "array")),
    "index, two arrays": lambda table, i: table["index"](X, i % 12, i, spec=("array", "array")),
    "scatter": lambda table, i: table["scatter"](
        np.ones((len(i), 30), "f4"), i, spec=("array",), shape=(12, 30)
    ),
    "scatter, elements": lambda table, i: table["scatter"](
        np.ones(len(i), "f4"), i, spec=("array",), shape=(12,)
    ),
    "take_along_axis": lambda table, i: table["take_along_axis"](X, np.stack([i] * 12), axis=1),
    "scatter_along_axis": lambda table, i: table["scatter_along_axis"](
        np.ones((3, len(i)), "f4"), np.stack([i] * 3), axis=1, shape=(3, 12)
    ),
    "scatter_along_axis, once": lambda table, i: table["scatter_along_axis"](
        np.ones((len(i), 1), "f4"), i[:, None], axis=1, shape=(len(i), 12)
    ),
}


@pytest.mark.parametrize("wrong", [30, -31, 2**62, -(2**63)])
@pytest.mark.parametrize("place", [2, 18], ids=["in a vector", "after the last"])
@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_an_index_out_of_range_is_the_error_of_numpy(
    name: str, place: int, wrong: int, eager: Launches
) -> None:
    index = np.arange(19) % 12
    index[place] = wrong
    with pytest.raises(IndexError) as expected:
        OUT_OF_RANGE[name](NUMPY, index)
    with pytest.raises(IndexError) as found:
        OUT_OF_RANGE[name](FAST, index)
    assert eager.taken()
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t["index"](X[:0], np.zeros(3, int), spec=("array",)),
        lambda t: t["scatter"](X[:3], np.zeros(3, int), spec=("array",), shape=(0, 30)),
        lambda t: t["take_along_axis"](X[:, :0], np.zeros((12, 2), int), axis=1),
        lambda t: t["scatter_along_axis"](X, np.zeros((12, 30), int), axis=1, shape=(12, 0)),
    ],
)
def test_nothing_can_be_had_from_an_empty_axis(call: Callable, eager: Launches) -> None:
    with pytest.raises(IndexError) as expected:
        call(NUMPY)
    with pytest.raises(IndexError) as found:
        call(FAST)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t["index"](X, np.empty(0, int), spec=("array",)),
        lambda t: t["index"](X[:, :0], np.arange(3), spec=("array",)),
        lambda t: t["index"](X[:0], np.empty((0, 2), int), spec=("array",)),
        lambda t: t["scatter"](X[:0], np.empty(0, int), spec=("array",), shape=(12, 30)),
        lambda t: t["scatter"](X[:3, :0], np.arange(3), spec=("array",), shape=(12, 0)),
        lambda t: t["take_along_axis"](X, np.empty((12, 0), int), axis=1),
        lambda t: t["scatter_along_axis"](X[:, :0], np.empty((12, 0), int), axis=1, shape=(12, 30)),
        lambda t: t["scatter_along_axis"](X[:0], np.empty((0, 30), int), axis=1, shape=(0, 30)),
    ],
)
def test_nothing_to_move(call: Callable, eager: Launches) -> None:
    assert_same(call(FAST), call(NUMPY))


# Pooling.

PADDINGS = {
    "no padding": ((0, 0), (0, 0)),
    "padding": ((1, 1), (1, 1)),
    "one side": ((1, 0), (0, 1)),
}
SIZES = [(33, 40), (9, 17)]
FUNCTIONS = [(2, 2), (3, 3), (2, 5)]
STRIDES = [(2, 2), (1, 1), (3, 4), (2, 3)]


def image(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Few values, so that there are equals, infinities and NaNs; the first image is all -inf."""
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 3, shape).astype(dtype)
    x[x == 0] = 1  # 0 and -0 are equals of which either may be the largest
    x[rng.random(shape) < 0.2] = -np.inf
    x[rng.random(shape) < 0.02] = np.nan
    x[0, 0] = -np.inf
    return x


def assert_pools(x: np.ndarray, geometry: dict, launches: Launches) -> None:
    out, places = FAST["max_pool"](x, **geometry)
    assert launches.taken()
    expected, expected_places = windows.max_pool(x, **geometry)
    assert (out.dtype, places.dtype) == (expected.dtype, expected_places.dtype)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(places, expected_places)


@pytest.mark.parametrize("padding", PADDINGS.values(), ids=PADDINGS)
@pytest.mark.parametrize("stride", STRIDES, ids=str)
@pytest.mark.parametrize("kernel", FUNCTIONS, ids=str)
def test_max_pool(kernel: tuple, stride: tuple, padding: tuple, eager: Launches) -> None:
    for size in SIZES:
        geometry = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": (1, 1)}
        assert_pools(image((2, 3, *size), "f4"), geometry, eager)


@pytest.mark.parametrize("dilation", [(2, 1), (1, 3), (2, 2)], ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
def test_max_pool_with_dilation(dtype: str, dilation: tuple, eager: Launches) -> None:
    for stride in ((1, 1), (2, 2)):
        padding = PADDINGS["padding"]
        geometry = {"kernel": (3, 2), "stride": stride, "padding": padding, "dilation": dilation}
        assert_pools(image((2, 3, 17, 20), dtype), geometry, eager)


def test_max_pool_on_threads_and_of_other_layouts(eager: Launches, any_threads: int) -> None:
    padding = PADDINGS["padding"]
    geometry = {"kernel": (3, 3), "stride": (2, 2), "padding": padding, "dilation": (1, 1)}
    x = image((6, 5, 21, 20), "f4")
    for turned in (x, x.transpose(1, 0, 3, 2), x[..., ::-1]):
        assert_pools(turned, geometry, eager)


def test_max_pool_of_lines(eager: Launches) -> None:
    geometry = {"kernel": (3,), "stride": (2,), "padding": ((1, 1),), "dilation": (1,)}
    assert_pools(image((3, 4, 77), "f8"), geometry, eager)


# The shape and dtype of x, kernel and padding; strides and dilations are as given.
POOLS_LEFT = {
    "volumes": ((2, 3, 6, 6, 6), "f4", (2, 2, 2), ((0, 0),) * 3, 1),
    "integers": ((2, 3, 12, 12), "i4", (2, 2), ((0, 0),) * 2, 1),
    "few large windows": ((2, 3, 12, 12), "f4", (6, 6), ((0, 0),) * 2, 1),
    "no images": ((0, 3, 12, 12), "f4", (2, 2), ((0, 0),) * 2, 1),
}


@pytest.mark.parametrize("name", POOLS_LEFT)
def test_max_pool_that_is_left_to_numpy(name: str, eager: Launches) -> None:
    shape, dtype, kernel, padding, dilation = POOLS_LEFT[name]
    x = numbers(shape, dtype)
    geometry = {"kernel": kernel, "stride": kernel, "padding": padding}
    geometry["dilation"] = (dilation,) * len(kernel)
    for out, expected in zip(
        FAST["max_pool"](x, **geometry), windows.max_pool(x, **geometry), strict=True
    ):
        assert_same(out, expected)
    assert not eager.taken()


def test_windows_that_miss_the_image_are_left_to_numpy(eager: Launches) -> None:
    """The elements of some are all in the padding, on both sides of the image."""
    x = numbers((40, 3, 12, 1), "f4")
    padding, dilation = ((0, 0), (1, 1)), (1, 2)
    FAST["max_pool"](x, kernel=(2, 2), stride=(1, 1), padding=padding, dilation=dilation)
    assert not eager.taken()


@pytest.mark.parametrize("padding", PADDINGS.values(), ids=PADDINGS)
@pytest.mark.parametrize("stride", STRIDES, ids=str)
@pytest.mark.parametrize("kernel", FUNCTIONS, ids=str)
def test_sums_of_windows(kernel: tuple, stride: tuple, padding: tuple, eager: Launches) -> None:
    geometry = {"kernel": kernel, "stride": stride, "padding": padding}
    x = numbers((2, 3, 33, 40), "f4")
    out = FAST["window_sum"](x, **geometry)
    assert eager.taken()
    assert_same(out, windows.window_sum(x, **geometry))
    back = FAST["window_spread"](out, shape=x.shape, **geometry)
    assert eager.taken()
    assert_same(back, windows.window_spread(out, shape=x.shape, **geometry))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(3, 4, 77), (5, 7, 24, 23)])
def test_sums_of_windows_of_each_dtype(
    shape: tuple, dtype: str, eager: Launches, any_threads: int
) -> None:
    spatial = len(shape) - 2
    geometry = {"kernel": (3,) * spatial, "stride": (2,) * spatial, "padding": ((1, 1),) * spatial}
    x = numbers(shape[::-1], dtype).T
    out = FAST["window_sum"](x, **geometry)
    assert eager.taken()
    assert_same(out, windows.window_sum(x, **geometry))
    back = FAST["window_spread"](out, shape=x.shape, **geometry)
    assert eager.taken()
    assert_same(back, windows.window_spread(out, shape=x.shape, **geometry))


@pytest.mark.parametrize(
    "shape, dtype, kernel",
    [((2, 3, 6, 6, 6), "f4", 2), ((2, 3, 12, 12), "i4", 2), ((2, 3, 9, 9), "f4", 5)],
    ids=["volumes", "integers", "few large windows"],
)
def test_sums_that_are_left_to_numpy(shape, dtype, kernel, eager: Launches) -> None:
    spatial = len(shape) - 2
    geometry = {"kernel": (kernel,) * spatial, "stride": (kernel,) * spatial}
    geometry["padding"] = ((0, 0),) * spatial
    x = numbers(shape, dtype)
    out = FAST["window_sum"](x, **geometry)
    assert_same(out, windows.window_sum(x, **geometry))
    back = FAST["window_spread"](out, shape=shape, **geometry)
    assert_same(back, windows.window_spread(out, shape=shape, **geometry))
    assert not eager.taken()


# What runs along an axis.

RUNNING = [
    ((41, 30), 0),
    ((41, 30), 1),
    ((7, 9, 600), 1),
    ((5, 3, 1), 1),
    ((1, 500), 1),
    ((900,), 0),
]
RUNNING_DTYPES = (*FLOATS, "i4", "i8", "u4", "u8")


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("shape, axis", RUNNING, ids=str)
@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_running(name: str, shape, axis, reverse, eager: Launches, any_threads: int) -> None:
    for dtype in RUNNING_DTYPES:
        x = numbers(shape, dtype)
        if name == "cumulative_prod":
            x = np.where(x > 2, x, 1).astype(dtype)
        with np.errstate(over="ignore"):
            out = FAST[name](x, axis=axis, reverse=reverse)
            assert eager.taken()
            assert_same(out, getattr(reductions, name)(x, axis=axis, reverse=reverse))


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("shape, axis", RUNNING, ids=str)
def test_recurrence(shape, axis, reverse, eager: Launches, any_threads: int) -> None:
    """In float64 it is NumPy's; else it is what float64 gives, rounded once."""
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1.5, 1.5, shape), rng.standard_normal(shape)
    a[rng.random(shape) < 0.2] = 0
    for dtype in FLOATS:
        factors, terms = a.astype(dtype), b.astype(dtype)
        out = FAST["recurrence"](factors, terms, axis=axis, reverse=reverse)
        assert eager.taken()
        exact = (factors.astype("f8"), terms.astype("f8"))
        expected = reductions.recurrence(*exact, axis=axis, reverse=reverse)
        assert_same(out, expected.astype(dtype))


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("shape, axis", RUNNING, ids=str)
def test_scaled_recurrence(shape, axis, reverse, eager: Launches) -> None:
    """Where products leave the range of floats, exponents make up for it."""
    rng = np.random.default_rng(0)
    a, b = np.exp2(rng.uniform(-900, 900, shape)), np.exp2(rng.normal(0, 1, shape))
    a[rng.random(shape) < 0.2] = 0
    results = FAST["scaled_recurrence"](a, b, np.zeros(shape), axis=axis, reverse=reverse)
    assert eager.taken()
    along = [np.moveaxis(x, axis, 0)[:: -1 if reverse else 1] for x in (a, b, *results)]
    a, b, out, exponent = (x[1:] for x in along)
    before, power = (x[:-1] for x in along[2:])
    raised, lowered = ((p - exponent).clip(-5000, 5000).astype(int) for p in (power, 0))
    expected = np.ldexp(a, raised) * before + np.ldexp(b, lowered)
    assert np.isfinite(out).all()
    np.testing.assert_allclose(out, expected, rtol=1e-14)


def test_recurrence_starts_anew_after_an_infinity(eager: Launches) -> None:
    a, b = np.ones(100), np.ones(100)
    b[10], a[20], a[0] = np.inf, 0, np.nan
    out = FAST["recurrence"](a, b, axis=0, reverse=False)
    assert eager.taken()
    expected = [*range(1, 11), *[np.inf] * 10, *range(1, 81)]
    np.testing.assert_array_equal(out, expected)


def test_layouts_of_what_runs(eager: Launches) -> None:
    x = numbers((30, 20, 10), "f4").transpose(2, 0, 1)[::-1, :, ::2]
    for axis in range(3):
        out = FAST["cumulative_sum"](x, axis=axis, reverse=False)
        assert eager.taken()
        assert_same(out, reductions.cumulative_sum(x, axis=axis, reverse=False))


@pytest.mark.parametrize("shape, dtype", [((0, 4), "f4"), ((4, 0), "f4"), ((40, 40), "c8")])
def test_running_that_is_left_to_numpy(shape: tuple, dtype: str, eager: Launches) -> None:
    x = numbers(shape, dtype)
    out = FAST["cumulative_sum"](x, axis=0, reverse=True)
    assert_same(out, reductions.cumulative_sum(x, axis=0, reverse=True))
    assert not eager.taken()


# Random bits.

STATES = {
    "zero": (0, 0, 0, 0),
    "any": (0x12345678, 0x9ABCDEF0, 77, 3),
    "the low word of the counter overflows": (1, 2, 0xFFFFFFF0, 5),
    "the counter overflows": (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFF0, 0xFFFFFFFF),
}


@pytest.mark.parametrize("shape", [(1,), (31,), (64,), (999,), (10, 33), (4096,)], ids=str)
@pytest.mark.parametrize("name", STATES)
def test_random_bits(name: str, shape: tuple, eager: Launches, any_threads: int) -> None:
    state = np.array(STATES[name], np.uint32)
    with np.errstate(over="ignore"):
        bits, after = FAST["random_bits"](state, shape=shape)
        assert eager.taken()
        expected, expected_after = threefry.random_bits(state, shape=shape)
    assert_same(bits, expected)
    assert_same(after, expected_after)


def test_no_random_bits(eager: Launches) -> None:
    bits, after = FAST["random_bits"](np.arange(4, dtype=np.uint32), shape=(3, 0))
    assert bits.shape == (3, 0)
    assert after.tolist() == [0, 1, 2, 3]


# Limits.

WHERE_KERNELS_PAY = {
    "index": (
        lambda n: TABLE["index"](np.ones((n, 64), "f4"), np.arange(n), spec=("array",)),
        2000,
    ),
    "scatter": (
        lambda n: TABLE["scatter"](
            np.ones((n, 64), "f4"), np.arange(n), spec=("array",), shape=(n, 64)
        ),
        200,
    ),
    "take_along_axis": (
        lambda n: TABLE["take_along_axis"](np.ones((n, 3)), np.zeros((n, 1), int), axis=1),
        8000,
    ),
    "scatter_along_axis": (
        lambda n: TABLE["scatter_along_axis"](
            np.ones((n, 1)), np.zeros((n, 1), int), axis=1, shape=(n, 3)
        ),
        8000,
    ),
    "max_pool": (
        lambda n: TABLE["max_pool"](
            np.ones((n, 1, 8, 8)),
            kernel=(2, 2),
            stride=(2, 2),
            padding=((0, 0),) * 2,
            dilation=(1, 1),
        ),
        100,
    ),
    "cumulative_sum": (
        lambda n: TABLE["cumulative_sum"](np.ones(n), axis=0, reverse=False),
        10000,
    ),
    "random_bits": (
        lambda n: TABLE["random_bits"](np.arange(4, dtype=np.uint32), shape=(n,)),
        10000,
    ),
}


@pytest.mark.parametrize("name", WHERE_KERNELS_PAY)
def test_kernels_are_for_large_arrays_only(name: str, launches: Launches) -> None:
    call, large = WHERE_KERNELS_PAY[name]
    call(2)
    assert not launches.taken()
    call(large)
    assert launches.taken()


def test_results_of_other_thread_counts_are_the_same_bits(eager: Launches) -> None:
    """Of sums that depend on the order of their terms."""
    x, index = numbers((3000, 40), "f4"), indices_up_to(50, (3000,))
    before, found = threads.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            threads.set_num_threads(count)
            out = TABLE["scatter"](x, index, spec=("array", ROWS), shape=(50, 40))
            found.append(out.tobytes())
    finally:
        threads.set_num_threads(before)
    assert eager.taken()
    assert all(one == other for one, other in itertools.pairwise(found))
