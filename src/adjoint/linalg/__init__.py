"""Linear algebra on the last two axes, with the array API's names: `ad.linalg`.

Everything has gradients of every order but eigenvalues and eigenvectors of matrices that aren't
symmetric (`eig`, `eigvals`). Where a derivative doesn't exist, or can't be had, an error says so.
"""

from ..functions.contractions import cross, matmul, outer, tensordot, vecdot
from ..functions.shapes import matrix_transpose
from ._equations import (
    cholesky_solve,
    det,
    inv,
    lstsq,
    matrix_rank,
    pinv,
    slogdet,
    solve,
    solve_triangular,
)
from ._factorizations import cholesky, eig, eigh, eigvals, eigvalsh, qr, svd, svdvals
from ._norms import cond, matrix_norm, vector_norm
from ._powers import diagonal, expm, matrix_power, trace

__all__ = ["cholesky", "cholesky_solve", "cond", "cross", "det", "diagonal", "eig", "eigh"]
__all__ += ["eigvals", "eigvalsh", "expm", "inv", "lstsq", "matmul", "matrix_norm", "matrix_power"]
__all__ += ["matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve"]
__all__ += ["solve_triangular", "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm"]


def __dir__() -> list[str]:
    return __all__
