"""adjoint: tensors with reverse-mode automatic differentiation of every order."""

# ruff: noqa: F401
import builtins as _builtins
import importlib as _importlib
import math as _math
import typing as _typing

from . import autograd, op
from ._config import config
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
from ._modes import (
    detect_anomaly,
    enable_grad,
    is_grad_enabled,
    is_recomputing,
    is_tracing,
    no_grad,
)
from ._tensor import Tensor
from ._tree import tree_map
from .autograd import get_default_workers, gradients, set_default_workers
from .functions import hints as _hints
from .functions import methods as _methods
from .functions.arrangement import (
    diagflat,
    diagonal,
    diff,
    flip,
    pad,
    repeat,
    roll,
    tile,
    tril,
    triu,
)
from .functions.contractions import cross, dot, inner, kron, matmul, outer, tensordot, vecdot
from .functions.creation import (
    arange,
    asarray,
    copy,
    empty,
    empty_like,
    eye,
    full,
    full_like,
    linspace,
    meshgrid,
    ones,
    ones_like,
    tensor,
    zeros,
    zeros_like,
)
from .functions.dtypes import can_cast, finfo, iinfo, isdtype, result_type
from .functions.einsum import einsum, einsum_path
from .functions.elementwise import (
    astype,
    clip,
    conj,
    elu,
    gelu,
    imag,
    leaky_relu,
    positive,
    real,
    reciprocal,
    softplus,
)
from .functions.indexing import gather, index_select, nonzero, scatter_add, take, take_along_axis
from .functions.inspection import NamespaceInfo as __array_namespace_info__
from .functions.inspection import get_default_device, set_default_device
from .functions.interchange import from_dlpack
from .functions.reductions import (
    all,
    any,
    argmax,
    argmin,
    count_nonzero,
    cumulative_prod,
    cumulative_sum,
    log_softmax,
    logsumexp,
    max,
    mean,
    min,
    prod,
    softmax,
    std,
    sum,
    var,
)
from .functions.shapes import (
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    concat,
    expand_dims,
    matrix_transpose,
    moveaxis,
    permute_dims,
    reshape,
    split,
    squeeze,
    stack,
    swapaxes,
    transpose,
    unstack,
)
from .functions.sorting import (
    argsort,
    isin,
    searchsorted,
    sort,
    topk,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)
from .primitives.elementwise import *  # noqa: F403

__version__ = "0.1.0"
__array_api_version__ = "2025.12"

e, pi, inf, nan, newaxis = _math.e, _math.pi, _math.inf, _math.nan, None

if _typing.TYPE_CHECKING:
    from ._batch import vmap
    from ._checkpoint import checkpoint, checkpoint_sequential
    from ._devices import devices
    from ._files import load, load_metadata, save
    from ._graph import Graph, trace
    from ._graphs import graph, memory
    from ._profile import profile
    from ._runtime import (
        empty_cache,
        get_num_threads,
        launch_times,
        memory_stats,
        set_cache_limit,
        set_num_threads,
    )
    from ._transforms import grad, hessian, hvp, jacobian, jvp, value_and_grad, vjp

_LAZY = ("data", "fft", "linalg", "nn", "optim", "random", "testing")
_LAZY_FUNCTIONS = {
    "_batch": ("vmap",),
    "_checkpoint": ("checkpoint", "checkpoint_sequential"),
    "_devices": ("devices",),
    "_files": ("load", "load_metadata", "save"),
    "_graph": ("Graph", "trace"),
    "_graphs": ("graph", "memory"),
    "_profile": ("profile",),
    "_runtime": (
        "empty_cache",
        "get_num_threads",
        "launch_times",
        "memory_stats",
        "set_cache_limit",
        "set_num_threads",
    ),
    "_transforms": ("grad", "hessian", "hvp", "jacobian", "jvp", "value_and_grad", "vjp"),
}
_HOME = {name: module for module, names in _LAZY_FUNCTIONS.items() for name in names}


def __getattr__(name: str) -> _typing.Any:
    """Load parts that not every program needs on first use."""
    if name in _LAZY:
        return _importlib.import_module(f".{name}", __name__)
    if name in _HOME:
        function = getattr(_importlib.import_module(f".{_HOME[name]}", __name__), name)
        return globals().setdefault(name, function)
    raise _hints.missing("module 'adjoint'", name, _hints.FUNCTIONS | _hints.IDIOMS)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_HOME})


def _drawn(name: str) -> _typing.Callable:
    """A method of tensors that fills them with random numbers, and loads `random` on first use."""

    def call(x: Tensor, *args: _typing.Any, **kwargs: _typing.Any) -> Tensor:
        module = _importlib.import_module(".random._fill", __name__)
        return getattr(module, name)(x, *args, **kwargs)

    return call


for _name in ("normal_", "uniform_"):
    _methods.bind_in_place(_name, _drawn(_name))

_INTERNAL = {"backends", "functions", "primitives"}
__all__ = [  # type: ignore[reportUnsupportedDunderAll]
    name
    for name in (*dir(), *_HOME)
    if not name.startswith("_") and not hasattr(_builtins, name) and name not in _INTERNAL
]
