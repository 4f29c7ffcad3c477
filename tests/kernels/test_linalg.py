"""Kernels of linear algebra against NumPy's table: sizes, batches, layouts, threads."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.backends.cpu import NUMPY
from adjoint.backends.cpu.host.products import add_product
from adjoint.kernels.elimination import COLUMNS, MOST
from tests.support.fast_forms import FAST
from tests.support.helpers import needs_kernels
from tests.support.matrices import definite, random, regular, triangular

pytestmark = needs_kernels

SIZES = (1, 2, 3, 8, 13, MOST - 1, MOST, MOST + 1, 2 * MOST, 2 * MOST + 1)
RIGHT_SIDES = (1, 2, 7, *COLUMNS.values(), COLUMNS["float"] + 1, 2 * COLUMNS["float"] + 5)
BATCHES = ((), (1,), (5,), (2, 3))
DTYPES = ("f4", "f8")
sizes = pytest.mark.parametrize("n", SIZES)
dtypes = pytest.mark.parametrize("dtype", DTYPES)


def close(found: np.ndarray, expected: np.ndarray, n: int) -> None:
    assert found.shape == expected.shape and found.dtype == expected.dtype
    tolerance = 8 * (n + 2) * float(np.finfo(found.dtype).eps)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def layouts(x: np.ndarray) -> list[np.ndarray]:
    """The same matrices by rows, by columns, and with gaps between the elements, of whole elements
    or of less."""
    gaps = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)[..., ::2]
    gaps[...] = x
    record = np.full(x.shape, np.nan, [("x", x.dtype), ("other", "f2")])
    record["x"] = x
    by_columns = np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    return [x, by_columns, gaps, record["x"]]


@sizes
@dtypes
def test_cholesky(n: int, dtype: str) -> None:
    for batch in BATCHES:
        x = definite((*batch, n, n), dtype)
        for same in layouts(x):
            found = FAST["cholesky"](same)
            close(found, NUMPY["cholesky"](x), n)
            assert (np.triu(found, 1) == 0).all()


@sizes
@dtypes
def test_inverse_and_determinant(n: int, dtype: str) -> None:
    for batch in BATCHES:
        x = regular((*batch, n, n), dtype)
        for same in layouts(x):
            close(FAST["inv"](same), NUMPY["inv"](x), n)
            found = FAST["slogdet"](same, real=x.dtype)[:2]
            for one, other in zip(found, NUMPY["slogdet"](x, real=x.dtype)[:2], strict=True):
                close(one, other, n)


@sizes
@dtypes
@pytest.mark.parametrize("transposed", [False, True])
def test_equations(n: int, dtype: str, transposed: bool) -> None:
    attrs: dict[str, Any] = {"transposed": transposed, "asked": "solve"}
    for batch in BATCHES:
        x = regular((*batch, n, n), dtype)
        for k in RIGHT_SIDES:
            y = random((*batch, n, k), dtype, 1)
            expected = NUMPY["lu_solve"](x, *NUMPY["lu"](x), y, **attrs)
            for same, right in zip(layouts(x), layouts(y), strict=True):
                close(FAST["lu_solve"](same, *FAST["lu"](same), right, **attrs), expected, n)


@sizes
@dtypes
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangles(n: int, dtype: str, upper: bool, unit: bool) -> None:
    for batch in BATCHES:
        x = triangular((*batch, n, n), dtype)
        for k in RIGHT_SIDES:
            y = random((*batch, n, k), dtype, 1)
            expected = NUMPY["solve_triangular"](x, y, upper=upper, unit=unit)
            for same, right in zip(layouts(x), layouts(y), strict=True):
                found = FAST["solve_triangular"](same, right, upper=upper, unit=unit)
                close(found, expected, n)
            if not upper and not unit:
                solved = NUMPY["cholesky_solve"](x, y)
                for same, right in zip(layouts(x), layouts(y), strict=True):
                    close(FAST["cholesky_solve"](same, right), solved, 4 * n)


def test_matrices_of_many_parts() -> None:
    n = 257
    x, y = definite((n, n), "f8"), random((n, 5), "f8")
    factor = FAST["cholesky"](x)
    close(factor, NUMPY["cholesky"](x), n)
    close(FAST["cholesky_solve"](factor, y), NUMPY["cholesky_solve"](factor, y), n)
    close(FAST["cholesky_gradient"](x, factor), NUMPY["cholesky_gradient"](x, factor), n)
    close(FAST["inv"](x), NUMPY["inv"](x), n)


def test_what_is_beyond_a_triangle_isn_t_read() -> None:
    for n in (4, MOST + 3):
        x, y = triangular((n, n), "f8"), random((n, 2), "f8")
        for upper in (False, True):
            hidden = np.where(np.tri(n, k=-1 if upper else 0, dtype=bool) != upper, x, np.nan)
            found = FAST["solve_triangular"](hidden, y, upper=upper, unit=False)
            close(found, NUMPY["solve_triangular"](x, y, upper=upper, unit=False), n)


@sizes
def test_pivots_are_found_where_there_are_zeros(n: int) -> None:
    """A permutation has nothing to eliminate, and zeros on the diagonal."""
    x = np.eye(n)[np.random.default_rng(n).permutation(n)]
    np.testing.assert_array_equal(FAST["inv"](x), x.T)
    sign = FAST["slogdet"](x, real=x.dtype)[0]
    assert sign == round(np.linalg.det(x))


@pytest.mark.parametrize("n", [3, MOST + 3])
def test_singular_matrices_are_found(n: int) -> None:
    x = np.stack([np.eye(n), np.ones((n, n)), np.zeros((n, n))])
    factors, pivots = FAST["lu"](x)
    with np.errstate(divide="ignore"):
        sign, logarithm = FAST["slogdet"](x, real=x.dtype)[:2]
    assert sign.tolist() == [1, 0, 0] and logarithm.tolist() == [0, -np.inf, -np.inf]
    with pytest.raises(ad.ArgumentError, match=r"solve: matrix \(1,\) in a tensor .* is singular"):
        FAST["lu_solve"](x, factors, pivots, x, transposed=False, asked="solve")


@pytest.mark.parametrize("n", [5, MOST + 5])
def test_the_failing_minor_is_found(n: int) -> None:
    for order in (1, 3, n):
        x = np.stack([np.eye(n), np.eye(n)])
        x[1, order - 1, order - 1] = -1
        for cholesky in (FAST["cholesky"], NUMPY["cholesky"]):
            with pytest.raises(ad.ArgumentError, match=rf"matrix \(1,\).*minor of order {order} "):
                cholesky(x)


@pytest.mark.parametrize("n", [2, 3, MOST + 4])
def test_nans_stay(n: int) -> None:
    for place in np.ndindex(min(n, 4), min(n, 4)):
        x = np.eye(n)
        x[place] = np.nan
        assert np.isnan(FAST["inv"](x)).any(), place
        assert np.isnan(FAST["slogdet"](x, real=x.dtype)[1]), place


def test_results_don_t_depend_on_the_number_of_threads(threads: Callable) -> None:
    def results(shape: tuple[int, ...], columns: int) -> list[np.ndarray]:
        x, y = regular(shape, "f8"), random((*shape[:-1], columns), "f8")
        factors, pivots = FAST["lu"](x)
        out = FAST["lu_solve"](x, factors, pivots, y, transposed=True, asked="solve")
        triangle = FAST["solve_triangular"](x, y, upper=True, unit=True)
        symmetric = FAST["cholesky"](definite(shape, "f8"))
        gradient = FAST["cholesky_gradient"](x, symmetric)
        return [factors, pivots, out, triangle, symmetric, gradient, FAST["mirrored"](x)]

    n = 2 * MOST + 1
    for case in (((700, 8, 8), 3), ((n, n), 1), ((3, n, n), 77), ((5, 5), 3000)):
        threads(1)
        alone = results(*case)
        for count in (2, 3, 5):
            threads(count)
            for one, other in zip(results(*case), alone, strict=True):
                np.testing.assert_array_equal(one, other)


@dtypes
def test_products_are_added_to_parts_of_matrices(dtype: str) -> None:
    for rows, inner, columns in ((70, 65, 90), (100, 300, 37), (5, 40, 1300), (3, 2, 5)):
        x, y = random((2, rows, inner), dtype), random((2, inner, columns), dtype, 1)
        whole = random((2, rows + 3, columns + 5), dtype, 2)
        for left in layouts(x)[:2]:
            found = whole.copy()
            add_product(found[:, 1:-2, 2:-3], left, y)
            expected = whole.copy()
            expected[:, 1:-2, 2:-3] += x @ y
            close(found, expected, inner)


@dtypes
@pytest.mark.parametrize("name", ["mirrored", "symmetrized"])
def test_mirror_images(name: str, dtype: str) -> None:
    for shape in ((64, 64), (33, 33), (100, 7, 7), (2, 3, 65, 65)):
        x = random(shape, dtype)
        for same in layouts(x):
            found = FAST[name](same)
            np.testing.assert_array_equal(found, NUMPY[name](x))
            np.testing.assert_array_equal(FAST[name](same), found)


@sizes
@dtypes
def test_gradients_of_cholesky_factors(n: int, dtype: str) -> None:
    for batch in BATCHES:
        factor, g = (
            np.linalg.cholesky(definite((*batch, n, n), dtype)),
            random((*batch, n, n), dtype),
        )
        expected = NUMPY["cholesky_gradient"](g, factor)
        for same, gradient in zip(layouts(factor), layouts(g), strict=True):
            found = FAST["cholesky_gradient"](gradient, same)
            close(found, expected, n)
            np.testing.assert_array_equal(found, found.swapaxes(-1, -2))


def test_outer_products_of_a_batch_are_products_of_elements() -> None:
    x, y = random((500, 8, 1), "f8"), random((500, 1, 8), "f8")
    found = ad.matmul(ad.asarray(x), ad.asarray(y))
    np.testing.assert_array_equal(found.numpy(), x * y)
