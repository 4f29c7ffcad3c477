"""Our own matrix products against NumPy's: values, layouts, edges of tiles, threads, errors."""

import itertools
import math
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adjoint.backends.cpu import thresholds
from adjoint.backends.cpu.jit import threads
from adjoint.backends.cpu.lowering import matmul as lowering
from adjoint.backends.cpu.lowering.native import NativeLowering
from adjoint.backends.cpu.lowering.ops import lower
from adjoint.backends.cpu.lowering.targets import current_target, layout_of
from tests.kernels import rounding
from tests.support.arrays import normal, whole_numbers
from tests.support.fast_forms import FAST
from tests.support.helpers import needs_kernels
from tests.support.precise import precise

pytestmark = needs_kernels

DTYPES = [np.float32, np.float64]


@pytest.fixture(autouse=True)
def every_size(monkeypatch):
    """Small products take the kernel, too; each test leaves the number of threads as it was."""
    before = threads.get_num_threads()
    monkeypatch.setattr(thresholds, "PRODUCTS", 0)
    yield
    threads.set_num_threads(before)


multiplied = FAST["matmul"]


def launches_of(x, y) -> Any:
    return lower("matmul", [layout_of(x), layout_of(y)], {}, current_target())


def uses_kernel(x, y) -> bool:
    return launches_of(x, y) is not None


def assert_exact(x, y):
    assert uses_kernel(x, y)
    with np.errstate(invalid="ignore"):
        out, expected = multiplied(x, y), np.matmul(x, y)
    assert out.dtype == expected.dtype
    assert out.flags.c_contiguous
    np.testing.assert_array_equal(out, expected)


# Each takes a shape and a dtype to an array of that shape, laid out in its own way.
LAYOUTS = {
    "rows": whole_numbers,
    "columns": lambda shape, dtype: whole_numbers((*shape[:-2], *shape[:-3:-1]), dtype).mT,
    "wide rows": lambda shape, dtype: whole_numbers((*shape[:-1], shape[-1] + 5), dtype)[..., 2:-3],
    "wide columns": lambda shape, dtype: (
        whole_numbers((*shape[:-2], shape[-1], shape[-2] + 5), dtype)[..., 3:-2].mT
    ),
    "rows upside down": lambda shape, dtype: whole_numbers(shape, dtype)[..., ::-1, :],
    "columns backwards": lambda shape, dtype: (
        whole_numbers((*shape[:-2], *shape[:-3:-1]), dtype)[..., ::-1, :].mT
    ),
    "one row": lambda shape, dtype: np.broadcast_to(whole_numbers(shape[-1], dtype), shape),
    "one column": lambda shape, dtype: (
        np.broadcast_to(whole_numbers(shape[-2], dtype), (*shape[:-2], *shape[:-3:-1])).mT
    ),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("x_layout, y_layout", list(itertools.product(LAYOUTS, LAYOUTS)))
def test_layouts(x_layout, y_layout, dtype):
    for rows, inner, columns in [(29, 37, 43), (14, 16, 32), (28, 8, 70)]:
        x = LAYOUTS[x_layout]((rows, inner), dtype)
        y = LAYOUTS[y_layout]((inner, columns), dtype)
        assert_exact(x, y)


ROWS = [4, 5, 13, 14, 15, 27, 28, 29, 141, 300]
COLUMNS = [4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 65, 131]
INNER = [1, 2, 7, 8, 9, 15, 16, 17, 33]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("x_layout", ["rows", "columns"])
@pytest.mark.parametrize("y_layout", ["rows", "columns"])
def test_edges_of_tiles(x_layout, y_layout, dtype):
    triples = [
        *((rows, 11, 37) for rows in ROWS),
        *((29, 11, columns) for columns in COLUMNS),
        *((29, inner, 37) for inner in INNER),
    ]
    for rows, inner, columns in triples:
        x, y = LAYOUTS[x_layout]((rows, inner), dtype), LAYOUTS[y_layout]((inner, columns), dtype)
        assert_exact(x, y)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("x_layout", ["rows", "columns"])
@pytest.mark.parametrize("y_layout", ["rows", "columns"])
@pytest.mark.parametrize("inner", [255, 256, 257, 511, 513, 784])
def test_blocks_along_the_inner_axis(inner, x_layout, y_layout, dtype):
    for rows, columns in [(29, 45), (14, 64)]:
        x, y = LAYOUTS[x_layout]((rows, inner), dtype), LAYOUTS[y_layout]((inner, columns), dtype)
        assert_exact(x, y)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tiles_for_fewer_registers(dtype, monkeypatch):
    monkeypatch.setattr(lowering, "registers", lambda target: (6, 1))
    for x_layout, y_layout in itertools.product(["rows", "columns"], repeat=2):
        for rows, inner, columns in [(5, 9, 33), (6, 17, 16), (64, 300, 45)]:
            x = LAYOUTS[x_layout]((rows, inner), dtype)
            assert_exact(x, LAYOUTS[y_layout]((inner, columns), dtype))


BATCHES = [
    ((3,), (3,)),
    ((5, 3), (5, 3)),
    ((3,), ()),
    ((), (3,)),
    ((2, 1, 3), (4, 1)),
    ((1,), (7,)),
    ((7,), (1, 1)),
    ((2, 3, 2, 3), (2, 3, 2, 3)),
    ((2, 1, 2, 1, 2, 1), (1, 2, 1, 2, 1, 2)),
    ((1, 1, 1, 1, 1, 1), (2,)),
]


@pytest.mark.parametrize("x_batch, y_batch", BATCHES)
@pytest.mark.parametrize("x_layout, y_layout", [("rows", "columns"), ("columns", "rows")])
def test_batches(x_batch, y_batch, x_layout, y_layout):
    for rows, inner, columns in [(9, 20, 21), (4, 3, 5)]:
        x = LAYOUTS[x_layout]((*x_batch, rows, inner), np.float32)
        y = LAYOUTS[y_layout]((*y_batch, inner, columns), np.float32)
        if sum(n > 1 for n in np.broadcast_shapes(x_batch, y_batch)) > 4:
            assert not uses_kernel(x, y)  # NumPy does it
            np.testing.assert_array_equal(multiplied(x, y), np.matmul(x, y))
        else:
            assert_exact(x, y)


def test_permuted_batches():
    """The heads of an attention: axes of one array, taken apart."""
    qkv = whole_numbers((2, 33, 3, 4, 8)).transpose(2, 0, 3, 1, 4)
    queries, keys, values = qkv
    assert_exact(queries, keys.mT)
    weights = whole_numbers((2, 4, 33, 33))
    assert_exact(weights, values)
    assert_exact(weights.mT, values)
    assert_exact(queries.mT, weights)
    assert_exact(np.broadcast_to(weights[:1], weights.shape), values[::-1, ::-1])


def test_rows_of_a_batch_that_one_matrix_multiplies_are_one_matrix():
    x, y = whole_numbers((2, 3, 5, 8)), whole_numbers((8, 6))
    given = lowering.factors(*NativeLowering([layout_of(x), layout_of(y)], current_target()).views)
    assert (given.rows, given.batch) == (30, [])
    assert_exact(x, y)
    assert_exact(x[:, ::2], y)
    assert_exact(x.mT, y[:5])


def test_many_small_matrices_share_chunks():
    x, y = whole_numbers((1000, 4, 4)), whole_numbers((1000, 4, 4))
    threads.set_num_threads(2)
    (launch,) = launches_of(x, y)
    assert 1 < launch.chunks < 10
    assert_exact(x, y)


def left_to_numpy():
    x, y = normal(8, 8), normal(8, 8)
    odd = np.zeros(8 * 8 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(8, 8)
    odd[...] = x
    pairs = np.zeros((8, 8), [("number", np.float32), ("letter", np.int8)])
    pairs["number"] = x
    wide = normal(8, 16)
    return {
        "vector and matrix": (x[0], y),
        "matrix and vector": (x, y[0]),
        "vectors": (x[0], y[0]),
        "few rows": (x[:3], y),
        "few columns": (x, y[:, :1]),
        "no rows": (x[:0], y),
        "no columns": (x, y[:, :0]),
        "no inner axis": (x[:, :0], y[:0]),
        "no matrices": (np.zeros((0, 8, 8), np.float32), y),
        "two dtypes": (x, y.astype(np.float64)),
        "float16": (x.astype(np.float16), y.astype(np.float16)),
        "integers": ((8 * x).astype(np.int32), (8 * y).astype(np.int32)),
        "booleans": (x > 0, y > 0),
        "complex": (x + 1j * y, y),
        "foreign byte order": (x.astype(x.dtype.newbyteorder()), y),
        "unaligned": (odd, y),
        "parts of records": (pairs["number"], y),
        "every other column": (wide[:, ::2], y),
        "every other row and column": (x, normal(16, 16)[::2, ::2]),
        "one number": (np.broadcast_to(np.float32(2), (8, 8)), y),
    }


@pytest.mark.parametrize("case", list(left_to_numpy()))
def test_left_to_numpy(case):
    x, y = left_to_numpy()[case]
    out, expected = multiplied(x, y), np.matmul(x, y)
    assert np.asarray(out).dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    "x_shape, y_shape",
    [((), (8, 8)), ((8, 8), ()), ((8, 7), (8, 8)), ((2, 8, 8), (3, 8, 8)), ((8,), (7, 8))],
)
def test_errors_are_numpys(x_shape, y_shape):
    x, y = normal(*x_shape), normal(*y_shape)
    with pytest.raises(ValueError, match=r"matmul|broadcast") as ours:
        multiplied(x, y)
    with pytest.raises(ValueError, match=r"matmul|broadcast") as numpys:
        np.matmul(x, y)
    assert str(ours.value) == str(numpys.value)


@pytest.mark.parametrize("rows", [16, 60])
def test_small_products_are_numpys(rows, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(threads, "run", None)  # would raise
    x, y = normal(rows, 64), normal(64, 64)
    np.testing.assert_array_equal(multiplied(x, y), np.matmul(x, y))


def test_large_products_are_ours(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(np, "matmul", None)  # would raise
    x, y = np.ones((128, 64), np.float32), np.ones((64, 96), np.float32)
    assert (multiplied(x, y) == 64).all()


@pytest.mark.parametrize("x_layout", ["rows", "columns"])
@pytest.mark.parametrize("y_layout", ["rows", "columns"])
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_stay_in_their_rows_and_columns(special, x_layout, y_layout):
    for rows, inner, columns in [(15, 17, 37), (29, 300, 20)]:
        for k in (0, inner - 1):
            x = LAYOUTS[x_layout]((rows, inner), np.float32)
            y = LAYOUTS[y_layout]((inner, columns), np.float32)
            x[-1, k] = y[k, -1] = special
            assert_exact(x, y)
            assert np.isfinite(multiplied(x, y)[:-1, :-1]).all()


def test_zero_times_infinity():
    x, y = np.zeros((14, 16), np.float32), np.full((16, 17), np.inf, np.float32)
    assert np.isnan(multiplied(x, y)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "x_transposed, y_transposed", list(itertools.product([False, True], repeat=2))
)
def test_threads_change_no_bit(x_transposed, y_transposed, dtype):
    for batch, rows, inner, columns in [((), 150, 300, 140), ((5,), 40, 33, 70)]:
        x = normal(*batch, *((inner, rows) if x_transposed else (rows, inner)), dtype=dtype)
        y = normal(*batch, *((columns, inner) if y_transposed else (inner, columns)), dtype=dtype)
        x, y = x.mT if x_transposed else x, y.mT if y_transposed else y
        results, chunks = [], []
        for count in (1, 2, 3):
            threads.set_num_threads(count)
            (launch,) = launches_of(x, y)
            chunks.append(launch.chunks)
            results += [multiplied(x, y) for _ in range(3)]
        assert max(chunks) > 1
        assert len({result.tobytes() for result in results}) == 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inner", [16, 128, 784, 2000])
def test_errors_are_no_larger_than_of_products_that_are_added_one_by_one(inner, dtype):
    x, y = normal(60, inner, dtype=dtype), normal(inner, 70, dtype=dtype, seed=1)
    errors = precise(multiplied(x, y)[::11, ::11]) - precise(x[::11]) @ precise(y[:, ::11])
    assert math.sqrt(np.mean(errors**2)) <= rounding.of_dot(inner, dtype)


@st.composite
def products(draw):
    """Two arrays that fit, permuted, sliced, reversed, broadcast."""
    sides = st.sampled_from([4, 5, 8, 14, 15, 16, 20, 28, 33])
    rows, columns = draw(sides), draw(sides)
    inner = draw(st.sampled_from([1, 3, 8, 16, 19, 40, 260]))
    batch = draw(st.lists(st.integers(1, 3), max_size=3))
    dtype = draw(st.sampled_from(DTYPES))
    x_shape = (*(draw(st.sampled_from([1, n])) for n in batch), rows, inner)
    y_shape = (*(draw(st.sampled_from([1, n])) for n in batch), inner, columns)
    drop = draw(st.integers(0, len(batch)))
    return draw(arrays(x_shape, dtype)), draw(arrays(y_shape[drop:], dtype))


@st.composite
def arrays(draw, shape, dtype):
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from([1, 1, 1, -1, 2])) for _ in shape]
    base = whole_numbers([shape[k] * abs(steps[k]) for k in order], dtype, draw(st.integers(0, 9)))
    array = base.transpose(np.argsort(order))
    return array[tuple(slice(None, None, step) for step in steps)]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(products())
def test_random_shapes_and_strides(pair):
    x, y = pair
    out = multiplied(x, y)
    np.testing.assert_array_equal(out, np.matmul(x, y))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_thread_with_a_small_stack_can_multiply(dtype: str) -> None:
    x = normal(400, 400, dtype=dtype)
    made: list[np.ndarray] = []
    former = threading.stack_size(256 << 10)
    try:
        thread = threading.Thread(target=lambda: made.append(multiplied(x.T, x)))
        thread.start()
    finally:
        threading.stack_size(former)
    thread.join()
    np.testing.assert_allclose(made[0], x.T @ x, rtol=1e-4, atol=1e-4)
