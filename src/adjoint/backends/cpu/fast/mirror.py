"""Mirror images of square matrices by kernels, where they are large enough to gain from it.

Each function takes what the NumPy function of its name takes, and passes on to it what it doesn't
take itself.
"""

import functools

import numpy as np

from ....kernels import mirror as templates
from .. import triangles as reference
from ..jit.compiler import compiled
from ..jit.memory import empty
from .elimination import KINDS, steps
from .launch import address, chunks_of, launch

LEAST = 1 << 12  # elements


@functools.cache
def kernel(name: str, kind: str) -> int:
    return compiled(getattr(templates, name)(kind), name)


def computed(name: str, x: np.ndarray) -> np.ndarray:
    n = x.shape[-1]
    stacked = x.reshape(-1, n, n)
    out = empty(x.shape, x.dtype)
    blocks = chunks_of(templates.SIDE, n)
    step, row_step, column_step = steps(stacked)
    words = [address(stacked), address(out), n, blocks, row_step, column_step, step]
    launch(kernel(name, KINDS[x.dtype]), words, len(stacked) * blocks)
    return out


def symmetrized(x: np.ndarray) -> np.ndarray:
    if x.dtype in KINDS and x.size >= LEAST:
        return computed("symmetrized", x)
    return reference.symmetrized(x)


def mirrored(x: np.ndarray) -> np.ndarray:
    if x.dtype in KINDS and x.size >= LEAST:
        return computed("mirrored", x)
    return reference.mirrored(x)


FAST = {"mirrored": mirrored, "symmetrized": symmetrized}
