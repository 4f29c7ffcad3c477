"""eigh and svd where values are equal, or 0: right gradients, or an error, never a wrong number.

What is right is computed here with NumPy: the derivative of a function of a symmetric matrix by the
formula of Daleckii and Krein, that of U h(S) Vᵀ by the same for the parts that are symmetric and
skew. Matrices are made of known values and vectors, so that equal values are known to be equal.
"""

import gc
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint._core.node import needing_graph
from tests.support.helpers import derivative, leaf, values

L = ad.linalg
Array = np.ndarray


# What is right.


class Scalar(NamedTuple):
    """A function of numbers, in adjoint and in NumPy, and its derivative."""

    ours: Callable[[ad.Tensor], ad.Tensor]
    theirs: Callable[[Array], Array]
    derivative: Callable[[Array], Array]


def quotients(h: Scalar, x: Array, y: Array) -> Array:
    """(h(x) - h(y)) / (x - y), where these are close its limit."""
    gap = x - y
    close = np.abs(gap) <= 1e-6 * np.maximum(np.abs(x), np.abs(y))
    slope = h.derivative((x + y) / 2)
    return np.where(close, slope, (h.theirs(x) - h.theirs(y)) / np.where(close, 1, gap))


def symmetric_part(x: Array) -> Array:
    return (x + x.swapaxes(-1, -2)) / 2


def matrix_function_derivative(w: Array, v: Array, h: Scalar, direction: Array) -> Array:
    """That of V h(w) Vᵀ in a direction. It is its own transpose, so a gradient too."""
    inner = v.T @ symmetric_part(direction) @ v
    return v @ (quotients(h, w[:, None], w[None, :]) * inner) @ v.T


def singular_function_derivative(
    u: Array, s: Array, v: Array, h: Scalar, direction: Array
) -> Array:
    """That of U h(S) Vᵀ, for an odd h, in a direction; u and v are square. Also a gradient."""
    rank = len(s)
    inner = u.T @ direction @ v
    square = inner[:rank, :rank]
    out = np.zeros_like(inner)
    out[:rank, :rank] = quotients(h, s[:, None], s[None, :]) * symmetric_part(square)
    out[:rank, :rank] += quotients(h, s[:, None], -s[None, :]) * (square - square.T) / 2
    out[rank:, :rank] = inner[rank:, :rank] * quotients(h, s, 0 * s)
    out[:rank, rank:] = inner[:rank, rank:] * quotients(h, s, 0 * s)[:, None]
    return u @ out @ v.T


def same(found: Any, expected: Array, tolerance: float = 1e-10) -> None:
    """Up to a part of the largest element."""
    found = found if isinstance(found, np.ndarray) else values(found)
    assert found.shape == expected.shape
    scale = max(np.abs(expected).max(initial=0), 1e-3)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


def right_or_refused(call: Callable[[], Any], expected: Array, tolerance: float = 1e-10) -> None:
    """Either is fine. A number that is wrong isn't."""
    try:
        found = call()
    except ad.GradientError:
        return
    same(found, expected, tolerance)


# Matrices.

EIGENVALUES: dict[str, list[float]] = {
    "one": [2.0],
    "identity": [1.0, 1.0, 1.0, 1.0],
    "zero": [0.0, 0.0, 0.0],
    "a pair": [1.0, 1.0, 3.0],
    "two pairs": [-1.0, -1.0, 2.0, 2.0],
    "a triple": [2.0, 2.0, 2.0, 0.5],
    "a negative triple": [-2.0, -2.0, -2.0],
    "two zeros": [0.0, 0.0, 1.0, 2.5],
    "opposite": [-1.0, 1.0],
    **{f"a gap of {gap}": [1.0, 1.0 + gap, 2.0] for gap in (1e-15, 1e-14, 1e-13, 1e-12)},
    "a chain": [1.0, 1.0 + 1e-12, 1.0 + 2e-12, 2.0],
}
SINGULAR_VALUES: dict[str, list[float]] = {
    "identity": [1.0, 1.0, 1.0],
    "zero": [0.0, 0.0, 0.0],
    "a pair": [3.0, 1.0, 1.0],
    "a pair on top": [2.0, 2.0, 0.5],
    "one zero": [2.0, 1.0, 0.0],
    "two zeros": [2.0, 0.0, 0.0],
    "a pair and a zero": [1.5, 1.5, 0.0],
    "nearly a pair": [2.0, 1.0 + 1e-13, 1.0],
    "nearly zero": [2.0, 1.0, 1e-15],
}
SHAPES = ((3, 3), (5, 3), (3, 4))

SCALARS = {
    "exp": Scalar(ad.exp, np.exp, np.exp),
    "sin": Scalar(ad.sin, np.sin, np.cos),
    "itself": Scalar(lambda w: w * 1, lambda w: w, np.ones_like),
    "cube": Scalar(lambda w: w**3, lambda w: w**3, lambda w: 3 * w**2),
    "a resolvent": Scalar(
        lambda w: 1 / (w * w + 1), lambda w: 1 / (w * w + 1), lambda w: -2 * w / (w * w + 1) ** 2
    ),
}
ODD = {
    "itself": SCALARS["itself"],
    "sinh": Scalar(ad.sinh, np.sinh, np.cosh),
    "cube": SCALARS["cube"],
    "arctan": Scalar(ad.atan, np.arctan, lambda s: 1 / (1 + s * s)),
}

eigenvalues = pytest.mark.parametrize("w", EIGENVALUES.values(), ids=EIGENVALUES)
singular_values = pytest.mark.parametrize("s", SINGULAR_VALUES.values(), ids=SINGULAR_VALUES)
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)
rotated_or_not = pytest.mark.parametrize("rotated", [False, True], ids=["axes", "rotated"])


def frame(n: int, rotated: bool = True, seed: int = 0) -> Array:
    """Orthonormal columns: random ones, or axes."""
    if not rotated:
        return np.eye(n)
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]


def random(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


class Symmetric:
    """A symmetric matrix, with its eigenvalues and vectors."""

    def __init__(self, w: Iterable[float], rotated: bool = True, seed: int = 0) -> None:
        self.w = np.asarray(list(w))
        self.v = frame(len(self.w), rotated, seed)
        self.x = symmetric_part((self.v * self.w) @ self.v.T)

    def change(self, h: Scalar, direction: Array) -> Array:
        return matrix_function_derivative(self.w, self.v, h, direction)


class General:
    """A matrix, with its singular values and vectors."""

    def __init__(self, s: Iterable[float], shape: tuple[int, int], rotated: bool = True) -> None:
        self.s = np.asarray(list(s))
        m, n = shape
        self.u, self.v = frame(m, rotated, 2), frame(n, rotated, 3)
        rank = len(self.s)
        self.x = (self.u[:, :rank] * self.s) @ self.v[:, :rank].T

    def change(self, h: Scalar, direction: Array) -> Array:
        return singular_function_derivative(self.u, self.s, self.v, h, direction)


def matrix_function(x: ad.Tensor, h: Callable) -> ad.Tensor:
    w, v = L.eigh(x)
    return (v * h(w)[..., None, :]) @ v.mT


def singular_function(x: ad.Tensor, h: Callable, full_matrices: bool = False) -> ad.Tensor:
    u, s, vh = L.svd(x, full_matrices=full_matrices)
    rank = s.shape[-1]
    return (u[..., :rank] * h(s)[..., None, :]) @ vh[..., :rank, :]


def gradient(f: Callable[[ad.Tensor], ad.Tensor], x: Array, weight: Array | None = None) -> Array:
    """That of f, or of the sum of its elements times weights, by backward."""
    point = leaf(x, x.dtype)
    out = f(point)
    out.backward(None if weight is None else ad.asarray(weight.astype(x.dtype)))
    assert point.grad.dtype is point.dtype and not point.grad.requires_grad
    return values(point.grad)


# Eigenvectors, first order.


@rotated_or_not
@pytest.mark.parametrize("h", SCALARS.values(), ids=SCALARS)
@eigenvalues
def test_a_function_of_a_symmetric_matrix(w: list, h: Scalar, rotated: bool) -> None:
    a, weight = Symmetric(w, rotated), random(len(w), len(w))
    found = gradient(lambda x: matrix_function(x, h.ours), a.x, weight)
    same(found, a.change(h, weight))
    same(found, found.T, 1e-14)


@pytest.mark.parametrize(
    ("name", "h"),
    {
        "what is missing to 1": Scalar(lambda w: w - 1, lambda w: w - 1, np.ones_like),
        "its square": Scalar(lambda w: (w - 1) ** 2, lambda w: (w - 1) ** 2, lambda w: 2 * (w - 1)),
        "log": Scalar(ad.log, np.log, lambda w: 1 / w),
    }.items(),
)
@pytest.mark.parametrize("seed", range(3))
def test_a_function_that_is_zero_at_the_equal_values(name: str, h: Scalar, seed: int) -> None:
    """All that the gradient of vectors consists of are rounding errors then."""
    a, weight = Symmetric([1.0, 1.0, 1.0], seed=seed), random(3, 3)
    same(gradient(lambda x: matrix_function(x, h.ours), a.x, weight), a.change(h, weight))


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_equal_is_relative_to_the_size_of_the_matrix(scale: float) -> None:
    a, weight = Symmetric([scale, scale, 3 * scale]), random(3, 3)
    h = Scalar(lambda w: w * w, lambda w: w * w, lambda w: 2 * w)
    same(
        gradient(lambda x: matrix_function(x, h.ours), a.x, weight) / scale,
        a.change(h, weight) / scale,
    )


def test_values_that_are_apart_by_little_but_enough_are_not_equal() -> None:
    """The precision that is left is a third of the digits, at worst."""
    h, weight = SCALARS["exp"], random(3, 3)
    for gap in (1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5):
        a = Symmetric([1.0, 1.0 + gap, 2.0])
        same(gradient(lambda x: matrix_function(x, h.ours), a.x, weight), a.change(h, weight), 1e-5)


@pytest.mark.parametrize("h", SCALARS.values(), ids=SCALARS)
def test_single_precision(h: Scalar) -> None:
    weight = random(4, 4)
    for w in ([1.0] * 4, [0.0] * 4, [1.0, 1.0, 2.0, 2.0], [1.0, 1.0 + 1e-6, 2.0, 3.0]):
        a = Symmetric(w)
        found = gradient(lambda x: matrix_function(x, h.ours), a.x.astype(np.float32), weight)
        assert found.dtype == np.float32
        same(found, a.change(h, weight).astype(np.float32), 2e-5)


def test_a_batch_of_equal_and_other_values() -> None:
    h = SCALARS["exp"]
    spectra = [[1.0, 1.0, 1.0], [1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [-1.0, 2.0, 2.0]]
    matrices = [Symmetric(w, seed=k) for k, w in enumerate(spectra)]
    x = np.stack([a.x for a in matrices]).reshape(2, 2, 3, 3)
    weight = random(2, 2, 3, 3)
    pairs = zip(matrices, weight.reshape(4, 3, 3), strict=True)
    expected = np.stack([a.change(h, part) for a, part in pairs]).reshape(x.shape)
    same(gradient(lambda x: matrix_function(x, h.ours), x, weight), expected)


def test_a_product_over_a_batch() -> None:
    """Each matrix's gradient depends on the other's values."""
    h = SCALARS["exp"]
    a, b = Symmetric([1.0, 1.0, 2.0]), Symmetric([0.5, 0.5, 0.5], seed=1)
    weight = random(3, 3)
    fs = [(part.v * np.exp(part.w)) @ part.v.T for part in (a, b)]

    def product(x: ad.Tensor) -> ad.Tensor:
        both = matrix_function(x, ad.exp)
        return both[0] @ both[1]

    found = gradient(product, np.stack([a.x, b.x]), weight)
    same(found[0], a.change(h, weight @ fs[1].T))
    same(found[1], b.change(h, fs[0].T @ weight))


@rotated_or_not
@pytest.mark.parametrize("w", [[1.0, 1.0, 3.0, 4.0], [0.0, 0.0, 2.0, 2.0], [-1.0, -1.0, 5.0, 5.0]])
def test_the_projector_on_a_whole_eigenspace(w: list, rotated: bool) -> None:
    """h is 1 on two eigenvalues and 0 on the others, and constant near them."""
    a, weight = Symmetric(w, rotated), random(4, 4)
    step = Scalar(ad.floor, lambda x: np.where(x < 1.5, 1.0, 0.0), np.zeros_like)

    def projector(x: ad.Tensor) -> ad.Tensor:
        v = L.eigh(x).eigenvectors[:, :2]
        return v @ v.mT

    same(gradient(projector, a.x, weight), a.change(step, weight))


def coupled(x: ad.Tensor) -> ad.Tensor:
    """Values and vectors in one function: a sum over pairs of eigenvectors."""
    w, v = L.eigh(x)
    inner = v.mT @ ad.asarray(symmetric_part(random(*x.shape, seed=5))) @ v
    kernel = ad.exp(-((w[:, None] + w[None, :]) ** 2) / 4)
    return (kernel * inner * inner).sum()


def normalized(x: ad.Tensor) -> ad.Tensor:
    """Values that depend on all values."""
    w, v = L.eigh(x)
    return (v * ad.softmax(w, axis=-1)[None, :]) @ v.mT @ ad.asarray(random(*x.shape, seed=6))


def whitened(x: ad.Tensor) -> ad.Tensor:
    """What A's inverse root says of A itself."""
    root = matrix_function(x, lambda w: 1 / ad.sqrt(w * w + 1))
    return root @ x @ root


MIXED = {"coupled": coupled, "normalized": normalized, "whitened": whitened}


@pytest.mark.parametrize("f", MIXED.values(), ids=MIXED)
@pytest.mark.parametrize("w", [[1.0] * 3, [0.0] * 3, [1.0, 1.0, 2.0], [-1.0, 2.0, 2.0]], ids=str)
def test_functions_that_mix_vectors_and_values(f: Callable, w: list) -> None:
    ad.testing.check_grads(f, [Symmetric(w).x], order=1)


@eigenvalues
def test_sums_over_eigenvalues(w: list) -> None:
    a = Symmetric(w)
    expected = (a.v * np.cos(a.w)) @ a.v.T
    same(gradient(lambda x: ad.sin(L.eigvalsh(x)).sum(), a.x), expected)
    same(gradient(lambda x: ad.sin(L.eigh(x).eigenvalues).sum(), a.x), expected)


@rotated_or_not
def test_the_largest_eigenvalue_takes_the_mean_of_its_eigenspace(rotated: bool) -> None:
    """As of equal elements each takes its part. What LAPACK finds may differ in the last digits."""
    a = Symmetric([1.0, 3.0, 3.0], rotated)
    space = a.v[:, 1:] @ a.v[:, 1:].T

    def largest(x: ad.Tensor) -> ad.Tensor:
        w = L.eigvalsh(x)
        return (w + (ad.round(w) - w).detach()).max()

    same(gradient(largest, a.x), space / 2)


# Singular vectors, first order.


@rotated_or_not
@pytest.mark.parametrize("full_matrices", [False, True], ids=["reduced", "full"])
@pytest.mark.parametrize("h", ODD.values(), ids=ODD)
@shapes
@singular_values
def test_an_odd_function_of_singular_values(
    s: list, shape: tuple, h: Scalar, full_matrices: bool, rotated: bool
) -> None:
    a, weight = General(s, shape, rotated), random(*shape)
    found = gradient(lambda x: singular_function(x, h.ours, full_matrices), a.x, weight)
    same(found, a.change(h, weight))


@shapes
@pytest.mark.parametrize("s", [[1.0, 1.0, 1.0], [2.0, 2.0, 1.0]], ids=str)
def test_the_polar_factor(s: list, shape: tuple) -> None:
    a, weight = General(s, shape), random(*shape)
    sign = Scalar(ad.sign, np.sign, np.zeros_like)
    same(
        gradient(lambda x: singular_function(x, ad.ones_like), a.x, weight), a.change(sign, weight)
    )


@pytest.mark.parametrize("s", [[2.0, 2.0, 1.0], [1.0, 1.0, 1.0], [3.0, 2.0, 1.0]], ids=str)
def test_the_projectors_on_the_range_and_on_what_is_beyond_it(s: list) -> None:
    """The columns that complete U are free to turn, the space that they span isn't."""
    a, weight = General(s, (5, 3)), random(5, 5)
    rest, inverse = a.u[:, 3:], (a.v / a.s) @ a.u[:, :3].T
    expected = 2 * rest @ rest.T @ symmetric_part(weight) @ inverse.T

    def inside(x: ad.Tensor) -> ad.Tensor:
        u = L.svd(x).U[:, :3]
        return u @ u.mT

    def outside(x: ad.Tensor) -> ad.Tensor:
        u = L.svd(x).U[:, 3:]
        return u @ u.mT

    same(gradient(inside, a.x, weight), expected)
    same(gradient(outside, a.x, weight), -expected)
    same(gradient(lambda x: outside(x.mT.mT), a.x, weight), -expected)


def test_the_null_space_of_a_matrix_with_too_low_a_rank_has_no_gradient() -> None:
    def projector(x: ad.Tensor) -> ad.Tensor:
        u = L.svd(x).U[:, 3:]
        return (u @ u.mT * ad.asarray(random(5, 5))).sum()

    with pytest.raises(ad.GradientError, match="depends on the choice"):
        gradient(projector, General([2.0, 1.0, 0.0], (5, 3)).x)


@shapes
def test_singular_vectors_in_single_precision(shape: tuple) -> None:
    weight = random(*shape)
    for s in ([1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [2.0, 2.0, 0.0]):
        a = General(s, shape)
        found = gradient(lambda x: singular_function(x, ad.sinh), a.x.astype(np.float32), weight)
        same(found, a.change(ODD["sinh"], weight).astype(np.float32), 2e-5)


@shapes
def test_a_batch_of_matrices_of_all_ranks(shape: tuple) -> None:
    spectra = [[1.0, 1.0, 1.0], [3.0, 2.0, 1.0], [0.0, 0.0, 0.0], [2.0, 1.0, 0.0]]
    matrices = [General(s, shape) for s in spectra]
    weight = random(4, *shape)
    pairs = zip(matrices, weight, strict=True)
    expected = np.stack([a.change(ODD["sinh"], part) for a, part in pairs])
    x = np.stack([a.x for a in matrices])
    same(gradient(lambda x: singular_function(x, ad.sinh), x, weight), expected)


def test_functions_of_left_vectors_alone() -> None:
    """U h(S²) Uᵀ is a function of x xᵀ."""
    for s in ([1.0, 1.0, 1.0], [2.0, 2.0, 0.0], [0.0, 0.0, 0.0]):

        def by_svd(x: ad.Tensor) -> ad.Tensor:
            u, s, _ = L.svd(x, full_matrices=False)
            return (u * (s**4 + s**2)) @ u.mT

        def by_products(x: ad.Tensor) -> ad.Tensor:
            y = x @ x.mT
            return y @ y + y

        a, weight = General(s, (4, 3)), random(4, 4)
        same(gradient(by_svd, a.x, weight), gradient(by_products, a.x, weight))


# What is built on them.


@shapes
@singular_values
def test_smooth_sums_over_singular_values(s: list, shape: tuple) -> None:
    """An even function of singular values has an odd derivative."""
    a = General(s, shape)
    rank = len(s)
    expected = (a.u[:, :rank] * np.sinh(a.s)) @ a.v[:, :rank].T
    same(gradient(lambda x: ad.cosh(L.svdvals(x)).sum(), a.x), expected)


@shapes
@pytest.mark.parametrize("s", [[2.0, 1.0, 0.0], [2.0, 0.0, 0.0], [2.0, 2.0, 0.0]], ids=str)
@pytest.mark.parametrize("function", ["pinv", "lstsq"])
def test_pseudo_inverses_of_low_rank_move_with_matrices_of_that_rank(
    function: str, s: list, shape: tuple
) -> None:
    """Where the rank changes they jump, so that has no derivative."""
    a = General(s, shape)
    rank = np.count_nonzero(a.s)
    left, right = a.u[:, :rank] * a.s[:rank], a.v[:, :rank].T
    d_left, d_right = random(*left.shape, seed=7), random(*right.shape, seed=8)
    b, weight = random(shape[0], 2, seed=9), random(shape[1], 2, seed=10)

    def at(step: float) -> float:
        y = (left + step * d_left) @ (right + step * d_right)
        return float((np.linalg.pinv(y, rtol=1e-9) @ b * weight).sum())

    def ours(x: ad.Tensor) -> ad.Tensor:
        if function == "lstsq":
            return L.lstsq(x, ad.asarray(b), rtol=1e-9).solution
        return L.pinv(x, rtol=1e-9) @ ad.asarray(b)

    along = d_left @ right + left @ d_right
    found = float((gradient(ours, a.x, weight) * along).sum())
    expected = (at(1e-6) - at(-1e-6)) / 2e-6
    assert found == pytest.approx(expected, rel=1e-7, abs=1e-8)


def test_least_squares_with_a_zero_matrix() -> None:
    """The pseudo-inverse of 0 is 0, and so is its derivative among matrices of rank 0."""
    x, b = leaf(np.zeros((3, 2))), leaf([1.0, 2.0, 3.0])
    found = L.lstsq(x, b)
    assert found.rank.item() == 0
    (found.solution.sum() + found.residuals).backward()
    same(x.grad, np.zeros((3, 2)))
    same(b.grad, np.array([2.0, 4.0, 6.0]))


@shapes
def test_norms_where_the_largest_singular_values_are_equal(shape: tuple) -> None:
    a = General([2.0, 2.0, 1.0], shape, rotated=False)
    top = a.u[:, :2] @ a.v[:, :2].T
    same(gradient(lambda x: L.matrix_norm(x, ord=2), a.x), top / 2)
    same(gradient(lambda x: L.matrix_norm(x, ord=-2), a.x), np.outer(a.u[:, 2], a.v[:, 2]))
    same(gradient(lambda x: L.matrix_norm(x, ord="nuc"), a.x), a.u[:, :3] @ a.v[:, :3].T)


@shapes
def test_the_gradient_of_the_2_norm_is_a_subgradient_where_equal_values_have_rounding_errors(
    shape: tuple,
) -> None:
    a = General([2.0, 2.0, 1.0], shape)
    found = gradient(lambda x: L.matrix_norm(x, ord=2), a.x)
    assert (found * a.x).sum() == pytest.approx(2.0, rel=1e-12)
    assert np.linalg.norm(found, "nuc") <= 1 + 1e-12


@shapes
def test_the_gradient_of_the_nuclear_norm_is_a_subgradient_where_the_rank_is_low(
    shape: tuple,
) -> None:
    a = General([2.0, 1.0, 0.0], shape)
    found = a.u.T @ gradient(lambda x: L.matrix_norm(x, ord="nuc"), a.x) @ a.v
    same(found[:2, :2], np.eye(2))
    same(found[:2, 2:], np.zeros_like(found[:2, 2:]))
    same(found[2:, :2], np.zeros_like(found[2:, :2]))
    assert np.linalg.norm(found, 2) <= 1 + 1e-12


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
def test_the_gradient_of_a_norm_at_zero_is_zero(ord: Any) -> None:
    same(gradient(lambda x: L.matrix_norm(x, ord=ord), np.zeros((3, 2))), np.zeros((3, 2)))


@pytest.mark.parametrize("p", [None, 2, -2])
def test_cond_takes_equal_singular_values_as_the_largest_and_the_smallest(p: Any) -> None:
    """Of equal elements each takes its part: at the identity, which is as good as it gets, all of
    them cancel."""
    for scale in (1.0, 4.0):
        same(gradient(lambda x: L.cond(x, p), scale * np.eye(3)), np.zeros((3, 3)))


# Ways to ask.


def backward(f: Callable, x: Array, **options: Any) -> Any:
    point = leaf(x)
    f(point).backward(**options)
    return point.grad


def autograd_grad(f: Callable, x: Array, **options: Any) -> Any:
    point = leaf(x)
    g = derivative(f(point), point, **options)
    assert point.grad is None
    return g


def gradients(f: Callable, x: Array, **options: Any) -> Any:
    point = leaf(x)
    return ad.gradients(f(point), **options)[point]


def through_products(f: Callable, x: Array) -> Any:
    """The matrix is a result itself, and so are its eigenvectors' weights."""
    point = leaf(x)
    (f(point * 2 - point) * 3 / 3).backward()
    return point.grad


def both_losses(f: Callable, x: Array) -> Any:
    """Two functions of one factorisation, one after the other."""
    point = leaf(x)
    y = f(point)
    (y * 0.25).backward(retain_graph=True)
    (y * 0.75).backward()
    return point.grad


def without_recording(f: Callable, x: Array) -> Any:
    point = leaf(x)
    y = f(point)
    with ad.no_grad():
        y.backward()
    return point.grad


def with_anomalies_detected(f: Callable, x: Array) -> Any:
    with ad.detect_anomaly():
        return backward(f, x)


WAYS: dict[str, Callable[[Callable, Array], Any]] = {
    "backward": backward,
    "backward, retain_graph": lambda f, x: backward(f, x, retain_graph=True),
    "backward, create_graph": lambda f, x: backward(f, x, create_graph=True).detach(),
    "backward, workers": lambda f, x: backward(f, x, workers=2),
    "autograd.grad": autograd_grad,
    "autograd.grad, create_graph": lambda f, x: autograd_grad(f, x, create_graph=True).detach(),
    "autograd.grad, workers": lambda f, x: autograd_grad(f, x, workers=2),
    "gradients": gradients,
    "gradients, create_graph": lambda f, x: gradients(f, x, create_graph=True).detach(),
    "ad.grad": lambda f, x: ad.grad(f)(ad.asarray(x)),
    "ad.value_and_grad": lambda f, x: ad.value_and_grad(f)(ad.asarray(x))[1],
    "ad.vjp": lambda f, x: ad.vjp(f, ad.asarray(x))[1](ad.asarray(1.0, dtype=ad.float64))[0],
    "ad.jacobian": lambda f, x: ad.jacobian(f)(ad.asarray(x)),
    "through products": through_products,
    "both losses": both_losses,
    "without recording": without_recording,
    "with anomalies detected": with_anomalies_detected,
}
A = Symmetric([1.0, 1.0, 1.0, 2.0])
B = General([2.0, 2.0, 0.0], (4, 3))
WEIGHT, OTHER = random(4, 4), random(4, 3)


def by_eigh(x: ad.Tensor) -> ad.Tensor:
    return (matrix_function(x, ad.exp) * ad.asarray(WEIGHT)).sum()


def by_svd(x: ad.Tensor) -> ad.Tensor:
    return (singular_function(x, ad.sinh, True) * ad.asarray(OTHER)).sum()


EXPECTED, OTHER_EXPECTED = A.change(SCALARS["exp"], WEIGHT), B.change(ODD["sinh"], OTHER)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_way_to_a_gradient(way: Callable) -> None:
    for f, x, expected in ((by_eigh, A.x, EXPECTED), (by_svd, B.x, OTHER_EXPECTED)):
        g = way(f, x)
        same(g, expected)
        assert not g.requires_grad


def test_derivatives_forwards() -> None:
    """jvp, and the rows of a jacobian of many outputs."""
    x, along = ad.asarray(A.x), random(4, 4, seed=11)
    h = SCALARS["exp"]

    def f(x: ad.Tensor) -> ad.Tensor:
        return matrix_function(x, h.ours)

    out, change = ad.jvp(f, (x,), (ad.asarray(along),))
    same(out, (A.v * np.exp(A.w)) @ A.v.T)
    rows = values(ad.jacobian(f)(x))
    same(np.tensordot(rows, along, 2), A.change(h, along))
    same(change, A.change(h, along))


def test_singular_vectors_forwards() -> None:
    along = random(4, 3, seed=12)

    def f(x: ad.Tensor) -> ad.Tensor:
        return singular_function(x, ad.sinh)

    _, change = ad.jvp(f, (ad.asarray(B.x),), (ad.asarray(along),))
    same(change, B.change(ODD["sinh"], along))


def test_the_gradient_s_own_gradient_in_what_isn_t_the_matrix() -> None:
    """The gradient is linear in the weight: its derivative there is the function's derivative."""
    x, weight, along = leaf(A.x), leaf(WEIGHT), random(4, 4, seed=13)
    y = (matrix_function(x, ad.exp) * weight).sum()
    g = derivative(y, x, create_graph=True)
    same(derivative((g * ad.asarray(along)).sum(), weight), A.change(SCALARS["exp"], along))


def test_gradients_of_intermediate_tensors() -> None:
    """Those of values and vectors themselves need no limit."""
    x = leaf(A.x)
    w, v = L.eigh(x)
    y = ((v * ad.exp(w)) @ v.mT * ad.asarray(WEIGHT)).sum()
    found = ad.gradients(y, of=[w, v])
    inner = values(v).T @ WEIGHT @ values(v)
    same(found[w], np.exp(A.w) * np.diagonal(inner))
    same(found[v], (WEIGHT + WEIGHT.T) @ values(v) * np.exp(A.w))
    same(found[x], EXPECTED)
    assert not any(g.requires_grad for g in (found[w], found[v], found[x]))


def test_a_gradient_of_any_shape() -> None:
    point = leaf(np.stack([A.x, A.x]))
    matrix_function(point, ad.exp).backward(ad.asarray(np.stack([WEIGHT, 2 * WEIGHT])))
    same(point.grad, np.stack([EXPECTED, 2 * EXPECTED]))


def test_gradients_add_up_over_calls() -> None:
    point = leaf(A.x)
    for _ in range(2):
        by_eigh(point).backward()
    same(point.grad, 2 * EXPECTED)


def test_a_graph_is_released() -> None:
    y = by_eigh(leaf(A.x))
    y.backward()
    with pytest.raises(ad.GradientError, match=r"second time.*retain_graph=True"):
        y.backward()


def test_a_graph_is_retained() -> None:
    point = leaf(A.x)
    y = by_eigh(point)
    y.backward(retain_graph=True)
    y.backward(retain_graph=True)
    same(point.grad, 2 * EXPECTED)
    y.backward()
    with pytest.raises(ad.GradientError, match="second time"):
        y.backward()


def test_a_part_of_a_graph_is_released() -> None:
    """What the gradient didn't pass stays usable, and the rest isn't."""
    point = leaf(A.x)
    shared = ad.exp(point)
    y, other = by_eigh(shared), (shared * 2).sum()
    w = L.eigvalsh(point)
    derivative(y, shared)
    other.backward()
    w.sum().backward()
    same(point.grad, 2 * np.exp(A.x) + np.eye(4))


def test_leaf_callbacks_run_once() -> None:
    point, unrelated = leaf(A.x), leaf([2.0])
    seen: list[tuple[ad.Tensor, ad.Tensor]] = []
    y = by_eigh(point) * unrelated.sum()
    y.backward(on_leaf_grad=lambda x, g: seen.append((x, g)))
    assert len(seen) == 2 and {id(x) for x, _ in seen} == {id(point), id(unrelated)}
    assert not any(g.requires_grad for _, g in seen)
    same(point.grad, 2 * EXPECTED)


def test_no_gradient_without_a_graph() -> None:
    with ad.no_grad():
        w, v = L.eigh(leaf(A.x))
    assert not w.requires_grad and not v.requires_grad
    assert not L.eigh(ad.asarray(A.x)).eigenvectors.requires_grad


# Hooks.


class Parts(NamedTuple):
    point: ad.Tensor
    matrix: ad.Tensor
    w: ad.Tensor
    v: ad.Tensor
    out: ad.Tensor
    y: ad.Tensor


def parts() -> Parts:
    point = leaf(A.x)
    matrix = point * 1
    w, v = L.eigh(matrix)
    out = (v * ad.exp(w)) @ v.mT
    return Parts(point, matrix, w, v, out, (out * ad.asarray(WEIGHT)).sum())


@pytest.mark.parametrize("name", Parts._fields)
def test_a_hook_runs_once_and_sees_the_gradient(name: str) -> None:
    p = parts()
    expected = ad.gradients(p.y, of=list(p[1:]), retain_graph=True)
    seen: list[ad.Tensor] = []
    getattr(p, name).register_hook(seen.append)
    p.y.backward()
    assert len(seen) == 1
    same(seen[0].detach(), values(expected[getattr(p, name)]))
    same(p.point.grad, EXPECTED)


@pytest.mark.parametrize("name", Parts._fields)
def test_a_hook_sees_a_gradient_without_a_graph(name: str) -> None:
    """As everywhere: a hook that reads the numbers works whatever the matrix is."""
    p = parts()
    seen: list[bool] = []
    getattr(p, name).register_hook(lambda g: seen.append(g.requires_grad))
    p.y.backward()
    assert seen == [False]


@pytest.mark.parametrize("names", [("out",), ("w", "v"), ("matrix",), ("point",), ("y",)], ids=str)
def test_a_hook_s_replacement_counts(names: tuple) -> None:
    p = parts()
    for name in names:
        getattr(p, name).register_hook(lambda g: g * 2)
    p.y.backward(create_graph=True)
    same(p.point.grad.detach(), 2 * EXPECTED)


@pytest.mark.parametrize("name", ["v", "out", "y"])
def test_a_hook_that_replaces_what_is_differentiated_is_told_what_to_do(name: str) -> None:
    p = parts()
    getattr(p, name).register_hook(lambda g: g * 2)
    with pytest.raises(ad.GradientError, match=r"hook .* replaces .* pass create_graph=True"):
        p.y.backward()


@pytest.mark.parametrize("name", ["w", "matrix", "point"])
def test_a_hook_may_replace_what_isn_t_differentiated(name: str) -> None:
    p = parts()
    expected = ad.gradients(p.y, of=[p.w, p.matrix], retain_graph=True)
    getattr(p, name).register_hook(lambda g: g * 1)
    p.y.backward()
    same(p.point.grad, values(expected[p.point]))


@pytest.mark.parametrize("x", [np.eye(3), np.diag([1.0, 2.0, 3.0])], ids=["equal", "different"])
def test_what_runs_in_a_backward_sees_the_same_for_all_values(x: Array) -> None:
    point = leaf(x)
    seen: list[bool] = []

    def update(p: ad.Tensor) -> None:
        p += -0.1 * p.grad

    point.register_post_accumulate_grad_hook(update)
    w, v = L.eigh(point)
    v.register_hook(lambda g: seen.append((g * 2).requires_grad))
    y = ((v * ad.exp(w)) @ v.mT).sum()
    y.backward(on_leaf_grad=lambda x, g: seen.append((g * 2).requires_grad))
    assert seen == [False, False] and not (point.detach().numpy() == x).all()


@pytest.mark.parametrize("name", ["w", "v", "out"])
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_hook_that_loses_the_graph_gives_no_wrong_number(name: str, create_graph: bool) -> None:
    """How a gradient changes with the values can't be known, if NumPy computed it."""
    p = parts()

    def anew(g: ad.Tensor) -> ad.Tensor:
        return ad.asarray(values(g).copy())

    getattr(p, name).register_hook(anew)

    def found() -> Any:
        p.y.backward(create_graph=create_graph)
        return p.point.grad

    right_or_refused(found, EXPECTED)


@pytest.mark.parametrize("place", ["vectors", "result"])
def test_an_op_whose_rule_loses_the_graph_gives_no_wrong_number(place: str) -> None:
    numeric = ad.op.other(
        "numeric",
        x=lambda g: ad.asarray(values(g).copy()),
        kernels={"cpu": np.copy},
        shape=lambda x_shape: x_shape,
    )
    point = leaf(A.x)
    w, v = L.eigh(point)
    v = numeric(v) if place == "vectors" else v
    out = (v * ad.exp(w)) @ v.mT
    out = numeric(out) if place == "result" else out

    def found() -> Any:
        (out * ad.asarray(WEIGHT)).sum().backward()
        return point.grad

    right_or_refused(found, EXPECTED)


def test_retained_gradients_have_no_graph() -> None:
    p = parts()
    for x in p[1:]:
        x.retain_grad()
    p.y.backward()
    assert not any(x.grad.requires_grad for x in p)
    same(p.matrix.grad, EXPECTED)
    same(p.out.grad, WEIGHT)


def test_a_post_accumulate_hook_runs_once() -> None:
    p = parts()
    seen: list[Array] = []
    p.point.register_post_accumulate_grad_hook(lambda x: seen.append(values(x.grad)))
    p.y.backward()
    assert len(seen) == 1
    same(seen[0], EXPECTED)


# Second order.

SMOOTH = {
    "exp": (ad.exp, SCALARS["exp"]),
    "cos": (lambda w: -ad.cos(w), SCALARS["sin"]),
    "fourth power": (lambda w: w**4 / 4, SCALARS["cube"]),
}


def second(f: Callable[[ad.Tensor], ad.Tensor], x: Array, along: Array) -> ad.Tensor:
    point = leaf(x)
    g = derivative(f(point), point, create_graph=True)
    return derivative((g * ad.asarray(along)).sum(), point)


@pytest.mark.parametrize(("h", "slope"), SMOOTH.values(), ids=SMOOTH)
@eigenvalues
def test_second_order_of_sums_over_eigenvalues(w: list, h: Callable, slope: Scalar) -> None:
    a, along = Symmetric(w), random(len(w), len(w))

    def f(x: ad.Tensor) -> ad.Tensor:
        return h(L.eigvalsh(x)).sum()

    expected = a.change(slope, along)
    same(second(f, a.x, along), expected)
    same(ad.hvp(f, (ad.asarray(a.x),), (ad.asarray(along),))[0], expected)


def test_the_hessian_of_the_trace_of_the_exponential_at_the_identity() -> None:
    """In the direction E it is e (E + Eᵀ) / 2."""
    hessian = ad.hessian(lambda x: ad.exp(L.eigvalsh(x)).sum())(ad.asarray(np.eye(3)))
    one = np.eye(9).reshape(3, 3, 3, 3)
    same(hessian, math.e * (one + one.transpose(1, 0, 2, 3)) / 2)


@shapes
@singular_values
def test_second_order_of_sums_over_singular_values(s: list, shape: tuple) -> None:
    a, along = General(s, shape), random(*shape)

    def f(x: ad.Tensor) -> ad.Tensor:
        return ad.cosh(L.svdvals(x)).sum()

    same(second(f, a.x, along), a.change(ODD["sinh"], along))


def test_the_hessian_of_the_sum_of_squares_of_singular_values_is_twice_the_identity() -> None:
    def f(x: ad.Tensor) -> ad.Tensor:
        return (L.svdvals(x) ** 2).sum()

    for x in (np.zeros((3, 2)), np.eye(3, 2), General([2.0, 0.0], (3, 2)).x):
        same(ad.hessian(f)(ad.asarray(x)), 2 * np.eye(6).reshape(3, 2, 3, 2))


@pytest.mark.parametrize("f", [by_eigh, by_svd], ids=["eigh", "svd"])
def test_second_order_of_functions_of_vectors_is_refused(f: Callable) -> None:
    x, along = (A.x, random(4, 4)) if f is by_eigh else (B.x, random(4, 3))
    with pytest.raises(ad.GradientError, match=r"second derivatives.*use the vectors"):
        second(f, x, along)
    with pytest.raises(ad.GradientError, match=r"second derivatives.*use the vectors"):
        ad.hessian(f)(ad.asarray(x))


def test_third_order_of_sums_over_eigenvalues_is_refused() -> None:
    """The second is that of a function of vectors."""
    point, along = leaf(A.x), ad.asarray(symmetric_part(random(4, 4)))
    y = ad.exp(L.eigvalsh(point)).sum()
    g = derivative(
        (derivative(y, point, create_graph=True) * along).sum(), point, create_graph=True
    )
    with pytest.raises(ad.GradientError, match="second derivatives"):
        derivative((g * along).sum(), point)


def test_third_order_where_values_differ() -> None:
    a, along = Symmetric([0.5, 1.0, 2.0]), symmetric_part(random(3, 3))
    point, direction = leaf(a.x), ad.asarray(along)
    y = ad.exp(L.eigvalsh(point)).sum()
    for _ in range(2):
        y = (derivative(y, point, create_graph=True) * direction).sum()
    found = derivative(y, point)

    def exact(x: ad.Tensor) -> ad.Tensor:
        y = (L.expm(x) * direction).sum()
        return derivative(y, x, create_graph=True)

    other = leaf(a.x)
    same(found, values(derivative((exact(other) * direction).sum(), other)), 1e-9)


@pytest.mark.parametrize("gap", [1e-10, 1e-9, 1e-8, 1e-7, 1e-6])
def test_second_order_where_values_are_nearly_equal_is_right_or_refused(gap: float) -> None:
    """Rounding errors grow with the square of the gap. What is left must be worth something."""
    a, along = Symmetric([1.0, 1.0 + gap, 2.0]), symmetric_part(random(3, 3, seed=14))
    weight = symmetric_part(random(3, 3))
    point, direction = leaf(a.x), ad.asarray(along)
    exact = second(lambda x: (L.expm(x) * ad.asarray(weight)).sum(), a.x, along)

    def found() -> ad.Tensor:
        y = (matrix_function(point, ad.exp) * ad.asarray(weight)).sum()
        return derivative((derivative(y, point, create_graph=True) * direction).sum(), point)

    right_or_refused(found, symmetric_part(values(exact)), 1e-4)


def test_nested_factorisations_are_right_or_refused() -> None:
    """The inner one's limit needs the outer one's second derivatives."""
    weight = symmetric_part(WEIGHT)

    def twice(x: ad.Tensor) -> ad.Tensor:
        y = matrix_function(matrix_function(x, lambda w: w), ad.exp)
        return (y * ad.asarray(weight)).sum()

    right_or_refused(lambda: ad.grad(twice)(ad.asarray(A.x)), EXPECTED)

    def values_of_values(x: ad.Tensor) -> ad.Tensor:
        return ad.sin(L.eigvalsh(matrix_function(x, ad.exp))).sum()

    slope = np.cos(np.exp(A.w)) * np.exp(A.w)
    same(ad.grad(values_of_values)(ad.asarray(A.x)), (A.v * slope) @ A.v.T)


# Functions that depend on the choice of vectors.

CHOICES: dict[str, Callable[[ad.Tensor], ad.Tensor]] = {
    "an element": lambda x: L.eigh(x).eigenvectors[0, 0],
    "another element": lambda x: L.eigh(x).eigenvectors[1, 0],
    "the square of an element": lambda x: L.eigh(x).eigenvectors[0, 0] ** 2,
    "the sum": lambda x: L.eigh(x).eigenvectors.sum(),
    "fourth powers": lambda x: (L.eigh(x).eigenvectors ** 4).sum(),
    "a projector on one of the vectors": lambda x: (
        L.eigh(x).eigenvectors[:, :1] @ L.eigh(x).eigenvectors[:, :1].mT * ad.asarray(random(3, 3))
    ).sum(),
    "weights that differ": lambda x: (
        (L.eigh(x).eigenvectors * ad.asarray([1.0, 2.0, 3.0], dtype=ad.float64))
        @ L.eigh(x).eigenvectors.mT
        * ad.asarray(random(3, 3))
    ).sum(),
    "left singular vectors": lambda x: L.svd(x).U[0, 1],
    "right singular vectors": lambda x: L.svd(x).Vh[2, 0],
    "the square of a singular vector's element": lambda x: L.svd(x).U[1, 1] ** 2,
}


@rotated_or_not
@pytest.mark.parametrize("f", CHOICES.values(), ids=CHOICES)
@pytest.mark.parametrize("w", [[1.0, 1.0, 1.0], [1.0, 1.0, 2.0]], ids=str)
def test_a_function_that_depends_on_the_choice_is_refused(
    w: list, f: Callable, rotated: bool
) -> None:
    with pytest.raises(ad.GradientError, match=r"equal.*depends on the choice of vectors"):
        gradient(f, Symmetric(w, rotated).x)


@pytest.mark.parametrize("f", CHOICES.values(), ids=CHOICES)
def test_it_has_a_gradient_where_values_differ(f: Callable) -> None:
    ad.testing.check_grads(f, [Symmetric([1.0, 2.0, 4.0]).x], order=1)


def test_a_function_of_other_vectors_has_a_gradient() -> None:
    """Those of values that differ from all others are determined, but for the sign."""
    x = Symmetric([1.0, 1.0, 1.0, 5.0]).x
    ad.testing.check_grads(lambda x: L.eigh(x).eigenvectors[:, 3] ** 2, [x], order=1)


def test_which_matrix_of_a_batch_is_asked_for_counts() -> None:
    x = np.stack([np.diag([1.0, 2.0, 3.0]), Symmetric([1.0, 1.0, 2.0]).x])
    same(gradient(lambda x: L.eigh(x).eigenvectors[0, 0, 1], x)[1], np.zeros((3, 3)))
    with pytest.raises(ad.GradientError, match="depends on the choice"):
        gradient(lambda x: L.eigh(x).eigenvectors[1, 0, 1], x)


def test_vectors_forwards_are_refused_where_values_are_equal() -> None:
    """The vectors jump: there is no right number."""
    x, along = ad.asarray(Symmetric([1.0, 1.0, 2.0]).x), ad.asarray(symmetric_part(random(3, 3)))
    with pytest.raises(ad.GradientError, match="depends on the choice of vectors"):
        ad.jvp(lambda x: L.eigh(x).eigenvectors, (x,), (along,))


EXTRA = {
    "qr": lambda x: L.qr(x, mode="complete").Q,
    "svd": lambda x: L.svd(x).U,
    "svd of the transpose": lambda x: L.svd(x.mT).Vh.mT,
}


@pytest.mark.parametrize("f", EXTRA.values(), ids=EXTRA)
@pytest.mark.parametrize("start", ["axes", "random"])
def test_columns_that_complete_a_basis_can_be_chosen(f: Callable, start: str) -> None:
    """The function must not depend on how."""
    x = np.diag([3.0, 2.0, 1.0, 0.0, 0.0])[:, :3] if start == "axes" else random(5, 3)
    for row in (3, 4):
        with pytest.raises(ad.GradientError, match="can be chosen, and the function depends on"):
            gradient(lambda x, row=row: f(x)[row, 4], x)


@pytest.mark.parametrize("f", EXTRA.values(), ids=EXTRA)
def test_the_space_of_the_columns_that_complete_a_basis_has_a_gradient(f: Callable) -> None:
    def projector(x: ad.Tensor) -> ad.Tensor:
        rest = f(x)[:, 3:]
        return rest @ rest.mT

    ad.testing.check_grads(projector, [random(5, 3)], order=2)


@pytest.mark.parametrize("f", EXTRA.values(), ids=EXTRA)
def test_the_only_column_that_completes_a_basis_has_a_gradient(f: Callable) -> None:
    """Only its sign is free."""
    ad.testing.check_grads(lambda x: f(x)[:, 3], [random(4, 3)], order=1)


LOW_RANK = {
    "equal columns": np.ones((3, 2)),
    "a column of zeros": np.array([[1.0, 0.0], [2.0, 0.0], [2.0, 0.0]]),
    "wide": np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 7.0]]),
    "zero": np.zeros((3, 2)),
}


@pytest.mark.parametrize("x", LOW_RANK.values(), ids=LOW_RANK)
def test_qr_of_columns_that_depend_on_each_other_has_no_gradient(x: Array) -> None:
    """Rounding errors over rounding errors look like a number."""
    for part in (0, 1):
        with pytest.raises(ad.AdjointError, match="qr"):
            gradient(lambda x, part=part: L.qr(x)[part][0].sum(), x)


# Functions that meet the matrix on two ways.


def separate_calls(x: ad.Tensor) -> ad.Tensor:
    return (L.eigh(x).eigenvectors * ad.exp(L.eigvalsh(x))) @ L.eigh(x).eigenvectors.mT


def values_by_another_call(x: ad.Tensor) -> ad.Tensor:
    v = L.eigh(x).eigenvectors
    return (v * ad.exp(L.eigvalsh(x))) @ v.mT


def values_by_the_matrix(x: ad.Tensor) -> ad.Tensor:
    v = L.eigh(x).eigenvectors
    return (v * ad.exp(L.diagonal(v.mT @ x @ v))) @ v.mT


def vectors_by_svd(x: ad.Tensor) -> ad.Tensor:
    u, _, vh = L.svd(x)
    return (u * ad.exp(L.svdvals(x))) @ vh


TWO_WAYS = {
    "separate calls": separate_calls,
    "values by another call": values_by_another_call,
    "values by the matrix itself": values_by_the_matrix,
    "singular values by another call": vectors_by_svd,
}


@pytest.mark.parametrize("f", TWO_WAYS.values(), ids=TWO_WAYS)
@rotated_or_not
def test_a_matrix_met_on_two_ways_gives_no_wrong_number(f: Callable, rotated: bool) -> None:
    """Values and vectors that come from different calls move together all the same."""
    a, weight = Symmetric([1.0, 1.0, 2.0], rotated), symmetric_part(random(3, 3))
    expected = a.change(SCALARS["exp"], weight)
    right_or_refused(lambda: gradient(f, a.x, weight), expected)


def test_a_function_of_the_matrix_and_of_its_vectors() -> None:
    """The weights of a matrix function may be made of the matrix."""

    def f(x: ad.Tensor) -> ad.Tensor:
        return matrix_function(x @ x.mT, ad.exp) @ x

    for x in (np.eye(3), np.zeros((3, 3)), General([2.0, 2.0, 1.0], (3, 3)).x):
        ad.testing.check_grads(f, [x], order=1)


# Transforms and checkpoints.

APART, EQUAL = Symmetric([1.0, 2.0, 4.0, 8.0]).x, A.x
TRANSFORMS: dict[str, Callable[[Callable, ad.Tensor], ad.Tensor]] = {
    "vmap": lambda f, x: ad.vmap(ad.grad(f))(ad.stack([x, x]))[1],
    "vmap of equal and other values": lambda f, x: ad.vmap(ad.grad(f))(
        ad.stack([ad.asarray(APART), x])
    )[1],
    "a trace": lambda f, x: ad.trace(ad.grad(f), x)(x),
    "a trace that was made with other values": lambda f, x: ad.trace(ad.grad(f), ad.asarray(APART))(
        x
    ),
}
transforms = pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)


@transforms
def test_traces_differentiate_where_values_differ(transform: Callable) -> None:
    same(transform(by_eigh, ad.asarray(APART)), gradient(by_eigh, APART))


@transforms
def test_traces_refuse_equal_values(transform: Callable) -> None:
    with pytest.raises(ad.GradientError, match="equal values, which a trace can't differentiate"):
        transform(by_eigh, ad.asarray(EQUAL))


@transforms
def test_traces_differentiate_sums_over_equal_values(transform: Callable) -> None:
    found = transform(lambda x: ad.exp(L.eigvalsh(x)).sum(), ad.asarray(EQUAL))
    same(found, (A.v * np.exp(A.w)) @ A.v.T)


def test_a_gradient_through_vmap() -> None:
    x = leaf(np.stack([EQUAL, EQUAL]))
    ad.vmap(by_eigh)(x).sum().backward()
    same(x.grad, np.stack([EXPECTED, EXPECTED]))


def eigenparts(x: ad.Tensor) -> tuple:
    return tuple(L.eigh(x))


def whole(x: ad.Tensor) -> ad.Tensor:
    return ad.checkpoint(by_eigh, x)


def only_the_factorisation(x: ad.Tensor) -> ad.Tensor:
    w, v = ad.checkpoint(eigenparts, x)
    return ((v * ad.exp(w)) @ v.mT * ad.asarray(WEIGHT)).sum()


def only_what_follows(x: ad.Tensor) -> ad.Tensor:
    def follows(w: ad.Tensor, v: ad.Tensor) -> ad.Tensor:
        return ((v * ad.exp(w)) @ v.mT * ad.asarray(WEIGHT)).sum()

    return ad.checkpoint(follows, *L.eigh(x))


@pytest.mark.parametrize("f", [whole, only_the_factorisation])
def test_a_checkpoint_refuses_equal_values(f: Callable) -> None:
    with pytest.raises(ad.GradientError, match=r"checkpoint.*keep this part out of"):
        gradient(f, EQUAL)


@pytest.mark.parametrize("f", [whole, only_the_factorisation, only_what_follows])
def test_what_the_error_advises_gives_no_wrong_number(f: Callable) -> None:
    right_or_refused(lambda: backward(f, EQUAL, create_graph=True).detach(), EXPECTED)


def test_a_checkpoint_of_what_follows() -> None:
    same(gradient(only_what_follows, EQUAL), EXPECTED)


def test_a_checkpoint_of_other_values_and_of_sums_over_equal_values() -> None:
    same(gradient(whole, APART), gradient(by_eigh, APART))

    def total(x: ad.Tensor) -> ad.Tensor:
        return ad.checkpoint(lambda x: ad.exp(L.eigvalsh(x)).sum(), x)

    same(gradient(total, EQUAL), (A.v * np.exp(A.w)) @ A.v.T)


# Memory.


@pytest.mark.parametrize("f", [by_eigh, by_svd], ids=["eigh", "svd"])
@pytest.mark.parametrize("create_graph", [False, True])
def test_nothing_is_kept_after_a_graph_is_gone(f: Callable, create_graph: bool) -> None:
    x = A.x if f is by_eigh else B.x
    gc.collect()
    before = len(needing_graph)
    gc.disable()
    try:
        point = leaf(x)
        y = f(point)
        assert len(needing_graph) == before + 1
        g = derivative(y, point, create_graph=create_graph)
        del y, g
        assert len(needing_graph) == before
        f(point)
        assert len(needing_graph) == before
    finally:
        gc.enable()


def test_matrices_with_other_values_need_no_graph() -> None:
    gc.collect()
    before = len(needing_graph)
    kept = [by_eigh(leaf(APART)), by_svd(leaf(General([3.0, 2.0, 1.0], (4, 3)).x))]
    assert len(needing_graph) == before and len(kept) == 2


def test_a_refused_gradient_leaves_no_trace() -> None:
    """Neither in .grad nor in what the next pass does."""
    point = leaf(EQUAL)
    with pytest.raises(ad.GradientError):
        L.eigh(point).eigenvectors[1, 0].backward()
    assert point.grad is None
    assert ad.is_grad_enabled()
    by_eigh(point).backward()
    same(point.grad, EXPECTED)


# Any multiplicities.


@st.composite
def spectra(draw: st.DrawFn, lowest: float) -> list[float]:
    """Values that are at least a quarter apart, each several times; not sorted."""
    count = draw(st.integers(1, 3))
    steps = draw(st.lists(st.integers(1, 6), min_size=count, max_size=count))
    repeats = draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
    distinct = lowest + np.cumsum([0, *steps[1:]]) / 4
    return draw(st.permutations([float(w) for w in np.repeat(distinct, repeats)]))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    w=spectra(lowest=-1.0),
    h=st.sampled_from(list(SCALARS.values())),
    coefficients=st.lists(st.integers(-3, 3), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
)
def test_any_spectral_function_of_any_multiplicities(
    w: list, h: Scalar, coefficients: list, seed: int
) -> None:
    """A random polynomial times one of the functions."""
    polynomial = np.polynomial.Polynomial(coefficients)
    slope = polynomial.deriv()

    def ours(w: ad.Tensor) -> ad.Tensor:
        terms: list[Any] = [c * w**k for k, c in enumerate(coefficients)]
        return sum(terms) * h.ours(w)

    product = Scalar(
        ours,
        lambda w: polynomial(w) * h.theirs(w),
        lambda w: slope(w) * h.theirs(w) + polynomial(w) * h.derivative(w),
    )
    a, weight = Symmetric(w, seed=seed), random(len(w), len(w), seed=seed)
    expected = a.change(product, weight)
    scale = max(1.0, np.abs(expected).max())
    found = gradient(lambda x: matrix_function(x, product.ours), a.x, weight)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * scale)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    s=spectra(lowest=0.0),
    h=st.sampled_from(list(ODD.values())),
    more=st.integers(0, 2),
    tall=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_any_odd_function_of_any_singular_values(
    s: list, h: Scalar, more: int, tall: bool, seed: int
) -> None:
    n = len(s)
    shape = (n + more, n) if tall else (n, n + more)
    a, weight = General(s, shape), random(*shape, seed=seed)
    found = gradient(lambda x: singular_function(x, h.ours), a.x, weight)
    expected = a.change(h, weight)
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * scale)


# Values that are nearly equal.


def exponential(x: ad.Tensor) -> ad.Tensor:
    w, v = L.eigh(x)
    return ((v * ad.exp(w)) @ v.mT * ad.asarray(WEIGHT[:3, :3], dtype=x.dtype)).sum()


def reference(x: ad.Tensor) -> ad.Tensor:
    return (L.expm((x + x.mT) / 2) * ad.asarray(WEIGHT[:3, :3], dtype=x.dtype)).sum()


@pytest.mark.parametrize("gap", [10.0**-k for k in range(1, 16)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_half_of_the_digits_are_left_for_every_gap(dtype: str, gap: float) -> None:
    x = ad.asarray(Symmetric([0.5, 0.5 + gap, 1.5], True).x.astype(dtype))
    expected = values(ad.grad(reference)(ad.asarray(values(x).astype("f8"))))
    error = np.abs(values(ad.grad(exponential)(x)) - expected).max() / np.abs(expected).max()
    assert error <= 8 * np.sqrt(np.finfo(dtype).eps)


@pytest.mark.parametrize("gap", [10.0**-k for k in range(1, 13)])
def test_second_derivatives_are_right_or_refused_for_every_gap(gap: float) -> None:
    x = ad.asarray(Symmetric([0.5, 0.5 + gap, 1.5], True).x)
    expected = values(ad.hessian(reference)(x))
    for found in (
        lambda: ad.hessian(exponential)(x),
        lambda: ad.vmap(ad.hessian(exponential))(ad.stack([x, x]))[1],
    ):
        try:
            hessian = values(found())
        except ad.GradientError:
            assert gap < 1e-4
        else:
            assert np.abs(hessian - expected).max() <= 1e-4 * np.abs(expected).max()
