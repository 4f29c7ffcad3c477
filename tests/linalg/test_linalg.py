"""ad.linalg: values as NumPy and the array API have them, gradients of norms and powers, errors."""

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from tests.support.helpers import as_tuple, close, derivative, leaf, values
from tests.support.misuse import Misuse, ones

L = ad.linalg
INF = math.inf
DTYPES = ("f4", "f8", "c8", "c16")


def random(shape: tuple[int, ...], dtype: str = "f8", seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


def regular(shape: tuple[int, ...], dtype: str = "f8") -> np.ndarray:
    """Square matrices far from singular."""
    return random(shape, dtype) + 3 * np.eye(shape[-1], dtype=dtype)


def definite(shape: tuple[int, ...], dtype: str = "f8") -> np.ndarray:
    x = random(shape, dtype)
    return x @ x.conj().swapaxes(-1, -2) + np.eye(shape[-1], dtype=dtype)


def same(out: Any, expected: Any) -> None:
    """Equal shapes and dtypes, nearly equal values, in all parts."""
    for one, other in zip(as_tuple(out), as_tuple(expected), strict=True):
        one, other = values(one), np.asarray(other)
        assert one.shape == other.shape and one.dtype == other.dtype
        single = one.dtype in (np.float32, np.complex64)
        tolerance = 2e-5 if single else 1e-11
        np.testing.assert_allclose(one, other, tolerance, tolerance)


# Factorisations: values.


class Function(NamedTuple):
    """A function, the same in NumPy, how to make its input, and shapes to try."""

    call: Callable
    reference: Callable
    make: Callable
    shapes: tuple


ANY = ((3, 3), (2, 3), (3, 2), (2, 2, 3, 2), (0, 3), (3, 0), (2, 0, 0), (0, 2, 3))
SQUARE = ((3, 3), (1, 1), (2, 2, 2, 2), (0, 0), (2, 0, 0), (0, 2, 2))


def reduced(x: Any) -> Any:
    return np.linalg.svd(x, full_matrices=False)


def complex_of(x: np.ndarray) -> np.dtype:
    return np.result_type(x.dtype, np.complex64)


def scipy_expm(x: np.ndarray) -> np.ndarray:
    scipy: Any = pytest.importorskip("scipy.linalg")
    return scipy.expm(x).astype(x.dtype)


FUNCTIONS = {
    "svd": Function(L.svd, np.linalg.svd, random, ANY),
    "svd reduced": Function(lambda x: L.svd(x, full_matrices=False), reduced, random, ANY),
    "svdvals": Function(L.svdvals, np.linalg.svdvals, random, ANY),
    "eigh": Function(L.eigh, np.linalg.eigh, definite, SQUARE),
    "eigvalsh": Function(L.eigvalsh, np.linalg.eigvalsh, definite, SQUARE),
    "eig": Function(
        L.eig,
        lambda x: tuple(part.astype(complex_of(x)) for part in np.linalg.eig(x)),
        regular,
        SQUARE,
    ),
    "eigvals": Function(
        L.eigvals, lambda x: np.linalg.eigvals(x).astype(complex_of(x)), regular, SQUARE
    ),
    "qr": Function(L.qr, np.linalg.qr, random, ANY),
    "qr complete": Function(
        lambda x: L.qr(x, mode="complete"), lambda x: np.linalg.qr(x, "complete"), random, ANY
    ),
    "cholesky": Function(L.cholesky, np.linalg.cholesky, definite, SQUARE),
    "cholesky upper": Function(
        lambda x: L.cholesky(x, upper=True),
        lambda x: np.linalg.cholesky(x, upper=True),
        definite,
        SQUARE,
    ),
    "inv": Function(L.inv, np.linalg.inv, regular, SQUARE),
    "det": Function(L.det, np.linalg.det, regular, SQUARE),
    "slogdet": Function(L.slogdet, np.linalg.slogdet, regular, SQUARE),
    "pinv": Function(
        L.pinv, lambda x: np.linalg.pinv(x, rtol=max(x.shape[-2:]) * 1e-7), random, ANY
    ),
    "matrix_rank": Function(
        L.matrix_rank, lambda x: np.linalg.matrix_rank(x).astype(np.int64), random, ANY
    ),
    "2-norm": Function(
        lambda x: L.matrix_norm(x, ord=2), lambda x: np.linalg.norm(x, 2, (-2, -1)), random, ANY[:4]
    ),
    "-2-norm": Function(
        lambda x: L.matrix_norm(x, ord=-2),
        lambda x: np.linalg.norm(x, -2, (-2, -1)),
        random,
        ANY[:4],
    ),
    "nuclear norm": Function(
        lambda x: L.matrix_norm(x, ord="nuc"),
        lambda x: np.linalg.norm(x, "nuc", (-2, -1)),
        random,
        ANY[:4],
    ),
    "condition": Function(L.cond, np.linalg.cond, random, ANY[:4]),
    "condition by rows": Function(
        lambda x: L.cond(x, p=INF), lambda x: np.linalg.cond(x, INF), regular, SQUARE[:3]
    ),
    "exponential": Function(L.expm, scipy_expm, random, (*SQUARE[:3], (0, 2, 2))),
    "negative power": Function(
        lambda x: L.matrix_power(x, -3),
        lambda x: np.linalg.matrix_power(x, -3),
        regular,
        SQUARE[:3],
    ),
}
functions = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)


@functions
@pytest.mark.parametrize("dtype", DTYPES)
def test_value_is_numpy_s(function: Function, dtype: str) -> None:
    for shape in function.shapes:
        x = function.make(shape, dtype)
        same(function.call(ad.asarray(x)), function.reference(x))


@functions
def test_it_replays_from_a_trace(function: Function) -> None:
    for dtype in ("f8", "c8"):
        x = ad.asarray(function.make(function.shapes[0], dtype))
        for traced, out in zip(
            as_tuple(ad.trace(function.call, x)(x)), as_tuple(function.call(x)), strict=True
        ):
            assert traced.dtype is out.dtype
            np.testing.assert_array_equal(traced.numpy(), out.numpy())


@functions
def test_value_doesn_t_depend_on_whether_gradients_are_wanted(function: Function) -> None:
    if function.call in (L.eig, L.eigvals):
        return
    for shape in function.shapes:
        x = function.make(shape)
        same(function.call(leaf(x)), function.reference(x))


@pytest.mark.parametrize("function", [L.eig, L.eigvals])
def test_eigenvalues_of_other_matrices_refuse_tensors_that_require_grad(function: Callable) -> None:
    x = leaf(regular((3, 3)))
    with pytest.raises(ad.GradientError, match=r"has no gradient yet; use x.detach\(\)"):
        function(x)
    with ad.no_grad():
        expected = function(x)
    same(function(x.detach()), tuple(map(values, as_tuple(expected))))


@pytest.mark.parametrize("dtype", ["i8", "?", "f2"])
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if "norm" not in name])
def test_dtypes_that_have_no_factorisation_are_refused(name: str, dtype: str) -> None:
    x = ad.ones((2, 2), dtype=np.dtype(dtype))
    with pytest.raises(ad.DTypeError, match=f"float64.*got {x.dtype.name}"):
        FUNCTIONS[name].call(x)


def test_results_have_the_standard_s_names() -> None:
    x = ad.asarray(definite((2, 2)))
    assert L.svd(x)._fields == ("U", "S", "Vh")
    assert L.eigh(x)._fields == L.eig(x)._fields == ("eigenvalues", "eigenvectors")
    assert L.qr(x)._fields == ("Q", "R")
    assert L.slogdet(x)._fields == ("sign", "logabsdet")


@pytest.mark.parametrize("function", [L.cholesky, L.eigvalsh, L.eigh])
def test_the_hermitian_part_is_read(function: Callable) -> None:
    x = definite((3, 3), "c16")
    skew = random((3, 3), "c16")
    skew = skew - skew.conj().T
    same(function(ad.asarray(x + skew)), tuple(map(values, as_tuple(function(ad.asarray(x))))))


def test_eigenvectors_of_a_rotation_are_complex() -> None:
    x = np.array([[0.0, 1.0], [-1.0, 0.0]])
    found, vectors = L.eig(ad.asarray(x))
    close(ad.asarray(x) @ vectors, values(vectors * found))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("x_shape", "y_shape"),
    [
        ((3, 3), (3,)),
        ((3, 3), (3, 2)),
        ((2, 3, 3), (3,)),
        ((2, 3, 3), (2, 3, 1)),
        ((3, 3), (2, 3, 2)),
        ((2, 1, 3, 3), (4, 3, 2)),
        ((0, 0), (0,)),
        ((0, 0), (0, 2)),
        ((0, 2, 2), (2, 1)),
    ],
)
def test_solve_is_numpy_s(x_shape: tuple, y_shape: tuple, dtype: str) -> None:
    x, y = regular(x_shape, dtype), random(y_shape, dtype, 1)
    same(L.solve(ad.asarray(x), ad.asarray(y)), np.linalg.solve(x, y))


def test_a_right_side_with_two_axes_is_a_matrix() -> None:
    """(2, 3) isn't a batch of two vectors: only exactly one axis is a vector."""
    with pytest.raises(ad.ShapeError):
        L.solve(ad.asarray(regular((2, 3, 3))), ad.ones((2, 3), dtype=ad.float64))


def test_solve_promotes_its_operands() -> None:
    x = ad.asarray(regular((2, 2)))
    assert L.solve(x, ad.asarray([1, 2])).dtype is ad.float64
    assert L.solve(x, ad.ones((2,), dtype=ad.complex64)).dtype is ad.complex128


@pytest.mark.parametrize("rtol", [0.0, 0.3, 0.6, np.array([0.3, 0.6])], ids=str)
def test_small_singular_values_count_as_zero(rtol: Any) -> None:
    x = np.stack([np.diag([1.0, 0.5, 0.1])] * 2)
    given = rtol if isinstance(rtol, float) else ad.asarray(rtol)
    rank = (np.array([1.0, 0.5, 0.1]) > np.broadcast_to(rtol, 2)[:, None]).sum(-1)
    assert L.matrix_rank(ad.asarray(x), rtol=given).tolist() == rank.tolist()
    same(L.pinv(ad.asarray(x), rtol=given), np.linalg.pinv(x, rtol=rtol))


def test_a_rank_deficient_matrix_has_its_rank_and_a_pseudo_inverse() -> None:
    x = random((4, 2)) @ random((2, 3), seed=1)
    assert L.matrix_rank(ad.asarray(x)).item() == 2
    found = values(L.pinv(ad.asarray(x)))
    np.testing.assert_allclose(x @ found @ x, x, atol=1e-12)
    np.testing.assert_allclose(found @ x @ found, found, atol=1e-12)


# Diagonals, traces, powers: with gradients.

DIFFERENTIABLE = {
    "diagonal": (L.diagonal, lambda x: np.diagonal(x, 0, -2, -1), (2, 2, 3)),
    "diagonal above": (
        lambda x: L.diagonal(x, offset=1),
        lambda x: np.diagonal(x, 1, -2, -1),
        (3, 3),
    ),
    "diagonal below": (
        lambda x: L.diagonal(x, offset=-1),
        lambda x: np.diagonal(x, -1, -2, -1),
        (2, 3, 2),
    ),
    "trace": (L.trace, lambda x: np.trace(x, 0, -2, -1), (2, 2, 3)),
    "trace above": (lambda x: L.trace(x, offset=1), lambda x: np.trace(x, 1, -2, -1), (3, 3)),
    "trace beside": (lambda x: L.trace(x, offset=5), lambda x: np.trace(x, 5, -2, -1), (3, 3)),
    "power 0": (lambda x: L.matrix_power(x, 0), lambda x: np.linalg.matrix_power(x, 0), (2, 2, 2)),
    "power 1": (lambda x: L.matrix_power(x, 1), lambda x: x, (2, 2)),
    "power 2": (lambda x: L.matrix_power(x, 2), lambda x: x @ x, (2, 2, 2)),
    "power 5": (lambda x: L.matrix_power(x, 5), lambda x: x @ x @ x @ x @ x, (2, 2)),
    "power 6": (lambda x: L.matrix_power(x, 6), lambda x: np.linalg.matrix_power(x, 6), (2, 2)),
    "matrix_transpose": (L.matrix_transpose, lambda x: x.swapaxes(-1, -2), (2, 2, 3)),
}
differentiable = pytest.mark.parametrize("case", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)


@differentiable
def test_value_of_differentiable_functions(case: tuple) -> None:
    call, reference, shape = case
    for dtype in DTYPES:
        x = random(shape, dtype)
        same(call(ad.asarray(x)), reference(x))


@differentiable
def test_gradients_of_two_orders(case: tuple) -> None:
    call, _, shape = case
    ad.testing.check_grads(call, [random(shape)], order=2)


def test_trace_of_integers_is_summed_in_64_bits() -> None:
    x = np.full((2, 2), 100, np.int8)
    assert L.trace(ad.asarray(x)).item() == 200
    assert L.trace(ad.asarray(x), dtype=ad.float32).dtype is ad.float32


def test_a_power_is_a_tensor_of_its_own() -> None:
    x = ad.tensor([[1.0, 2.0], [3.0, 4.0]])
    y = L.matrix_power(x, 1)
    y[0, 0] = 9.0
    assert x[0, 0].item() == 1.0


# Norms.

ORDS = (2, 1, 0, INF, -INF, 3, 4, 2.5, 1.5, 0.5, -1, -2, -0.5)
ords = pytest.mark.parametrize("ord", ORDS)


@ords
@pytest.mark.parametrize("dtype", DTYPES)
def test_vector_norm_is_numpy_s(ord: float, dtype: str) -> None:
    x = random((2, 3, 4), dtype)
    real = np.abs(x).dtype
    axes: tuple[Any, ...] = (0, -1, (0, 2), None)
    for axis in axes:
        for keepdims in (False, True):
            out = L.vector_norm(ad.asarray(x), axis=axis, keepdims=keepdims, ord=ord)
            expected = np.linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)
            same(out, np.asarray(expected, real))


@ords
def test_vector_norm_has_gradients_of_two_orders(ord: float) -> None:
    x = random((2, 3))
    ad.testing.check_grads(lambda x: L.vector_norm(x, axis=1, ord=ord), [x], order=2)


@pytest.mark.parametrize("ord", [ord for ord in ORDS if ord != 0])  # torch has none for 0
def test_vector_norm_agrees_with_torch(ord: float) -> None:
    torch: Any = pytest.importorskip("torch")
    array = random((2, 3))
    x, y = leaf(array), torch.tensor(array, requires_grad=True)
    out = L.vector_norm(x, ord=ord, axis=1)
    expected = torch.linalg.vector_norm(y, ord=ord, dim=1)
    close(out, expected.detach().numpy(), 1e-10)
    (g,) = ad.autograd.grad(out.sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(expected.sum(), y, create_graph=True)
    close(g, h.detach().numpy(), 1e-10)
    if ord not in (1, INF, -INF):  # piecewise linear
        (h,) = torch.autograd.grad((h * h).sum(), y)
        close(derivative((g * g).sum(), x), h.numpy(), 1e-10)


@ords
@pytest.mark.parametrize("x", [[0.0, 0.0], [0.0, 2.0]], ids=str)
def test_the_gradient_at_zero_is_zero(x: list, ord: float) -> None:
    """Of every element that is 0, where the norm has a kink; in the next order, finite."""
    point = leaf(x)
    (g,) = ad.autograd.grad(L.vector_norm(point, ord=ord), point, create_graph=True)
    assert np.isfinite(values(g)).all()
    assert all(values(g)[k] == 0 for k in range(2) if x[k] == 0)
    if g.requires_grad:
        assert np.isfinite(values(derivative(g.sum(), point, allow_unused=True))).all()


@pytest.mark.parametrize(("ord", "order", "expected"), [(4, 4, 24.0), (2, 2, 2.0), (3, 2, 0.0)])
def test_powers_have_their_derivatives_at_zero(ord: int, order: int, expected: float) -> None:
    """sum |x| ** ord is smooth for an even ord: the norm, to that power, has all derivatives."""
    x = leaf([0.0, 1.0])
    y = L.vector_norm(x, ord=ord) ** ord
    for _ in range(order):
        (g,) = ad.autograd.grad(y, x, create_graph=True)
        y = g[0]
    np.testing.assert_allclose(values(y), expected, atol=1e-12)


@pytest.mark.parametrize("ord", [2, 1, 0, 3, 0.5])
def test_the_norm_of_nothing_is_zero(ord: float) -> None:
    assert L.vector_norm(ad.zeros((0,)), ord=ord).item() == 0
    assert L.vector_norm(ad.zeros((2, 0)), ord=ord, axis=1).tolist() == [0, 0]


def test_half_precision_norms_don_t_overflow_on_the_way() -> None:
    x = ad.asarray(np.array([300.0, 400.0], np.float16))
    assert L.vector_norm(x).item() == 500.0
    assert L.vector_norm(x).dtype is ad.float16


def test_norms_of_integers_are_floats() -> None:
    assert L.vector_norm(ad.asarray([3, 4])).dtype is ad.float32
    assert L.matrix_norm(ad.asarray([[3, 4]]), ord=2).item() == pytest.approx(5.0)


MATRIX_ORDS = ("fro", 1, -1, INF, -INF)


@pytest.mark.parametrize("ord", MATRIX_ORDS)
def test_matrix_norm_is_numpy_s_and_has_gradients(ord: Any) -> None:
    for dtype in DTYPES:
        x = random((2, 3, 2), dtype)
        for keepdims in (False, True):
            out = L.matrix_norm(ad.asarray(x), ord=ord, keepdims=keepdims)
            expected = np.linalg.matrix_norm(x, ord=ord, keepdims=keepdims)
            same(out, expected.astype(np.abs(x).dtype))
    ad.testing.check_grads(lambda x: L.matrix_norm(x, ord=ord), [random((2, 3, 2))], order=2)


@pytest.mark.parametrize("ord", MATRIX_ORDS)
def test_matrix_norm_agrees_with_torch(ord: Any) -> None:
    torch: Any = pytest.importorskip("torch")
    array = random((3, 2))
    x, y = leaf(array), torch.tensor(array, requires_grad=True)
    L.matrix_norm(x, ord=ord).backward()
    torch.linalg.matrix_norm(y, ord=ord).backward()
    close(x.grad, y.grad.numpy(), 1e-12)


# The standard.


@pytest.mark.parametrize(
    "name",
    """cholesky cross det diagonal eig eigh eigvals eigvalsh inv matmul matrix_norm matrix_power
    matrix_rank matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot
    vector_norm""".split(),
)
def test_signature_is_the_standard_s(name: str) -> None:
    strict: Any = pytest.importorskip("array_api_strict")
    theirs = inspect.signature(getattr(strict.linalg, name)).parameters.values()
    ours = inspect.signature(getattr(L, name)).parameters.values()
    ours = [p for p in ours if p.kind is not p.VAR_KEYWORD]
    assert [(p.kind, p.default) for p in ours] == [(p.kind, p.default) for p in theirs]
    keywords = [p.name for p in ours if p.kind is p.KEYWORD_ONLY]
    assert keywords == [p.name for p in theirs if p.kind is p.KEYWORD_ONLY]


# Errors.


SINGULAR = ad.asarray(np.stack([np.eye(2), np.ones((2, 2))]))
NAN = ad.asarray(np.full((2, 2), np.nan))
MISUSES = [
    Misuse(
        ad.ShapeError,
        lambda: L.matrix_power(ones(2, 3), 2),
        "matrix_power | square | (2, 3)",
    ),
    Misuse(ad.ArgumentError, lambda: L.inv(ones(2, 2)), "inv | (2, 2) | singular | pinv"),
    Misuse(ad.ArgumentError, lambda: L.inv(SINGULAR), "inv | matrix (1,) | (2, 2, 2) | singular"),
    Misuse(ad.ArgumentError, lambda: L.matrix_power(SINGULAR, -1), "matrix (1,) | singular"),
    Misuse(ad.ArgumentError, lambda: L.solve(ones(2, 2), ones(2)), "solve | (2, 2) | singular"),
    Misuse(
        ad.ArgumentError,
        lambda: L.cholesky(ad.asarray([[1.0, 2.0], [2.0, 1.0]])),
        "cholesky | the matrix of shape (2, 2) | isn't positive definite",
    ),
    Misuse(
        ad.ArgumentError, lambda: L.cholesky(SINGULAR - 1), "cholesky | matrix (0,) | (2, 2, 2)"
    ),
    Misuse(ad.ArgumentError, lambda: L.svd(NAN), "svd | (2, 2) | NaN"),
    Misuse(ad.ArgumentError, lambda: L.eig(NAN), "eig | (2, 2) | NaN"),
    Misuse(ad.ShapeError, lambda: L.solve(ones(2, 2), ones(3)), "solve | (2, 2) | (3,)"),
    Misuse(ad.ShapeError, lambda: L.solve(ones(2, 2), ones(3, 1)), "(..., 2, k) | (3, 1)"),
    Misuse(ad.ShapeError, lambda: L.solve(ones(2, 2), ones()), "solve | (2, 2) | ()"),
    Misuse(
        ad.ShapeError,
        lambda: L.solve(ones(2, 2, 2), ones(3, 2, 1)),
        "batch | (2,) and (3,)",
    ),
]


@pytest.mark.parametrize("misuse", MISUSES, ids=lambda m: m.mentions)
def test_misuse_is_explained(misuse: Misuse) -> None:
    misuse.check()
