"""Mirror images of square matrices by kernels, where they are large enough to gain from it.

Each function takes what the NumPy function of its name takes, and passes on to it what it doesn't
take itself.
"""

import numpy as np

from ....kernels import mirror as templates
from .. import triangles as reference
from ..jit.addresses import address
from ..jit.memory import empty
from .elimination import KINDS, in_whole_steps, steps
from .machine_code import chunks_of, kernel_of, run_kernel


def computed(name: str, x: np.ndarray) -> np.ndarray:
    n = x.shape[-1]
    stacked = in_whole_steps(x).reshape(-1, n, n)
    out = empty(x.shape, x.dtype)
    blocks = chunks_of(templates.SIDE, n)
    step, row_step, column_step = steps(stacked)
    words = [address(stacked), address(out), n, blocks, row_step, column_step, step]
    run_kernel(kernel_of(getattr(templates, name), KINDS[x.dtype]), words, len(stacked) * blocks)
    return out


def symmetrized(x: np.ndarray) -> np.ndarray:
    return computed("symmetrized", x) if x.dtype in KINDS else reference.symmetrized(x)


def mirrored(x: np.ndarray) -> np.ndarray:
    return computed("mirrored", x) if x.dtype in KINDS else reference.mirrored(x)
