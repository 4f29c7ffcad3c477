"""Factorisations of matrices, in the last two axes. They have no derivative rules yet.

`real` is the dtype of the real numbers among the results, where the input may be complex; `dtype`
that of complex results of a real input.
"""

import math

from .. import op
from .._shapes import Shape, broadcast_shapes
from .shapes import inverse, lined_up, permute_dims, reshape


def svd_shape(x_shape: Shape, full_matrices: bool) -> tuple[Shape, Shape, Shape]:
    *batch, rows, columns = x_shape
    rank = min(rows, columns)
    left, right = (rows, columns) if full_matrices else (rank, rank)
    return (*batch, rows, left), (*batch, rank), (*batch, right, columns)


def qr_shape(x_shape: Shape, complete: bool) -> tuple[Shape, Shape]:
    *batch, rows, columns = x_shape
    rank = rows if complete else min(rows, columns)
    return (*batch, rows, rank), (*batch, rank, columns)


def solve_shape(x_shape: Shape, y_shape: Shape) -> Shape:
    return (*broadcast_shapes("solve", [x_shape[:-2], y_shape[:-2]]), *y_shape[-2:])


def solve_batch(size: int, batched: tuple[bool, ...], x, y):
    """One matrix that all examples share is taken apart once, for all columns together."""
    if batched[0] or len(x.shape) > 2:
        return solve(*lined_up(batched, (x, y)))
    rank = len(y.shape)
    order = (rank - 2, *range(rank - 2), rank - 1)
    turned = permute_dims(y, axes=order)
    rows = y.shape[-2]
    columns = math.prod(y.shape[:-2]) * y.shape[-1]
    out = solve(x, reshape(turned, shape=(rows, columns)))
    return permute_dims(reshape(out, shape=turned.shape), axes=inverse(order))


svd = op.other(
    "svd",
    "Singular values, largest first, and vectors.",
    inputs="x",
    outputs="u s vh",
    attrs="full_matrices real",
    dtype="x real x",
    shape=svd_shape,
    batch="leading",
    differentiable=False,
)
svdvals = op.other(
    "svdvals",
    "Singular values, largest first.",
    inputs="x",
    real_valued=True,
    shape=lambda x_shape: (*x_shape[:-2], min(x_shape[-2:])),
    batch="leading",
    differentiable=False,
)
eigh = op.other(
    "eigh",
    "Eigenvalues of Hermitian matrices, smallest first, and eigenvectors.",
    inputs="x",
    outputs="values vectors",
    attrs="real",
    dtype="real x",
    shape=lambda x_shape: (x_shape[:-1], x_shape),
    batch="leading",
    differentiable=False,
)
eigvalsh = op.other(
    "eigvalsh",
    "Eigenvalues of Hermitian matrices, smallest first.",
    inputs="x",
    real_valued=True,
    shape=lambda x_shape: x_shape[:-1],
    batch="leading",
    differentiable=False,
)
eig = op.other(
    "eig",
    "Eigenvalues and eigenvectors, complex.",
    inputs="x",
    outputs="values vectors",
    attrs="dtype",
    dtype="dtype dtype",
    shape=lambda x_shape: (x_shape[:-1], x_shape),
    batch="leading",
    differentiable=False,
)
eigvals = op.other(
    "eigvals",
    "Eigenvalues, complex.",
    inputs="x",
    attrs="dtype",
    dtype="dtype",
    shape=lambda x_shape: x_shape[:-1],
    batch="leading",
    differentiable=False,
)
qr = op.other(
    "qr",
    "Orthonormal columns, and an upper triangle; `complete`: all columns.",
    inputs="x",
    outputs="q r",
    attrs="complete",
    shape=qr_shape,
    batch="leading",
    differentiable=False,
)
cholesky = op.other(
    "cholesky",
    "The triangle whose product with its adjoint is a positive definite matrix.",
    inputs="x",
    attrs="upper",
    shape=lambda x_shape: x_shape,
    batch="leading",
    differentiable=False,
)
inv = op.other(
    "inv",
    "Inverse matrices.",
    inputs="x",
    shape=lambda x_shape: x_shape,
    batch="leading",
    differentiable=False,
)
det = op.other(
    "det",
    "Determinants.",
    inputs="x",
    shape=lambda x_shape: x_shape[:-2],
    batch="leading",
    differentiable=False,
)
slogdet = op.other(
    "slogdet",
    "Signs of determinants, and logarithms of their absolute values.",
    inputs="x",
    outputs="sign logabsdet",
    attrs="real",
    dtype="x real",
    shape=lambda x_shape: (x_shape[:-2], x_shape[:-2]),
    batch="leading",
    differentiable=False,
)
solve = op.other(
    "solve",
    "What the matrices x take to the matrices y; batch axes broadcast.",
    inputs="x y",
    shape=solve_shape,
    batch=solve_batch,
    differentiable=False,
)
