"""Ops without an input tensor: constants, and random bits."""

import math

from .. import op
from .reductions import repeated


def random_bits_batch(size: int, batched: tuple[bool, ...], state, *, shape, device):
    """Every example has numbers of its own, and the state moves on once."""
    if batched[0]:
        return NotImplemented
    return random_bits(state, shape=(size, *shape), device=device)


def log_gamma_batch(size: int, batched: tuple[bool, ...], state, alpha, *, device):
    if batched[0]:
        return NotImplemented
    return random_log_gamma(state, alpha if batched[1] else repeated(alpha, size), device=device)


full = op.other(
    "full",
    "One value everywhere.",
    inputs="",
    attrs="shape value dtype device",
    dtype="dtype",
    shape=lambda shape: shape,
    differentiable=False,
)
arange = op.other(
    "arange",
    "Evenly spaced numbers.",
    inputs="",
    attrs="start stop step dtype device",
    dtype="dtype",
    shape=lambda start, stop, step: (max(0, math.ceil((stop - start) / step)),),
    differentiable=False,
)
linspace = op.other(
    "linspace",
    "Evenly spaced numbers between two ends.",
    inputs="",
    attrs="start stop num endpoint dtype device",
    dtype="dtype",
    shape=lambda num: (num,),
    differentiable=False,
)
eye = op.other(
    "eye",
    "Ones on a diagonal.",
    inputs="",
    attrs="rows columns k dtype device",
    dtype="dtype",
    shape=lambda rows, columns: (rows, columns),
    differentiable=False,
)
random_bits = op.other(
    "random_bits",
    "Random 32-bit words, and the state after them.",
    inputs="state",
    outputs="bits after",
    attrs="shape device",
    dtype="uint32",
    shape=lambda shape: (shape, (4,)),
    random=True,
    batch=random_bits_batch,
    differentiable=False,
)
random_log_gamma = op.other(
    "random_log_gamma",
    "Logarithms of gamma variates, and the state after them.",
    inputs="state alpha",
    outputs="out after",
    attrs="device",
    dtype="alpha uint32",
    shape=lambda alpha_shape: (alpha_shape, (4,)),
    random=True,
    batch=log_gamma_batch,
    differentiable=False,
)
