"""Eigenvectors of symmetric matrices, and singular vectors: ops whose rules ask the engine."""

from .. import op
from .._shapes import Shape
from .._tensor import Tensor
from ..primitives.contractions import matmul
from ..primitives.creation import eye
from ..primitives.factorizations import without_rest
from ..primitives.shapes import matrix_transpose, reshape
from ._limits import Quotients, are_close


def as_row(x: Tensor) -> Tensor:
    return reshape(x, shape=(*x.shape[:-1], 1, x.shape[-1]))


def as_column(x: Tensor) -> Tensor:
    return reshape(x, shape=(*x.shape, 1))


def identity(x: Tensor) -> Tensor:
    n = x.shape[-1]
    return eye(rows=n, columns=n, k=0, dtype=x.data.dtype, device=x.device)


def differences(values: Tensor, size: Tensor) -> Tensor:
    """Of each value and those of the rows; on the diagonal, where nothing is divided, `size`."""
    return as_row(values) - as_column(values) + identity(values) * size


def sums(values: Tensor, size: Tensor) -> Tensor:
    """Of each value and those of the rows; on the diagonal, where nothing is divided, `size`."""
    return as_row(values) + as_column(values) + identity(values) * size


def skew(x: Tensor, g: Tensor) -> Tensor:
    """What a gradient says of rotations of the columns of x."""
    turn = matmul(matrix_transpose(x), g)
    return (turn - matrix_transpose(turn)) / 2


def beyond(x: Tensor, g: Tensor) -> Tensor:
    """The part of g that isn't in the span of the columns of x."""
    return g - matmul(x, matmul(matrix_transpose(x), g))


# Eigenvectors.


def eigh_rule(g_values, g_vectors, values, vectors, arrived):
    inner = identity(values) * as_row(g_values)
    if arrived[1] and values.shape[-1]:
        quotients = Quotients([g_vectors], values, "eigh, for the gradient of eigenvectors")
        inner = inner + quotients(lambda g: skew(vectors, g), differences)
    return matmul(matmul(vectors, inner), matrix_transpose(vectors))


eigh = op.other(
    "eigh",
    "Eigenvalues of Hermitian matrices, smallest first, and eigenvectors.",
    outputs="values vectors",
    attrs="real",
    dtype="real x",
    shape=lambda x_shape: (x_shape[:-1], x_shape),
    batch="leading",
    needs_graph=lambda values, vectors: are_close(values),
    x=eigh_rule,
)


# Singular vectors.


def svd_shape(x_shape: Shape, full_matrices: bool) -> tuple[Shape, Shape, Shape]:
    *batch, m, n = x_shape
    rank = min(m, n)
    left, right = (m, n) if full_matrices else (rank, rank)
    return (*batch, m, left), (*batch, rank), (*batch, right, n)


def svd_rule(g_u, g_s, g_vh, u, s, vh, arrived):
    rank, v, g_v = s.shape[-1], matrix_transpose(vh), matrix_transpose(g_vh)
    if u.shape[-1] > rank:
        g_u, u = without_rest(g_u, u, rank, f"svd: columns of U after the first {rank}")
    if v.shape[-1] > rank:
        g_v, v = without_rest(g_v, v, rank, f"svd: rows of Vh after the first {rank}")
    inner = identity(s) * as_row(g_s)
    if not rank or not (arrived[0] or arrived[2]):
        return matmul(matmul(u, inner), matrix_transpose(v))
    quotients = Quotients([g_u, g_v], s, "svd, for the gradient of singular vectors")
    inner = inner + quotients(lambda g_u, g_v: skew(u, g_u) + skew(v, g_v), differences)
    inner = inner + quotients(lambda g_u, g_v: skew(u, g_u) - skew(v, g_v), sums)
    left = matmul(u, inner)
    if u.shape[-2] > rank:
        left = left + quotients(lambda g_u, g_v: beyond(u, g_u), lambda s, size: as_row(s))
    out = matmul(left, matrix_transpose(v))
    if v.shape[-2] > rank:
        right = quotients(lambda g_u, g_v: beyond(v, g_v), lambda s, size: as_row(s))
        out = out + matmul(u, matrix_transpose(right))
    return out


def svd_needs_graph(u: Tensor, s: Tensor, vh: Tensor) -> bool:
    rank = s.shape[-1]
    is_square = u.shape[-2] == vh.shape[-1]
    return are_close(s, None if is_square or not rank else s[..., rank - 1])


svd = op.other(
    "svd",
    "Singular values, largest first, and vectors.",
    outputs="u s vh",
    attrs="full_matrices real",
    dtype="x real x",
    shape=svd_shape,
    batch="leading",
    needs_graph=svd_needs_graph,
    x=svd_rule,
)
