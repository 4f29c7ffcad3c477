"""Operands as kernels take them: arrays only, also for single numbers."""

from collections.abc import Iterable
from typing import Any

import numpy as np


def arrays_of(inputs: Iterable) -> list[np.ndarray]:
    """NumPy makes scalars of single numbers; kernels take arrays only."""
    return [x if type(x) is np.ndarray else as_array(x) for x in inputs]


def as_array(x: Any) -> np.ndarray:
    if not isinstance(x, (np.ndarray, np.generic)):
        raise TypeError(f"an array is needed, got {type(x).__name__}")
    return np.asarray(x)
