"""Records of linear algebra.

What a factorisation gives is unique only up to signs or an order, so most are checked by what they
are for: the product is the matrix, the vectors are orthonormal.
"""

from typing import Any

import numpy as np

from tests.support.samples import CALLS, Array, real, sample

WIDE = (((3, 3),), ((2, 3),), ((3, 2),), ((2, 2, 3),), ((0, 3),), ((2, 3, 0),))
SQUARE = (((3, 3),), ((1, 1),), ((2, 2, 2),), ((0, 0),), ((0, 2, 2),))


def positive_definite(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    x = real(rng, shape)
    return x @ x.swapaxes(-1, -2) + np.eye(shape[-1])


def triangular(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.triu(real(rng, shape))


def identity(x: Array, n: int) -> Array:
    """Identity matrices, as many as there are in x."""
    return np.broadcast_to(np.eye(n), (*x.shape[:-2], n, n))


def rank(x: Array) -> int:
    return min(x.shape[-2:])


def singular_values(x: Array) -> Array:
    """The roots of the eigenvalues of x xᵀ, largest first."""
    x = x.astype("f8")
    squares = np.linalg.eigvalsh(x @ x.swapaxes(-1, -2))[..., ::-1]
    return np.sqrt(np.abs(squares))[..., : rank(x)]


def determinant(x: Array) -> Array:
    """By its first row."""
    if not x.shape[-1]:
        return np.ones(x.shape[:-2])
    minors = [np.delete(x[..., 1:, :], k, -1) for k in range(x.shape[-1])]
    terms = [(-1) ** k * x[..., 0, k] * determinant(minor) for k, minor in enumerate(minors)]
    return np.sum(terms, axis=0)


def complex_dtype(x: Any) -> np.dtype:
    return np.result_type(x.dtype.name, np.complex64)


def complex_diagonal(x: Array) -> Array:
    return np.diagonal(x, axis1=-2, axis2=-1).astype(complex_dtype(x))


def scaled_columns(x: Any, s: Any) -> Any:
    return x * s.reshape(*s.shape[:-1], 1, s.shape[-1])


def reduced_svd(x: Any) -> Any:
    u, s, vh = CALLS["svd"](x, full_matrices=False, real=x.raw.dtype)
    return scaled_columns(u, s) @ vh, u.mT @ u, vh @ vh.mT


def full_svd(x: Any) -> Any:
    u, s, vh = CALLS["svd"](x, full_matrices=True, real=x.raw.dtype)
    return s, u.mT @ u, vh @ vh.mT


def eigh(x: Any) -> Any:
    values, vectors = symmetric("eigh")(x, real=x.raw.dtype)
    return scaled_columns(vectors, values) @ vectors.mT, vectors.mT @ vectors


def eig(x: Any) -> Any:
    values, vectors = CALLS["eig"](x, dtype=complex_dtype(x))
    return values, x @ vectors - scaled_columns(vectors, values)


def qr(x: Any, complete: bool) -> Any:
    q, r = CALLS["qr"](x, complete=complete)
    return q @ r, q.mT @ q


def symmetric(name: str) -> Any:
    """A function that reads symmetric matrices only."""
    return lambda x, **attrs: CALLS[name](CALLS["symmetrized"](x), **attrs)


def cholesky(x: Any) -> Any:
    """The triangle itself, too, so that no part of its gradient is left out."""
    triangle = symmetric("cholesky")(x)
    return triangle, triangle @ triangle.mT


def gradient_of_cholesky(dout: Array, x: Array) -> Array:
    """By the inverse, which Cholesky factors of so few rows can do with."""
    x = np.tril(x).astype("f8")
    z, inner = np.linalg.inv(x), x.swapaxes(-1, -2) @ dout
    inner = np.tril(inner) + np.tril(inner, -1).swapaxes(-1, -2)
    return z.swapaxes(-1, -2) @ inner @ z / 2


def lu_solve(x: Any, y: Any, transposed: bool) -> Any:
    factors, pivots = CALLS["lu"](x)
    return CALLS["lu_solve"](x, factors, pivots, y, transposed=transposed, asked="solve")


def regular(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Far from singular, and not symmetric."""
    return real(rng, shape) + 4 * np.eye(shape[-1])


def least_squares(x: Any, y: Any, transposed: bool) -> Any:
    u, s, vh = CALLS["svd"](x.detach(), full_matrices=False, real=x.raw.dtype)
    return CALLS["least_squares"](x, u, 1 / s, vh, y, transposed=transposed)


def pseudo_inverse(x: Array, y: Array, transposed: bool) -> Array:
    """By the normal equations, of matrices that have as many ranks as rows or columns."""
    x, y = (x.swapaxes(-1, -2) if transposed else x).astype("f8"), y.astype("f8")
    turned = x.swapaxes(-1, -2)
    if x.shape[-2] >= x.shape[-1]:
        return np.linalg.solve(turned @ x, turned @ y)
    return turned @ np.linalg.solve(x @ turned, y)


def cofactor_matrix(x: Array) -> Array:
    """By minors."""
    n = x.shape[-1]
    out = np.zeros(x.shape)
    for i, j in np.ndindex(n, n):
        minor = np.delete(np.delete(x, i, -2), j, -1)
        out[..., i, j] = (-1) ** (i + j) * determinant(minor)
    return out


def change_of_cofactors(x: Array, y: Array) -> Array:
    """Of at most three rows: they have no third derivative, so that a difference has no error."""
    return (cofactor_matrix(x + y) - cofactor_matrix(x - y)) / 2


def rotated(x: Array) -> Array:
    """The exponential of a skew matrix of two rows."""
    angle = x[..., 0, 1] - x[..., 1, 0]
    rows = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


for upper in (False, True):
    for k in (0, 1, -2):
        sample(
            "triangle",
            lambda x, k=k, upper=upper: CALLS["triangle"](x, k=k, upper=upper),
            lambda x, k=k, upper=upper: (np.triu if upper else np.tril)(x, k),
            *WIDE,
        )
sample(
    "mirrored",
    CALLS["mirrored"],
    lambda x: np.tril(x) + np.tril(x, -1).swapaxes(-1, -2),
    *SQUARE,
)
sample("symmetrized", CALLS["symmetrized"], lambda x: (x + x.swapaxes(-1, -2)) / 2, *SQUARE)
sample("svd", reduced_svd, lambda x: (x, *2 * (identity(x, rank(x)),)), *WIDE)
sample(
    "svd", full_svd, lambda x: (singular_values(x), *(identity(x, n) for n in x.shape[-2:])), *WIDE
)
sample("svdvals", CALLS["svdvals"], singular_values, *WIDE)
sample(
    "eigh",
    eigh,
    lambda x: (x, identity(x, rank(x))),
    *SQUARE,
    domains=(positive_definite,),
)
sample(
    "eigvalsh",
    CALLS["eigvalsh"],
    lambda x: singular_values(x)[..., ::-1],
    *SQUARE,
    domains=(positive_definite,),
)
sample(
    "eig",
    eig,
    lambda x: (complex_diagonal(x), np.zeros(x.shape)),
    *SQUARE,
    domains=(triangular,),
)
sample(
    "eigvals",
    lambda x: CALLS["eigvals"](x, dtype=complex_dtype(x)),
    complex_diagonal,
    *SQUARE,
    domains=(triangular,),
)
sample("qr", lambda x: qr(x, False), lambda x: (x, identity(x, rank(x))), *WIDE)
sample("qr", lambda x: qr(x, True), lambda x: (x, identity(x, x.shape[-2])), *WIDE)
sample(
    "cholesky",
    cholesky,
    lambda x: (np.linalg.cholesky(x), x),
    *SQUARE,
    domains=(positive_definite,),
)
sample(
    "cholesky_gradient",
    lambda dout, x: CALLS["cholesky_gradient"](dout, CALLS["triangle"](x, k=0, upper=False)),
    gradient_of_cholesky,
    *((*case, *case) for case in SQUARE),
    domains=(real, regular),
)
sample(
    "cholesky_solve",
    lambda x, y: CALLS["cholesky_solve"](x, y),
    lambda x, y: np.linalg.solve(np.tril(x) @ np.tril(x).swapaxes(-1, -2), y),
    ((3, 3), (3, 2)),
    ((4, 2, 2), (4, 2, 3)),
    ((0, 0), (0, 2)),
    domains=(regular, real),
)
sample(
    "gauge",
    lambda x: CALLS["gauge"](x, x.detach() * 0, x.detach(), asked="a test"),
    lambda x: x,
    *WIDE,
)
sample("expm", lambda x: CALLS["expm"](x - x.mT), rotated, ((2, 2),), ((3, 2, 2),))
sample("inv", lambda x: CALLS["inv"](x), np.linalg.inv, *SQUARE, domains=(regular,))
sample(
    "far_from_singular",
    lambda x: CALLS["far_from_singular"](x, power=0.5, asked="a test"),
    lambda x: x,
    *SQUARE,
    domains=(regular,),
)
sample("det", CALLS["det"], determinant, *SQUARE)
sample("cofactors", CALLS["cofactors"], cofactor_matrix, *SQUARE)
sample(
    "cofactors_change",
    CALLS["cofactors_change"],
    change_of_cofactors,
    *((*case, *case) for case in SQUARE),
    domains=(regular, real),
)
sample(
    "slogdet",
    lambda x: CALLS["slogdet"](x, real=x.raw.dtype)[:2],
    lambda x: (np.sign(determinant(x)), np.log(np.abs(determinant(x)))),
    *SQUARE,
)
SYSTEMS = (((3, 3), (3, 2)), ((4, 2, 2), (4, 2, 3)), ((2, 1, 1), (2, 1, 1)), ((0, 0), (0, 2)))
sample(
    "lu",
    lambda x: lu_solve(x, x, False),
    lambda x: identity(x, rank(x)),
    *(case[:1] for case in SYSTEMS),
    domains=(regular,),
)
for transposed in (False, True):
    sample(
        "lu_solve",
        lambda x, y, transposed=transposed: lu_solve(x, y, transposed),
        lambda x, y, transposed=transposed: np.linalg.solve(
            x.swapaxes(-1, -2) if transposed else x, y
        ),
        *SYSTEMS,
        ((2, 2), (2, 0)),
        domains=(regular, real),
    )
    sample(
        "least_squares",
        lambda x, y, transposed=transposed: least_squares(x, y, transposed),
        lambda x, y, transposed=transposed: pseudo_inverse(x, y, transposed),
        *(((3, 2), (2, 2)), ((2, 2, 3), (2, 3, 1))) if transposed else (((3, 2), (3, 2)),),
        ((2, 2), (2, 3)),
    )
    for unit in (False, True):
        sample(
            "solve_triangular",
            lambda x, y, upper=transposed, unit=unit: CALLS["solve_triangular"](
                x, y, upper=upper, unit=unit
            ),
            lambda x, y, upper=transposed, unit=unit: np.linalg.solve(
                (np.triu if upper else np.tril)(x, (1 if upper else -1) if unit else 0)
                + unit * np.eye(x.shape[-1]),
                y,
            ),
            *SYSTEMS,
            domains=(regular, real),
        )
