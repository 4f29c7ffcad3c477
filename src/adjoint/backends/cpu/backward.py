"""First-order gradients computed in one go, in place of an op's derivative rule.

Each function is given the gradient and what the rule of the op's first input names. The rules stay
the truth, and a test compares the two, bit for bit: so the same functions are called here.
"""

from collections.abc import Callable

import numpy as np

from .indexing import along


def over(table: dict[str, Callable]) -> dict[str, Callable]:
    """The functions, which call those of a table of kernels."""
    softmax = table["softmax"]

    def cross_entropy(g: np.ndarray, x: np.ndarray, target: np.ndarray, axis: int) -> np.ndarray:
        out = softmax(x, axis=axis)
        out *= g
        out[along(target, axis)] -= g
        return out

    return {"cross_entropy": cross_entropy}
