"""Recurrences whose numbers leave the range of floats: mostly a plain one is enough."""

import numpy as np

from .. import reductions as reference
from ..lowering.ops import NativeOp

launched = NativeOp("recurrence", None)


def scaled_recurrence(
    a: np.ndarray, b: np.ndarray, n: np.ndarray, *, axis: int, reverse: bool
) -> tuple[np.ndarray, np.ndarray]:
    return reference.scaled_recurrence(a, b, n, axis=axis, reverse=reverse, plain=plain)


def plain(a: np.ndarray, b: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
    out = launched(a, b, axis=axis, reverse=reverse)
    return reference.recurrence(a, b, axis=axis, reverse=reverse) if out is NotImplemented else out
