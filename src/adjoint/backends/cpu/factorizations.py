"""Factorisations by NumPy's LAPACK. Where it refuses, the error says which matrix, and why."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._foundation.errors import ArgumentError, GradientError
from .table import FUNCTIONS, entry, hosted


def which(x: np.ndarray, index: tuple) -> str:
    """A matrix in an array of them."""
    return f"matrix {tuple(map(int, index))} in a tensor" if index else "the matrix"


def refusal(name: str, x: np.ndarray, index: tuple, complaint: str) -> ArgumentError:
    return ArgumentError(f"{name}: {which(x, index)} of shape {x.shape} {complaint}")


def refused(name: str, test: Callable, complaint: str, x: np.ndarray) -> ArgumentError:
    """An error that names the first matrix which doesn't pass the test."""
    for index in np.ndindex(*x.shape[:-2]):
        try:
            test(x[index])
        except np.linalg.LinAlgError:
            return refusal(name, x, index, complaint)
    return ArgumentError(f"{name}: a matrix in a tensor of shape {x.shape} {complaint}")


def finite(x: np.ndarray) -> np.ndarray:
    """Of some matrices with infinities LAPACK never finds the singular values, nor gives up."""
    if not np.isfinite(x).all():
        raise np.linalg.LinAlgError
    return x


def refusing(test: Callable, complaint: str) -> Callable:
    """Enter a function into the table, with what to say of a matrix that LAPACK refuses."""

    def enter(function: Callable) -> Callable:
        def call(x: np.ndarray, *inputs: np.ndarray, **attrs: Any) -> Any:
            try:
                return function(x, *inputs, **attrs)
            except np.linalg.LinAlgError:
                raise refused(function.__name__, test, complaint, x) from None

        FUNCTIONS[function.__name__] = call
        return call

    return enter


not_finite = "has no singular values that could be found: are there NaNs or infinities in it?"
no_eigenvalues = "has no eigenvalues that could be found: are there NaNs or infinities in it?"


@refusing(lambda x: np.linalg.svdvals(finite(x)), not_finite)
def svd(x, *, full_matrices, real):
    u, s, vh = np.linalg.svd(finite(x), full_matrices)
    return u, s.astype(real, copy=False), vh


@refusing(lambda x: np.linalg.svdvals(finite(x)), not_finite)
def svdvals(x):
    return np.linalg.svdvals(finite(x))


@refusing(lambda x: np.linalg.eigvalsh(finite(x)), no_eigenvalues)
def eigh(x, *, real):
    values, vectors = np.linalg.eigh(finite(x))
    return values.astype(real, copy=False), vectors


@refusing(lambda x: np.linalg.eigvalsh(finite(x)), no_eigenvalues)
def eigvalsh(x):
    return np.linalg.eigvalsh(finite(x))


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


@hosted("equations", least="EQUATIONS")
def cholesky(x: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        raise not_definite(x) from None


def not_definite(x: np.ndarray) -> ArgumentError:
    """The error of the first matrix that isn't positive definite."""
    orders = ((index, failing_minor(x[index])) for index in np.ndindex(*x.shape[:-2]))
    index, order = next(((index, order) for index, order in orders if order), ((), 0))
    return not_definite_from(x, index, order)


def not_definite_from(x: np.ndarray, index: tuple, order: int) -> ArgumentError:
    """The error of a matrix whose leading minor of an order is the first that isn't positive."""
    if not np.isfinite(x[index]).all():
        return refusal("cholesky", x, index, "has NaNs or infinities in it")
    complaint = (
        f"isn't positive definite: its leading minor of order {order} isn't; add a small multiple "
        "of the identity if it should be"
    )
    return refusal("cholesky", x, index, complaint)


def failing_minor(x: np.ndarray) -> int:
    """The order of the first leading minor that isn't positive definite, or 0."""
    low, high = 0, len(x) + 1  # the first is, or is empty; the last isn't, or isn't there
    while high - low > 1:
        middle = (low + high) // 2
        try:
            np.linalg.cholesky(x[:middle, :middle])
            low = middle
        except np.linalg.LinAlgError:
            high = middle
    return high if high <= len(x) else 0


@entry
def gauge(x: np.ndarray, free: np.ndarray, scale: np.ndarray, *, asked: str) -> np.ndarray:
    def largest(y: np.ndarray) -> np.ndarray:
        return np.abs(y).max((-2, -1), initial=0)

    limit = np.sqrt(np.finfo(x.dtype).eps) * largest(scale)
    if np.any(largest(free) > limit):
        raise GradientError(asked)
    return x
