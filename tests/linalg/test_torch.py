"""ad.linalg agrees with torch.linalg: in values, gradients and second derivatives, in 200 cases.

A case is a function, the shapes of its arguments, and a seed. Matrices are well conditioned, and
what is compared doesn't depend on the choice of vectors. Where torch reads one triangle of a
symmetric matrix it is given the symmetric part, which is what adjoint reads.
"""

import importlib
import itertools
import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple
from unittest.mock import Mock

import numpy as np
import pytest

import adjoint as ad
from tests.support.helpers import as_tuple
from tests.support.linalg_cases import entries, frames, triangular

# Each case is skipped where there is no PyTorch, rather than the file: they are counted so.
torch: Any = importlib.import_module("torch") if find_spec("torch") else Mock()
pytestmark = pytest.mark.skipif(isinstance(torch, Mock), reason="No module named 'torch'")
L = ad.linalg
T = torch.linalg

COUNT = 200
TOLERANCE = 1e-7

Shape = tuple[int, ...]
Draw = Callable[[np.random.Generator, Shape], np.ndarray]


# Arguments.


def apart(rng: np.random.Generator, count: int) -> np.ndarray:
    """Numbers from 1 to 3, with gaps."""
    return 1 + 2 * (np.arange(count) + rng.uniform(0.1, 0.7, count)) / count


def general(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    """Matrices with singular values that are apart from each other, and from 0."""
    *batch, m, n = shape
    rank = min(m, n)
    left, right = frames(rng, tuple(batch), m, rank), frames(rng, tuple(batch), n, rank)
    return (left * apart(rng, rank)) @ right.swapaxes(-1, -2)


def definite(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    vectors = frames(rng, shape[:-2], *shape[-2:])
    return (vectors * apart(rng, shape[-1])) @ vectors.swapaxes(-1, -2)


def symmetric(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    """Eigenvalues of both signs."""
    return definite(rng, shape) - 2 * np.eye(shape[-1])


def both_triangles(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    return triangular(rng, shape[:-2], *shape[-2:])


def far_from_zero(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    return entries(rng, shape[:-2], *shape[-2:])


def numbers(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    return rng.standard_normal(shape)


# What doesn't depend on the choice of vectors.


def symmetrized(x: Any) -> Any:
    return (x + x.mT) / 2


def of_vectors(parts: Any, exp: Callable) -> tuple:
    """Squares of elements don't depend on signs, matrix functions on no choice at all."""
    values, vectors = parts
    return values, vectors * vectors, (vectors * exp(values)[..., None, :]) @ vectors.mT


def of_singular_vectors(parts: Any, tanh: Callable) -> tuple:
    """Each left vector times its right one has no sign."""
    u, s, vh = parts
    pairs = u.mT[..., :, None] * vh[..., None, :]
    return s, pairs, (u * tanh(s)[..., None, :]) @ vh, u @ u.mT, vh.mT @ vh


def leading(parts: Any) -> tuple:
    """Of all vectors those which belong to values."""
    u, s, vh = parts
    rank = s.shape[-1]
    return u[..., :rank], s, vh[..., :rank, :]


def with_signs(factors: Any, signs: Callable) -> tuple:
    """The factors for which the diagonal of the triangle is positive."""
    q, r = factors
    sign = signs(r)
    return q[..., : sign.shape[-1]] * sign[..., None, :], r * sign[..., :, None]


def our_signs(r: ad.Tensor) -> ad.Tensor:
    return ad.sign(L.diagonal(r.detach()))


def torch_signs(r: Any) -> Any:
    return torch.sign(r.detach().diagonal(dim1=-2, dim2=-1))


def our_qr(x: ad.Tensor) -> tuple:
    return with_signs(L.qr(x), our_signs)


def torch_qr(x: Any) -> tuple:
    return with_signs(T.qr(x), torch_signs)


def our_complete_qr(x: ad.Tensor) -> tuple:
    """What a complete Q has beyond the columns of x is a projector's range."""
    q, r = L.qr(x, mode="complete")
    rank = min(x.shape[-2:])
    rest = q[..., rank:]
    return *with_signs((q, r[..., :rank, :]), our_signs), rest @ rest.mT


def torch_complete_qr(x: Any) -> tuple:
    """torch doesn't differentiate a complete Q of a tall matrix: the rest is what isn't in the
    range of the first columns."""
    q, r = T.qr(x)
    rest = torch.eye(x.shape[-2], dtype=x.dtype) - q @ q.mT
    return *with_signs((q, r), torch_signs), rest


def torch_cond(x: Any, p: Any) -> Any:
    """torch overwrites what its own function needs for the second order of most norms."""
    return T.cond(x) if p is None else T.matrix_norm(x, p) * T.matrix_norm(T.pinv(x), p)


def our_lstsq(a: ad.Tensor, b: ad.Tensor) -> tuple:
    """Nothing is missing, but for rounding errors, unless there are more rows than columns."""
    return L.lstsq(a, b)[: 2 if a.shape[-2] > a.shape[-1] else 1]


def torch_lstsq(a: Any, b: Any) -> tuple:
    if b.ndim == 1:
        return tuple(x[..., 0] for x in torch_lstsq(a, b[:, None]))
    solution = T.lstsq(a, b).solution
    residuals = ((a @ solution - b) ** 2).sum(-2)
    return (solution, residuals) if a.shape[-2] > a.shape[-1] else (solution,)


def torch_triangular(a: Any, b: Any, left: bool = True, **options: Any) -> Any:
    if b.ndim > 1:
        return T.solve_triangular(a, b, left=left, **options)
    right = b[:, None] if left else b[None, :]
    return T.solve_triangular(a, right, left=left, **options)[
        (..., 0) if left else (..., 0, slice(None))
    ]


def torch_cholesky_solve(b: Any, x: Any, upper: bool) -> Any:
    """Of the factor only a triangle is read, so only that has a gradient."""
    triangle = torch.triu(x) if upper else torch.tril(x)
    right = b[:, None] if b.ndim == 1 else b
    out = torch.cholesky_solve(right, triangle, upper=upper)
    return out[..., 0] if b.ndim == 1 else out


# The table.


class Function(NamedTuple):
    """The function in adjoint and in torch, and for each argument how it is drawn; `shapes` has a
    shape for each argument, in several ways."""

    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    draws: tuple[Draw, ...]
    shapes: tuple[tuple[Shape, ...], ...]


def alone(*shapes: Shape) -> tuple[tuple[Shape, ...], ...]:
    """Of functions of one argument."""
    return tuple((shape,) for shape in shapes)


SQUARE = alone((1, 1), (4, 4), (3, 3, 3), (2, 3, 2, 2))
ANY = alone((4, 4), (5, 3), (2, 4), (3, 4, 2), (2, 3, 2, 3))
TALL = alone((5, 3), (3, 4, 2))
FEW = alone((4, 4), (2, 3, 3))
FEW_ANY = alone((5, 3), (2, 3, 4))
SYSTEMS = (
    ((4, 4), (4,)),
    ((4, 4), (4, 2)),
    ((3, 4, 4), (4,)),
    ((3, 2, 2), (3, 2, 3)),
    ((3, 3), (2, 3, 2)),
    ((2, 1, 3, 3), (4, 3, 2)),
)
ROWS = (((3, 3), (3,)), ((4, 4), (2, 4)), ((2, 3, 3), (4, 1, 2, 3)))

TABLE: dict[str, Function] = {
    "inv": Function(L.inv, T.inv, (general,), SQUARE),
    "det": Function(L.det, T.det, (general,), SQUARE),
    "slogdet": Function(
        lambda x: L.slogdet(x).logabsdet, lambda x: T.slogdet(x).logabsdet, (general,), SQUARE
    ),
    "solve": Function(L.solve, T.solve, (general, numbers), SYSTEMS),
    **{
        f"solve_triangular upper={upper} left={left} unitriangular={unit}": Function(
            lambda a, b, o=options: L.solve_triangular(a, b, **o),
            lambda a, b, o=options: torch_triangular(a, b, **o),
            (both_triangles, numbers),
            SYSTEMS[:2] + SYSTEMS[-1:] if left else ROWS,
        )
        for upper, left, unit in itertools.product((False, True), repeat=3)
        for options in [{"upper": upper, "left": left, "unitriangular": unit}]
    },
    **{
        f"cholesky upper={upper}": Function(
            lambda x, upper=upper: L.cholesky(x, upper=upper),
            lambda x, upper=upper: T.cholesky(symmetrized(x), upper=upper),
            (definite,),
            SQUARE,
        )
        for upper in (False, True)
    },
    **{
        f"cholesky_solve upper={upper}": Function(
            lambda x, b, upper=upper: L.cholesky_solve(b, x, upper=upper),
            lambda x, b, upper=upper: torch_cholesky_solve(b, x, upper),
            (both_triangles, numbers),
            SYSTEMS[1:4] + SYSTEMS[-1:],
        )
        for upper in (False, True)
    },
    "qr": Function(our_qr, torch_qr, (general,), ANY),
    "qr complete": Function(our_complete_qr, torch_complete_qr, (general,), TALL),
    "qr complete, wide": Function(
        lambda x: with_signs(L.qr(x, mode="complete"), our_signs),
        lambda x: with_signs(T.qr(x, mode="complete"), torch_signs),
        (general,),
        alone((2, 4), (2, 3, 3)),
    ),
    "svd": Function(
        lambda x: of_singular_vectors(L.svd(x, full_matrices=False), ad.tanh),
        lambda x: of_singular_vectors(T.svd(x, full_matrices=False), torch.tanh),
        (general,),
        ANY,
    ),
    "svd full": Function(
        lambda x: of_singular_vectors(leading(L.svd(x)), ad.tanh),
        lambda x: of_singular_vectors(T.svd(x, full_matrices=False), torch.tanh),
        (general,),
        ANY[1:],
    ),
    "svdvals": Function(L.svdvals, T.svdvals, (general,), ANY),
    "eigh": Function(
        lambda x: of_vectors(L.eigh(x), ad.exp),
        lambda x: of_vectors(T.eigh(symmetrized(x)), torch.exp),
        (symmetric,),
        SQUARE,
    ),
    "eigvalsh": Function(L.eigvalsh, lambda x: T.eigvalsh(symmetrized(x)), (symmetric,), SQUARE),
    "pinv": Function(L.pinv, T.pinv, (general,), ANY),
    "lstsq": Function(
        our_lstsq,
        torch_lstsq,
        (general, numbers),
        (
            ((4, 4), (4,)),
            ((5, 3), (5,)),
            ((5, 3), (5, 2)),
            ((2, 4), (2, 2)),
            ((3, 4, 2), (3, 4, 1)),
        ),
    ),
    **{
        f"matrix_norm {ord}": Function(
            lambda x, ord=ord: L.matrix_norm(x, ord=ord),
            lambda x, ord=ord: T.matrix_norm(x, ord=ord),
            (general if ord in ("nuc", 2, -2) else far_from_zero,),
            FEW_ANY,
        )
        for ord in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)
    },
    **{
        f"vector_norm {ord}": Function(
            lambda x, ord=ord: L.vector_norm(x, axis=-1, ord=ord),
            lambda x, ord=ord: T.vector_norm(x, dim=-1, ord=ord),
            (far_from_zero,),
            FEW_ANY[1:],
        )
        for ord in (2, 1, 3, 2.5, 0.5, -1, math.inf, -math.inf)
    },
    "vector_norm of everything": Function(
        L.vector_norm, T.vector_norm, (far_from_zero,), FEW_ANY[1:]
    ),
    **{
        f"matrix_power {n}": Function(
            lambda x, n=n: L.matrix_power(x, n),
            lambda x, n=n: T.matrix_power(x, n),
            (general,),
            FEW,
        )
        for n in (1, 2, 5, -1, -3)
    },
    "expm": Function(L.expm, T.matrix_exp, (general,), SQUARE),
    **{
        f"cond {p}": Function(
            lambda x, p=p: L.cond(x, p), lambda x, p=p: torch_cond(x, p), (general,), shapes
        )
        for ps, shapes in (((None, 2, -2), FEW_ANY), (("fro", "nuc", 1, -1, math.inf), FEW))
        for p in ps
    },
    **{
        f"trace {offset}": Function(
            lambda x, k=offset: L.trace(x, offset=k),
            lambda x, k=offset: x.diagonal(k, -2, -1).sum(-1),
            (numbers,),
            FEW_ANY,
        )
        for offset in (0, -1)
    },
    "diagonal": Function(
        lambda x: L.diagonal(x, offset=1),
        lambda x: T.diagonal(x, offset=1),
        (numbers,),
        FEW_ANY,
    ),
    "cross": Function(L.cross, T.cross, (numbers, numbers), (((3,), (3,)), ((1, 2, 3), (4, 1, 3)))),
    "outer": Function(L.outer, torch.outer, (numbers, numbers), (((3,), (4,)),)),
    "tensordot": Function(
        lambda x, y: L.tensordot(x, y, axes=((1, 2), (0, 1))),
        lambda x, y: torch.tensordot(x, y, dims=((1, 2), (0, 1))),
        (numbers, numbers),
        (((2, 3, 4), (3, 4, 5)),),
    ),
    "vecdot": Function(
        lambda x, y: L.vecdot(x, y, axis=-2),
        lambda x, y: T.vecdot(x, y, dim=-2),
        (numbers, numbers),
        (((3, 2), (3, 2)), ((4, 3, 2), (3, 2))),
    ),
    "matmul": Function(
        L.matmul,
        torch.matmul,
        (numbers, numbers),
        (((4,), (4,)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((2, 1, 3, 2), (4, 2, 3))),
    ),
}

VARIANTS = [(name, shapes) for name, function in TABLE.items() for shapes in function.shapes]
CASES = [(*VARIANTS[k % len(VARIANTS)], k) for k in range(COUNT)]


def described(case: tuple) -> str:
    name, shapes, seed = case
    return f"{name} {' '.join(map(str, shapes))} seed {seed}".replace(", ", ",")


# Comparisons.


def total(outputs: tuple, weights: list) -> Any:
    """A number that depends on every output, and isn't linear in any."""
    return sum((w * x + x * x / 2).sum() for x, w in zip(outputs, weights, strict=True))


def agree(ours: Any, theirs: Any, what: str) -> None:
    """Up to 1e-7 of the largest element; a missing gradient stands for zeros."""
    expected = theirs.detach().numpy()
    found = np.zeros_like(expected) if ours is None else ours.detach().numpy()
    assert found.shape == expected.shape, what
    scale = np.abs(expected).max(initial=0)
    assert np.isfinite(expected).all() and scale > 0, f"{what}: torch has nothing to compare with"
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * scale, err_msg=what)


def test_every_function_and_shape_is_among_the_cases() -> None:
    assert len(VARIANTS) <= COUNT == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=described)
def test_value_gradient_and_second_order_are_torch_s(case: tuple) -> None:
    name, shapes, seed = case
    function = TABLE[name]
    rng = np.random.default_rng(seed)
    arrays = [draw(rng, shape) for draw, shape in zip(function.draws, shapes, strict=True)]
    xs = [ad.tensor(array, requires_grad=True) for array in arrays]
    ys = [torch.tensor(array, requires_grad=True) for array in arrays]

    ours, theirs = as_tuple(function.ours(*xs)), as_tuple(function.theirs(*ys))
    assert len(ours) == len(theirs)
    for x, y in zip(ours, theirs, strict=True):
        agree(x, y, "value")

    weights = [rng.standard_normal(y.shape) for y in theirs]
    tangents = [rng.standard_normal(array.shape) for array in arrays]

    def loss(*inputs: ad.Tensor) -> ad.Tensor:
        return total(as_tuple(function.ours(*inputs)), [ad.asarray(w) for w in weights])

    gs = ad.autograd.grad(loss(*xs), xs, create_graph=True)
    hs = torch.autograd.grad(total(theirs, list(map(torch.tensor, weights))), ys, create_graph=True)
    for g, h in zip(gs, hs, strict=True):
        agree(g, h, "gradient")

    along: Any = sum((g * ad.asarray(t)).sum() for g, t in zip(gs, tangents, strict=True))
    expected = sum((h * torch.tensor(t)).sum() for h, t in zip(hs, tangents, strict=True))
    seconds = torch.autograd.grad(expected, ys)
    for g, h in zip(ad.autograd.grad(along, xs), seconds, strict=True):
        agree(g, h, "second order")

    products = ad.hvp(loss, tuple(map(ad.asarray, arrays)), tuple(map(ad.asarray, tangents)))
    for g, h in zip(products, seconds, strict=True):
        agree(g, h, "Hessian times a vector")
