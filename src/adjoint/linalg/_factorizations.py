"""Factorisations.

Gradients of vectors are those of functions that don't depend on the choice of vectors, which is
free by their signs, and where values are equal by more than that. See `_limits`.
"""

from typing import Any, Literal, NamedTuple

from .._core.tensor import Tensor
from .._foundation.errors import ArgumentError
from ..functions._arguments import undifferentiated
from ..primitives import factorizations
from . import _orthogonal as orthogonal
from ._checks import (
    adjoint,
    complex_of,
    factorizable,
    hermitian,
    is_differentiated,
    real_of,
    regular,
)


class SVDResult(NamedTuple):
    """Left singular vectors, singular values, adjoint right singular vectors."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class EighResult(NamedTuple):
    """Real eigenvalues, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class EigResult(NamedTuple):
    """Complex eigenvalues, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """Orthonormal columns, and an upper triangle."""

    Q: Tensor
    R: Tensor


def svd(x: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """Singular values, largest first, and vectors: x = U @ diag(S) @ Vh.

    >>> ad.linalg.svd(ad.asarray([[0.0, 2.0], [1.0, 0.0]])).S
    tensor([2., 1.])
    """
    x = factorizable("svd", x)
    return SVDResult(*orthogonal.svd(x, full_matrices=bool(full_matrices), real=real_of(x)))


def svdvals(x: Any, /) -> Tensor:
    """Singular values, largest first.

    >>> ad.linalg.svdvals(ad.asarray([[0.0, 2.0], [1.0, 0.0]]))
    tensor([2., 1.])
    """
    return singular_values(factorizable("svdvals", x))


def singular_values(x: Tensor) -> Tensor:
    if is_differentiated(x):
        return orthogonal.svd(x, full_matrices=False, real=real_of(x))[1]
    return factorizations.svdvals(x)


def eigh(x: Any, /) -> EighResult:
    """Eigenvalues of a Hermitian matrix, smallest first, and eigenvectors as columns.

    Of another matrix it reads the Hermitian part, (x + xᴴ) / 2.

    >>> ad.linalg.eigh(ad.asarray([[2.0, 1.0], [1.0, 2.0]])).eigenvalues
    tensor([1., 3.])
    """
    x = hermitian("eigh", x)
    return EighResult(*orthogonal.eigh(x, real=real_of(x)))


def eigvalsh(x: Any, /) -> Tensor:
    """Eigenvalues of a Hermitian matrix, smallest first.

    >>> ad.linalg.eigvalsh(ad.asarray([[2.0, 1.0], [1.0, 2.0]]))
    tensor([1., 3.])
    """
    x = hermitian("eigvalsh", x)
    if is_differentiated(x):
        return orthogonal.eigh(x, real=real_of(x))[0]
    return factorizations.eigvalsh(x)


def eig(x: Any, /) -> EigResult:
    """Eigenvalues of a square matrix, in no order, and eigenvectors as columns; both complex.

    >>> ad.linalg.eig(ad.asarray([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
    tensor([2.+0.j, 3.+0.j], dtype=adjoint.complex64)
    """
    x = undifferentiated("eig", regular("eig", x))
    return EigResult(*factorizations.eig(x, dtype=complex_of(x)))


def eigvals(x: Any, /) -> Tensor:
    """Eigenvalues of a square matrix, in no order; complex.

    >>> ad.linalg.eigvals(ad.asarray([[0.0, 1.0], [-1.0, 0.0]])).shape
    (2,)
    """
    x = undifferentiated("eigvals", regular("eigvals", x))
    return factorizations.eigvals(x, dtype=complex_of(x))


def qr(x: Any, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """Orthonormal columns and an upper triangle: x = Q @ R.

    >>> x = ad.ones((3, 2))
    >>> ad.linalg.qr(x).Q.shape, ad.linalg.qr(x, mode="complete").Q.shape
    ((3, 2), (3, 3))
    """
    if mode not in ("reduced", "complete"):
        raise ArgumentError(f"qr: mode is 'reduced' or 'complete', got {mode!r}")
    return QRResult(*orthogonal.qr(factorizable("qr", x), complete=mode == "complete"))


def cholesky(x: Any, /, *, upper: bool = False) -> Tensor:
    """The lower triangle L of a positive definite matrix x = L @ Lᴴ, or the upper one, Lᴴ.

    Of a matrix that isn't Hermitian it reads the Hermitian part, (x + xᴴ) / 2.

    >>> ad.linalg.cholesky(ad.asarray([[4.0, 2.0], [2.0, 2.0]]))
    tensor([[2., 0.],
            [1., 1.]])
    """
    lower = factorizations.cholesky(hermitian("cholesky", x))
    return adjoint(lower) if upper else lower
