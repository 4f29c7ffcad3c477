"""Ops without an input tensor: constants, and random bits."""

import math
from collections.abc import Callable

from .. import op
from ..backends import widest
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


def constant(name: str, doc: str, attrs: str, shape: Callable):
    """An op without inputs, whose dtype and device are attributes."""
    attrs += " dtype device"
    return op.other(
        name, doc, inputs="", attrs=attrs, dtype="dtype", shape=shape, differentiable=False
    )


full = constant("full", "One value everywhere.", "shape value", lambda shape: shape)
arange = constant(
    "arange",
    "Evenly spaced numbers.",
    "start stop step",
    lambda start, stop, step: (max(0, math.ceil((stop - start) / step)),),
)
linspace = constant(
    "linspace",
    "Evenly spaced numbers between two ends.",
    "start stop num endpoint",
    lambda num: (num,),
)
eye = constant(
    "eye", "Ones on a diagonal.", "rows columns k", lambda rows, columns: (rows, columns)
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


def counting(n: int, device: str):
    """0, 1, ... n - 1, as indices are."""
    return arange(start=0, stop=n, step=1, dtype=widest(device, "i"), device=device)
