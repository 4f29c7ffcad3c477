"""Matrices that are good to take apart, and to solve with."""

import numpy as np

from tests.support.arrays import normal

Shape = tuple[int, ...]


def random(shape: Shape, dtype: str = "f4", seed: int = 0) -> np.ndarray:
    return normal(*shape, dtype=dtype, seed=seed)


def regular(shape: Shape, dtype: str = "f4") -> np.ndarray:
    """Pivots aren't all on the diagonal; singular values are from 1 to 2."""
    q, _ = np.linalg.qr(random(shape, "f8"))
    return (q * np.linspace(1, 2, shape[-1])).astype(dtype)


def definite(shape: Shape, dtype: str = "f4") -> np.ndarray:
    x = regular(shape, "f8")
    x = x @ x.swapaxes(-1, -2)
    return ((x + x.swapaxes(-1, -2)) / 2).astype(dtype)


def triangular(shape: Shape, dtype: str = "f4") -> np.ndarray:
    """Both triangles have a small condition number, with diagonals of 1, too."""
    n = shape[-1]
    return (random(shape, dtype) / (2 * n + 1) + np.eye(n)).astype(dtype)
