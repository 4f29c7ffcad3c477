"""Neural networks: layers in PyTorch's shape, and the functions that they call.

It may import the functions layer and all below it, and its neighbours random and linalg.
"""

# ruff: noqa: F401, F403
from typing import TYPE_CHECKING as _TYPE_CHECKING

from ..functions.hints import missing as _missing
from . import functional, init, utils
from ._hints import LAYERS as _LAYERS
from ._parameter import Parameter
from ._parameter import restored as _restored
from .modules.activations import *
from .modules.attention import *
from .modules.containers import *
from .modules.convolution import *
from .modules.distances import *
from .modules.dropout import *
from .modules.embedding import *
from .modules.functional_call import *
from .modules.linear import *
from .modules.losses import *
from .modules.module import *
from .modules.norms import *
from .modules.padding import *
from .modules.parameters import *
from .modules.patches import *
from .modules.pooling import *
from .modules.recurrent import *
from .modules.shapes import *
from .modules.transformer import *

__all__ = [  # type: ignore[reportUnsupportedDunderAll]
    name for name in dir() if not name.startswith("_") and name != "modules"
]

if not _TYPE_CHECKING:  # else every name would be right

    def __getattr__(name: str) -> object:
        raise _missing("module 'adjoint.nn'", name, _LAYERS)
