"""Random bits by a kernel, the same as NumPy's, for every number of threads."""

import math

import numpy as np

from ....kernels import threefry as templates
from .. import threefry as reference
from ..jit.addresses import address
from ..jit.memory import empty
from .machine_code import chunks_of, kernel_of, run_kernel

CHUNK = 1 << 13  # words of a chunk
UINT32 = np.dtype(np.uint32)


def random_bits(state: np.ndarray, *, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    size = math.prod(shape)
    bits = empty(shape, UINT32)
    first = reference.counter(state).view(np.int64)
    words = [address(bits), size, CHUNK, int(first), int(state[0]), int(state[1])]
    run_kernel(kernel_of(templates.random_bits), words, chunks_of(CHUNK, size))
    return bits, reference.advanced(state, (size + 1) // 2)
