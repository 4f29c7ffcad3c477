"""ad.linalg refuses what it can't do, and says what was asked, what was wrong, and what to do.

An error names the function that was called, not one that it is made of, and the shapes that it was
given. What isn't finite comes out as an error, or as NaN: never as a number that looks right.
"""

import itertools
import math
import re
import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.backends.cpu import factorizations
from tests.support import misuse
from tests.support.helpers import leaf, values
from tests.support.misuse import Misuse
from tests.support.processes import python

L = ad.linalg
INF, NAN = math.inf, math.nan
Array = np.ndarray


def ones(*shape: int, dtype: Any = ad.float64) -> ad.Tensor:
    return ad.ones(shape, dtype=dtype)


def right_side(x: ad.Tensor) -> ad.Tensor:
    return ad.ones(x.shape[-2:-1], dtype=x.dtype)


def explained(error: type[Exception], call: Callable[[], Any], *mentions: str) -> str:
    """The message of an error of adjoint's that begins with what was called, the first mention."""
    message = misuse.explained(error, call, *mentions[1:])
    assert re.match(rf"{mentions[0]}\b", message), message
    return message


# Functions of matrices, by the name that an error begins with.

SQUARE: dict[str, Callable[[Any], Any]] = {
    "inv": L.inv,
    "det": L.det,
    "slogdet": L.slogdet,
    "cholesky": L.cholesky,
    "eigh": L.eigh,
    "eigvalsh": L.eigvalsh,
    "eig": L.eig,
    "eigvals": L.eigvals,
    "expm": L.expm,
    "matrix_power": lambda x: L.matrix_power(x, -1),
    "cond": lambda x: L.cond(x, 1),
    "solve": lambda x: L.solve(x, right_side(x)),
    "solve_triangular": lambda x: L.solve_triangular(x, right_side(x), upper=True),
    "cholesky_solve": lambda x: L.cholesky_solve(right_side(x), x),
}
FACTORED: dict[str, Callable[[Any], Any]] = {
    **SQUARE,
    "qr": L.qr,
    "svd": L.svd,
    "svdvals": L.svdvals,
    "pinv": L.pinv,
    "matrix_rank": L.matrix_rank,
    "lstsq": lambda x: L.lstsq(x, right_side(x)),
}
ANY_DTYPE: dict[str, Callable[[Any], Any]] = {
    "matrix_norm": L.matrix_norm,
    "trace": L.trace,
    "diagonal": L.diagonal,
    "matrix_transpose": L.matrix_transpose,
}


def by_name(table: dict[str, Callable]) -> Any:
    return pytest.mark.parametrize(("name", "function"), table.items(), ids=table)


@by_name({**FACTORED, **ANY_DTYPE})
@pytest.mark.parametrize("shape", [(), (3,)], ids=str)
def test_fewer_than_two_axes(name: str, function: Callable, shape: tuple) -> None:
    explained(ad.ShapeError, lambda: function(ones(*shape)), name, "at least 2 axes", str(shape))


@by_name(SQUARE)
@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (4, 3, 2)], ids=str)
def test_matrices_that_are_not_square(name: str, function: Callable, shape: tuple) -> None:
    explained(ad.ShapeError, lambda: function(ones(*shape)), name, "square", str(shape))


@by_name(FACTORED)
@pytest.mark.parametrize("dtype", [ad.int64, ad.bool, ad.float16], ids=lambda d: d.name)
def test_dtypes_without_a_factorisation(name: str, function: Callable, dtype: Any) -> None:
    x = ad.astype(ad.eye(2), dtype)
    explained(ad.DTypeError, lambda: function(x), name, "float64", f"got {dtype.name}", "ad.astype")


@by_name({**ANY_DTYPE, "matrix_power": lambda x: L.matrix_power(x, 3)})
def test_what_needs_no_factorisation_takes_every_number(name: str, function: Callable) -> None:
    for dtype in (ad.int64, ad.float16):
        x = ad.astype(ad.eye(2), dtype)
        found, expected = values(function(x)), values(function(ad.eye(2)))
        np.testing.assert_allclose(found, expected, rtol=1e-3, err_msg=name)


@by_name(
    {name: FACTORED[name] for name in FACTORED if not name.startswith(("solve", "chol", "lst"))}
)
def test_what_is_not_a_tensor(name: str, function: Callable) -> None:
    explained(ad.DTypeError, lambda: function([[1.0]]), name, "list", "ad.asarray")


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: L.solve(x, y),
        lambda x, y: L.solve_triangular(x, y, upper=True),
        lambda x, y: L.cholesky_solve(y, x),
        lambda x, y: L.lstsq(x, y),
    ],
    ids=["solve", "solve_triangular", "cholesky_solve", "lstsq"],
)
def test_operands_that_are_not_tensors(call: Callable, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.id
    explained(ad.DTypeError, lambda: call([[1.0]], ones(1)), name, "list", "ad.asarray")
    explained(ad.DTypeError, lambda: call(ones(1, 1), [1.0]), name, "list", "ad.asarray")


# Complex numbers have no gradients.


def test_complex_tensors_don_t_require_grad() -> None:
    with pytest.raises(ad.DTypeError, match=r"only float tensors can require grad.*complex128"):
        ad.tensor(np.eye(2, dtype=complex), requires_grad=True)


COMPLEX = np.array([[2.0, 1j], [-1j, 3.0]])
MIXED: dict[str, Callable[[ad.Tensor], Any]] = {
    "solve": lambda y: L.solve(ad.asarray(COMPLEX), y),
    "solve_triangular": lambda y: L.solve_triangular(ad.asarray(COMPLEX), y, upper=True),
    "cholesky_solve": lambda y: L.cholesky_solve(y, ad.asarray(COMPLEX)),
    "lstsq": lambda y: L.lstsq(ad.asarray(COMPLEX), y),
}


@by_name(MIXED)
def test_complex_matrices_with_a_right_side_that_requires_grad(
    name: str, function: Callable
) -> None:
    y = leaf([1.0, 2.0])
    explained(ad.DTypeError, lambda: function(y), name, "gradients", "complex")
    with ad.no_grad():
        function(y)


# Positive definite, or not.


def failing_from(order: int, n: int, dtype: Any = np.float64) -> Array:
    """A symmetric matrix whose first leading minor that isn't positive definite has an order."""
    lower = np.tril(np.random.default_rng(order).standard_normal((n, n)) / n) + np.eye(n)
    diagonal = np.ones(n)
    diagonal[order - 1 :] = -1
    return (lower * diagonal @ lower.T).astype(dtype)


WAYS: dict[str, Callable[[Array], Any]] = {
    "ad.linalg": lambda x: L.cholesky(ad.asarray(x)),
    "upper": lambda x: L.cholesky(ad.asarray(x), upper=True),
    "with a gradient": lambda x: L.cholesky(ad.tensor(x, requires_grad=x.dtype.kind == "f")),
    "NumPy": factorizations.cholesky,
}
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@ways
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_the_order_of_the_minor_that_is_not_positive_definite(way: Callable, dtype: str) -> None:
    for n, order in ((1, 1), (4, 1), (4, 2), (4, 3), (4, 4), (20, 11), (90, 67)):
        x = failing_from(order, n, dtype)
        message = explained(
            ad.ArgumentError,
            lambda x=x: way(x),
            "cholesky",
            "the matrix",
            str(x.shape),
            "isn't positive definite",
            "multiple of the identity",
        )
        assert re.search(rf"minor of order {order}\b", message), message


@ways
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_which_matrix_of_a_batch_is_not_positive_definite(way: Callable, dtype: str) -> None:
    for n, order in ((3, 2), (40, 33)):
        x = np.broadcast_to(np.eye(n, dtype=dtype), (2, 3, n, n)).copy()
        x[1, 0], x[1, 2] = failing_from(order, n, dtype), failing_from(1, n, dtype)
        message = explained(
            ad.ArgumentError, lambda x=x: way(x), "cholesky", "matrix (1, 0)", str(x.shape)
        )
        assert re.search(rf"minor of order {order}\b", message), message


@ways
def test_a_semidefinite_matrix_is_not_definite(way: Callable) -> None:
    for x, order in ((np.zeros((2, 2)), 1), (np.diag([1.0, 1.0, 0.0]), 3), (np.ones((2, 2)), 2)):
        message = explained(ad.ArgumentError, lambda x=x: way(x), "cholesky")
        assert f"order {order} " in message


@ways
@pytest.mark.parametrize("value", [NAN, INF])
def test_cholesky_says_when_numbers_are_missing(way: Callable, value: float) -> None:
    """More of the identity wouldn't help."""
    x = np.diag([1.0, 2.0, 3.0])
    x[1, 1] = value
    try:
        found = np.asarray(ad.asarray(way(x)).detach())
    except ad.ArgumentError as error:
        assert "NaN" in str(error) and "multiple of the identity" not in str(error), str(error)
    else:
        assert not np.isfinite(found).all()


# Singular matrices.

RANK_2 = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 1.0, 1.0]])
ADVICE = ("singular", "ad.linalg.pinv", "ad.linalg.lstsq")
INVERTED: dict[str, Callable[[ad.Tensor], Any]] = {
    "inv": L.inv,
    "solve": lambda x: L.solve(x, right_side(x)),
    "matrix_power": lambda x: L.matrix_power(x, -2),
}


@by_name(INVERTED)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_singular_matrices(name: str, function: Callable, dtype: str) -> None:
    for x in (RANK_2, np.zeros((3, 3)), np.diag([1.0] * 30 + [0.0])):
        point = ad.asarray(x.astype(dtype))
        explained(ad.ArgumentError, lambda x=point: function(x), name, str(x.shape), *ADVICE)


@by_name(INVERTED)
def test_which_matrix_of_a_batch_is_singular(name: str, function: Callable) -> None:
    x = np.broadcast_to(np.eye(3), (2, 3, 3, 3)).copy()
    x[0, 2], x[1, 1] = RANK_2, 0
    message = explained(ad.ArgumentError, lambda: function(ad.asarray(x)), name, "matrix (0, 2)")
    assert "(2, 3, 3, 3)" in message


@by_name(INVERTED)
def test_singular_matrices_that_require_grad(name: str, function: Callable) -> None:
    explained(ad.ArgumentError, lambda: function(leaf(RANK_2)), name, *ADVICE)


def test_the_gradient_of_the_logarithm_of_a_determinant_that_is_zero() -> None:
    x = leaf(RANK_2)
    sign, logarithm = L.slogdet(x)
    assert sign.item() == 0 and logarithm.item() == -INF
    explained(ad.GradientError, logarithm.backward, "slogdet", "gradient", "(3, 3)", "singular")


def test_which_matrix_of_a_batch_has_no_logarithm() -> None:
    y = L.slogdet(leaf(np.stack([np.eye(3), RANK_2]))).logabsdet
    explained(ad.GradientError, y.sum().backward, "slogdet", "matrix (1,)", "(2, 3, 3)")


def test_third_derivatives_of_a_singular_determinant() -> None:
    def second(x: ad.Tensor) -> ad.Tensor:
        return ad.grad(lambda x: ad.grad(L.det)(x).sum())(x)

    x = ad.asarray(np.diag([1.0, 2.0, 3.0, 0.0]))
    second(x)
    explained(
        ad.GradientError,
        lambda: ad.grad(lambda x: second(x).sum())(x),
        "det",
        "third",
        "singular",
    )


def test_gradients_of_a_determinant_that_is_zero_exist() -> None:
    np.testing.assert_allclose(
        values(ad.grad(L.det)(ad.asarray([[1.0, 2.0], [2.0, 4.0]]))), [[4.0, -2.0], [-2.0, 1.0]]
    )


@pytest.mark.parametrize("p", [None, 2, 1, -1, "fro", "nuc", INF, -INF])
@pytest.mark.parametrize("x", [np.diag([2.0, 1.0, 0.0]), np.zeros((3, 3))], ids=["rank 2", "zero"])
def test_the_condition_of_a_singular_matrix_is_infinite(x: Array, p: Any) -> None:
    assert L.cond(ad.asarray(x), p).item() == INF
    both = L.cond(ad.asarray(np.stack([2 * np.eye(3), x])), p)
    assert math.isfinite(both[0].item()) and both[1].item() == INF


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_triangles_with_a_zero_on_the_diagonal(upper: bool, left: bool) -> None:
    options = {"upper": upper, "left": left}
    for n, place in ((1, 0), (3, 2), (50, 31)):
        x = np.ones((n, n))
        x[place, place] = 0
        b = ones(n)
        message = explained(
            ad.ArgumentError,
            lambda x=x, b=b: L.solve_triangular(ad.asarray(x), b, **options),
            "solve_triangular",
            str(x.shape),
            "singular",
            "diagonal",
        )
        assert re.search(rf"\b{place}\b", message), message


def test_which_triangle_of_a_batch_has_a_zero_on_the_diagonal() -> None:
    x = np.ones((2, 2, 3, 3))
    x[1, 0, 1, 1] = x[1, 1, 0, 0] = 0
    explained(
        ad.ArgumentError,
        lambda: L.solve_triangular(ad.asarray(x), ones(3), upper=True),
        "solve_triangular",
        "matrix (1, 0)",
        "(2, 2, 3, 3)",
        "element 1 of its diagonal",
    )


def test_ones_that_are_taken_to_be_on_the_diagonal_are_not_read() -> None:
    x = ad.asarray([[0.0, 2.0], [NAN, 0.0]])
    found = L.solve_triangular(x, ad.asarray([1.0, 1.0]), upper=True, unitriangular=True)
    assert found.tolist() == [-1.0, 1.0]


def test_a_cholesky_factor_with_a_zero_on_the_diagonal() -> None:
    factor = ad.asarray(np.diag([1.0, 0.0]))
    for upper in (False, True):
        explained(
            ad.ArgumentError,
            lambda upper=upper: L.cholesky_solve(ones(2), factor, upper=upper),
            "cholesky_solve",
            "(2, 2)",
            "singular",
            "element 1",
        )


def test_least_squares_take_singular_matrices() -> None:
    assert L.lstsq(ad.asarray(RANK_2), ones(3)).rank.item() == 2
    assert L.matrix_rank(ad.asarray(RANK_2)).item() == 2
    assert np.isfinite(values(L.pinv(ad.asarray(RANK_2)))).all()


# Shapes that don't go together.


def triangular(a: ad.Tensor, b: ad.Tensor, **options: Any) -> ad.Tensor:
    return L.solve_triangular(a, b, upper=True, **options)


SHAPES = [
    # Right sides with a wrong number of rows.
    *(
        Misuse(
            ad.ShapeError,
            lambda b=b: L.solve(ones(2, 3, 3), b),
            f"solve | (2, 3, 3) | (..., 3, k) | {b.shape}",
        )
        for b in (ones(4), ones(4, 1), ones(), ones(2, 4, 3), ones(2, 3))
    ),
    Misuse(
        ad.ShapeError,
        lambda: triangular(ones(3, 3), ones(4, 1)),
        "solve_triangular | (3, 3) | (..., 3, k) | (4, 1)",
    ),
    Misuse(
        ad.ShapeError,
        lambda: triangular(ones(3, 3), ones(4)),
        "solve_triangular | (3, 3) | (3,) | (4,)",
    ),
    Misuse(
        ad.ShapeError,
        lambda: triangular(ones(3, 3), ones(4), left=False),
        "solve_triangular | (3, 3) | (3,) | (4,)",
    ),
    Misuse(
        ad.ShapeError,
        lambda: triangular(ones(3, 3), ones(1, 4), left=False),
        "solve_triangular | (3, 3) | (..., k, 3) | (1, 4)",
    ),
    Misuse(
        ad.ShapeError,
        lambda: L.cholesky_solve(ones(4, 1), ones(3, 3)),
        "cholesky_solve | (3, 3) | (..., 3, k) | (4, 1)",
    ),
    Misuse(ad.ShapeError, lambda: L.lstsq(ones(4, 3), ones(3)), "lstsq | (4, 3) | (4,) | (3,)"),
    Misuse(ad.ShapeError, lambda: L.lstsq(ones(4, 3), ones()), "lstsq | (4, 3) | (4,) | ()"),
    # Batch axes that don't broadcast.
    Misuse(
        ad.ShapeError,
        lambda: L.solve(ones(2, 3, 3), ones(4, 3, 1)),
        "solve | batch | (2,) and (4,) | equal or 1",
    ),
    Misuse(
        ad.ShapeError,
        lambda: L.solve(ones(2, 5, 3, 3), ones(2, 4, 3, 1)),
        "solve | batch | (2, 5) and (2, 4)",
    ),
    Misuse(
        ad.ShapeError,
        lambda: triangular(ones(2, 3, 3), ones(4, 3, 1)),
        "solve_triangular | batch | (2,) and (4,)",
    ),
    Misuse(
        ad.ShapeError,
        lambda: triangular(ones(2, 3, 3), ones(4, 1, 3), left=False),
        "solve_triangular | batch | (2,) and (4,)",
    ),
    Misuse(
        ad.ShapeError,
        lambda: L.cholesky_solve(ones(4, 3, 1), ones(2, 3, 3)),
        "cholesky_solve | batch | (2,) and (4,)",
    ),
    Misuse(
        ad.ShapeError,
        lambda: L.lstsq(ones(2, 4, 3), ones(5, 4, 1)),
        "lstsq | batch | (2,) and (5,)",
    ),
    Misuse(
        ad.ShapeError,
        lambda: L.matmul(ones(5, 2, 3), ones(4, 3, 2)),
        "matmul | batch | (5, 2, 3) | (4, 3, 2)",
    ),
    Misuse(ad.ShapeError, lambda: L.pinv(ones(3, 2, 2), rtol=ones(2)), "pinv | rtol | (2,) | (3,)"),
    # Products.
    Misuse(
        ad.ShapeError,
        lambda: L.matmul(ones(2, 3), ones(2, 3)),
        "matmul | (2, 3) and (2, 3) | 3 | 2",
    ),
    Misuse(ad.ShapeError, lambda: L.matmul(ones(), ones(2, 3)), "matmul | () and (2, 3) | x * y"),
    Misuse(ad.ShapeError, lambda: L.cross(ones(2), ones(2)), "cross | length 3 | (2,)"),
    Misuse(ad.ShapeError, lambda: L.cross(ones(4, 3), ones(2, 3)), "cross | (4, 3) and (2, 3)"),
    Misuse(
        ad.ShapeError,
        lambda: L.outer(ones(2, 2), ones(2)),
        "outer | 1-d | (2, 2) and (2,) | ad.tensordot",
    ),
    Misuse(
        ad.ShapeError,
        lambda: L.tensordot(ones(2, 3), ones(2, 3), axes=1),
        "tensordot | (2, 3) | 3 | 2",
    ),
    Misuse(
        ad.ArgumentError, lambda: L.tensordot(ones(2), ones(2), axes=2), "tensordot | axes=2 | (2,)"
    ),
    Misuse(
        ad.ArgumentError,
        lambda: L.tensordot(ones(2), ones(2), axes=((0,), ())),
        "tensordot | ((0,), ())",
    ),
    Misuse(
        ad.ShapeError,
        lambda: L.vecdot(ones(2, 3), ones(2, 4)),
        "vecdot | (2, 3) and (2, 4) | equal",
    ),
    Misuse(ad.AxisError, lambda: L.vecdot(ones(3), ones(3), axis=-2), "vecdot | axis -2 | (3,)"),
]


ARGUMENTS = [
    # Values of arguments.
    *(
        Misuse(
            ad.ArgumentError,
            lambda mode=mode: L.qr(ones(2, 2), mode=mode),
            f"qr | 'reduced' | 'complete' | {mode!r}",
        )
        for mode in ("raw", "r", None)
    ),
    *(
        Misuse(
            ad.ArgumentError,
            lambda ord=ord: L.matrix_norm(ones(2, 2), ord=ord),
            f"matrix_norm | 'fro' | 'nuc' | inf | got {ord!r}",
        )
        for ord in (3, 0, "max", NAN, [1])
    ),
    *(
        Misuse(
            ad.ArgumentError,
            lambda p=p: L.cond(ones(2, 2) + ad.eye(2, dtype=ad.float64), p),
            f"cond | p is | 'fro' | got {p!r}",
        )
        for p in (3, "max", NAN)
    ),
    *(
        Misuse(
            ad.ArgumentError,
            lambda ord=ord: L.vector_norm(ones(2), ord=ord),
            f"vector_norm | a number | {ord!r} | matrix_norm",
        )
        for ord in ("fro", NAN, None)
    ),
    *(
        Misuse(
            ad.DTypeError,
            lambda n=n: L.matrix_power(ones(2, 2), n),
            f"matrix_power | n | integer | {n!r}",
        )
        for n in (0.5, "2", None)
    ),
    Misuse(
        ad.DTypeError,
        lambda: L.diagonal(ones(2, 2), offset=0.5),
        "diagonal | offset | integer | 0.5",
    ),
    Misuse(
        ad.DTypeError, lambda: L.trace(ones(2, 2), offset=0.5), "trace | offset | integer | 0.5"
    ),
    Misuse(
        ad.AxisError, lambda: L.vector_norm(ones(2, 2), axis=2), "vector_norm | axis 2 | 2 axes"
    ),
    # Cut-offs.
    *(
        Misuse(ad.AdjointError, lambda f=f, rtol=rtol: f(rtol), f"{name} | rtol")
        for name, f in {
            "pinv": lambda rtol: L.pinv(ones(2, 2), rtol=rtol),
            "matrix_rank": lambda rtol: L.matrix_rank(ones(2, 2), rtol=rtol),
            "lstsq": lambda rtol: L.lstsq(ones(2, 2), ones(2), rtol=rtol),
        }.items()
        for rtol in ("small", [0.1], NAN, -1.0)
    ),
    # Nothing to choose from.
    Misuse(
        ad.ArgumentError, lambda: L.vector_norm(ones(0), ord=-INF), "vector_norm | nothing | (0,)"
    ),
    Misuse(
        ad.ArgumentError,
        lambda: L.matrix_norm(ones(2, 0), ord=-2),
        "matrix_norm | nothing | (2, 0)",
    ),
    Misuse(
        ad.ArgumentError,
        lambda: L.matrix_norm(ones(2, 0), ord=-1),
        "matrix_norm | nothing | (2, 0)",
    ),
    Misuse(ad.ArgumentError, lambda: L.cond(ones(0, 0)), "cond | (0, 0)"),
    # Keywords.
    Misuse(ad.KeywordError, lambda: L.vector_norm(ones(2), dim=0), "vector_norm | dim= | axis="),
    Misuse(
        ad.KeywordError,
        lambda: L.vector_norm(ones(2), keepdim=True),
        "vector_norm | keepdim= | keepdims=",
    ),
    Misuse(
        ad.KeywordError, lambda: L.matrix_norm(ones(2, 2), keepdim=True), "matrix_norm | keepdims="
    ),
    Misuse(ad.KeywordError, lambda: L.matrix_norm(ones(2, 2), axis=0), "matrix_norm | axis="),
    Misuse(ad.KeywordError, lambda: L.vecdot(ones(2), ones(2), dim=0), "vecdot | dim= | axis="),
    Misuse(ad.KeywordError, lambda: L.cross(ones(3), ones(3), dim=0), "cross | dim= | axis="),
    Misuse(ad.KeywordError, lambda: L.tensordot(ones(3), ones(3), dims=1), "tensordot | dims="),
]


@pytest.mark.parametrize("misuse", SHAPES + ARGUMENTS, ids=lambda m: m.mentions)
def test_misuse_is_explained(misuse: Misuse) -> None:
    explained(misuse.error, misuse.call, *misuse.mentions.split(" | "))


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: L.svd(ones(2, 2), full=True), "full"),
        (lambda: L.cholesky(ones(2, 2), lower=True), "lower"),
        (lambda: L.eigh(ones(2, 2), UPLO="L"), "UPLO"),
        (lambda: L.pinv(ones(2, 2), rcond=0.1), "rcond"),
        (lambda: L.lstsq(ones(2, 2), ones(2), rcond=None), "rcond"),
        (lambda: L.trace(ones(2, 2), axis1=0), "axis1"),
        (lambda: L.qr(ones(2, 2), full=True), "full"),
        (lambda: L.solve(ones(2, 2), ones(2), left=False), "left"),
        (lambda: L.solve_triangular(ones(2, 2), ones(2)), "upper"),
    ],
)
def test_keywords_that_don_t_exist_or_are_missing(call: Callable, word: str) -> None:
    with pytest.raises(TypeError, match=word):
        call()


# Numbers that aren't finite.

BAD: dict[str, Callable[[], Array]] = {
    "a NaN": lambda: spoiled(NAN),
    "an infinity": lambda: spoiled(INF),
    "minus infinity": lambda: spoiled(-INF),
    "all NaN": lambda: np.full((3, 3), NAN),
    "all infinite": lambda: np.full((3, 3), INF),
}


def spoiled(value: float) -> Array:
    """One number in a good matrix, and its mirror image."""
    x = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 5.0]])
    x[0, 1] = x[1, 0] = value
    return x


REACHED = {
    **{name: FACTORED[name] for name in FACTORED if name != "solve_triangular"},
    "solve_triangular, lower": lambda x: L.solve_triangular(x, right_side(x), upper=False),
    "matrix_norm": lambda x: [L.matrix_norm(x, ord=ord) for ord in ("fro", 1, INF)],
    "matrix_norm 2": lambda x: L.matrix_norm(x, ord=2),
    "matrix_norm nuc": lambda x: L.matrix_norm(x, ord="nuc"),
    "cond by singular values": L.cond,
    "vector_norm": L.vector_norm,
    "matrix_power 3": lambda x: L.matrix_power(x, 3),
}


def parts(out: Any) -> list[Array]:
    return [values(x) for x in (out if isinstance(out, (tuple, list)) else (out,))]


# Singular vectors of infinities: LAPACK looks for them without an end. The gradient of a
# determinant needs them too, and so do those of singular values.
ENDLESS = (
    "svd",
    "pinv",
    "lstsq",
    "svdvals",
    "matrix_norm 2",
    "matrix_norm nuc",
    "cond by singular values",
    "det",
)
FINITE_TIME = [
    (name, what) for name in REACHED for what in BAD if name not in ENDLESS or what.endswith("NaN")
]
spoiled_calls = pytest.mark.parametrize(("name", "what"), FINITE_TIME)


def is_finite(x: Array) -> bool:
    return bool(np.isfinite(x).all())


def nearly(x: Array) -> Array:
    """Large numbers for infinities: where these cancel, the result is a limit."""
    return np.where(np.isinf(x), np.sign(x) * 1e30, x).astype(x.dtype)


def check_value(name: str, what: str, dtype: str) -> None:
    """An error that mentions it, or a result that isn't finite either, or the limit."""
    x = BAD[what]().astype(dtype)
    try:
        out = parts(REACHED[name](ad.asarray(x)))
    except ad.ArgumentError as error:
        assert "(3, 3)" in str(error), str(error)
        return
    assert not any(part.dtype.kind in "iu" for part in out), f"a whole number: {out}"
    if all(map(is_finite, out)):
        for found, limit in zip(out, parts(REACHED[name](ad.asarray(nearly(x)))), strict=True):
            np.testing.assert_allclose(found, limit, atol=1e-6)


def gradient(function: Callable, x: Array) -> Array:
    point = leaf(x)
    out = function(point)
    outputs = out if isinstance(out, (tuple, list)) else (out,)
    total: Any = sum(part.sum() for part in outputs if part.requires_grad)
    total.backward()
    return values(point.grad)


def check_gradient(name: str, what: str) -> None:
    x = BAD[what]()
    try:
        found = gradient(REACHED[name], x)
    except (ad.ArgumentError, ad.GradientError):
        return
    if is_finite(found):
        np.testing.assert_allclose(found, gradient(REACHED[name], nearly(x)), atol=1e-6)


@spoiled_calls
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_what_is_not_finite_is_not_taken_for_a_number(name: str, what: str, dtype: str) -> None:
    check_value(name, what, dtype)


@spoiled_calls
def test_its_gradient_is_not_taken_for_one(name: str, what: str) -> None:
    if name not in ("eig", "eigvals", "matrix_rank"):
        check_gradient(name, what)


def run_endless() -> None:
    for name, what in itertools.product(ENDLESS, BAD):
        print(f"{name} of {what}", flush=True)
        check_value(name, what, "f4")
        check_value(name, what, "f8")
        check_gradient(name, what)


def test_looking_for_singular_vectors_of_infinities_ends() -> None:
    """In a process of its own, as one that is in LAPACK can't be stopped otherwise."""
    code = f"from {__name__} import run_endless; run_endless()"
    try:
        done = python("-c", code, timeout=60)
    except subprocess.TimeoutExpired as error:
        lines = (error.stdout or b"").decode().splitlines()
        pytest.fail(f"no end was found of {lines[-1] if lines else 'the start'}")
    assert done.returncode == 0, done.stdout + done.stderr


@by_name({name: REACHED[name] for name in ("inv", "det", "slogdet", "expm", "qr", "solve")})
def test_the_other_matrices_of_a_batch_are_not_spoiled(name: str, function: Callable) -> None:
    good = spoiled(1.0)
    both = parts(function(ad.asarray(np.stack([good, spoiled(NAN)]))))
    for found, alone in zip(both, parts(function(ad.asarray(good))), strict=True):
        np.testing.assert_allclose(found[0], alone, rtol=1e-12, err_msg=name)


SPOILED = {
    **{name: FACTORED[name] for name in ("svd", "svdvals", "pinv", "lstsq", "matrix_rank", "eig")},
    "eigvals": L.eigvals,
    "matrix_norm": lambda x: L.matrix_norm(x, ord="nuc"),
    "cond": L.cond,
}


@by_name(SPOILED)
def test_which_matrix_of_a_batch_is_spoiled(name: str, function: Callable) -> None:
    x = np.stack([spoiled(1.0), spoiled(NAN)])
    explained(
        ad.ArgumentError, lambda: function(ad.asarray(x)), name, "matrix (1,)", "(2, 3, 3)", "NaN"
    )


# Gradients that don't exist.


@pytest.mark.parametrize("function", [L.eig, L.eigvals])
def test_eigenvalues_of_other_than_symmetric_matrices_have_no_gradient(function: Callable) -> None:
    x = leaf([[1.0, 2.0], [0.0, 3.0]])
    explained(
        ad.GradientError,
        lambda: function(x),
        function.__name__,
        "gradient",
        "x.detach()",
        "no_grad",
    )
    with ad.no_grad():
        assert parts(function(x))[0].shape == (2,)
    assert parts(function(x.detach()))[0].shape == (2,)


def test_a_rank_has_no_gradient() -> None:
    assert not L.matrix_rank(leaf(np.eye(2))).requires_grad


def test_empty_matrices_are_no_error() -> None:
    """Nothing is symmetric, positive definite, and has the determinant 1."""
    empty = ones(0, 0)
    assert L.det(empty).item() == 1
    for function, batch in itertools.product((L.inv, L.cholesky, L.expm), ((), (2,))):
        assert function(ones(*batch, 0, 0)).shape == (*batch, 0, 0)
    assert L.solve(empty, ones(0)).shape == (0,)
    assert L.matrix_rank(empty).item() == 0
    assert L.svdvals(ones(0, 3)).shape == (0,)
