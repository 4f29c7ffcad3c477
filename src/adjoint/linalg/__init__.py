"""Linear algebra on the last two axes, with the array API's names: `ad.linalg`.

Everything has gradients of every order but eigenvalues and eigenvectors of matrices that aren't
symmetric (`eig`, `eigvals`). Where a derivative doesn't exist, or can't be had, an error says so.
"""

from ..functions.contractions import cross as cross
from ..functions.contractions import matmul as matmul
from ..functions.contractions import outer as outer
from ..functions.contractions import tensordot as tensordot
from ..functions.contractions import vecdot as vecdot
from ..functions.shapes import matrix_transpose as matrix_transpose
from ._equations import cholesky_solve as cholesky_solve
from ._equations import det as det
from ._equations import inv as inv
from ._equations import lstsq as lstsq
from ._equations import matrix_rank as matrix_rank
from ._equations import pinv as pinv
from ._equations import slogdet as slogdet
from ._equations import solve as solve
from ._equations import solve_triangular as solve_triangular
from ._factorizations import cholesky as cholesky
from ._factorizations import eig as eig
from ._factorizations import eigh as eigh
from ._factorizations import eigvals as eigvals
from ._factorizations import eigvalsh as eigvalsh
from ._factorizations import qr as qr
from ._factorizations import svd as svd
from ._factorizations import svdvals as svdvals
from ._norms import cond as cond
from ._norms import matrix_norm as matrix_norm
from ._norms import vector_norm as vector_norm
from ._powers import diagonal as diagonal
from ._powers import expm as expm
from ._powers import matrix_power as matrix_power
from ._powers import trace as trace

__all__ = [
    "cholesky",
    "cholesky_solve",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "expm",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


def __dir__() -> list[str]:
    return __all__
