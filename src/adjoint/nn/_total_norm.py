"""The norm of all elements of many tensors."""

import math
from typing import Any

import numpy as np

from .. import op
from .._tensor import Tensor
from ..functions._arguments import in_common_dtype
from ..functions.reductions import max, sum
from ..functions.shapes import concat, reshape
from ..primitives.elementwise import abs, pow, sqrt, square


def norm(tensors: list[Tensor], power: float) -> Tensor:
    if power == 2:
        return sqrt(sum_of_squares(*in_common_dtype("norm", *tensors)))
    if power == math.inf:
        return max(concat([reshape(max(abs(x)), 1) for x in tensors]))
    parts = [reshape(sum(pow(abs(x), power)), 1) for x in tensors]
    return pow(sum(concat(parts)), 1 / power)


def squares_by_ops(*xs: Tensor) -> Tensor:
    return sum(concat([reshape(sum(square(x)), 1) for x in xs]))


def squares_by_dots(*xs: Any) -> np.ndarray:
    return np.array(np.sum([np.vdot(x, x) for x in xs], dtype=np.float64), xs[0].dtype)


sum_of_squares = op.other(
    "sum_of_squares",
    "Of all elements of tensors: one pass over each, without memory of its own.",
    inputs="*xs",
    differentiable=False,
    forward=squares_by_ops,
    kernels={"cpu": squares_by_dots},
)
