"""The norm of all elements of many tensors."""

from typing import Any

import numpy as np

from .. import op
from .._core.tensor import Tensor
from .._foundation.silence import computing
from ..backends import backend
from ..functions._arguments import in_common_dtype
from ..functions.shapes import concat, reshape
from ..linalg import vector_norm


def norm(tensors: list[Tensor], power: float) -> Tensor:
    if power == 2:
        return total_norm(*in_common_dtype("norm", *tensors))
    return norm_of_norms(*tensors, ord=power)


def norm_of_norms(*xs: Tensor, ord: float = 2) -> Tensor:
    return vector_norm(concat([reshape(vector_norm(x, ord=ord), 1) for x in xs]), ord=ord)


@computing
def by_kernels(*xs: Any) -> np.ndarray:
    one = backend("cpu").FUNCTIONS["norm"]
    parts = [one(x, axis=tuple(range(x.ndim)), keepdims=False) for x in xs]
    return np.array(np.hypot.reduce(parts, dtype=np.float64), xs[0].dtype)


total_norm = op.other(
    "total_norm",
    "The root of the sum of squares of all elements of tensors: one pass over each.",
    inputs="*xs",
    differentiable=False,
    forward=norm_of_norms,
    kernels={"cpu": by_kernels},
)
