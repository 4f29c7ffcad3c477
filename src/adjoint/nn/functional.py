"""Functions of neural networks, under PyTorch's names and with its semantics, but `axis=`.

They are the functions and ops of the layers below, and compositions of these; a few also need
random and linalg, which are in the same layer as nn.
"""

# ruff: noqa: F401, F403
from ..functions.einsum import einsum
from ..functions.elementwise import clip, elu, gelu, leaky_relu
from ..functions.reductions import log_softmax, logsumexp, softmax
from ..functions.sorting import topk
from ..primitives.elementwise import erf, relu, sigmoid, silu, tanh, where
from ._activations import *
from ._attention import *
from ._convolution import *
from ._cross_entropy import *
from ._distances import *
from ._dropout import *
from ._images import *
from ._layers import *
from ._losses import *
from ._norms import *
from ._patches import *
from ._pooling import *
from ._resize import *

__all__ = [name for name in dir() if not name.startswith("_")]  # type: ignore[reportUnsupportedDunderAll]
