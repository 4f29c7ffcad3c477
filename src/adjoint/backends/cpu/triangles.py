"""Halves of square matrices."""

import functools

import numpy as np

from .table import entry, lowered


@functools.lru_cache(maxsize=32)
def beyond(rows: int, columns: int, k: int, upper: bool) -> np.ndarray:
    """Where a triangle has its zeros."""
    inside = np.tri(rows, columns, k - 1 if upper else k, dtype=bool)
    return inside if upper else ~inside


def clear(x: np.ndarray, k: int, upper: bool) -> None:
    """Put zeros beyond a triangle. Copying under a mask is ten times as fast as indexing by it."""
    np.copyto(x, np.zeros((), x.dtype), where=beyond(*x.shape[-2:], k, upper))


@entry
def triangle(x: np.ndarray, *, k: int, upper: bool) -> np.ndarray:
    out = x.copy()
    clear(out, k, upper)
    return out


def adjoint(x: np.ndarray) -> np.ndarray:
    turned = x.swapaxes(-1, -2)
    return turned.conj() if x.dtype.kind == "c" else turned


@lowered("mirror", least="MIRRORED")
def mirrored(x: np.ndarray) -> np.ndarray:
    above = beyond(*x.shape[-2:], 0, False)
    return np.where(above, x.swapaxes(-1, -2), x)


@lowered("mirror", least="MIRRORED")
def symmetrized(x: np.ndarray) -> np.ndarray:
    out = x + adjoint(x)
    out *= np.array(0.5, x.dtype)
    return out
