"""Factorisations by NumPy's LAPACK. Where it refuses, the error says which matrix, and why."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._errors import ArgumentError
from .table import KERNELS

KERNELS["det"] = np.linalg.det


def refused(name: str, test: Callable, complaint: str, x: np.ndarray) -> ArgumentError:
    """An error that names the first matrix which doesn't pass the test."""
    for index in np.ndindex(*x.shape[:-2]):
        try:
            test(x[index])
        except np.linalg.LinAlgError:
            which = f"matrix {index} in a tensor" if index else "the matrix"
            return ArgumentError(f"{name}: {which} of shape {x.shape} {complaint}")
    return ArgumentError(f"{name}: a matrix in a tensor of shape {x.shape} {complaint}")


def refusing(test: Callable, complaint: str) -> Callable:
    """Enter a function into the table, with what to say of a matrix that LAPACK refuses."""

    def enter(function: Callable) -> Callable:
        def kernel(x: np.ndarray, *inputs: np.ndarray, **attrs: Any) -> Any:
            try:
                return function(x, *inputs, **attrs)
            except np.linalg.LinAlgError:
                raise refused(function.__name__, test, complaint, x) from None

        KERNELS[function.__name__] = kernel
        return kernel

    return enter


not_finite = "has no singular values that could be found: are there NaNs or infinities in it?"
no_eigenvalues = "has no eigenvalues that could be found: are there NaNs or infinities in it?"
singular = "is singular; ad.linalg.pinv gives its pseudo-inverse"
not_definite = "isn't positive definite"


@refusing(np.linalg.svdvals, not_finite)
def svd(x, *, full_matrices, real):
    u, s, vh = np.linalg.svd(x, full_matrices)
    return u, s.astype(real, copy=False), vh


@refusing(np.linalg.svdvals, not_finite)
def svdvals(x):
    return np.linalg.svdvals(x)


@refusing(np.linalg.eigvalsh, no_eigenvalues)
def eigh(x, *, real):
    values, vectors = np.linalg.eigh(x)
    return values.astype(real, copy=False), vectors


@refusing(np.linalg.eigvalsh, no_eigenvalues)
def eigvalsh(x):
    return np.linalg.eigvalsh(x)


@refusing(np.linalg.eigvals, no_eigenvalues)
def eig(x, *, dtype):
    values, vectors = np.linalg.eig(x)  # real where all are
    return values.astype(dtype, copy=False), vectors.astype(dtype, copy=False)


@refusing(np.linalg.eigvals, no_eigenvalues)
def eigvals(x, *, dtype):
    return np.linalg.eigvals(x).astype(dtype, copy=False)


@refusing(np.linalg.qr, "has no QR factorisation that could be found")
def qr(x, *, complete):
    return tuple(np.linalg.qr(x, "complete" if complete else "reduced"))


@refusing(np.linalg.cholesky, not_definite)
def cholesky(x, *, upper):
    return np.linalg.cholesky(x, upper=upper)


@refusing(np.linalg.inv, singular)
def inv(x):
    return np.linalg.inv(x)


@refusing(np.linalg.slogdet, "has no determinant that could be found")
def slogdet(x, *, real):
    sign, logarithm = np.linalg.slogdet(x)
    return sign, logarithm.astype(real, copy=False)


@refusing(np.linalg.inv, singular)
def solve(x, y):
    return np.linalg.solve(x, y)
