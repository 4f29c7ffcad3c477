"""Matrix products on WebGPU against NumPy's: values, layouts, edges of tiles, splits, errors.

Everything is done in both ways: as on hardware, with tiles in workgroup memory, and as on adapters
that are software.
"""

import itertools

import numpy as np
import pytest

from adjoint.backends.cpu import NUMPY
from tests.support import swiftshader
from tests.support.arrays import normal, whole_numbers

pytestmark = pytest.mark.webgpu


@pytest.fixture(params=["hardware", "software"], autouse=True)
def way(request, webgpu, monkeypatch):
    target = webgpu.gpu.target
    features = target.features - {"software"} | {request.param} - {"hardware"}
    monkeypatch.setattr(webgpu.gpu, "target", target._replace(features=features))


def on_device(webgpu, x):
    """The same view of the same memory."""
    base = x
    while base.base is not None:
        base = base.base
    start = (x.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // x.itemsize
    strides = tuple(stride // x.itemsize for stride in x.strides)
    return webgpu.from_numpy(base.ravel("K")).view(x.shape, strides, start)


def product(webgpu, x, y):
    return webgpu.to_numpy(webgpu.FUNCTIONS["matmul"](on_device(webgpu, x), on_device(webgpu, y)))


def lowered(webgpu, x, y):
    """How the device would do it."""
    from adjoint.backends.webgpu.lowering import layout_of, lower

    layouts = [layout_of(on_device(webgpu, a)) for a in (x, y)]
    launches = lower("matmul", layouts, {}, webgpu.gpu.target)
    assert launches is not None
    return launches


def assert_exact(webgpu, x, y):
    out, expected = product(webgpu, x, y), NUMPY["matmul"](x, y)
    assert out.dtype == expected.dtype
    assert out.shape == expected.shape
    np.testing.assert_array_equal(out, expected)


def assert_close(webgpu, x, y, tolerance):
    """Errors are relative to the sums of absolute values, as rounding makes them."""
    out = product(webgpu, x, y)
    exact = np.matmul(x.astype(np.float64), y.astype(np.float64))
    size = np.matmul(abs(x).astype(np.float64), abs(y).astype(np.float64))
    assert out.dtype == x.dtype
    assert np.max(abs(out - exact) / size) < tolerance


def launches(webgpu):
    return webgpu.gpu.counts["launches"] + webgpu.gpu.launches


# Each takes a shape to an array of that shape, laid out in its own way.
LAYOUTS = {
    "rows": whole_numbers,
    "columns": lambda shape: whole_numbers(shape[::-1]).T,
    "wide rows": lambda shape: whole_numbers((shape[0], shape[1] + 5))[:, 2:-3],
    "aligned rows": lambda shape: whole_numbers((shape[0], shape[1] + 8))[:, 4:-4],
    "wide columns": lambda shape: whole_numbers((shape[1], shape[0] + 5))[:, 3:-2].T,
    "every other": lambda shape: whole_numbers((2 * shape[0], 2 * shape[1]))[::2, 1::2],
    "upside down": lambda shape: whole_numbers(shape)[::-1],
    "backwards": lambda shape: whole_numbers(shape)[:, ::-1],
    "one row": lambda shape: np.broadcast_to(whole_numbers(shape[1]), shape),
    "one column": lambda shape: np.broadcast_to(whole_numbers(shape[0]), shape[::-1]).T,
}


@pytest.mark.parametrize("x_layout, y_layout", list(itertools.product(LAYOUTS, LAYOUTS)))
def test_layouts(webgpu, x_layout, y_layout):
    for rows, inner, columns in [(37, 21, 43), (36, 40, 68)]:
        x, y = LAYOUTS[x_layout]((rows, inner)), LAYOUTS[y_layout]((inner, columns))
        assert_exact(webgpu, x, y)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("inner, length", [(37, 21), (40, 36), (1000, 130), (3, 600)])
def test_vectors(webgpu, layout, inner, length):
    matrix = LAYOUTS[layout]((length, inner))
    for vector in (whole_numbers(inner), whole_numbers(2 * inner)[::2], whole_numbers(inner)[::-1]):
        assert_exact(webgpu, matrix, vector)
        assert_exact(webgpu, vector, matrix.T)
        assert_exact(webgpu, matrix, vector[:, None])
        assert_exact(webgpu, vector, vector)


EDGES = [1, 3, 4, 5, 8, 31, 32, 33, 65]


@pytest.mark.parametrize("inner", [1, 4, 15, 16, 33])
def test_edges_of_tiles(webgpu, inner):
    for rows, columns in itertools.product(EDGES, EDGES):
        assert_exact(webgpu, whole_numbers((rows, inner)), whole_numbers((inner, columns)))


def test_large_tiles(webgpu):
    """Products with many tiles have larger ones, and larger blocks."""
    for inner in (36, 39):
        x, y = whole_numbers((777, inner)), whole_numbers((inner, 803))
        for first, second in ((x, y), (y.T, x.T), (x.copy("F"), y.copy("F"))):
            assert_exact(webgpu, first, second)


BATCHES = [
    ((2, 5, 3), (2, 3, 4)),
    ((7, 5, 3), (3, 4)),
    ((5, 3), (7, 3, 4)),
    ((2, 1, 5, 3), (6, 3, 4)),
    ((2, 1, 2, 1, 5, 3), (3, 1, 4, 3, 8)),
    ((3, 1, 5, 8), (3, 8, 4)),
    ((2, 3, 1, 8), (2, 3, 8, 9)),
    ((100, 3, 3), (100, 3, 3)),
    ((40, 12, 9), (9, 15)),
    ((20, 16, 16), (20, 16, 16)),
    ((2, 3, 4), (4,)),
    ((4,), (2, 4, 3)),
    ((6, 33, 70), (6, 70, 35)),
]


@pytest.mark.parametrize("x_shape, y_shape", BATCHES)
def test_batches_broadcast(webgpu, x_shape, y_shape):
    assert_exact(webgpu, whole_numbers(x_shape), whole_numbers(y_shape))


def test_batch_axes_in_any_order(webgpu):
    x, y = whole_numbers((2, 3, 4, 5, 6, 7)), whole_numbers((5, 3, 2, 4, 7, 8))
    assert_exact(webgpu, x.transpose(3, 0, 2, 1, 4, 5), y.transpose(0, 2, 3, 1, 4, 5))
    assert_exact(webgpu, x.transpose(0, 4, 1, 5, 2, 3), whole_numbers((5, 3)))
    assert_exact(webgpu, x[:, ::-2, ::3], y[0, 0, 0, 0])


def test_more_batch_axes_than_programs_have(webgpu):
    x, y = whole_numbers((2, 3, 2, 3, 2, 3, 4)), whole_numbers((2, 1, 2, 1, 2, 4, 5))
    x = x.transpose(4, 3, 2, 1, 0, 5, 6)
    for other in (y, y[0, 0, 0, 0, 0], y[0, 0, 0, 0, 0, :, 0]):
        assert "elements" in [launch.name for launch in lowered(webgpu, x, other)]  # copies
        assert_exact(webgpu, x, other)
    assert_exact(webgpu, whole_numbers(3), x)


@swiftshader.one_driver_is_enough
def test_more_workgroups_than_one_dimension_has(webgpu):
    assert_exact(webgpu, whole_numbers((70_000, 1, 3)), whole_numbers((3, 2)))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_integers_wrap_around(webgpu, dtype):
    info = np.iinfo(dtype)
    for rows, inner, columns in [(13, 7, 9), (16, 600, 12), (1, 700, 5), (1, 50, 1)]:
        random = np.random.default_rng(0)
        x = random.integers(info.min, info.max, (rows, inner), dtype)
        y = random.integers(info.min, info.max, (inner, columns), dtype)
        assert_exact(webgpu, x, y)
        assert_exact(webgpu, y.T, x.T)


def test_bools(webgpu):
    for rows, inner, columns in [(13, 7, 9), (16, 3000, 12), (1, 2000, 5), (5, 8, 1), (1, 1, 1)]:
        x = np.random.default_rng(0).random((rows, inner)) < 1 / 30
        y = np.random.default_rng(1).random((inner, columns)) < 1 / 30
        assert_exact(webgpu, x, y)
        assert_exact(webgpu, ~x, ~y)


def test_half_precision_is_rounded_once(webgpu):
    if np.dtype(np.float16) not in webgpu.gpu.dtypes:
        pytest.skip("the adapter has no float16")
    for rows, inner, columns in [(13, 7, 9), (36, 64, 40), (16, 3000, 12), (1, 700, 5)]:
        x = (normal(rows, inner) / 8).astype(np.float16)
        y = normal(inner, columns).astype(np.float16)
        out = product(webgpu, x, y)
        exact = np.matmul(x.astype(np.float64), y.astype(np.float64))
        assert out.dtype == np.float16
        # Half a unit in the last place, and a little for the sum in float32.
        np.testing.assert_allclose(out, exact, rtol=2**-11 * 1.01, atol=1e-5)


EMPTY = [
    ((0, 3), (3, 4)),
    ((3, 0), (0, 4)),
    ((0, 0), (0, 0)),
    ((3, 4), (4, 0)),
    ((0,), (0,)),
    ((2, 3, 0), (0,)),
    ((0, 3, 4), (4, 5)),
    ((2, 0, 3, 4), (1, 4, 5)),
    ((70, 0), (0, 80)),
]


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.bool_])
@pytest.mark.parametrize("x_shape, y_shape", EMPTY)
def test_zero_lengths(webgpu, x_shape, y_shape, dtype):
    webgpu.from_numpy(np.full(5600, 1, dtype))  # so that memory that is used again isn't 0
    assert_exact(webgpu, np.ones(x_shape, dtype), np.ones(y_shape, dtype))


def test_operands_that_are_one_number(webgpu):
    x = whole_numbers((35, 20))
    three = webgpu.Array((20, 45), np.dtype(np.float32), None, number=3.0)
    out = webgpu.FUNCTIONS["matmul"](webgpu.from_numpy(x), three)
    np.testing.assert_array_equal(webgpu.to_numpy(out), x @ np.full((20, 45), 3, np.float32))


@pytest.mark.parametrize("rows, columns", [(35, 45), (1, 45), (35, 1), (1, 1), (36, 48)])
def test_what_is_beside_a_view_is_not_read(webgpu, rows, columns):
    """Zeros that stand for what is beyond the edge would make NaN of infinities."""
    x = np.full((rows + 9, 19 + 9), np.inf, np.float32)
    y = np.full((19 + 9, columns + 9), np.nan, np.float32)
    x[:rows, :19], y[:19, :columns] = whole_numbers((rows, 19)), whole_numbers((19, columns))
    assert_exact(webgpu, x[:rows, :19], y[:19, :columns])
    assert_exact(webgpu, y[:19, :columns].T, x[:rows, :19].T)


def test_infinities_and_nans(webgpu):
    x, y = whole_numbers((36, 43)), whole_numbers((43, 41), seed=1)
    x[3, 5], x[4, 7], x[30, 42], y[42, 40] = np.inf, np.nan, -np.inf, np.inf
    with np.errstate(invalid="ignore"):
        assert_exact(webgpu, x, y)
        assert_exact(webgpu, x, y[:, 40])
        assert_exact(webgpu, x[30], y)


SPLIT = [
    (64, 5000, 37),
    (130, 8192, 64),
    (13, 3000, 9),
    (1, 30_000, 9),
    (9, 30_000, 1),
    (1, 9999, 1),
]


@pytest.mark.parametrize("rows, inner, columns", SPLIT)
def test_long_inner_axes_are_split(webgpu, rows, inner, columns):
    x, y = whole_numbers((rows, inner)), whole_numbers((inner, columns))
    for first, second in ((x, y), (x.copy("F"), y), (x, y.copy("F"))):
        split = lowered(webgpu, first, second)
        assert split[0].word("parts") > 1 or len(split) > 1
        assert_exact(webgpu, first, second)


LONG = 6000 if swiftshader.is_chosen() else 20_000


# Sums of n rounded numbers in turn are off by about sqrt(n) units of 6e-8 where all are positive.
@pytest.mark.parametrize(
    "rows, inner, columns", [(40, 784, 33), (70, 4000, 65), (300, LONG, 200), (1, 1 << 20, 1)]
)
def test_long_sums_are_accurate(webgpu, rows, inner, columns):
    random = np.random.default_rng(0)
    x, y = random.random((rows, inner), np.float32), random.random((inner, columns), np.float32)
    assert_close(webgpu, x, y, 2e-6)
    assert_close(webgpu, x - np.float32(0.5), y - np.float32(0.5), 5e-7)


def test_results_are_the_same_each_time(webgpu):
    for shape in (784, 64), (5000, 33), (9999, 1):
        x, y = normal(*shape), normal(*shape, seed=1)
        first, second = product(webgpu, x.T, y), product(webgpu, x.T, y)
        np.testing.assert_array_equal(first, second)


def test_only_hardware_uses_tiles_in_workgroup_memory(webgpu):
    (launch,) = lowered(webgpu, whole_numbers((40, 36)), whole_numbers((36, 52)))
    software = "software" in webgpu.gpu.target.features
    assert launch.name.startswith("matmul blocks" if software else "matmul tiles")


@pytest.mark.parametrize("x_layout, y_layout", [("rows", "columns"), ("columns", "every other")])
def test_no_operand_is_copied(webgpu, x_layout, y_layout):
    x, y = LAYOUTS[x_layout]((40, 36)), LAYOUTS[y_layout]((36, 52))
    first, second = on_device(webgpu, x), on_device(webgpu, y)
    before = launches(webgpu)
    webgpu.FUNCTIONS["matmul"](first, second)
    assert launches(webgpu) == before + 1


@pytest.mark.parametrize(
    "x_shape, y_shape",
    [((2, 3), (4, 5)), ((3,), (4,)), ((), (3,)), ((2, 2), ()), ((2, 3, 4), (3, 4, 5))],
)
def test_shapes_that_do_not_fit(webgpu, x_shape, y_shape):
    with pytest.raises(ValueError, match="shape"):
        product(webgpu, np.ones(x_shape, np.float32), np.ones(y_shape, np.float32))
