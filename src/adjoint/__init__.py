"""adjoint: tensors with reverse-mode automatic differentiation of every order."""

# ruff: noqa: F401
import builtins as _builtins
import importlib as _importlib
from typing import Any as _Any

from . import autograd, op, random
from ._dtypes import (
    DType,
    bool,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from ._errors import *  # noqa: F403
from ._modes import detect_anomaly, enable_grad, is_grad_enabled, is_tracing, no_grad
from ._tensor import Tensor
from ._trace import Graph, trace
from .autograd import gradients
from .functions import methods as _methods
from .functions.contractions import matmul
from .functions.creation import (
    arange,
    asarray,
    eye,
    full,
    full_like,
    ones,
    ones_like,
    tensor,
    zeros,
    zeros_like,
)
from .functions.elementwise import astype, clip
from .functions.indexing import nonzero, scatter_add, take, take_along_axis
from .functions.reductions import (
    all,
    any,
    argmax,
    cumulative_sum,
    log_softmax,
    max,
    mean,
    softmax,
    sum,
    topk,
    var,
)
from .functions.shapes import (
    broadcast_shapes,
    broadcast_to,
    concat,
    expand_dims,
    flip,
    matrix_transpose,
    pad,
    permute_dims,
    reshape,
    squeeze,
    stack,
    transpose,
    unstack,
)
from .primitives.elementwise import *  # noqa: F403

__version__ = "0.1.0"

_LAZY = ("nn", "optim", "testing")


def __getattr__(name: str) -> _Any:
    """Load parts that not every program needs on first use."""
    if name in _LAZY:
        return _importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'adjoint' has no attribute {name!r}")


_INTERNAL = {"backends", "functions", "primitives"}
__all__ = [  # type: ignore[reportUnsupportedDunderAll]
    name
    for name in dir()
    if not name.startswith("_") and not hasattr(_builtins, name) and name not in _INTERNAL
]
