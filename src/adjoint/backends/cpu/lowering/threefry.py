"""Random bits: the same as NumPy's, for every number of threads."""

import math

import numpy as np

from ....kernels import threefry as templates
from ....kernels.ops import Unsupported
from ...launches import View
from ...spaces import Ints
from .maps import as_contiguous
from .native import NativeLowering, Words, chunks_of, kernel_of

CHUNK = 1 << 13  # words of a chunk
UINT32 = np.dtype(np.uint32)


def random_bits(to: NativeLowering, state: View, *, shape: Ints) -> None:
    if state.dtype != UINT32 or state.shape != (4,):
        raise Unsupported(f"a state of {state.dtype} {state.shape}")
    bits, after = to.result(shape, UINT32), to.result((4,), UINT32)
    total = math.prod(shape)
    words: Words = dict(state=as_contiguous(to, state), bits=bits, after=after, total=total)
    words |= dict(step=CHUNK)
    to.launch(kernel_of(templates.random_bits), max(1, chunks_of(CHUNK, total)), words)
