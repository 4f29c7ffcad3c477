"""Records of the factorisations.

What a factorisation gives is unique only up to signs or an order, so most are checked by what they
are for: the product is the matrix, the vectors are orthonormal.
"""

from typing import Any

import numpy as np
from samples import CALLS, Array, real, sample

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
    u, s, vh = CALLS["svd"](x, full_matrices=False, real=x.data.dtype)
    return scaled_columns(u, s) @ vh, u.mT @ u, vh @ vh.mT


def full_svd(x: Any) -> Any:
    u, s, vh = CALLS["svd"](x, full_matrices=True, real=x.data.dtype)
    return s, u.mT @ u, vh @ vh.mT


def eigh(x: Any) -> Any:
    values, vectors = CALLS["eigh"](x, real=x.data.dtype)
    return scaled_columns(vectors, values) @ vectors.mT, vectors.mT @ vectors


def eig(x: Any) -> Any:
    values, vectors = CALLS["eig"](x, dtype=complex_dtype(x))
    return values, x @ vectors - scaled_columns(vectors, values)


def qr(x: Any, complete: bool) -> Any:
    q, r = CALLS["qr"](x, complete=complete)
    return q @ r, q.mT @ q


def cholesky(x: Any, upper: bool) -> Any:
    triangle = CALLS["cholesky"](x, upper=upper)
    return triangle.mT @ triangle if upper else triangle @ triangle.mT


def solved(x: Array, y: Array) -> Array:
    return np.broadcast_to(y, np.matmul(x, y).shape)


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
for upper in (False, True):
    sample(
        "cholesky",
        lambda x, upper=upper: cholesky(x, upper),
        lambda x: x,
        *SQUARE,
        domains=(positive_definite,),
    )
sample(
    "inv",
    lambda x: CALLS["inv"](x) @ x,
    lambda x: identity(x, rank(x)),
    *SQUARE,
    domains=(positive_definite,),
)
sample("det", CALLS["det"], determinant, *SQUARE)
sample(
    "slogdet",
    lambda x: CALLS["slogdet"](x, real=x.data.dtype),
    lambda x: (np.sign(determinant(x)), np.log(np.abs(determinant(x)))),
    *SQUARE,
)
sample(
    "solve",
    lambda x, y: x @ CALLS["solve"](x, y),
    solved,
    ((3, 3), (3, 2)),
    ((2, 2), (4, 2, 3)),
    ((2, 1, 2, 2), (3, 2, 1)),
    ((0, 0), (0, 2)),
    ((2, 2), (2, 0)),
    domains=(positive_definite, real),
)
