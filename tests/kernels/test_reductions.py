"""Kernels that reduce, against the NumPy table."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.backends.cpu import NUMPY
from adjoint.backends.cpu.lowering import rows
from adjoint.backends.cpu.lowering.expressions import CHUNK
from adjoint.backends.cpu.lowering.ops import lower
from adjoint.backends.cpu.lowering.targets import current_target
from adjoint.backends.launches import Cache, Layout
from tests.kernels import rounding
from tests.kernels.cases import (
    FLOATS,
    INTEGERS,
    LARGE,
    check_same,
    kernel_free,
    numbers,
    operands,
)
from tests.support.arrays import normal
from tests.support.fast_forms import FAST
from tests.support.helpers import as_tuple, needs_kernels

pytestmark = needs_kernels

SHAPE = (3, 40, 4, 36)
REDUCED = [(3,), (0, 1), (1, 3)]
SUBSETS = [axis for n in range(5) for axis in itertools.combinations(range(4), n)]
Axis = tuple[int, ...]
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "contiguous": lambda x: x,
    "permuted": lambda x: np.ascontiguousarray(x.transpose(2, 0, 3, 1)).transpose(1, 3, 0, 2),
    "steps": lambda x: np.repeat(x, 2, axis=3)[..., ::2],
    "negative": lambda x: x[:, ::-1, :, ::-1],
    "repeated": lambda x: np.broadcast_to(x[:, :1], x.shape),
}


def check_errors(name: str, *arrays: np.ndarray, **attrs: Any) -> None:
    """Kernels give NumPy's shapes and dtypes, and round as often as their formula says."""
    fast = FAST[name]
    results = as_tuple(fast(*arrays, **attrs))
    for out, expected in zip(results, as_tuple(NUMPY[name](*arrays, **attrs)), strict=True):
        assert (out.shape, out.dtype) == (expected.shape, expected.dtype)
    assert rounding.worst(name, results, *arrays, **attrs) <= 1


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("name", "dtype"), [("sum", "f4"), ("max", "f8")])
def test_reductions_over_all_subsets_of_axes(name: str, dtype: str, layout: str) -> None:
    """Of numbers with few digits, that any order of additions adds up without an error."""
    x = LAYOUTS[layout](numbers(*SHAPE, dtype=dtype))
    for axis, keepdims in itertools.product(SUBSETS, (False, True)):
        out = FAST[name](x, axis=axis, keepdims=keepdims)
        expected = NUMPY[name](x, axis=axis, keepdims=keepdims)
        np.testing.assert_array_equal(out, expected, strict=True)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["max", "min"])
def test_the_largest_and_the_smallest_equal_numpy(name: str, dtype: str) -> None:
    x = normal(*SHAPE, dtype=dtype)
    for axis in REDUCED:
        out = FAST[name](x, axis=axis, keepdims=False)
        np.testing.assert_array_equal(out, getattr(np, name)(x, axis), strict=True)


@pytest.mark.parametrize("axis", REDUCED)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["sum", "prod", "logsumexp"])
def test_reductions_have_few_rounding_errors(name: str, dtype: str, axis: Axis) -> None:
    x = normal(*SHAPE, dtype=dtype)
    check_errors(name, np.exp(x / 40) if name == "prod" else x, axis=axis, keepdims=False)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_reductions_of_integers_equal_numpy(name: str, dtype: str) -> None:
    x = np.resize(operands(np.dtype(dtype), 1)[0], (9, 35)).astype(dtype)
    for axis in (0, 1):
        out = FAST[name](x, axis=(axis,), keepdims=False)
        expected = NUMPY[name](x, axis=(axis,), keepdims=False)
        np.testing.assert_array_equal(out, expected, strict=True)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_rows_that_are_normalized_have_few_rounding_errors(
    name: str, dtype: str, axis: int
) -> None:
    check_errors(name, normal(5, 40, 33, dtype=dtype), axis=axis)


@pytest.mark.parametrize("axis", [(0,), (2,), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_moments_have_few_rounding_errors(dtype: str, axis: Axis) -> None:
    check_errors("moments", 30 + normal(5, 40, 33, dtype=dtype), axis=axis)


@pytest.mark.parametrize("axis", [(0,), (2,), (0, 2)])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_standardizing_has_few_rounding_errors(dtype: str, center: bool, axis: Axis) -> None:
    x, dout = (normal(5, 40, 33, dtype=dtype, seed=k) for k in range(2))
    how: dict[str, Any] = {"axis": axis, "eps": 1e-5, "center": center}
    check_errors("standardize", x, **how)
    out, mean, var = NUMPY["standardize"](x, **how)
    rows = [normal(*mean.shape, dtype=dtype, seed=k) for k in range(2)]
    check_errors("standardize_gradient", dout, *rows, out, var, **how)


SPECIAL_ROWS = {
    "inf": [np.inf],
    "inf - inf": [np.inf, -np.inf],
    "two inf": [np.inf, np.inf],
    "NaN": [np.nan],
    "-NaN and inf": [-np.nan, np.inf],
    "zeros": [-0.0, 0.0],
    "largest": [1e38, 3e38, 3e38],
    "tiny": [1e-45, -1e-40],
}


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("rest", [0.0, 1.5, -np.inf])
def test_special_values_in_reductions(axis: int, rest: float) -> None:
    """Wherever they are: in a whole vector, in what is left behind the last, or first of all."""
    for length, start in ((16, 3), (37, 33), (37, 0)):
        x = np.full((len(SPECIAL_ROWS), length), rest, "f4")
        for k, special in enumerate(SPECIAL_ROWS.values()):
            x[k, start : start + len(special)] = special
        x = np.tile(x, (5, 1))  # enough rows to lie side by side
        x = np.ascontiguousarray(x.T).T if axis else np.ascontiguousarray(x)
        for name in ("sum", "max", "min", "prod", "logsumexp"):
            out = FAST[name](x, axis=(1,), keepdims=False)
            expected = kernel_free(name, x.astype("f8"), axis=(1,), keepdims=False)
            with np.errstate(over="ignore", under="ignore"):
                np.testing.assert_allclose(out, expected.astype("f4"), rtol=1e-6, err_msg=name)
        for name in ("softmax", "log_softmax"):
            out = FAST[name](x, axis=1)
            np.testing.assert_allclose(out, kernel_free(name, x, axis=1), rtol=1e-5, atol=1e-38)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_long_sums_have_more_digits_than_their_dtype(dtype: str) -> None:
    """Most of the numbers cancel, but only after all of them were added up. Sums of chunks are
    rounded to float64."""
    x = normal(500_003, dtype=dtype)
    x = np.concatenate([x, -x[:-1000]])
    exact, size = math.fsum(x.tolist()), math.fsum(np.abs(x).tolist())
    for a in (x, x[::-1], np.repeat(x, 2)[::2]):
        chunks = np.add.reduceat(a.astype("f8"), np.arange(0, len(a), CHUNK))
        allowed = np.spacing(np.abs(np.array(exact, dtype))) + 2.0**-53 * np.abs(chunks).sum()
        allowed += rounding.of_sum(size, len(a), dtype)
        assert allowed < np.finfo(dtype).eps * size / 100
        out = FAST["sum"](a, axis=None, keepdims=False)
        assert abs(float(out) - exact) <= allowed


@pytest.mark.parametrize("axis", [(0,), (0, 1), (0, 2), (0, 1, 2), (0, 3), (0, 1, 2, 3)])
@pytest.mark.parametrize("turn", [(0, 1, 2, 3), (3, 1, 0, 2)])
def test_long_reductions_in_parts(axis: tuple[int, ...], turn: tuple[int, ...]) -> None:
    x = (np.arange(70_001 * 12) * 37 % 10_007 - 5000).astype("i4").reshape(70_001, 3, 2, 2)
    x = np.ascontiguousarray(x.transpose(turn)).transpose(np.argsort(turn))
    for name in ("sum", "max", "min"):
        for a in (x, x.astype("f4")):
            out = FAST[name](a, axis=axis, keepdims=False)
            expected = getattr(np, name)(x.astype("i8"), axis=axis).astype(a.dtype)
            np.testing.assert_array_equal(out, expected, strict=True)


@pytest.mark.parametrize("shape", [(0,), (0, LARGE), (LARGE, 0), (2, 0, 3)])
def test_reductions_of_nothing(shape: tuple[int, ...]) -> None:
    x = ad.zeros(shape, dtype=ad.float32)
    for axis in range(len(shape)):
        assert ad.sum(x, axis=axis).shape == np.zeros(shape).sum(axis).shape
        assert ad.softmax(x, axis=axis).shape == shape
        assert shape[axis] or (ad.logsumexp(x, axis=axis).numpy() == -np.inf).all()
        if shape[axis]:
            assert ad.max(x, axis=axis).size == 0


def test_sums_of_booleans_and_bytes_keep_their_dtype() -> None:
    x = ad.ones((LARGE + 3,), dtype=ad.bool)
    assert ad.sum(x).item() == LARGE + 3
    assert bool(ad.max(x).item()) and bool(ad.min(x).item())


@pytest.mark.parametrize("columns", [1024, 1040, 1000])
def test_rows_that_are_written_past_the_caches_are_the_same(columns: int, monkeypatch) -> None:
    x, g = (normal(2200, columns, dtype="f4", seed=k) for k in range(2))

    def run() -> list[np.ndarray]:
        out, mean, var = FAST["standardize"](x, axis=(1,), eps=1e-5, center=True)
        gradient = FAST["standardize_gradient"](
            g, mean, var, out, var, axis=(1,), eps=1e-5, center=True
        )
        return [out, mean, var, gradient]

    def streamed() -> bool:
        layout = Layout(x.shape, x.strides, x.dtype)
        attrs = {"axis": (1,), "eps": 1e-5, "center": True}
        launches = lower("standardize", [layout], attrs, current_target())
        return any(launch.kernel.past for launch in launches or ())

    found = run()
    assert streamed() == (columns != 1000)
    monkeypatch.setattr(rows, "STREAMED", 1 << 60)
    Cache.forget_all()
    assert not streamed()
    check_same(found, run())
