"""Derivatives of ad.linalg: of every function, of ill-conditioned matrices, and of singular ones.

The table of functions is in `linalg_cases`. Differences cost a call for each element of arguments
and results. So every size is tried without batch axes, and batch axes with small matrices: then all
of this takes less than a minute on one core.
"""

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint.linalg import _orthogonal
from adjoint.primitives import factorizations, solving
from tests.support import processes
from tests.support.helpers import as_tuple, close, derivative, leaf, values
from tests.support.linalg_cases import (
    CASES,
    WITHOUT_GRADIENT,
    Case,
    Draw,
    column,
    columns,
    frames,
    general,
)
from tests.support.samples_linalg import cofactor_matrix

L = ad.linalg
EPS = float(np.finfo(np.float64).eps)

cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def tensors(arrays: list[np.ndarray]) -> list[ad.Tensor]:
    return [ad.asarray(x) for x in arrays]


def total(parts: Iterable[ad.Tensor]) -> ad.Tensor:
    return functools.reduce(ad.add, parts)


def loss(call: Callable[..., Any]) -> Callable[..., ad.Tensor]:
    """A number made of all results."""

    def f(*args: ad.Tensor) -> ad.Tensor:
        rng = np.random.default_rng(1)
        return total(
            (ad.asarray(rng.standard_normal(out.shape), dtype=out.dtype) * out * out).sum()
            for out in as_tuple(call(*args))
        )

    return f


def first_order(call: Callable[..., Any], count: int) -> Callable[..., tuple]:
    """The gradient of the loss, with respect to all arguments."""
    return ad.grad(loss(call), tuple(range(count)))


def second_order(call: Callable[..., Any], count: int) -> Callable[..., tuple]:
    """The gradient of the size of the gradient."""
    gradient = first_order(call, count)
    return ad.grad(
        lambda *args: total(ad.square(g).sum() for g in gradient(*args)), tuple(range(count))
    )


def orders(case: Case) -> list[Callable[..., Any]]:
    """The function itself, and its first and second derivatives."""
    count = len(case.draws)
    return [case.call, first_order(case.call, count), second_order(case.call, count)]


def same(out: Any, expected: Any, tolerance: float = 1e-9) -> None:
    """Equal shapes and dtypes, nearly equal values, in all parts."""
    for one, other in zip(as_tuple(out), as_tuple(expected), strict=True):
        assert one.dtype is other.dtype
        close(one, values(other), tolerance)


def typical_shape(case: Case) -> tuple[int, int]:
    """Not square, if it needn't be."""
    return next((shape for shape in ((3, 2), (3, 3)) if shape in case.shapes), case.shapes[-1])


# Against differences, in two orders.


class Point(NamedTuple):
    name: str
    batch: tuple[int, ...]
    shape: tuple[int, int]


def points() -> list[Point]:
    out = []
    for name, case in CASES.items():
        small = [shape for shape in case.shapes if sorted(shape) == [2, 3]] or [(2, 2)]
        out += [Point(name, (), shape) for shape in case.shapes]
        out += [Point(name, batch, shape) for batch in ((3,), (2, 3)) for shape in small]
    return out


@pytest.mark.parametrize("point", points(), ids=lambda p: f"{p.name} {p.batch} {p.shape}")
def test_derivatives_of_two_orders(point: Point) -> None:
    case = CASES[point.name]
    ad.testing.check_grads(case.call, case.arguments(point.batch, *point.shape), order=2)


@pytest.mark.parametrize("name", ["qr", "qr complete", "svd", "svd reduced", "eigh", "lstsq"])
@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (2, 3)], ids=str)
def test_each_result_alone_has_derivatives(name: str, shape: tuple[int, int]) -> None:
    case = CASES[name]
    args = case.arguments((), *(shape if shape in case.shapes else (3, 3)))
    for k in range(len(case.call(*tensors(args)))):
        ad.testing.check_grads(lambda *xs, k=k: case.call(*xs)[k], args, order=2)


def test_every_function_is_in_the_table_or_has_no_gradient() -> None:
    assert {case.function for case in CASES.values()} | set(WITHOUT_GRADIENT) == set(L.__all__)


@pytest.mark.parametrize("function", [L.eig, L.eigvals])
def test_functions_without_a_gradient_say_so(function: Callable) -> None:
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(ad.GradientError, match=f"{function.__name__} has no gradient"):
        function(x)
    assert not any(part.requires_grad for part in as_tuple(function(x.detach())))


def test_a_rank_is_a_whole_number() -> None:
    rank = L.matrix_rank(leaf([[1.0, 2.0], [2.0, 4.0]]))
    assert rank.dtype is ad.int64 and not rank.requires_grad and rank.item() == 1


IN_THIRD_ORDER = (
    *("inv", "solve", "solve_triangular upper left", "det", "slogdet", "pinv", "lstsq"),
    *("cholesky", "qr", "svd", "eigh", "expm", "matrix_power -2", "cond fro"),
)


@pytest.mark.parametrize("name", IN_THIRD_ORDER)
def test_derivatives_of_a_third_order(name: str) -> None:
    case = CASES[name]
    ad.testing.check_grads(case.call, case.arguments((), 2, 2), order=3)


def test_determinants_of_three_rows_have_third_derivatives() -> None:
    ad.testing.check_grads(L.det, CASES["det"].arguments((), 3, 3), order=3)


SEVERAL = [name for name, case in CASES.items() if len(case.draws) > 1]
several = pytest.mark.parametrize("name", SEVERAL)


@several
def test_arguments_that_need_no_gradient_change_nothing_for_the_others(name: str) -> None:
    case = CASES[name]
    args = tensors(case.arguments((2,), *typical_shape(case)))
    for k, expected in enumerate(first_order(case.call, len(args))(*args)):
        same(ad.grad(loss(case.call), k)(*args), expected, 1e-12)


# Numbers.


def number(x: ad.Tensor | None) -> float:
    return values(x).item()


def test_second_derivative_of_one_over_a_at_2_is_a_quarter_through_inv() -> None:
    a = leaf([[2.0]])
    assert number(derivative(derivative(L.inv(a), a, create_graph=True), a)) == 0.25


def test_solve_has_x_aa_three_quarters_and_x_ab_minus_a_quarter_at_2_and_3() -> None:
    a, b = leaf([[2.0]]), leaf([3.0])
    x_a = derivative(L.solve(a, b), a, create_graph=True)
    x_aa, x_ab = ad.autograd.grad(x_a, [a, b])
    assert number(x_aa) == 0.75
    assert number(x_ab) == -0.25


def test_second_derivative_of_cholesky_at_4_is_minus_one_over_32() -> None:
    a = leaf([[4.0]])
    found = derivative(derivative(L.cholesky(a), a, create_graph=True), a)
    assert number(found) == -0.03125


def test_squared_trace_has_second_derivative_2() -> None:
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    gradient = derivative(L.trace(x) ** 2, x, create_graph=True)
    close(derivative(gradient[0, 0], x), [[2.0, 0.0], [0.0, 2.0]])


def test_mixed_second_derivative_of_det_by_both_diagonal_elements_is_1() -> None:
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    gradient = derivative(L.det(x), x, create_graph=True)
    close(derivative(gradient[0, 0], x), [[0.0, 0.0], [0.0, 1.0]])


def test_det_of_a_singular_matrix_has_its_adjugate_as_gradient() -> None:
    x = leaf([[1.0, 2.0], [2.0, 4.0]])
    close(derivative(L.det(x), x), [[4.0, -2.0], [-2.0, 1.0]])


def test_det_of_2_1_1_2_has_gradient_2_minus_1_minus_1_2() -> None:
    x = leaf([[2.0, 1.0], [1.0, 2.0]])
    close(derivative(L.det(x), x), [[2.0, -1.0], [-1.0, 2.0]])


def test_solve_with_a_vector_runs_backward() -> None:
    a, b = leaf([[2.0, 0.0], [0.0, 4.0]]), leaf([2.0, 4.0])
    L.solve(a, b).sum().backward()
    close(a.grad, [[-0.5, -0.5], [-0.25, -0.25]])
    close(b.grad, [0.5, 0.25])


def test_trace_of_two_rows_and_three_columns_has_a_gradient_of_that_shape() -> None:
    x = leaf(np.ones((2, 3)))
    close(derivative(L.trace(x), x), [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


def test_gradient_of_cholesky_is_symmetric() -> None:
    x = leaf([[4.0, 2.0, 1.0], [2.0, 5.0, 3.0], [1.0, 3.0, 6.0]])
    gradient = values(derivative(L.cholesky(x)[1, 0], x))
    np.testing.assert_array_equal(gradient, gradient.T)
    # l10 = a10 / sqrt(a00), and what is said of a10 is shared with a01.
    close(ad.asarray(gradient), [[-0.125, 0.25, 0.0], [0.25, 0.0, 0.0], [0.0, 0.0, 0.0]])


@pytest.mark.parametrize(
    ("x", "order"),
    [
        ([[-1.0, 0.0], [0.0, 1.0]], 1),
        ([[1.0, 2.0], [2.0, 1.0]], 2),
        ([[2.0, 1.0, 1.0], [1.0, 2.0, 1.0], [1.0, 1.0, 0.5]], 3),
    ],
)
def test_a_matrix_that_isn_t_positive_definite_is_refused(x: list, order: int) -> None:
    with pytest.raises(ad.ArgumentError, match=r"cholesky.*isn't positive definite") as caught:
        L.cholesky(leaf(x))
    assert f"order {order} " in str(caught.value) and str(np.shape(x)) in str(caught.value)


# Determinants where they are 0: against exact minors.

Exact = list[list[Fraction]]


def exact_det(x: Exact) -> Fraction:
    """By the first row."""
    if not x:
        return Fraction(1)
    terms = [(-1) ** j * x[0][j] * exact_det(without(x, {0}, {j})) for j in range(len(x))]
    return sum(terms, Fraction(0))


def without(x: Exact, rows: set[int], columns: set[int]) -> Exact:
    return [
        [entry for j, entry in enumerate(row) if j not in columns]
        for i, row in enumerate(x)
        if i not in rows
    ]


def exact_gradient(x: Exact) -> np.ndarray:
    n = len(x)
    out = np.zeros((n, n))
    for i, j in np.ndindex(n, n):
        out[i, j] = (-1) ** (i + j) * exact_det(without(x, {i}, {j}))
    return out


def exact_hessian(x: Exact) -> np.ndarray:
    """Of x_ij and x_kl: the minor without both rows and both columns, with its sign."""
    n = len(x)
    out = np.zeros((n, n, n, n))
    for i, j, k, m in np.ndindex(n, n, n, n):
        if i != k and j != m:
            turns = (i > k) + (j > m)
            minor = exact_det(without(x, {i, k}, {j, m}))
            out[i, j, k, m] = (-1) ** (i + j + k + m + turns) * minor
    return out


def of_rank(n: int, rank: int, seed: int = 0) -> np.ndarray:
    """Whole numbers, so that the rank is exact, and its gradient too."""
    rng = np.random.default_rng(seed)
    while True:
        x = rng.integers(-3, 4, (n, rank)) @ rng.integers(-3, 4, (rank, n))
        if np.linalg.matrix_rank(x) == rank:
            return x.astype(np.float64)


def exactly(x: np.ndarray) -> Exact:
    return [[Fraction(entry) for entry in row] for row in x.tolist()]


RANKS = [
    (n, rank)
    for n in range(1, 6)
    for rank in sorted({n, n - 1, n - 2, n - 3, 0} & set(range(n + 1)))
]
ranks = pytest.mark.parametrize(("n", "rank"), RANKS)


def minors_are_close(found: ad.Tensor, expected: np.ndarray, x: np.ndarray, order: int) -> None:
    """Rounding errors are relative to products of as many numbers as the minors have."""
    n = x.shape[-1]
    limit = 100 * n * EPS * max(1, np.linalg.norm(x, 2)) ** max(n - order, 0)
    assert found.shape == expected.shape
    np.testing.assert_allclose(values(found), expected, rtol=0, atol=limit)


@ranks
def test_gradient_of_det_is_exact_for_every_rank(n: int, rank: int) -> None:
    x = of_rank(n, rank)
    minors_are_close(ad.grad(L.det)(ad.asarray(x)), exact_gradient(exactly(x)), x, 1)


@ranks
def test_hessian_of_det_is_exact_for_every_rank(n: int, rank: int) -> None:
    x = of_rank(n, rank)
    minors_are_close(ad.hessian(L.det)(ad.asarray(x)), exact_hessian(exactly(x)), x, 2)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_batches_may_mix_regular_and_singular_matrices(n: int) -> None:
    found = [of_rank(n, rank, seed) for seed in range(2) for rank in range(n + 1)]
    batch = np.stack(found).reshape(2, n + 1, n, n)
    gradient = ad.grad(lambda x: L.det(x).sum())(ad.asarray(batch))
    for index in np.ndindex(2, n + 1):
        x = batch[index]
        minors_are_close(gradient[index], exact_gradient(exactly(x)), x, 1)


def test_nearly_singular_matrices_have_precise_cofactors() -> None:
    """On both sides of where the inverse is given up for another way."""
    for size in (1e-1, 1e-2, 1e-3, 1e-4, 1e-8, 1e-12, 1e-15, 0.0):
        x = of_rank(3, 2) + size * np.diag([1.0, 2.0, 3.0])
        expected = exact_gradient(exactly(x))
        minors_are_close(ad.grad(L.det)(ad.asarray(x)), expected, x, 1)
        minors_are_close(ad.hessian(L.det)(ad.asarray(x)), exact_hessian(exactly(x)), x, 2)


def test_the_logarithm_of_a_determinant_has_no_derivative_where_it_is_0() -> None:
    x = leaf([[1.0, 2.0], [2.0, 4.0]])
    found = L.slogdet(x)
    assert (number(found.sign), number(found.logabsdet)) == (0, -np.inf)
    with pytest.raises(ad.GradientError, match=r"slogdet: .*singular.* no gradient"):
        found.logabsdet.backward()


@pytest.mark.parametrize(("dtype", "scale"), [("f4", 1e-16), ("f4", 1e13), ("f8", 1e-108)])
def test_cofactors_exist_where_a_determinant_is_out_of_range(dtype: str, scale: float) -> None:
    x = ad.asarray(scale * np.eye(3, dtype=dtype))
    np.testing.assert_allclose(values(ad.grad(L.det)(x)), scale**2 * np.eye(3), rtol=1e-6)
    second = values(ad.hessian(L.det)(x))
    np.testing.assert_allclose([second[0, 0, 1, 1], second[0, 1, 1, 0]], [scale, -scale], 1e-6)


def third_derivative(x: np.ndarray, along: list[np.ndarray]) -> ad.Tensor:
    """The gradient of the second derivative of the determinant in two directions."""
    y, z = tensors(along)

    def second(x: ad.Tensor) -> ad.Tensor:
        return (ad.jvp(ad.grad(L.det), (x,), (y,))[1] * z).sum()

    return ad.grad(second)(ad.asarray(x))


@pytest.mark.parametrize(("n", "rank"), [(4, 1), (4, 3), (5, 4)])
def test_third_derivatives_of_a_singular_determinant_are_refused(n: int, rank: int) -> None:
    along = [np.random.default_rng(k).standard_normal((n, n)) for k in range(2)]
    with pytest.raises(ad.AdjointError, match="singular"):
        third_derivative(of_rank(n, rank), along)


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_third_derivatives_of_few_rows_are_right_for_every_matrix(rank: int) -> None:
    """With three rows they don't depend on the matrix, with two there are none."""
    rng = np.random.default_rng(0)
    along = [rng.standard_normal((3, 3)) for _ in range(2)]
    first, second = (cofactor_matrix(along[0] + sign * along[1]) for sign in (1, -1))
    expected = (first - second) / 2
    close(third_derivative(of_rank(3, rank), along), expected, 1e-12)
    small = [a[:2, :2] for a in along]
    close(third_derivative(of_rank(2, min(rank, 2)), small), np.zeros((2, 2)), 0)


@pytest.mark.parametrize("smallest", [1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-13, 0])
def test_third_derivatives_of_a_determinant_are_right_or_refused(smallest: float) -> None:
    """Those of a product of blocks, [[a, 0], [0, b]] with b a number, are b times those of a."""
    rng = np.random.default_rng(0)
    u, v = frames(rng, (2,), 3, 3)
    along = [np.zeros((4, 4)) for _ in range(2)]
    for direction in along:
        direction[:3, :3] = rng.standard_normal((3, 3))
    x = np.zeros((4, 4))
    x[:3, :3], x[3, 3] = (u * [1, 0.5, smallest]) @ v, 2
    expected = 2 * values(third_derivative(np.eye(3), [a[:3, :3] for a in along]))
    try:
        found = third_derivative(x, along)
    except ad.AdjointError as error:
        assert "singular" in str(error) and smallest <= 1e-4
    else:
        close(found[:3, :3], expected, 1e-6)


def test_determinants_of_single_numbers_have_all_derivatives() -> None:
    """They are linear, at 0 too."""
    x = leaf([[0.0]])
    gradient = derivative(L.det(x), x, create_graph=True)
    close(gradient, [[1.0]])
    assert not gradient.requires_grad or number(derivative(gradient, x)) == 0


# Symmetric matrices.

OF_SYMMETRIC = ("cholesky", "cholesky upper", "eigh", "eigvalsh")
of_symmetric = pytest.mark.parametrize("name", OF_SYMMETRIC)


@of_symmetric
@pytest.mark.parametrize("batch", [(), (2, 3)], ids=str)
def test_gradients_are_symmetric_to_the_last_bit(name: str, batch: tuple[int, ...]) -> None:
    case = CASES[name]
    (x,) = case.arguments(batch, 5, 5)
    skew = np.triu(np.random.default_rng(2).standard_normal(x.shape), 1)
    for given in (x, x + skew - skew.swapaxes(-1, -2)):
        for order in orders(case)[1:]:
            (gradient,) = map(values, order(ad.asarray(given)))
            np.testing.assert_array_equal(gradient, gradient.swapaxes(-1, -2))


@of_symmetric
def test_the_symmetric_part_is_read(name: str) -> None:
    case = CASES[name]
    (x,) = case.arguments((2,), 4, 4)
    skew = np.triu(np.random.default_rng(2).standard_normal(x.shape), 1)
    turned = x + skew - skew.swapaxes(-1, -2)
    for order in orders(case):
        same(order(ad.asarray(turned)), order(ad.asarray(x)), 1e-10)


# Ill-conditioned matrices, against differences in 60 digits.

CONDITION = 1e6


def hard(rng: np.random.Generator, batch: tuple, m: int, n: int) -> np.ndarray:
    """Singular values from 1 to 1 / CONDITION."""
    rank = min(m, n)
    return (frames(rng, batch, m, rank) * hard_values(rank)) @ frames(rng, batch, n, rank).T


def hard_values(count: int) -> np.ndarray:
    return np.geomspace(1, 1 / CONDITION, count)


def hard_definite(rng: np.random.Generator, batch: tuple, m: int, n: int) -> np.ndarray:
    vectors = frames(rng, batch, n, n)
    x = (vectors * hard_values(n)) @ vectors.T
    return (x + x.T) / 2


def hard_triangle(rng: np.random.Generator, batch: tuple, m: int, n: int) -> np.ndarray:
    return np.linalg.qr(hard(rng, batch, n, n))[1].T


def hard_tall(rng: np.random.Generator, batch: tuple, m: int, n: int) -> np.ndarray:
    return hard(rng, batch, n + 1, n)


def hard_wide(rng: np.random.Generator, batch: tuple, m: int, n: int) -> np.ndarray:
    return hard(rng, batch, n, n + 1)


def tall_columns(rng: np.random.Generator, batch: tuple, m: int, n: int) -> np.ndarray:
    return rng.standard_normal((n + 1, 2))


def large(rng: np.random.Generator, batch: tuple, m: int, n: int) -> np.ndarray:
    """Of norm 10."""
    x = rng.standard_normal((n, n))
    return 10 * x / np.linalg.norm(x, 2)


class Precise:
    """What mpmath has, and what can be made of it."""

    def __init__(self, mp: Any) -> None:
        self.mp = mp

    def symmetric(self, x: Any) -> Any:
        return (x + x.T) / 2

    def lower(self, x: Any) -> Any:
        entries = [[x[i, j] if i >= j else 0 for j in range(x.cols)] for i in range(x.rows)]
        return self.mp.matrix(entries)

    def inverse(self, x: Any) -> Any:
        return self.mp.inverse(x)

    def number(self, x: Any) -> Any:
        return self.mp.matrix([[x]])

    def log_det(self, x: Any) -> Any:
        return self.number(self.mp.log(abs(self.mp.det(x))))

    def cholesky_solve(self, x: Any, b: Any) -> Any:
        lower = self.lower(x)
        return self.inverse(lower.T) * (self.inverse(lower) * b)

    def pinv(self, x: Any) -> Any:
        """By the normal equations, whose loss of digits doesn't matter here."""
        if x.rows < x.cols:
            return x.T * self.inverse(x * x.T)
        return self.inverse(x.T * x) * x.T

    def residuals(self, a: Any, b: Any) -> Any:
        rest = b - a * (self.pinv(a) * b)
        sums = [sum(rest[i, j] ** 2 for i in range(rest.rows)) for j in range(rest.cols)]
        return self.mp.matrix([sums])

    def logarithm(self, x: Any) -> Any:
        found, vectors = self.mp.eigsy(self.symmetric(x))
        return vectors * self.mp.diag([self.mp.log(value) for value in found]) * vectors.T

    def polar(self, x: Any) -> Any:
        u, _, vh = self.mp.svd_r(x)
        return u * vh

    def cond(self, x: Any) -> Any:
        s = self.mp.svd_r(x, compute_uv=False)
        return self.number(s[0] / s[len(s) - 1])


def logarithm(x: ad.Tensor) -> ad.Tensor:
    """Of a positive definite matrix."""
    found, vectors = L.eigh(x)
    return (vectors * ad.log(found)) @ vectors.mT


def polar(x: ad.Tensor) -> ad.Tensor:
    """The orthogonal factor of x."""
    u, _, vh = L.svd(x, full_matrices=False)
    return u @ vh


class Hard(NamedTuple):
    """A function, the same in mpmath, and how large relative errors may be.

    LAPACK's results are those of a matrix that is changed by about n rounding errors, relative to
    its norm. That changes inverses, and what is made of them, by cond times as much. Derivatives
    multiply with more inverses, each with that error. So `bound` counts n * eps * cond, for the
    largest error relative to the largest element.
    """

    call: Callable[..., ad.Tensor]
    reference: Callable[..., Any]
    draws: tuple[Draw, ...]
    bound: float = 1
    condition: float = CONDITION


HARD = {
    "inv": Hard(L.inv, Precise.inverse, (hard,)),
    "solve": Hard(L.solve, lambda p, a, b: p.inverse(a) * b, (hard, columns(2))),
    "solve_triangular": Hard(
        lambda a, b: L.solve_triangular(a, b, upper=False),
        lambda p, a, b: p.inverse(p.lower(a)) * b,
        (hard_triangle, columns(2)),
    ),
    "cholesky": Hard(L.cholesky, lambda p, x: p.mp.cholesky(p.symmetric(x)), (hard_definite,)),
    "cholesky_solve": Hard(
        lambda x, b: L.cholesky_solve(b, x), Precise.cholesky_solve, (hard_triangle, columns(2))
    ),
    "det": Hard(L.det, lambda p, x: p.number(p.mp.det(x)), (hard,)),
    "slogdet": Hard(lambda x: L.slogdet(x).logabsdet, Precise.log_det, (hard,)),
    # The rules subtract from the identity what is nearly the identity: more terms of that error.
    "pinv tall": Hard(L.pinv, Precise.pinv, (hard_tall,), bound=10),
    "pinv wide": Hard(L.pinv, Precise.pinv, (hard_wide,), bound=10),
    "lstsq": Hard(
        lambda a, b: L.lstsq(a, b).solution,
        lambda p, a, b: p.pinv(a) * b,
        (hard_tall, tall_columns),
        bound=10,
    ),
    "lstsq residuals": Hard(
        lambda a, b: L.lstsq(a, b).residuals, Precise.residuals, (hard_tall, tall_columns)
    ),
    "sum of logarithms of eigenvalues": Hard(
        lambda x: ad.log(L.eigvalsh(x)).sum(),
        lambda p, x: p.log_det(p.symmetric(x)),
        (hard_definite,),
    ),
    "logarithm by eigh": Hard(logarithm, Precise.logarithm, (hard_definite,)),
    "sum of logarithms of singular values": Hard(
        lambda x: ad.log(L.svdvals(x)).sum(), Precise.log_det, (hard,)
    ),
    "polar factor by svd": Hard(polar, Precise.polar, (hard,)),
    "polar factor of a tall matrix": Hard(polar, Precise.polar, (hard_tall,)),
    "cond": Hard(L.cond, Precise.cond, (hard,)),
    # Its errors grow with the norm.
    "expm": Hard(L.expm, lambda p, x: p.mp.expm(x), (large,), bound=5, condition=10),
}


class Differences:
    """Derivatives of sum(weight * f) by central differences, in 60 digits: exact to 30 or more."""

    def __init__(self, precise: Precise, function: Hard, args: list, weight: np.ndarray) -> None:
        self.precise = precise
        self.function = function
        self.args = [self.exact(x) for x in args]
        self.weight = weight
        self.h = precise.mp.mpf(10) ** -18

    def exact(self, x: np.ndarray) -> Any:
        return self.precise.mp.matrix(x.tolist())

    def value(self, args: list) -> np.ndarray:
        out = self.function.reference(self.precise, *args)
        return np.array(out.tolist(), object).reshape(self.weight.shape)

    def moved(self, along: list[tuple[int, Any]]) -> Any:
        """The weighted sum after steps of given arguments in given directions."""
        args = list(self.args)
        for k, step in along:
            args[k] = args[k] + self.h * step
        return np.sum(self.value(args) * self.weight)

    def unit(self, k: int, index: tuple[int, ...]) -> Any:
        out = self.precise.mp.zeros(self.args[k].rows, self.args[k].cols)
        out[index] = 1
        return out

    def first(self, k: int) -> np.ndarray:
        def at(index: tuple[int, ...]) -> Any:
            step = self.unit(k, index)
            return (self.moved([(k, step)]) - self.moved([(k, -step)])) / (2 * self.h)

        return self.filled(k, at)

    def second(self, k: int, directions: list[np.ndarray]) -> np.ndarray:
        """The derivative, in a direction of all arguments, of the derivative with respect to k."""
        along = list(enumerate(map(self.exact, directions)))
        back = [(m, -step) for m, step in along]

        def at(index: tuple[int, ...]) -> Any:
            step = (k, self.unit(k, index))
            opposite = (k, -step[1])
            same_way = self.moved([*along, step]) + self.moved([*back, opposite])
            other_way = self.moved([*along, opposite]) + self.moved([*back, step])
            return (same_way - other_way) / (4 * self.h**2)

        return self.filled(k, at)

    def filled(self, k: int, at: Callable[[tuple[int, ...]], Any]) -> np.ndarray:
        out = np.empty((self.args[k].rows, self.args[k].cols))
        for index in np.ndindex(*out.shape):
            out[index] = at(index)
        return out


def assert_precise(found: ad.Tensor | None, expected: np.ndarray, limit: float) -> None:
    error = np.abs(values(found) - expected).max() / np.abs(expected).max()
    assert error <= limit, f"{error / limit:.2g} times as large as it may be"


@pytest.mark.parametrize("n", [3, 4, 5])
@pytest.mark.parametrize("name", HARD)
def test_ill_conditioned_matrices_cost_no_more_digits_than_they_must(name: str, n: int) -> None:
    mp: Any = pytest.importorskip("mpmath")
    function, rng = HARD[name], np.random.default_rng(n)
    arrays = [draw(rng, (), n, n) for draw in function.draws]
    directions = [rng.standard_normal(x.shape) for x in arrays]
    args = [leaf(x) for x in arrays]
    out = function.call(*args)
    weight = rng.standard_normal(out.shape)
    gradients = ad.autograd.grad(out, args, ad.asarray(weight), create_graph=True)
    turned = total((g * ad.asarray(d)).sum() for g, d in zip(gradients, directions, strict=True))
    seconds = ad.autograd.grad(turned, args)
    limit = function.bound * n * EPS * function.condition
    with mp.workdps(60):
        exact = Differences(Precise(mp), function, arrays, weight)
        assert_precise(out, exact.value(exact.args).astype(np.float64), limit)
        for k, gradient in enumerate(gradients):
            assert_precise(gradient, exact.first(k), limit)
        if n < 5:  # the most expensive
            for k, second in enumerate(seconds):
                assert_precise(second, exact.second(k, directions), limit)


# How often matrices are taken apart.

TAKING_APART = (
    solving.lu,
    solving.inv,
    solving.slogdet,
    solving.det,
    factorizations.cholesky,
    _orthogonal.qr,
)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter:
    """Counts the calls of kernels that take matrices apart, from here on."""
    counts: Counter = Counter()

    def counted(op: Any, kernel: Callable) -> Callable:
        def run(*inputs: Any, **attrs: Any) -> Any:
            counts[op.name] += 1
            return kernel(*inputs, **attrs)

        return run

    for call in TAKING_APART:
        op: Any = call.op  # type: ignore[attr-defined]
        monkeypatch.setitem(op.functions, np.ndarray, counted(op, op.functions[np.ndarray]))
    return counts


ONCE = {
    "solve": "lu",
    "solve for a vector": "lu",
    "solve with one matrix": "lu",
    "solve with crossing batches": "lu",
    "slogdet": "slogdet",
    "cholesky": "cholesky",
    "cholesky upper": "cholesky",
    "qr": "qr",
    "inv": "inv",
}


@pytest.mark.parametrize(("name", "op"), ONCE.items(), ids=ONCE)
def test_two_orders_of_derivatives_take_a_matrix_apart_once(
    name: str, op: str, calls: Counter
) -> None:
    case = CASES[name]
    args = [leaf(x) for x in case.arguments((2,), 3, 3)]
    gradients = ad.autograd.grad(loss(case.call)(*args), args, create_graph=True)
    total(ad.square(g).sum() for g in gradients).backward()
    assert all(x.grad is not None for x in args)
    assert calls == {op: 1}


@pytest.mark.parametrize("name", ["solve_triangular upper left", "cholesky_solve"])
def test_triangles_are_never_taken_apart(name: str, calls: Counter) -> None:
    case = CASES[name]
    second_order(case.call, 2)(*tensors(case.arguments((2,), 3, 3)))
    assert not calls


def test_a_hessian_takes_the_matrix_apart_once(calls: Counter) -> None:
    x, b = tensors(CASES["solve for a vector"].arguments((), 3, 3))
    ad.hessian(lambda x: ad.square(L.solve(x, b)).sum())(x)
    assert calls == {"lu": 1}


def test_examples_that_share_a_matrix_take_it_apart_once(calls: Counter) -> None:
    x = ad.asarray(CASES["solve"].arguments((), 3, 3)[0])
    right = ad.asarray(np.random.default_rng(0).standard_normal((5, 3)))
    found = ad.vmap(L.solve, in_axes=(None, 0))(x, right)
    assert calls == {"lu": 1}
    close(found, np.stack([np.linalg.solve(x.numpy(), b) for b in right.numpy()]))


def test_gradients_of_examples_that_share_a_matrix_take_it_apart_once(calls: Counter) -> None:
    x = ad.asarray(CASES["solve"].arguments((), 3, 3)[0])
    right = ad.asarray(np.random.default_rng(0).standard_normal((5, 3)))
    gradient = ad.grad(lambda x, b: ad.square(L.solve(x, b)).sum())
    found = ad.vmap(gradient, in_axes=(None, 0))(x, right)
    assert calls == {"lu": 1}
    close(found, np.stack([values(gradient(x, b)) for b in right]), 1e-10)


# Transforms, of every function.


def stacked(results: list) -> tuple:
    return tuple(ad.stack(parts) for parts in zip(*map(as_tuple, results), strict=True))


@cases
def test_vmap_gives_values_and_derivatives_of_each_example(case: Case) -> None:
    examples = [tensors(case.arguments((), *typical_shape(case), seed=k)) for k in range(3)]
    whole = stacked([tuple(args) for args in examples])
    for order in orders(case):
        same(ad.vmap(order)(*whole), stacked([order(*args) for args in examples]))


@several
def test_vmap_of_one_argument_shares_the_others(name: str) -> None:
    case = CASES[name]
    examples = [tensors(case.arguments((), *typical_shape(case), seed=k)) for k in range(3)]
    count = len(case.draws)
    gradient = first_order(case.call, count)
    for mapped in range(count):
        every = [
            [args[k] if k == mapped else examples[0][k] for k in range(count)] for args in examples
        ]
        given = [ad.stack([args[k] for args in every]) for k in range(count)]
        given = [x if k == mapped else examples[0][k] for k, x in enumerate(given)]
        in_axes = tuple(0 if k == mapped else None for k in range(count))
        found = ad.vmap(gradient, in_axes=in_axes)(*given)
        same(found, stacked([gradient(*args) for args in every]))


@cases
def test_traces_replay_values_and_derivatives_of_other_arguments(case: Case) -> None:
    shape = typical_shape(case)
    args, others = (tensors(case.arguments((2,), *shape, seed=k)) for k in range(2))
    for order in orders(case):
        same(ad.trace(order, *args)(*others), order(*others))


@cases
def test_checkpoints_change_no_derivative(case: Case) -> None:
    args = tensors(case.arguments((2,), *typical_shape(case)))
    kept = case._replace(call=lambda *args: ad.checkpoint(case.call, *args))
    for order, expected in zip(orders(kept), orders(case), strict=True):
        same(order(*args), expected(*args))


@cases
def test_jvp_and_jacobians_agree_with_differences(case: Case) -> None:
    args = tensors(case.arguments((2,), *typical_shape(case)))
    rng, h = np.random.default_rng(3), 1e-6
    tangents = [ad.asarray(rng.standard_normal(x.shape)) for x in args]

    def call(*args: ad.Tensor) -> tuple:
        return as_tuple(case.call(*args))

    _, found = ad.jvp(call, args, tangents)
    up, down = (
        call(*(x + step * t for x, t in zip(args, tangents, strict=True))) for step in (h, -h)
    )
    same(found, tuple((u - d) / (2 * h) for u, d in zip(up, down, strict=True)), 1e-6)
    for mode in ("reverse", "forward"):
        blocks = ad.jacobian(call, tuple(range(len(args))), mode=mode)(*args)
        for row, expected in zip(blocks, found, strict=True):
            parts = (ad.tensordot(x, t, axes=t.ndim) for x, t in zip(row, tangents, strict=True))
            same(total(parts), expected)


# Several functions and transforms at once.


def covariance(parameters: ad.Tensor, places: ad.Tensor) -> ad.Tensor:
    scale, length, noise = ad.unstack(ad.exp(parameters))
    distances = (places[:, None] - places[None, :]) / length
    smooth = scale * ad.exp(-ad.square(distances) / 2)
    return smooth + noise * ad.eye(len(places), dtype=places.dtype)


def likelihood(parameters: ad.Tensor, places: ad.Tensor, seen: ad.Tensor) -> ad.Tensor:
    """The negative logarithm of how likely a Gaussian process finds what was seen."""
    lower = L.cholesky(covariance(parameters, places))
    half = L.solve_triangular(lower, seen, upper=False)
    return ad.square(half).sum() / 2 + ad.log(L.diagonal(lower)).sum()


def likelihood_by_solve(parameters: ad.Tensor, places: ad.Tensor, seen: ad.Tensor) -> ad.Tensor:
    """The same without Cholesky."""
    x = covariance(parameters, places)
    return seen @ L.solve(x, seen) / 2 + L.slogdet(x).logabsdet / 2


@pytest.mark.parametrize("f", [likelihood, likelihood_by_solve])
def test_hessian_of_a_likelihood_agrees_with_differences(f: Callable) -> None:
    places = np.linspace(0, 5, 12)
    data = tensors([places, np.sin(places) + 0.1 * np.cos(7 * places)])
    parameters, h = np.array([0.1, -0.2, -2.0]), 1e-5
    found = ad.hessian(f)(ad.asarray(parameters), *data)
    gradient = ad.grad(f)
    steps = h * np.eye(3)
    rows = [
        (gradient(ad.asarray(parameters + step), *data)).numpy()
        - gradient(ad.asarray(parameters - step), *data).numpy()
        for step in steps
    ]
    close(found, np.stack(rows) / (2 * h), 1e-6)
    np.testing.assert_allclose(values(found), values(found).T, rtol=1e-10)


def test_both_forms_of_a_likelihood_have_the_same_derivatives() -> None:
    places = np.linspace(0, 5, 12)
    data = tensors([places, np.sin(places)])
    parameters = ad.asarray(np.array([0.1, -0.2, -2.0]))
    for transform in (lambda f: f, ad.grad, ad.hessian):
        same(*(transform(f)(parameters, *data) for f in (likelihood, likelihood_by_solve)))


def one(x: ad.Tensor) -> ad.Tensor:
    return ad.eye(x.shape[-1], dtype=x.dtype)


MAPS: dict[str, Callable[[ad.Tensor], ad.Tensor]] = {
    "inv": lambda x: L.inv(3 * one(x) + x),
    "solve": lambda x: L.solve(3 * one(x) + x, x + x.mT),
    "expm": L.expm,
    "cholesky": lambda x: L.cholesky(one(x) + x @ x.mT),
    "logarithm": lambda x: logarithm(one(x) + x @ x.mT),
    "polar": lambda x: polar(2 * one(x) + x),
    "pinv": lambda x: L.pinv(2 * one(x) + x),
    "qr": lambda x: L.qr(2 * one(x) + x).R,
    "power": lambda x: L.matrix_power(2 * one(x) + x, -2),
    "det": lambda x: L.det(one(x) + x) * x,
    "slogdet": lambda x: L.slogdet(2 * one(x) + x).logabsdet * x,
}
AROUND: dict[str, Callable[[Callable], Callable]] = {
    "plain": lambda f: f,
    "checkpoint": lambda f: lambda x: ad.checkpoint(f, x),
    "vmap": lambda f: lambda x: ad.vmap(f)(ad.stack([x, 2 * x]))[0],
    "jvp": lambda f: lambda x: ad.jvp(f, (x,), (x,))[1],
    "vjp": lambda f: lambda x: ad.vjp(f, x)[1](x)[0],
}


def chain(steps: list[tuple[str, str]]) -> Callable[[ad.Tensor], ad.Tensor]:
    def f(x: ad.Tensor) -> ad.Tensor:
        weight = ad.asarray(np.random.default_rng(1).standard_normal(x.shape))
        for name, around in steps:
            x = AROUND[around](MAPS[name])(x)
            x = x / ad.sqrt(1 + ad.square(x).sum())  # so that the next one is far from singular
        return (weight * x).sum()

    return f


def random_chain(seed: int) -> list[tuple[str, str]]:
    rng = np.random.default_rng(seed)
    around = [*AROUND, "plain", "plain"]
    return [(str(rng.choice(list(MAPS))), str(rng.choice(around))) for _ in range(3)]


@pytest.mark.parametrize("seed", range(16))
def test_random_chains_have_the_same_second_derivatives_in_all_ways(seed: int) -> None:
    f, rng = chain(random_chain(seed)), np.random.default_rng(seed)
    x, v = tensors([rng.standard_normal((3, 3)) / 2 for _ in range(2)])
    gradient, h = ad.grad(f), 1e-5
    (found,) = ad.hvp(f, (x,), (v,))
    same(ad.jvp(gradient, (x,), (v,))[1], found)
    same(ad.grad(lambda x: (gradient(x) * v).sum())(x), found)
    same(ad.grad(lambda x: ad.jvp(f, (x,), (v,))[1])(x), found)
    same(ad.tensordot(ad.hessian(f)(x), v, axes=2), found)
    same(ad.tensordot(ad.jacobian(gradient, mode="forward")(x), v, axes=2), found)
    both = ad.vmap(lambda v: ad.hvp(f, (x,), (v,))[0])(ad.stack([v, 2 * v]))
    same(both, ad.stack([found, 2 * found]))
    close(found, values(gradient(x + h * v) - gradient(x - h * v)) / (2 * h), 1e-6)


# Single precision, memory in other orders, nothing at all.


@cases
def test_single_precision_stays_single_and_is_as_precise_as_it_can_be(case: Case) -> None:
    """A few hundred rounding errors, relative to the largest element."""
    arrays = case.arguments((2,), *typical_shape(case))
    single = tensors([x.astype(np.float32) for x in arrays])
    double = tensors([x.astype(np.float32).astype(np.float64) for x in arrays])
    for order in orders(case):
        for out, expected in zip(as_tuple(order(*single)), as_tuple(order(*double)), strict=True):
            assert out.dtype is ad.float32
            limit = 300 * float(np.finfo(np.float32).eps) * max(1, np.abs(values(expected)).max())
            np.testing.assert_allclose(values(out), values(expected), rtol=0, atol=limit)


ARRANGEMENTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "by columns": np.asfortranarray,
    "transposed matrices": lambda x: np.ascontiguousarray(np.atleast_2d(x).mT).mT.reshape(x.shape),
    "backwards": lambda x: np.ascontiguousarray(x[..., ::-1])[..., ::-1],
    "every other": lambda x: np.repeat(x, 2, -1)[..., ::2],
    "every other matrix": lambda x: np.repeat(x, 2, 0)[::2],
}


@cases
def test_the_order_in_memory_doesn_t_matter(case: Case) -> None:
    arrays = case.arguments((2,), *typical_shape(case))
    for order in orders(case)[:2]:
        expected = order(*tensors(arrays))
        for arranged in ARRANGEMENTS.values():
            same(order(*tensors([arranged(x) for x in arrays])), expected, 1e-11)


@cases
def test_the_order_in_memory_of_arriving_gradients_doesn_t_matter(case: Case) -> None:
    args = tensors(case.arguments((2,), *typical_shape(case)))
    outs, pullback = ad.vjp(lambda *args: as_tuple(case.call(*args)), *args)
    rng = np.random.default_rng(4)
    gradients = [rng.standard_normal(out.shape) for out in outs]
    expected = pullback(tuple(tensors(gradients)))
    for arranged in ARRANGEMENTS.values():
        given = tensors([arranged(g) if g.ndim else g for g in gradients])
        same(pullback(tuple(given)), expected, 1e-11)


EMPTY = (((), (0, 0)), ((2,), (0, 0)), ((0,), (2, 2)), ((2, 0), (3, 3)), ((0,), (0, 0)))
EMPTY_ANY = (((), (0, 3)), ((), (3, 0)), ((2,), (0, 3)), ((2,), (3, 0)), ((0,), (2, 3)))


def chooses_smallest(name: str) -> bool:
    """Of nothing there is none."""
    return "_norm -" in name or name.startswith("cond")


@pytest.mark.parametrize("name", CASES)
def test_nothing_has_derivatives(name: str) -> None:
    case = CASES[name]
    square = all(m == n for m, n in case.shapes)
    for batch, shape in (*EMPTY, *(() if square else EMPTY_ANY)):
        if chooses_smallest(name) and 0 in shape:
            continue
        args = tensors(case.arguments(batch, *shape))
        for order in orders(case)[1:]:
            for gradient, x in zip(order(*args), args, strict=True):
                assert gradient.shape == x.shape and np.isfinite(values(gradient)).all()


@pytest.mark.parametrize("name", ["matrix_norm -2", "matrix_norm -1"])
def test_the_smallest_of_nothing_is_refused(name: str) -> None:
    for x in (leaf(np.zeros((0, 0))), leaf(np.zeros((2, 0, 0)))):
        with pytest.raises(ad.ArgumentError, match=f"{CASES[name].function}: nothing"):
            CASES[name].call(x)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("cond ")])
def test_the_condition_of_nothing_is_refused(name: str) -> None:
    for shape in ((0, 0), (2, 0, 0)):
        with pytest.raises(ad.ArgumentError, match="cond: nothing"):
            CASES[name].call(leaf(np.zeros(shape)))


def test_an_empty_determinant_is_one_and_an_empty_sum_is_zero() -> None:
    for x in (leaf(np.zeros((0, 0))), leaf(np.zeros((2, 0, 0)))):
        close(L.det(x), np.ones(x.shape[:-2]))
        close(L.slogdet(x).logabsdet, np.zeros(x.shape[:-2]))
        close(L.trace(x), np.zeros(x.shape[:-2]))
        close(L.matrix_norm(x, ord="nuc"), np.zeros(x.shape[:-2]))
    close(L.solve(leaf(np.zeros((0, 0))), leaf(np.zeros((0, 2)))), np.zeros((0, 2)))
    close(L.pinv(leaf(np.zeros((0, 3)))), np.zeros((3, 0)))
    close(L.lstsq(leaf(np.zeros((0, 3))), leaf(np.zeros(0))).solution, np.zeros(3))


# Without a compiler.


MANY_OR_LARGE = (((300,), 8), ((2,), 49), ((), 110))
OF_MANY_OR_LARGE = (
    *("inv", "slogdet", "cholesky", "cholesky upper", "solve", "solve for a vector"),
    *("cholesky_solve", "cholesky_solve upper", "cholesky_solve for a vector"),
    *("solve_triangular lower left", "solve_triangular upper left unit"),
    *("solve_triangular upper right", "solve_triangular lower right unit"),
)


class Run(NamedTuple):
    """A case, and what to give it."""

    name: str
    case: Case
    args: list[np.ndarray]


def runs() -> list[Run]:
    out = [
        Run(name, case, case.arguments((3,), *typical_shape(case))) for name, case in CASES.items()
    ]
    for name, (batch, n) in itertools.product(OF_MANY_OR_LARGE, MANY_OR_LARGE):
        case = CASES[name]
        if len(case.draws) == 2 and case.draws[1] is not column:  # as many right sides as rows
            case = case._replace(draws=(case.draws[0], general))
        out.append(Run(f"{name} {batch} {n}", case, case.arguments(batch, n, n)))
    return out


def results() -> dict[str, np.ndarray]:
    """Values and derivatives of all cases, of many and of large matrices too."""
    out = {}
    for run, dtype in itertools.product(runs(), ("f4", "f8")):
        args = tensors([x.astype(dtype) for x in run.args])
        for k, order in enumerate(orders(run.case)):
            for m, part in enumerate(as_tuple(order(*args))):
                out[f"{run.name}, {dtype}, order {k}, part {m}"] = values(part)
    return out


@pytest.fixture(scope="module")
def without_kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """The results in a process that has no compiler."""
    file = tmp_path_factory.mktemp("linalg") / "results.npz"
    return processes.without_kernels(__name__, file, OPENBLAS_NUM_THREADS="1")


def test_the_compiler_changes_nothing_but_rounding_errors(without_kernels: dict) -> None:
    found = results()
    assert found.keys() == without_kernels.keys()
    for name, out in found.items():
        expected = without_kernels[name]
        assert (out.shape, out.dtype) == (expected.shape, expected.dtype)
        limit = 300 * np.finfo(out.dtype).eps * max(1, np.abs(expected).max(initial=0))
        np.testing.assert_allclose(out, expected, rtol=0, atol=limit, err_msg=name)
