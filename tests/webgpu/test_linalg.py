"""Linear algebra on a GPU against NumPy: sizes, batches, layouts, and matrices that are refused.

Errors are measured in what float32 can be expected to lose: n * eps, times the condition number
where it isn't about 1. Expected values are computed in float64.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.backends.cpu import NUMPY
from adjoint.backends.webgpu.elimination import BLOCK, SHORT
from adjoint.backends.webgpu.teams import TINY
from tests.support.matrices import definite, random, regular, triangular

pytestmark = pytest.mark.webgpu

EPS = float(np.finfo(np.float32).eps)
SIZES = (0, 1, 2, 5, TINY, TINY + 1, BLOCK - 1, BLOCK, BLOCK + 1)
BATCHES = ((), (1,), (3,), (2, 0), (2, 3))
CASES = [(n, batch) for n in SIZES for batch in BATCHES]
CASES += [(2 * BLOCK + 3, (3,)), (SHORT + BLOCK + 5, ())]
RIGHT_SIDES = (1, 3, 70)

cases = pytest.mark.parametrize(("n", "batch"), CASES, ids=str)


def of_rank(rank: int, shape: tuple[int, ...]) -> np.ndarray:
    """Matrices of integers, so that nothing is rounded."""
    rng = np.random.default_rng(rank)
    left = rng.integers(-2, 3, (*shape[:-1], rank))
    right = rng.integers(-2, 3, (*shape[:-2], rank, shape[-1]))
    return (left @ right).astype(np.float32)


def layouts(webgpu: Any, x: np.ndarray) -> Iterator:
    """The same matrices by rows, by columns, and with gaps between the elements."""
    yield webgpu.from_numpy(x)
    rows, columns = x.shape[-2:]
    across = webgpu.from_numpy(np.ascontiguousarray(x.swapaxes(-1, -2)))
    yield across.view(x.shape, (*across.strides[:-2], 1, max(rows, 1)))
    wide = np.full((*x.shape[:-1], 2 * columns + 1), np.nan, np.float32)
    wide[..., 1::2] = x
    gaps = webgpu.from_numpy(wide)
    yield gaps.view(x.shape, (*gaps.strides[:-1], 2), 1)


def close(found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    assert found.shape == expected.shape and found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def wide(*arrays: np.ndarray) -> list[np.ndarray]:
    return [x.astype(np.float64) for x in arrays]


# Triangles.


@pytest.mark.parametrize("dtype", ["f4", "i4", "u4", "?"])
@pytest.mark.parametrize(
    "shape", [(0, 0), (1, 1), (5, 17), (33, 4), (2, 0, 3), (2, 3, 9, 7)], ids=str
)
def test_triangle(webgpu, shape: tuple, dtype: str) -> None:
    x = (random(shape) * 9).astype(dtype)
    for k in (-40, -2, -1, 0, 1, 40):
        for upper in (False, True):
            out = webgpu.FUNCTIONS["triangle"](webgpu.from_numpy(x), k=k, upper=upper)
            assert out.dtype == x.dtype
            expected = NUMPY["triangle"](x, k=k, upper=upper)
            np.testing.assert_array_equal(webgpu.to_numpy(out), expected)


@pytest.mark.parametrize("name", ["mirrored", "symmetrized"])
@cases
def test_mirror_images(webgpu, name: str, n: int, batch: tuple) -> None:
    x = random((*batch, n, n))
    for same in layouts(webgpu, x):
        np.testing.assert_array_equal(webgpu.to_numpy(webgpu.FUNCTIONS[name](same)), NUMPY[name](x))


def test_nans_beyond_a_triangle_are_gone(webgpu) -> None:
    x = np.full((3, 3), np.nan, np.float32)
    x[np.tril_indices(3)] = 1
    out = webgpu.to_numpy(webgpu.FUNCTIONS["triangle"](webgpu.from_numpy(x), k=0, upper=False))
    np.testing.assert_array_equal(out, np.tri(3, dtype=np.float32))


# Factorisations and equations.


@cases
def test_cholesky(webgpu, n: int, batch: tuple) -> None:
    x = definite((*batch, n, n))
    for same in layouts(webgpu, x):
        out = webgpu.to_numpy(webgpu.FUNCTIONS["cholesky"](same))
        close(out, np.linalg.cholesky(*wide(x)), 4 * (n + 2) * EPS)
        assert not np.triu(out, 1).any()


@cases
def test_cholesky_gradient(webgpu, n: int, batch: tuple) -> None:
    dout, out = random((*batch, n, n), seed=1), np.linalg.cholesky(definite((*batch, n, n)))
    expected = NUMPY["cholesky_gradient"](*wide(dout, out))
    for g, same in zip(layouts(webgpu, dout), layouts(webgpu, out), strict=True):
        result = webgpu.to_numpy(webgpu.FUNCTIONS["cholesky_gradient"](g, same))
        close(result, expected, 8 * (n + 2) * EPS)
        np.testing.assert_array_equal(result, result.swapaxes(-1, -2))


def exchanged(x: np.ndarray, pivots: np.ndarray) -> np.ndarray:
    out = x.copy()
    for k, pivot in enumerate(pivots):
        out[[k, pivot - 1]] = out[[pivot - 1, k]]
    return out


@cases
def test_lu(webgpu, n: int, batch: tuple) -> None:
    x = random((*batch, n, n))
    for same in layouts(webgpu, x):
        factors, pivots = map(webgpu.to_numpy, webgpu.FUNCTIONS["lu"](same))
        assert pivots.dtype == np.int32 and pivots.shape == x.shape[:-1]
        for index in np.ndindex(*batch):
            (own,) = wide(factors[index])
            lower = np.tril(own, -1)
            assert np.abs(lower).max(initial=0) <= 1
            product = (lower + np.eye(n)) @ np.triu(own)
            limit = 2 * n * EPS * np.abs(x).max(initial=0)
            np.testing.assert_allclose(product, exchanged(x[index], pivots[index]), atol=limit)


@pytest.mark.parametrize("n", [3, TINY + 2, SHORT - 6, SHORT + BLOCK + 5])
def test_pivots_are_the_first_of_the_largest(webgpu, n: int) -> None:
    """Of Hadamard's and other matrices of ones, nothing is rounded at first, and there are ties."""
    x = np.where(np.random.default_rng(n).random((n, n)) < 0.5, -1, 1).astype(np.float32)
    _, pivots = map(webgpu.to_numpy, webgpu.FUNCTIONS["lu"](webgpu.from_numpy(x)))
    rest = x.astype(np.float64)
    for k in range(3):
        pivot = k + int(np.argmax(np.abs(rest[k:, k])))
        assert pivots[k] == pivot + 1
        rest[[k, pivot]] = rest[[pivot, k]]
        rest[k + 1 :] -= rest[k + 1 :, k : k + 1] / rest[k, k] * rest[k]


@pytest.mark.parametrize("n", [2, TINY + 1, BLOCK + 7])
def test_a_permutation_is_inverted_exactly(webgpu, n: int) -> None:
    x = np.eye(n, dtype=np.float32)[np.random.default_rng(n).permutation(n)]
    on_gpu = webgpu.from_numpy(x)
    np.testing.assert_array_equal(webgpu.to_numpy(webgpu.FUNCTIONS["inv"](on_gpu)), x.T)
    assert webgpu.to_numpy(webgpu.FUNCTIONS["det"](on_gpu)) == round(np.linalg.det(x))


@cases
@pytest.mark.parametrize("transposed", [False, True])
def test_equations(webgpu, n: int, batch: tuple, transposed: bool) -> None:
    x = random((*batch, n, n))
    attrs: dict[str, Any] = {"transposed": transposed, "asked": "solve"}
    turned = x.swapaxes(-1, -2) if transposed else x
    for k in RIGHT_SIDES:
        y = random((*batch, n, k), seed=1)
        for same, right in zip(layouts(webgpu, x), layouts(webgpu, y), strict=True):
            parts = webgpu.FUNCTIONS["lu"](same)
            out = webgpu.to_numpy(webgpu.FUNCTIONS["lu_solve"](same, *parts, right, **attrs))
            assert out.shape == y.shape and out.dtype == np.float32
            left, solution = wide(turned, out)
            missing = np.abs(left @ solution - y).max((-2, -1), initial=0)
            size = np.abs(left).sum(-1).max(-1, initial=0) * np.abs(out).max((-2, -1), initial=0)
            assert (missing <= 2 * (n + 2) * EPS * (size + 1)).all()


@cases
def test_inverse(webgpu, n: int, batch: tuple) -> None:
    x = regular((*batch, n, n))
    for same in layouts(webgpu, x):
        out = webgpu.to_numpy(webgpu.FUNCTIONS["inv"](same))
        close(out, np.linalg.inv(*wide(x)), 4 * (n + 2) * EPS)


@cases
@pytest.mark.parametrize("upper", [False, True])
def test_triangular_equations(webgpu, n: int, batch: tuple, upper: bool) -> None:
    x = triangular((*batch, n, n))
    for k in RIGHT_SIDES:
        y = random((*batch, n, k), seed=1)
        for unit in (False, True):
            expected = NUMPY["solve_triangular"](*wide(x, y), upper=upper, unit=unit)
            for same, right in zip(layouts(webgpu, x), layouts(webgpu, y), strict=True):
                out = webgpu.FUNCTIONS["solve_triangular"](same, right, upper=upper, unit=unit)
                close(webgpu.to_numpy(out), expected, 4 * (n + 2) * EPS)
        if not upper:
            expected = NUMPY["cholesky_solve"](*wide(x, y))
            for same, right in zip(layouts(webgpu, x), layouts(webgpu, y), strict=True):
                out = webgpu.FUNCTIONS["cholesky_solve"](same, right)
                close(webgpu.to_numpy(out), expected, 8 * (n + 2) * EPS)


@pytest.mark.parametrize("n", [4, BLOCK + 3])
def test_what_is_beyond_a_triangle_isn_t_read(webgpu, n: int) -> None:
    x, y = triangular((n, n)), random((n, 2))
    for upper in (False, True):
        for unit in (False, True):
            inside = np.tri(n, k=-1 if unit else 0, dtype=bool)
            hidden = np.where(inside.T if upper else inside, x, np.nan)
            args = webgpu.from_numpy(hidden), webgpu.from_numpy(y)
            out = webgpu.FUNCTIONS["solve_triangular"](*args, upper=upper, unit=unit)
            expected = NUMPY["solve_triangular"](*wide(x, y), upper=upper, unit=unit)
            close(webgpu.to_numpy(out), expected, 4 * (n + 2) * EPS)


def test_matrices_broadcast_to_right_sides(webgpu) -> None:
    for n in (4, BLOCK + 3):
        x, y = triangular((3, n, n)), random((2, 3, n, 5))
        one, many = webgpu.from_numpy(x), webgpu.from_numpy(y)
        out = webgpu.FUNCTIONS["solve_triangular"](one, many, upper=True, unit=False)
        expected = NUMPY["solve_triangular"](*wide(x, y), upper=True, unit=False)
        close(webgpu.to_numpy(out), expected, 4 * (n + 2) * EPS)
        parts = webgpu.FUNCTIONS["lu"](one)
        out = webgpu.FUNCTIONS["lu_solve"](one, *parts, many, transposed=False, asked="solve")
        close(webgpu.to_numpy(out), np.linalg.solve(*wide(x, y)), 4 * (n + 2) * EPS)


def test_batch_axes_that_aren_t_one_stride_apart(webgpu) -> None:
    whole = regular((4, 3, 6, 6))
    on_gpu = webgpu.from_numpy(whole)
    swapped = on_gpu.view((3, 4, 6, 6), (36, 108, 6, 1))
    out = webgpu.to_numpy(webgpu.FUNCTIONS["inv"](swapped))
    close(out, np.linalg.inv(*wide(whole.swapaxes(0, 1))), 32 * EPS)


def test_a_number_for_all_elements(webgpu) -> None:
    ones = webgpu.Array((2, 40, 40), np.dtype("f4"), None, number=1.0)
    out = webgpu.to_numpy(webgpu.FUNCTIONS["triangle"](ones, k=0, upper=True))
    np.testing.assert_array_equal(out, np.triu(np.ones((2, 40, 40))))
    assert webgpu.to_numpy(webgpu.FUNCTIONS["det"](ones)).tolist() == [0, 0]


# Determinants.


@cases
def test_determinants(webgpu, n: int, batch: tuple) -> None:
    x = regular((*batch, n, n))
    expected = np.linalg.slogdet(*wide(x))
    for same in layouts(webgpu, x):
        sign, logarithm, factors, pivots = webgpu.FUNCTIONS["slogdet"](same, real=x.dtype)
        np.testing.assert_array_equal(webgpu.to_numpy(sign), expected[0])
        close(webgpu.to_numpy(logarithm), expected[1], 2 * (n + 2) * EPS)
        assert factors.shape == x.shape and pivots.shape == x.shape[:-1]
        det = webgpu.to_numpy(webgpu.FUNCTIONS["det"](same))
        assert det.shape == x.shape[:-2]
        with np.errstate(over="ignore"):
            whole = np.linalg.det(*wide(x)).astype(np.float32)
        np.testing.assert_allclose(det, whole, rtol=4 * (n + 2) * EPS)


def test_determinants_of_large_and_small_numbers(webgpu) -> None:
    """What is too large for float32 on the way may be a number in the end."""
    diagonals = [
        [1e30, 1e30, 1e-30, -1e-30],
        [1e30, 1e30, 1, 1],
        [1e-30, 1e-30, 1, 1],
        [1e-20, 1e-20, 1, 1],
        [np.inf, 1, 1, -1],
        [np.nan, 1, 0, 1],
        [0, 5, 0, 1],
        [np.float32(2) ** -120, np.float32(2) ** -20, 3, 1],
    ]
    x = np.stack([np.diag(d) for d in diagonals]).astype(np.float32)
    sign, logarithm, *_ = webgpu.FUNCTIONS["slogdet"](webgpu.from_numpy(x), real=x.dtype)
    with np.errstate(divide="ignore"):
        expected = np.log(np.abs(np.array(diagonals))).sum(-1)
    np.testing.assert_array_equal(webgpu.to_numpy(sign), [-1, 1, 1, 1, -1, np.nan, 0, 1])
    np.testing.assert_allclose(webgpu.to_numpy(logarithm), expected, rtol=1e-6, atol=1e-6)
    det = webgpu.to_numpy(webgpu.FUNCTIONS["det"](webgpu.from_numpy(x)))
    np.testing.assert_allclose(det[[0, 1, 2, 4, 5, 6]], [-1, np.inf, 0, -np.inf, np.nan, 0], 1e-6)


@pytest.mark.parametrize("batch", [(), (2, 3)], ids=str)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, TINY, TINY + 1, BLOCK + 3])
def test_cofactors_and_their_change(webgpu, n: int, batch: tuple) -> None:
    x, y = regular((*batch, n, n)) / np.float32(1.5), random((*batch, n, n), seed=1)
    for name, inputs in (("cofactors", (x,)), ("cofactors_change", (x, y))):
        expected = NUMPY[name](*wide(*inputs))
        tolerance = 8 * (n + 2) * EPS * max(1, np.abs(expected).max(initial=0))
        for views in zip(*(layouts(webgpu, one) for one in inputs), strict=True):
            found = webgpu.to_numpy(webgpu.FUNCTIONS[name](*views))
            assert found.shape == x.shape
            np.testing.assert_allclose(found, expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize("missing", [1, 2, 3])
@pytest.mark.parametrize("n", [3, 6, TINY + 3])
def test_cofactors_of_singular_matrices(webgpu, n: int, missing: int) -> None:
    """Errors are compared with what cofactors of matrices of this size may be."""
    shape = (4, n, n)
    x, y = of_rank(n - missing, shape), random(shape, seed=1)
    size = np.linalg.norm(x, 2, (-2, -1)).max()
    for name, inputs, degree in (("cofactors", (x,), 1), ("cofactors_change", (x, y), 2)):
        found = webgpu.to_numpy(webgpu.FUNCTIONS[name](*map(webgpu.from_numpy, inputs)))
        expected = NUMPY[name](*wide(*inputs))
        limit = n * n * EPS * size ** (n - degree)
        np.testing.assert_allclose(found, expected, atol=limit, rtol=0)


# Gradients.

FUNCTIONS: dict[str, Callable] = {
    "solve": ad.linalg.solve,
    "solve_triangular": lambda x, y: ad.linalg.solve_triangular(x, y, upper=True),
    "inv": lambda x, y: ad.linalg.inv(x),
    "det": lambda x, y: ad.linalg.det(x),
    "slogdet": lambda x, y: ad.linalg.slogdet(x).logabsdet,
    "cholesky": lambda x, y: ad.linalg.cholesky(x @ ad.matrix_transpose(x)),
    "cholesky_solve": lambda x, y: ad.linalg.cholesky_solve(y, ad.tril(x)),
}


@pytest.mark.parametrize("n", [3, BLOCK + 3])
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_gradients_are_the_cpu_s(function: Callable, n: int) -> None:
    """Matrices are about the identity: solving with them, or with their triangles, loses little."""
    x, y = triangular((2, n, n)), random((2, n, 3), seed=1)

    def results(device: str) -> list[np.ndarray]:
        inputs = [ad.asarray(array, device=device) for array in (x, y)]
        gradient = ad.grad(lambda *given: (function(*given) ** 2).sum(), argnums=(0, 1))
        return [out.numpy() for out in (function(*inputs), *gradient(*inputs))]

    for found, expected in zip(results("webgpu"), results("cpu"), strict=True):
        size = max(1, np.abs(expected).max())
        close(found / size, expected / size, 8 * (n + 2) * EPS)


# Matrices that are refused. The error comes with the next read, whatever is read.


def refused(webgpu: Any, out: Any, match: str, error: type = ad.ArgumentError) -> np.ndarray:
    """An error, once; then what is in `out`."""
    other = webgpu.from_numpy(np.zeros(3, np.float32))
    with pytest.raises(error, match=match):
        webgpu.to_numpy(other)
    return webgpu.to_numpy(out)


SINGULAR = pytest.mark.parametrize("n", [2, TINY + 1, BLOCK + 5])


@SINGULAR
@pytest.mark.parametrize("order", [1, 2])
def test_a_matrix_that_isn_t_positive_definite(webgpu, n: int, order: int) -> None:
    x = np.tile(np.eye(n, dtype=np.float32), (2, 2, 1, 1))
    x[1, 0, order - 1, order - 1] = -1
    x[1, 1, 0, 0] = -1
    out = webgpu.FUNCTIONS["cholesky"](webgpu.from_numpy(x))
    match = rf"cholesky: matrix \(1, 0\) in a tensor .*minor of order {order} isn't"
    found = refused(webgpu, out, match)
    np.testing.assert_array_equal(found[0], x[0])
    assert np.isnan(found[1][:, np.tri(n, dtype=bool)]).all()


def test_the_last_minor_of_many_blocks_isn_t_positive(webgpu) -> None:
    n = 2 * BLOCK + 3
    x = definite((n, n))
    x[-1, -1] = 0
    out = webgpu.FUNCTIONS["cholesky"](webgpu.from_numpy(x))
    assert np.isnan(refused(webgpu, out, f"the matrix of shape .*minor of order {n} isn't")).all()


def test_a_matrix_with_nans_isn_t_positive_definite(webgpu) -> None:
    x = np.eye(3, dtype=np.float32)
    x[1, 0] = np.nan
    refused(
        webgpu, webgpu.FUNCTIONS["cholesky"](webgpu.from_numpy(x)), "has NaNs or infinities in it"
    )


@SINGULAR
def test_singular_matrices_have_no_inverse(webgpu, n: int) -> None:
    one = np.eye(n, dtype=np.float32)
    x = np.stack([one, np.ones((n, n), np.float32), one])
    found = refused(
        webgpu, webgpu.FUNCTIONS["inv"](webgpu.from_numpy(x)), r"inv: matrix \(1,\) .* singular"
    )
    np.testing.assert_array_equal(found[[0, 2]], x[[0, 2]])
    assert np.isnan(found[1]).all()


def test_a_singular_matrix_of_many_right_sides(webgpu) -> None:
    x, y = (
        webgpu.from_numpy(np.zeros((2, 1, 1), np.float32)),
        webgpu.from_numpy(random((5, 2, 1, 3))),
    )
    refused(
        webgpu,
        webgpu.FUNCTIONS["solve_triangular"](x, y, upper=True, unit=False),
        r"matrix \(0, 0\) in a tensor of shape \(5, 2, 1, 1\)",
    )


def test_who_asks_for_the_solution_is_named(webgpu) -> None:
    x = webgpu.from_numpy(np.zeros((2, 2), np.float32))
    errors = {"solve": ad.ArgumentError, "slogdet": ad.GradientError}
    for asked, error in errors.items():
        parts = webgpu.FUNCTIONS["lu"](x)
        out = webgpu.FUNCTIONS["lu_solve"](x, *parts, x, transposed=False, asked=asked)
        assert np.isnan(refused(webgpu, out, rf"{asked}: the matrix .* is singular", error)).all()


@SINGULAR
def test_singular_triangles(webgpu, n: int) -> None:
    x = np.tile(np.eye(n, dtype=np.float32), (2, 1, 1))
    x[1, -1, -1] = 0
    on_gpu = webgpu.from_numpy(x)
    solve: dict[str, Callable] = {
        "lower": lambda: webgpu.FUNCTIONS["solve_triangular"](
            on_gpu, on_gpu, upper=False, unit=False
        ),
        "upper": lambda: webgpu.FUNCTIONS["solve_triangular"](
            on_gpu, on_gpu, upper=True, unit=False
        ),
        "cholesky": lambda: webgpu.FUNCTIONS["cholesky_solve"](on_gpu, on_gpu),
    }
    for call in solve.values():
        found = refused(webgpu, call(), rf"matrix \(1,\) .*: element {n - 1} of its diagonal is 0")
        np.testing.assert_array_equal(found[0], x[0])
        assert np.isnan(found[1]).all()
    out = webgpu.FUNCTIONS["solve_triangular"](on_gpu, on_gpu, upper=True, unit=True)
    np.testing.assert_array_equal(webgpu.to_numpy(out), x)


def test_the_determinant_of_a_singular_matrix_is_no_error(webgpu) -> None:
    x = webgpu.from_numpy(np.stack([np.eye(40), np.ones((40, 40))]).astype(np.float32))
    sign, logarithm, *_ = webgpu.FUNCTIONS["slogdet"](x, real=x.dtype)
    assert webgpu.to_numpy(sign).tolist() == [1, 0]
    assert webgpu.to_numpy(logarithm).tolist() == [0, -np.inf]


@pytest.mark.parametrize("n", [2, TINY + 1, BLOCK + 5])
def test_nans_stay(webgpu, n: int) -> None:
    x = np.eye(n, dtype=np.float32)
    x[1, 0] = np.nan
    on_gpu = webgpu.from_numpy(x)
    assert np.isnan(webgpu.to_numpy(webgpu.FUNCTIONS["inv"](on_gpu))).any()
    assert np.isnan(webgpu.to_numpy(webgpu.FUNCTIONS["slogdet"](on_gpu, real=x.dtype)[1]))
    assert np.isnan(webgpu.to_numpy(webgpu.FUNCTIONS["det"](on_gpu)))


def test_far_from_singular(webgpu) -> None:
    call = webgpu.FUNCTIONS["far_from_singular"]
    good = regular((2, 40, 40))
    near = good.copy()
    near[1] = np.diag([*np.ones(39), 1e-3])
    np.testing.assert_array_equal(
        webgpu.to_numpy(call(webgpu.from_numpy(good), power=0.5, asked="a")), good
    )
    np.testing.assert_array_equal(
        webgpu.to_numpy(call(webgpu.from_numpy(near), power=0.5, asked="a")), near
    )
    out = call(webgpu.from_numpy(near), power=1 / 3, asked="a matrix is nearly singular")
    found = refused(webgpu, out, "a matrix is nearly singular", ad.GradientError)
    np.testing.assert_array_equal(found[0], near[0])
    assert np.isnan(found[1]).all()
    near[1] = 0
    refused(
        webgpu,
        call(webgpu.from_numpy(near), power=0.9, asked="singular"),
        "singular",
        ad.GradientError,
    )
    near[1] = np.nan  # there is no better way where a matrix isn't finite
    np.testing.assert_array_equal(
        webgpu.to_numpy(call(webgpu.from_numpy(near), power=0.5, asked="a")), near
    )
    empty = webgpu.from_numpy(np.zeros((2, 0, 0), np.float32))
    assert webgpu.to_numpy(call(empty, power=0.5, asked="a")).shape == (2, 0, 0)


def test_gauge(webgpu) -> None:
    x, scale = random((3,)), np.zeros((2, 1, 5), np.float32)
    scale[:, 0, 2] = [-10, 1e-3]
    free = np.zeros((2, 4, 4), np.float32)
    limit = float(np.sqrt(EPS))

    def call() -> Any:
        return webgpu.FUNCTIONS["gauge"](
            *map(webgpu.from_numpy, (x, free, scale)), asked="free: of what?"
        )

    free[:, 1, 3] = [9 * limit, -9e-4 * limit]
    np.testing.assert_array_equal(webgpu.to_numpy(call()), x)
    free[1, 3, 1] = np.nan  # which isn't larger than anything
    np.testing.assert_array_equal(webgpu.to_numpy(call()), x)
    free[1, 3, 1], free[1, 1, 3] = 0, -2e-3 * limit
    assert np.isnan(refused(webgpu, call(), "free: of what", ad.GradientError)).all()
    free, scale = np.zeros((0, 2, 2), np.float32), np.zeros((0, 2, 2), np.float32)
    np.testing.assert_array_equal(webgpu.to_numpy(call()), x)


def test_the_first_of_several_complaints_is_raised_and_all_are_over(webgpu) -> None:
    zero = webgpu.from_numpy(np.zeros((2, 2), np.float32))
    webgpu.FUNCTIONS["cholesky"](zero)
    webgpu.FUNCTIONS["inv"](zero)
    refused(webgpu, zero, "cholesky: the matrix")


def test_nothing_is_looked_at_without_need(webgpu) -> None:
    good = webgpu.from_numpy(np.eye(3, dtype=np.float32))
    webgpu.to_numpy(webgpu.FUNCTIONS["inv"](good))
    reads = webgpu.gpu.counts["reads"]
    webgpu.to_numpy(good)
    assert webgpu.gpu.counts["reads"] == reads + 1
    webgpu.FUNCTIONS["inv"](good)
    assert webgpu.gpu.counts["reads"] == reads + 1


def test_more_complaints_than_there_are_words_for(webgpu) -> None:
    good, zero = (webgpu.from_numpy(m.astype(np.float32)) for m in (np.eye(2), np.zeros((2, 2))))
    parts = webgpu.FUNCTIONS["lu"](good)
    for k in range(100):
        asked = f"solve{k}"
        webgpu.FUNCTIONS["lu_solve"](good, *parts, good, transposed=False, asked=asked)
    parts = webgpu.FUNCTIONS["lu"](zero)
    out = webgpu.FUNCTIONS["lu_solve"](zero, *parts, good, transposed=False, asked="last")
    refused(webgpu, out, "last: the matrix")


def test_results_are_the_same_each_time(webgpu) -> None:
    x, y = definite((2, 70, 70)), random((2, 70, 9))
    on_gpu, right = webgpu.from_numpy(x), webgpu.from_numpy(y)

    def results() -> list[np.ndarray]:
        parts = webgpu.FUNCTIONS["lu"](on_gpu)
        out = webgpu.FUNCTIONS["lu_solve"](on_gpu, *parts, right, transposed=True, asked="solve")
        factor = webgpu.FUNCTIONS["cholesky"](on_gpu)
        return [webgpu.to_numpy(one) for one in (*parts, out, factor)]

    for one, other in zip(results(), results(), strict=True):
        np.testing.assert_array_equal(one, other)
