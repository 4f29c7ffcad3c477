"""Factorisations that give orthonormal vectors: ops whose rules may ask the engine."""

from .. import op
from .._core.shape_inference import Shape
from .._core.tensor import Tensor
from ..primitives.contractions import matmul
from ..primitives.factorizations import columns, rows
from ..primitives.shapes import concat, matrix_transpose, reshape
from ..primitives.solving import far_from_singular, identity, solve_triangular
from ..primitives.triangles import mirrored
from ._choice import Choice, largest
from ._limits import Quotients, are_close


def as_row(x: Tensor) -> Tensor:
    return reshape(x, shape=(*x.shape[:-1], 1, x.shape[-1]))


def as_column(x: Tensor) -> Tensor:
    return reshape(x, shape=(*x.shape, 1))


def differences(values: Tensor, size: Tensor) -> Tensor:
    """Of each value and those of the rows; on the diagonal, where nothing is divided, `size`."""
    return as_row(values) - as_column(values) + identity(values, values.shape[-1]) * size


def sums(values: Tensor, size: Tensor) -> Tensor:
    """Of each value and those of the rows; on the diagonal, where nothing is divided, `size`."""
    return as_row(values) + as_column(values) + identity(values, values.shape[-1]) * size


def skew(x: Tensor, g: Tensor) -> Tensor:
    """What a gradient says of rotations of the columns of x."""
    turn = matmul(matrix_transpose(x), g)
    return (turn - matrix_transpose(turn)) / 2


def beyond(x: Tensor, g: Tensor) -> Tensor:
    """The part of g that isn't in the span of the columns of x."""
    return g - matmul(x, matmul(matrix_transpose(x), g))


# Bases that are completed: the columns after those that the matrix determines follow them, but for
# a rotation among themselves, which is free.


def parted(x: Tensor, kept: int) -> tuple[Tensor, Tensor]:
    return columns(x, 0, kept), columns(x, kept, x.shape[-1])


def of_first(g: Tensor, x: Tensor, kept: int) -> Tensor:
    """What the gradient of a basis x says of its first columns."""
    if x.shape[-1] == kept:
        return g
    (first, rest), (g_first, g_rest) = parted(x, kept), parted(g, kept)
    return g_first - matmul(rest, matmul(matrix_transpose(g_rest), first))


def of_rest(g: Tensor, x: Tensor, kept: int) -> Tensor:
    """What it says of rotations of the others."""
    return skew(parted(x, kept)[1], parted(g, kept)[1])


def if_free(out: Tensor, choice: Choice) -> Tensor:
    """out, if the rest of a basis can be rotated."""
    return choice.made_freely(out, choice.rotation(*choice.gs), largest(choice.gs))


CHOSEN = "can be chosen, and the function depends on the choice: it has no gradient"


# Eigenvectors.


def eigh_rule(g_values, g_vectors, values, vectors, arrived):
    inner = identity(values, values.shape[-1]) * as_row(g_values)
    if arrived[1] and values.shape[-1]:
        asked = "eigh, for the gradient of eigenvectors"
        quotients = Quotients([g_vectors], values, [vectors], lambda *gs: gs, asked)
        inner = inner + quotients(lambda g: skew(vectors, g), differences, cancels=True)
    return matmul(matmul(vectors, inner), matrix_transpose(vectors))


eigh = op.other(
    "eigh",
    "Eigenvalues of Hermitian matrices, smallest first, and eigenvectors.",
    outputs="values vectors",
    attrs="real",
    dtype="real x",
    shape=lambda x_shape: (x_shape[:-1], x_shape),
    batch="leading",
    needs_graph=lambda values, vectors: (1,) if are_close(values) else (),
    x=eigh_rule,
)


# Singular vectors.


def svd_shape(x_shape: Shape, full_matrices: bool) -> tuple[Shape, Shape, Shape]:
    *batch, m, n = x_shape
    rank = min(m, n)
    left, right = (m, n) if full_matrices else (rank, rank)
    return (*batch, m, left), (*batch, rank), (*batch, right, n)


def svd_rule(g_u, g_s, g_vh, u, s, vh, arrived):
    rank, all_u, all_v = s.shape[-1], u, matrix_transpose(vh)
    u, v = columns(all_u, 0, rank), columns(all_v, 0, rank)
    inner = identity(s, rank) * as_row(g_s)
    if not (arrived[0] or arrived[2]):
        return matmul(matmul(u, inner), matrix_transpose(v))

    def of_vectors(g_u: Tensor, g_vh: Tensor) -> tuple[Tensor, Tensor]:
        return of_first(g_u, all_u, rank), of_first(matrix_transpose(g_vh), all_v, rank)

    first_u, first_v = of_vectors(g_u, g_vh)
    given = {"gs": [g_u, g_vh], "outputs": [all_u, vh], "values": [s]}
    if all_u.shape[-1] > rank + 1:
        asked = f"svd: columns of U after the first {rank} {CHOSEN}"
        rest = Choice(lambda g_u, g_vh: of_rest(g_u, all_u, rank), **given, asked=asked)
        first_u = if_free(first_u, rest)
    if all_v.shape[-1] > rank + 1:
        asked = f"svd: rows of Vh after the first {rank} {CHOSEN}"
        rest = Choice(
            lambda g_u, g_vh: of_rest(matrix_transpose(g_vh), all_v, rank), **given, asked=asked
        )
        first_v = if_free(first_v, rest)
    if not rank:
        return matmul(matmul(first_u, inner), matrix_transpose(first_v))
    asked = "svd, for the gradient of singular vectors"
    quotients = Quotients([first_u, first_v], s, [all_u, vh], of_vectors, asked)
    inner = inner + quotients(
        lambda g_u, g_v: skew(u, g_u) + skew(v, g_v), differences, cancels=True
    )
    inner = inner + quotients(lambda g_u, g_v: skew(u, g_u) - skew(v, g_v), sums)
    left = matmul(u, inner)
    if u.shape[-2] > rank:
        left = left + quotients(lambda g_u, g_v: beyond(u, g_u), lambda s, size: as_row(s))
    out = matmul(left, matrix_transpose(v))
    if v.shape[-2] > rank:
        right = quotients(lambda g_u, g_v: beyond(v, g_v), lambda s, size: as_row(s))
        out = out + matmul(u, matrix_transpose(right))
    return out


def svd_needs_graph(u: Tensor, s: Tensor, vh: Tensor) -> tuple[int, ...]:
    rank = s.shape[-1]
    is_square = u.shape[-2] == vh.shape[-1]
    can_be_chosen = max(u.shape[-1], vh.shape[-2]) > rank + 1
    if can_be_chosen or are_close(s, None if is_square or not rank else s[..., rank - 1]):
        return 0, 2
    return ()


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


# QR.


def qr_shape(x_shape: Shape, complete: bool) -> tuple[Shape, Shape]:
    *batch, m, n = x_shape
    rank = m if complete else min(m, n)
    return (*batch, m, rank), (*batch, rank, n)


def tall_qr_rule(g_q, g_r, q, r):
    """What the gradients of q and a square r say of their product."""
    asked = "qr: where columns are linearly dependent, or nearly so, it has no gradient"
    r = far_from_singular(r, power=0.9, asked=asked)
    inner = matmul(r, matrix_transpose(g_r)) - matmul(matrix_transpose(g_q), q)
    both = g_q + matmul(q, mirrored(inner))
    return matrix_transpose(solve_triangular(r, matrix_transpose(both), upper=True, unit=False))


def qr_rule(g_q, g_r, q, r, x_shape: Shape):
    m, n = x_shape[-2:]
    rank, all_q = min(m, n), q
    first = of_first(g_q, q, rank)
    if q.shape[-1] > rank + 1:
        asked = f"qr: columns of a complete Q after the first {rank} {CHOSEN}"
        first = if_free(
            first, Choice(lambda g: of_rest(g, all_q, rank), [g_q], [all_q], [r], asked)
        )
    g_q, q, g_r, r = first, columns(q, 0, rank), rows(g_r, 0, rank), rows(r, 0, rank)
    if m >= n:
        return tall_qr_rule(g_q, g_r, q, r)
    # The columns after the first m are q times their part of r.
    right, g_right = columns(r, m, n), columns(g_r, m, n)
    g_q = g_q + matmul(matmul(q, right), matrix_transpose(g_right))
    left = tall_qr_rule(g_q, columns(g_r, 0, m), q, columns(r, 0, m))
    return concat(left, matmul(q, g_right), axis=len(x_shape) - 1)


qr = op.other(
    "qr",
    "Orthonormal columns, and an upper triangle; `complete`: all columns.",
    outputs="q r",
    attrs="complete",
    shape=qr_shape,
    batch="leading",
    needs_graph=lambda q, r: (0,) if q.shape[-1] > min(q.shape[-2], r.shape[-1]) + 1 else (),
    x=qr_rule,
)
