"""The differentiable functions of ad.linalg, each with arguments that it is smooth around.

A case is a call with a name: a function of ad.linalg with certain options. Its arguments are drawn
for any batch axes and any rows and columns. They are far from where derivatives end or explode:
singular values and eigenvalues lie apart from each other, and from 0.

Singular vectors and eigenvectors are free in their signs, and what completes an orthogonal matrix
in more than that. A case gives what is made of them and doesn't depend on the choice.
"""

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import adjoint as ad

L = ad.linalg
INF = math.inf

Shape = tuple[int, ...]
Array = np.ndarray
Draw = Callable[[np.random.Generator, Shape, int, int], Array]  # batch axes, rows, columns

SQUARE = tuple((n, n) for n in range(1, 7))
ANY = ((1, 1), (2, 2), (5, 5), (2, 1), (3, 2), (6, 4), (1, 3), (2, 3), (3, 6))

# Arguments.


def frames(rng: np.random.Generator, batch: Shape, rows: int, columns: int) -> Array:
    """Orthonormal columns."""
    return np.linalg.qr(rng.standard_normal((*batch, rows, columns)))[0]


def spread(low: float, high: float, count: int) -> Array:
    return np.linspace(low, high, count)


def general(rng: np.random.Generator, batch: Shape, m: int, n: int) -> Array:
    """Matrices with singular values from 1 to 3."""
    rank = min(m, n)
    left, right = frames(rng, batch, m, rank), frames(rng, batch, n, rank)
    return (left * spread(1, 3, rank)) @ right.swapaxes(-1, -2)


def leading(rng: np.random.Generator, batch: Shape, m: int, n: int) -> Array:
    """As many of the first columns as there can be are independent."""
    first = general(rng, batch, m, min(m, n))
    return np.concatenate([first, rng.standard_normal((*batch, m, n - first.shape[-1]))], -1)


def with_eigenvalues(rng: np.random.Generator, batch: Shape, values: Array) -> Array:
    """Symmetric, to the last bit."""
    vectors = frames(rng, batch, len(values), len(values))
    x = (vectors * values) @ vectors.swapaxes(-1, -2)
    return (x + x.swapaxes(-1, -2)) / 2


def symmetric(rng: np.random.Generator, batch: Shape, m: int, n: int) -> Array:
    """Eigenvalues of both signs."""
    return with_eigenvalues(rng, batch, spread(-1.7, 2, n))


def definite(rng: np.random.Generator, batch: Shape, m: int, n: int) -> Array:
    return with_eigenvalues(rng, batch, spread(1, 3, n))


def triangular(rng: np.random.Generator, batch: Shape, m: int, n: int) -> Array:
    """Both triangles are good to solve with; a function reads one of them."""
    return rng.standard_normal((*batch, n, n)) / (2 * math.sqrt(max(n, 1))) + 2 * np.eye(n)


def entries(rng: np.random.Generator, batch: Shape, m: int, n: int) -> Array:
    """Numbers far from 0, whose absolute values are far from each other, and so are their sums."""
    shape = (*batch, m, n)
    sizes = np.geomspace(0.5, 2, math.prod(shape))
    return (rng.permutation(sizes) * rng.choice([-1, 1], sizes.size)).reshape(shape)


def columns(count: int) -> Draw:
    """Right sides for matrices with m rows."""
    return lambda rng, batch, m, n: rng.standard_normal((*batch, m, count))


def rows(count: int) -> Draw:
    return lambda rng, batch, m, n: rng.standard_normal((*batch, count, n))


def column(rng: np.random.Generator, batch: Shape, m: int, n: int) -> Array:
    """A right side without batch axes."""
    return rng.standard_normal(m)


def vectors(length: int) -> Draw:
    return lambda rng, batch, m, n: rng.standard_normal((*batch, length))


def shared(draw: Draw) -> Draw:
    """One for the whole batch."""
    return lambda rng, batch, m, n: draw(rng, (), m, n)


def of_first_axis(draw: Draw) -> Draw:
    """One for each place along the first batch axis."""
    return lambda rng, batch, m, n: draw(rng, (*batch[:1], *(1 for _ in batch[1:])), m, n)


def of_other_axes(draw: Draw) -> Draw:
    """One for each place along the batch axes after the first."""
    return lambda rng, batch, m, n: draw(rng, batch[1:], m, n)


# What doesn't depend on the choice of vectors.


def framed(vectors: ad.Tensor, rank: int) -> ad.Tensor:
    """A symmetric matrix with these eigenvectors; those after the first `rank` are free to turn."""
    n = vectors.shape[-1]
    values = ad.asarray(np.where(np.arange(n) < rank, 1 + np.arange(n), -2.0), dtype=vectors.dtype)
    return (vectors * values) @ vectors.mT


def eigh(x: ad.Tensor) -> tuple:
    values, vectors = L.eigh(x)
    return values, framed(vectors, values.shape[-1])


def svd(x: ad.Tensor, full_matrices: bool) -> tuple:
    u, s, vh = L.svd(x, full_matrices=full_matrices)
    rank = s.shape[-1]
    paired = u[..., :rank] @ vh[..., :rank, :]
    return s, framed(u, rank), framed(vh.mT, rank), paired


def complete_qr(x: ad.Tensor) -> tuple:
    q, r = L.qr(x, mode="complete")
    rest = q[..., x.shape[-1] :]
    return q[..., : x.shape[-1]], r, rest @ rest.mT


# The table.


class Case(NamedTuple):
    """`function`: its name in ad.linalg; `call` takes the arguments, as tensors, and gives a tensor
    or a tuple of them; `shapes`: the rows and columns to try."""

    function: str
    call: Callable[..., Any]
    draws: tuple[Draw, ...]
    shapes: tuple[tuple[int, int], ...] = SQUARE

    def arguments(self, batch: Shape, m: int, n: int, seed: int = 0) -> list[Array]:
        rng = np.random.default_rng(seed)
        return [draw(rng, batch, m, n) for draw in self.draws]


def least_squares(a: ad.Tensor, b: ad.Tensor) -> tuple:
    return L.lstsq(a, b)[:2]


def low_rank(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a product that has only two singular values which aren't 0."""
    return lambda a, b, *others: function(a @ b, *others, rtol=1e-4)


def named(name: str, **options: Any) -> Callable[..., Any]:
    """A function of ad.linalg, with options."""
    return functools.partial(getattr(L, name), **options)


def triangular_solves() -> dict[str, Case]:
    out = {}
    for upper, left, unit in itertools.product((False, True), repeat=3):
        words = ("upper" if upper else "lower", "left" if left else "right", "unit" if unit else "")
        name = " ".join(("solve_triangular", *words)).strip()
        call = named("solve_triangular", upper=upper, left=left, unitriangular=unit)
        out[name] = Case("solve_triangular", call, (triangular, (columns if left else rows)(2)))
    return out


BOTH = (general, columns(2))
MATRIX_ORDS = ("fro", "nuc", 1, -1, 2, -2, INF, -INF)
VECTOR_ORDS = (2, 1, 0, 3, 2.5, 0.5, -1, INF, -INF)
FEW = ((1, 1), (2, 2), (5, 5))  # for variants
FEW_ANY = ((1, 1), (2, 2), (3, 2), (2, 3))
ONE = ((2, 2),)

CASES: dict[str, Case] = {
    # Linear equations.
    "solve": Case("solve", L.solve, BOTH),
    "solve for a vector": Case("solve", L.solve, (general, column)),
    "solve with one matrix": Case("solve", L.solve, (shared(general), columns(2)), FEW),
    "solve with one right side": Case("solve", L.solve, (general, shared(columns(2))), FEW),
    "solve with crossing batches": Case(
        "solve", L.solve, (of_first_axis(general), of_other_axes(columns(2))), FEW
    ),
    **triangular_solves(),
    "solve_triangular for a vector": Case(
        "solve_triangular", named("solve_triangular", upper=True), (triangular, column), FEW
    ),
    "solve_triangular with one matrix": Case(
        "solve_triangular",
        named("solve_triangular", upper=False),
        (shared(triangular), columns(2)),
        FEW,
    ),
    "cholesky_solve": Case(
        "cholesky_solve", lambda x, b: L.cholesky_solve(b, x), (triangular, columns(2))
    ),
    "cholesky_solve upper": Case(
        "cholesky_solve", lambda x, b: L.cholesky_solve(b, x, upper=True), (triangular, columns(2))
    ),
    "cholesky_solve for a vector": Case(
        "cholesky_solve", lambda x, b: L.cholesky_solve(b, x), (triangular, column), FEW
    ),
    "lstsq": Case("lstsq", least_squares, BOTH, ANY),
    "lstsq for a vector": Case("lstsq", least_squares, (general, column), FEW_ANY),
    "lstsq with one matrix": Case("lstsq", least_squares, (shared(general), columns(2)), FEW_ANY),
    "lstsq with low rank": Case(
        "lstsq",
        lambda a, b, y: low_rank(L.lstsq)(a, b, y)[:2],
        (columns(2), rows(2), columns(1)),
        ((4, 3), (3, 4)),
    ),
    # Inverses and determinants.
    "inv": Case("inv", L.inv, (general,)),
    "pinv": Case("pinv", L.pinv, (general,), ANY),
    "pinv with low rank": Case(
        "pinv", low_rank(L.pinv), (columns(2), rows(2)), ((3, 3), (4, 3), (3, 4))
    ),
    "det": Case("det", L.det, (general,)),
    "slogdet": Case("slogdet", L.slogdet, (general,)),
    # Factorisations.
    "cholesky": Case("cholesky", L.cholesky, (definite,)),
    "cholesky upper": Case("cholesky", named("cholesky", upper=True), (definite,)),
    "qr": Case("qr", L.qr, (leading,), ANY),
    "qr complete": Case("qr", complete_qr, (leading,), ANY),
    "svd": Case("svd", functools.partial(svd, full_matrices=True), (general,), ANY),
    "svd reduced": Case(
        "svd", functools.partial(svd, full_matrices=False), (general,), (*FEW_ANY, (5, 3), (3, 5))
    ),
    "svdvals": Case("svdvals", L.svdvals, (general,), ANY),
    "eigh": Case("eigh", eigh, (symmetric,)),
    "eigvalsh": Case("eigvalsh", L.eigvalsh, (symmetric,)),
    # Norms.
    **{
        f"matrix_norm {ord}": Case(
            "matrix_norm",
            named("matrix_norm", ord=ord),
            (general if ord in ("nuc", 2, -2) else entries,),
            FEW_ANY,
        )
        for ord in MATRIX_ORDS
    },
    **{
        f"vector_norm {ord}": Case(
            "vector_norm", named("vector_norm", axis=-1, ord=ord), (entries,), FEW_ANY
        )
        for ord in VECTOR_ORDS
    },
    "vector_norm of all": Case("vector_norm", L.vector_norm, (entries,), FEW_ANY),
    **{
        f"cond {p}": Case(
            "cond", named("cond", p=p), (general,), FEW_ANY if p in (None, 2, -2) else FEW
        )
        for p in (None, *MATRIX_ORDS)
    },
    # Powers.
    **{
        f"matrix_power {n}": Case("matrix_power", lambda x, n=n: L.matrix_power(x, n), (general,))
        for n in (3, -2)
    },
    **{
        f"matrix_power {n}": Case(
            "matrix_power", lambda x, n=n: L.matrix_power(x, n), (general,), FEW
        )
        for n in (0, 1, 2, 5, -1, -3)
    },
    "expm": Case("expm", L.expm, (general,)),
    # Diagonals and products.
    **{
        f"{name} {offset}": Case(name, named(name, offset=offset), (general,), FEW_ANY)
        for name, offset in itertools.product(("trace", "diagonal"), (0, 1, -1))
    },
    "matrix_transpose": Case("matrix_transpose", L.matrix_transpose, (general,), ANY),
    "matmul": Case("matmul", L.matmul, BOTH),
    "matmul with crossing batches": Case(
        "matmul", L.matmul, (of_first_axis(columns(2)), of_other_axes(rows(2))), FEW_ANY
    ),
    "matmul of a matrix and a vector": Case("matmul", L.matmul, (general, column), FEW),
    "matmul of a vector and a matrix": Case("matmul", L.matmul, (column, general), FEW_ANY),
    "vecdot": Case("vecdot", L.vecdot, (general, shared(general)), ANY),
    "vecdot along rows": Case("vecdot", named("vecdot", axis=-2), (general, general), FEW_ANY),
    "outer": Case("outer", L.outer, (column, shared(vectors(3))), SQUARE),
    "cross": Case("cross", L.cross, (columns(3), columns(3)), ONE),
    "cross along rows": Case("cross", named("cross", axis=-2), (rows(3), shared(rows(3))), ONE),
    "tensordot": Case("tensordot", named("tensordot", axes=1), (general, shared(general)), SQUARE),
    "tensordot over two axes": Case(
        "tensordot", named("tensordot", axes=((-1, -2), (1, 0))), (general, shared(general)), SQUARE
    ),
}

# No gradient: of eigenvalues of matrices that aren't symmetric, and of a whole number.
WITHOUT_GRADIENT = ("eig", "eigvals", "matrix_rank")
