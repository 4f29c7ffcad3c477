"""adjoint: tensors with reverse-mode automatic differentiation of every order."""

# ruff: noqa: F401, F403
import builtins as _builtins
import importlib as _importlib
import math as _math
import sys as _sys
import types as _types
import typing as _typing

from . import autograd, op
from . import backends as _backends
from ._core import tensor as _tensor
from ._core.tensor import Tensor
from ._foundation import dtypes as _dtypes
from ._foundation.config import *
from ._foundation.dtypes import *
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
_sys.modules.update({f"{__name__}._tensor": _tensor, f"{__name__}._dtypes": _dtypes})

# Parts that not every program needs, loaded on first use: modules that are public themselves, and
# those whose `__all__` is public, the cheapest first.
_LAZY = ("data", "fft", "linalg", "nn", "optim", "random", "testing")
_LAZY_FUNCTIONS = (
    "functions.einsum",
    "functions.sets",
    "backends.settings",
    "backends.devices",
    "_transforms.checkpoint",
    "_transforms.derivatives",
    "_transforms.vmap",
    "_trace.graph",
    "_inspect",
    "_files",
    "_profile",
)

if _typing.TYPE_CHECKING:
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


def _loaded_lazily() -> _typing.Iterator[_types.ModuleType]:
    for path in _LAZY_FUNCTIONS:
        yield _importlib.import_module(f".{path}", __name__)


def __getattr__(name: str) -> _typing.Any:
    """Load parts that not every program needs on first use."""
    if name in _LAZY:
        return _importlib.import_module(f".{name}", __name__)
    if name == "__all__":
        return _public_names()
    known = _hints.FUNCTIONS | _hints.IDIOMS
    if name not in known and not name.startswith("_"):
        for module in _loaded_lazily():
            if name in module.__all__:
                return globals().setdefault(name, getattr(module, name))
    raise _hints.missing("module 'adjoint'", name, known)


def _public_names() -> list[str]:
    """Names that `from adjoint import *` brings: neither lazy modules nor names of builtins."""
    internal = {"backends", "functions", "kernels", "primitives", *_LAZY}
    names = {*globals(), *(name for module in _loaded_lazily() for name in module.__all__)}
    hidden = {name for name in names if name.startswith("_") or hasattr(_builtins, name)}
    return sorted(names - hidden - internal)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_public_names()})


def _drawn(name: str) -> _typing.Callable:
    """A method of tensors that fills them with random numbers, and loads `random` on first use."""

    def call(x: Tensor, *args: _typing.Any, **kwargs: _typing.Any) -> Tensor:
        module = _importlib.import_module(".random._fill", __name__)
        return getattr(module, name)(x, *args, **kwargs)

    return call


for _name in ("normal_", "uniform_"):
    _methods.bind_in_place(_name, _drawn(_name))
