"""Systems of linear equations, inverses and determinants, in the last two axes.

A matrix is taken apart once. Ops that use its parts take the matrix too: not to read it, but as
what is differentiated. So their rules, which use the same parts again, hold in every order.
"""

import math

from .. import op
from .._core.shape_inference import Shape
from .._foundation.modes import no_grad
from .contractions import matmul
from .creation import eye
from .elementwise import abs as absolute
from .reductions import broadcast_to, max_, repeated
from .shapes import inverse, matrix_transpose, permute_dims, reshape
from .triangles import triangle

# What may be refused.

gauge = op.other(
    "gauge",
    "x, if `free` is 0 but for rounding errors in numbers as large as `scale`. It is what a "
    "function says of a change that leaves a factorisation valid; `asked` names that.",
    inputs="x free scale",
    attrs="asked",
    shape=lambda x_shape: x_shape,
    batch=lambda size, batched, x, free, scale, *, asked: gauge(x, free, scale, asked=asked),
    x=lambda g: g,
)


# Right sides.


class Columns:
    """Matrices y with some of their leading axes laid beside each other, as more columns."""

    def __init__(self, y, axes: Shape) -> None:
        rank = len(y.shape)
        kept = [k for k in range(rank - 2) if k not in axes]
        self.order = (*kept, rank - 2, *axes, rank - 1)
        turned = permute_dims(y, axes=self.order)
        self.shape = turned.shape
        rows = turned.shape[: len(kept) + 1]
        self.matrices = reshape(turned, shape=(*rows, math.prod(turned.shape[len(rows) :])))

    def restored(self, out):
        """What was computed of the columns, as y was."""
        rows = out.shape[-2]
        shape = list(self.shape)
        shape[len(out.shape) - 2] = rows
        return permute_dims(reshape(out, shape=tuple(shape)), axes=inverse(self.order))


def by_columns(call, size: int, batched: tuple[bool, ...], *inputs, **attrs):
    """A batch of right sides, the last of the inputs: columns, if all examples share the rest."""
    if any(batched[:-1]):
        pairs = zip(inputs, batched, strict=True)
        return call(*(x if one else repeated(x, size) for x, one in pairs), **attrs)
    columns = Columns(inputs[-1], (0,))
    return columns.restored(call(*inputs[:-1], columns.matrices, **attrs))


def identity(x, n: int):
    """The identity matrix of n rows, of the dtype of x."""
    return eye(rows=n, columns=n, k=0, dtype=x.raw.dtype, device=x.device)


def identity_like(x):
    """Identity matrices of the shape of x."""
    one = identity(x, x.shape[-1])
    return broadcast_to(one, shape=x.shape) if len(x.shape) > 2 else one


# LU.


def lu_solve_vjp(g, x, factors, pivots, out, needs, transposed: bool, asked: str):
    back = lu_solve(x, factors, pivots, g, transposed=not transposed, asked=asked)
    left, right = (out, back) if transposed else (back, out)
    x_part = -matmul(left, matrix_transpose(right)) if needs[0] else None
    return x_part, None, None, back


lu = op.other(
    "lu",
    "What `lu_solve` needs of square matrices, and only it understands.",
    inputs="x",
    outputs="factors pivots",
    dtype="x index",
    shape=lambda x_shape: (x_shape, x_shape[:-1]),
    batch="leading",
    differentiable=False,
)
lu_solve = op.other(
    "lu_solve",
    "What the matrices x, or their transposes, take to y. `asked`: who says that one is singular.",
    inputs="x factors pivots y",
    attrs="transposed asked",
    promotes="x y",
    dtype="y",
    shape=lambda y_shape: y_shape,
    batch=lambda *batch, **attrs: by_columns(lu_solve, *batch, **attrs),
    vjp=lu_solve_vjp,
)
inv = op.other(
    "inv",
    "Inverse matrices.",
    shape=lambda x_shape: x_shape,
    batch="leading",
    x=lambda g, out: -matmul(matmul(matrix_transpose(out), g), matrix_transpose(out)),
)


# Triangles.


def solve_triangular_vjp(g, x, out, needs, upper: bool, unit: bool):
    back = solve_triangular(matrix_transpose(x), g, upper=not upper, unit=unit)
    if not needs[0]:
        return None, back
    whole = matmul(back, matrix_transpose(out))
    offset = (1 if upper else -1) if unit else 0
    return -triangle(whole, k=offset, upper=upper), back


solve_triangular = op.other(
    "solve_triangular",
    "What triangular matrices x take to y. `unit`: their diagonals are taken to be ones.",
    inputs="x y",
    attrs="upper unit",
    shape=lambda y_shape: y_shape,
    batch=lambda *batch, **attrs: by_columns(solve_triangular, *batch, **attrs),
    vjp=solve_triangular_vjp,
)


def cholesky_solve_vjp(g, x, y, out, needs):
    back = cholesky_solve(x, g)
    if not needs[0]:
        return None, back
    half_y, half_g = (solve_triangular(x, z, upper=False, unit=False) for z in (y, g))
    whole = matmul(back, matrix_transpose(half_y)) + matmul(out, matrix_transpose(half_g))
    return -triangle(whole, k=0, upper=False), back


cholesky_solve = op.other(
    "cholesky_solve",
    "What x @ xᵀ takes to y, for lower triangles x.",
    inputs="x y",
    shape=lambda y_shape: y_shape,
    batch=lambda *batch, **attrs: by_columns(cholesky_solve, *batch, **attrs),
    vjp=cholesky_solve_vjp,
)


# Determinants.


def scaled(g, x):
    """Numbers times matrices."""
    return reshape(g, shape=(*g.shape, 1, 1)) * x


def total(x, y):
    """The sums of the products of the elements of matrices, as matrices of one element."""
    *batch, rows, columns = x.shape
    flat = (*batch, 1, rows * columns)
    return matmul(reshape(x, shape=flat), matrix_transpose(reshape(y, shape=flat)))


def third_derivative(g, x, y):
    """What the change of a determinant's cofactors by y, times g, says of x.

    With z = inv(x), a = z g and b = z y it is the transpose of
    det(x) (ab + ba - tr(a) b - tr(b) a + tr(a) tr(b) - tr(ab)) z. So it isn't known of singular
    matrices, and has no digits left where they are nearly so; but cofactors of three rows are of
    second degree, so that x has no part in it, and those of fewer have no second derivative.
    """
    n = x.shape[-1]
    if n <= 3:
        return cofactors_change(g, y) if n == 3 else g * 0
    asked = "det: third derivatives can't be had where a matrix is singular, or nearly so"
    with no_grad():
        size = max_(absolute(x), axis=(len(x.shape) - 2, len(x.shape) - 1), keepdims=True)
    x = far_from_singular(x, power=1 / 3, asked=asked) / size
    z = inv(x)
    a, b = matmul(z, g), matmul(z, y)
    tr_a, tr_b = total(matrix_transpose(z), g), total(matrix_transpose(z), y)
    tr_ab = total(a, matrix_transpose(b))
    products = matmul(a, b) + matmul(b, a) - tr_a * b - tr_b * a
    whole = products + (tr_a * tr_b - tr_ab) * identity_like(x)
    return scaled(det(x), matrix_transpose(matmul(whole, z))) * size ** (n - 3)


far_from_singular = op.other(
    "far_from_singular",
    "x, if rounding errors grow by less than eps ** -power when its matrices are inverted. "
    "`asked`: what to say if not.",
    attrs="power asked",
    shape=lambda x_shape: x_shape,
    batch="leading",
    x=lambda g: g,
)
det = op.other(
    "det",
    "Determinants.",
    shape=lambda x_shape: x_shape[:-2],
    batch="leading",
    x=lambda g, x: scaled(g, cofactors(x)),
)
cofactors = op.other(
    "cofactors",
    "The derivatives of determinants, of singular matrices too.",
    shape=lambda x_shape: x_shape,
    batch="leading",
    x=lambda g, x: cofactors_change(x, g),
)
cofactors_change = op.other(
    "cofactors_change",
    "The derivatives of cofactors in the direction y; so are those of their products with y.",
    shape=lambda x_shape: x_shape,
    batch="leading",
    x=third_derivative,
    y=lambda g, x: cofactors_change(x, g),
)


def slogdet_rule(g_logabsdet, x, factors, pivots):
    one = identity_like(x)
    turned = lu_solve(x, factors, pivots, one, transposed=True, asked="slogdet")
    return scaled(g_logabsdet, turned)


slogdet = op.other(
    "slogdet",
    "Signs of determinants, and logarithms of their absolute values.",
    outputs="sign logabsdet",
    aux="factors pivots",
    attrs="real",
    dtype="x real x index",
    shape=lambda x_shape: (x_shape[:-2], x_shape[:-2], x_shape, x_shape[:-1]),
    batch="leading",
    x=slogdet_rule,
)


# Least squares.


def least_squares_vjp(g, x, u, s, vh, y, out, needs, transposed: bool):
    """With z the pseudo-inverse of x: dz = z zᵀ dxᵀ (1 - x z) + (1 - z x) dxᵀ zᵀ z - z dx z."""
    back = least_squares(x, u, s, vh, g, transposed=not transposed)
    if not needs[0]:
        return None, None, None, None, back
    turned = matrix_transpose(x) if transposed else x
    missed = y - matmul(turned, out)
    unseen = g - matmul(matrix_transpose(turned), back)
    again = least_squares(x, u, s, vh, back, transposed=transposed)
    across = least_squares(x, u, s, vh, out, transposed=not transposed)
    change = (
        matmul(missed, matrix_transpose(again))
        + matmul(across, matrix_transpose(unseen))
        - matmul(back, matrix_transpose(out))
    )
    return matrix_transpose(change) if transposed else change, None, None, None, back


least_squares = op.other(
    "least_squares",
    "The pseudo-inverses of x = u @ diag(1 / s) @ vh, or their transposes, times y. An s that is 0 "
    "stands for a singular value that counts as 0.",
    inputs="x u s vh y",
    attrs="transposed",
    shape=lambda x_shape, y_shape, transposed: (
        *y_shape[:-2],
        x_shape[-2] if transposed else x_shape[-1],
        y_shape[-1],
    ),
    batch=lambda *batch, **attrs: by_columns(least_squares, *batch, **attrs),
    vjp=least_squares_vjp,
)
