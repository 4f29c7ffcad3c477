"""Ops without an input tensor: constants, and random bits."""

import math

from .. import op

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
    differentiable=False,
)
