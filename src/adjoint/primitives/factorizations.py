"""Factorisations of matrices, in the last two axes, and their exponential.

`real` is the dtype of the real numbers among the results, where the input may be complex; `dtype`
that of complex results of a real input. What gives orthonormal vectors is in `adjoint.linalg`: they
are a choice, so that their gradients aren't always to be had from a formula.
"""

from .. import op
from .._core.shape_inference import at_axis
from .._foundation.modes import no_grad
from .contractions import matmul
from .creation import full
from .elementwise import abs as absolute
from .elementwise import equal, where
from .reductions import max_
from .shapes import concat, matrix_transpose, slice_
from .solving import solve_triangular
from .triangles import triangle


def columns(x, start: int, stop: int):
    return slice_(x, index=at_axis(len(x.shape) - 1, slice(start, stop)))


def rows(x, start: int, stop: int):
    return slice_(x, index=at_axis(len(x.shape) - 2, slice(start, stop)))


# Cholesky.


def solved_twice(x, y):
    """inv(x) @ y @ inv(x)ᵀ for lower triangles x."""
    half = solve_triangular(x, y, upper=False, unit=False)
    turned = solve_triangular(x, matrix_transpose(half), upper=False, unit=False)
    return matrix_transpose(turned)


def folded(x):
    """The lower triangle, with what is above the diagonal added to its mirror image; halved."""
    below = triangle(matrix_transpose(x), k=-1, upper=False)
    return (triangle(x, k=0, upper=False) + below) / 2


def triangle_rule(g, dout, out, result):
    both = solve_triangular(out, g + matrix_transpose(g), upper=False, unit=False)
    inner = folded(solved_twice(out, g))
    change = matmul(dout, matrix_transpose(inner)) - matmul(result, matrix_transpose(both))
    return triangle(change, k=0, upper=False)


cholesky = op.other(
    "cholesky",
    "The lower triangles whose products with their adjoints are positive definite matrices.",
    shape=lambda x_shape: x_shape,
    batch="leading",
    x=lambda g, out: cholesky_gradient(g, out),
)
cholesky_gradient = op.other(
    "cholesky_gradient",
    "What the gradient of Cholesky factors says of positive definite matrices: with z the inverse "
    "of `out`, zᵀ @ mirrored(outᵀ @ dout) @ z / 2. It is symmetric.",
    outputs="result",
    shape=lambda out_shape: out_shape,
    batch="leading",
    dout=lambda g, out: matmul(out, folded(solved_twice(out, g))),
    out=triangle_rule,
)


# Values without vectors.

svdvals = op.other(
    "svdvals",
    "Singular values, largest first.",
    inputs="x",
    real_valued=True,
    shape=lambda x_shape: (*x_shape[:-2], min(x_shape[-2:])),
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


# Matrices that aren't symmetric.

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


# The exponential.


def expm_rule(g, x):
    """The exponential of [[y, g], [0, y]], y = xᵀ, has the derivative in the direction g above.

    g is scaled, so that it has no part in how the exponential is computed.
    """
    if not x.shape[-1]:
        return g
    with no_grad():
        size = max_(absolute(g), axis=(len(g.shape) - 2, len(g.shape) - 1), keepdims=True)
        size = where(equal(size, 0), 1, size)
    n, y = x.shape[-1], matrix_transpose(x)
    zero = full(shape=x.shape, value=0, dtype=x.raw.dtype, device=x.device)
    last = len(x.shape) - 1
    above, below = concat(y, g / size, axis=last), concat(zero, y, axis=last)
    whole = expm(concat(above, below, axis=last - 1))
    return columns(rows(whole, 0, n), n, 2 * n) * size


expm = op.other(
    "expm",
    "The exponentials of square matrices.",
    shape=lambda x_shape: x_shape,
    batch="leading",
    x=expm_rule,
)
