"""Ops without an input tensor: constants, and random bits."""

import math

from .. import op

full = op.other(
    "full", inputs="", attrs="shape value dtype device", dtype="dtype", shape=lambda shape: shape
)
arange = op.other(
    "arange",
    inputs="",
    attrs="start stop step dtype device",
    dtype="dtype",
    shape=lambda start, stop, step: (max(0, math.ceil((stop - start) / step)),),
)
eye = op.other(
    "eye",
    inputs="",
    attrs="rows columns k dtype device",
    dtype="dtype",
    shape=lambda rows, columns: (rows, columns),
)
random_bits = op.other(
    "random_bits",
    "Random 32-bit words, and the state after them.",
    inputs="state",
    outputs="bits after",
    attrs="shape device",
    dtype="uint32",
    shape=lambda shape: (shape, (4,)),
)
