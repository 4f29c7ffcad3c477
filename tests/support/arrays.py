"""Arrays of random numbers."""

from typing import Any

import numpy as np


def normal(*shape: int, dtype: Any = "f4", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def whole_numbers(shape: Any, dtype: Any = "f4", seed: int = 0) -> np.ndarray:
    """Small whole numbers: however products of them are summed, nothing is rounded."""
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(dtype)
