"""adjoint: tensors with reverse-mode automatic differentiation of every order."""

# ruff: noqa: F401, F403
import builtins as _builtins
import importlib as _importlib
import math as _math
import sys as _sys
import typing as _typing

from . import autograd, op
from . import backends as _backends
from ._core import tensor as _tensor
from ._core.tensor import Tensor
from ._core.tensor import restore as _restore
from ._foundation import dtypes as _dtypes
from ._foundation import errors as _errors
from ._foundation.config import *
from ._foundation.dtypes import *
from ._foundation.dtypes import by_name as _dtype
from ._foundation.errors import *
from ._foundation.modes import *
from ._foundation.trees import *
from .autograd import get_default_workers, gradients, set_default_workers
from .functions import hints as _hints
from .functions import methods as _methods
from .functions.arrangement import *
from .functions.contractions import *
from .functions.creation import *
from .functions.dtypes import *
from .functions.elementwise import *
from .functions.indexing import *
from .functions.inspection import *
from .functions.inspection import NamespaceInfo as __array_namespace_info__
from .functions.interchange import *
from .functions.reductions import *
from .functions.shapes import *
from .functions.sorting import *
from .primitives.elementwise import *

__version__ = "0.1.0"
__array_api_version__ = "2025.12"

e, pi, inf, nan, newaxis = _math.e, _math.pi, _math.inf, _math.nan, None

_backends.backend("cpu")  # where tensors are unless they are told

# Pickles of 0.1 name modules that have moved.
_MOVED = {"_tensor": _tensor, "_dtypes": _dtypes, "_errors": _errors}
_sys.modules.update({f"{__name__}.{name}": module for name, module in _MOVED.items()})

# Parts that not every program needs, loaded on first use: modules that are public themselves, and
# the `__all__` of others.
_LAZY = ("data", "distributed", "fft", "linalg", "nn", "optim", "random", "testing")
_LAZY_FUNCTIONS = {
    "_compile.compiled": "CompiledFunction compile",
    "_files": "load load_metadata save",
    "_inspect": "graph memory",
    "_profile": "profile",
    "_trace.graph": "Graph trace",
    "_transforms.checkpoint": "checkpoint checkpoint_sequential",
    "_transforms.derivatives": "grad hessian hvp jacobian jvp value_and_grad vjp",
    "_transforms.vmap": "vmap",
    "backends.devices": "devices",
    "backends.settings": "empty_cache get_num_threads launch_times memory_stats set_cache_limit "
    "set_num_threads",
    "functions.einsum": "einsum einsum_path",
    "functions.sets": "isin unique_all unique_counts unique_inverse unique_values",
}
_HOME = {name: module for module, names in _LAZY_FUNCTIONS.items() for name in names.split()}

if _typing.TYPE_CHECKING:
    from ._compile.compiled import *
    from ._files import *
    from ._inspect import *
    from ._profile import *
    from ._trace.graph import *
    from ._transforms.checkpoint import *
    from ._transforms.derivatives import *
    from ._transforms.vmap import *
    from .backends.devices import *
    from .backends.settings import *
    from .functions.einsum import *
    from .functions.sets import *


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

_INTERNAL = {"backends", "functions", "kernels", "primitives"}
__all__ = [  # type: ignore[reportUnsupportedDunderAll]
    name
    for name in (*dir(), *_HOME)
    if not name.startswith("_") and not hasattr(_builtins, name) and name not in _INTERNAL
]
