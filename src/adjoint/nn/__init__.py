"""Neural networks: layers in PyTorch's shape, and the functions that they call.

It may import the functions layer and all below it, and its neighbours random and linalg.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ..functions import hints as _hints
from . import functional as functional
from . import init as init
from . import utils as utils
from ._parameter import Parameter as Parameter
from .modules.activations import CELU as CELU
from .modules.activations import ELU as ELU
from .modules.activations import GELU as GELU
from .modules.activations import GLU as GLU
from .modules.activations import SELU as SELU
from .modules.activations import Hardsigmoid as Hardsigmoid
from .modules.activations import Hardswish as Hardswish
from .modules.activations import Hardtanh as Hardtanh
from .modules.activations import LeakyReLU as LeakyReLU
from .modules.activations import LogSigmoid as LogSigmoid
from .modules.activations import LogSoftmax as LogSoftmax
from .modules.activations import Mish as Mish
from .modules.activations import PReLU as PReLU
from .modules.activations import ReLU as ReLU
from .modules.activations import ReLU6 as ReLU6
from .modules.activations import Sigmoid as Sigmoid
from .modules.activations import SiLU as SiLU
from .modules.activations import Softmax as Softmax
from .modules.activations import Softmin as Softmin
from .modules.activations import Softplus as Softplus
from .modules.activations import Softsign as Softsign
from .modules.activations import Tanh as Tanh
from .modules.activations import Threshold as Threshold
from .modules.attention import MultiheadAttention as MultiheadAttention
from .modules.containers import ModuleDict as ModuleDict
from .modules.containers import ModuleList as ModuleList
from .modules.containers import Sequential as Sequential
from .modules.convolution import Conv1d as Conv1d
from .modules.convolution import Conv2d as Conv2d
from .modules.convolution import Conv3d as Conv3d
from .modules.convolution import ConvTranspose1d as ConvTranspose1d
from .modules.convolution import ConvTranspose2d as ConvTranspose2d
from .modules.convolution import ConvTranspose3d as ConvTranspose3d
from .modules.distances import CosineSimilarity as CosineSimilarity
from .modules.distances import PairwiseDistance as PairwiseDistance
from .modules.dropout import AlphaDropout as AlphaDropout
from .modules.dropout import Dropout as Dropout
from .modules.dropout import Dropout1d as Dropout1d
from .modules.dropout import Dropout2d as Dropout2d
from .modules.dropout import Dropout3d as Dropout3d
from .modules.embedding import Embedding as Embedding
from .modules.functional_call import functional_call as functional_call
from .modules.linear import Identity as Identity
from .modules.linear import Linear as Linear
from .modules.losses import BCELoss as BCELoss
from .modules.losses import BCEWithLogitsLoss as BCEWithLogitsLoss
from .modules.losses import CosineEmbeddingLoss as CosineEmbeddingLoss
from .modules.losses import CrossEntropyLoss as CrossEntropyLoss
from .modules.losses import GaussianNLLLoss as GaussianNLLLoss
from .modules.losses import HingeEmbeddingLoss as HingeEmbeddingLoss
from .modules.losses import HuberLoss as HuberLoss
from .modules.losses import KLDivLoss as KLDivLoss
from .modules.losses import L1Loss as L1Loss
from .modules.losses import MarginRankingLoss as MarginRankingLoss
from .modules.losses import MSELoss as MSELoss
from .modules.losses import NLLLoss as NLLLoss
from .modules.losses import PoissonNLLLoss as PoissonNLLLoss
from .modules.losses import SmoothL1Loss as SmoothL1Loss
from .modules.losses import TripletMarginLoss as TripletMarginLoss
from .modules.module import Module as Module
from .modules.norms import BatchNorm1d as BatchNorm1d
from .modules.norms import BatchNorm2d as BatchNorm2d
from .modules.norms import BatchNorm3d as BatchNorm3d
from .modules.norms import GroupNorm as GroupNorm
from .modules.norms import InstanceNorm1d as InstanceNorm1d
from .modules.norms import InstanceNorm2d as InstanceNorm2d
from .modules.norms import InstanceNorm3d as InstanceNorm3d
from .modules.norms import LayerNorm as LayerNorm
from .modules.norms import RMSNorm as RMSNorm
from .modules.padding import CircularPad1d as CircularPad1d
from .modules.padding import CircularPad2d as CircularPad2d
from .modules.padding import CircularPad3d as CircularPad3d
from .modules.padding import ConstantPad1d as ConstantPad1d
from .modules.padding import ConstantPad2d as ConstantPad2d
from .modules.padding import ConstantPad3d as ConstantPad3d
from .modules.padding import ReflectionPad1d as ReflectionPad1d
from .modules.padding import ReflectionPad2d as ReflectionPad2d
from .modules.padding import ReflectionPad3d as ReflectionPad3d
from .modules.padding import ReplicationPad1d as ReplicationPad1d
from .modules.padding import ReplicationPad2d as ReplicationPad2d
from .modules.padding import ReplicationPad3d as ReplicationPad3d
from .modules.padding import ZeroPad1d as ZeroPad1d
from .modules.padding import ZeroPad2d as ZeroPad2d
from .modules.padding import ZeroPad3d as ZeroPad3d
from .modules.parameters import ParameterDict as ParameterDict
from .modules.parameters import ParameterList as ParameterList
from .modules.patches import Fold as Fold
from .modules.patches import Unfold as Unfold
from .modules.pooling import AdaptiveAvgPool1d as AdaptiveAvgPool1d
from .modules.pooling import AdaptiveAvgPool2d as AdaptiveAvgPool2d
from .modules.pooling import AdaptiveAvgPool3d as AdaptiveAvgPool3d
from .modules.pooling import AdaptiveMaxPool1d as AdaptiveMaxPool1d
from .modules.pooling import AdaptiveMaxPool2d as AdaptiveMaxPool2d
from .modules.pooling import AdaptiveMaxPool3d as AdaptiveMaxPool3d
from .modules.pooling import AvgPool1d as AvgPool1d
from .modules.pooling import AvgPool2d as AvgPool2d
from .modules.pooling import AvgPool3d as AvgPool3d
from .modules.pooling import MaxPool1d as MaxPool1d
from .modules.pooling import MaxPool2d as MaxPool2d
from .modules.pooling import MaxPool3d as MaxPool3d
from .modules.recurrent import GRU as GRU
from .modules.recurrent import LSTM as LSTM
from .modules.recurrent import RNN as RNN
from .modules.recurrent import GRUCell as GRUCell
from .modules.recurrent import LSTMCell as LSTMCell
from .modules.recurrent import RNNCell as RNNCell
from .modules.shapes import Flatten as Flatten
from .modules.shapes import PixelShuffle as PixelShuffle
from .modules.shapes import PixelUnshuffle as PixelUnshuffle
from .modules.shapes import Unflatten as Unflatten
from .modules.shapes import Upsample as Upsample
from .modules.transformer import Transformer as Transformer
from .modules.transformer import TransformerDecoder as TransformerDecoder
from .modules.transformer import TransformerDecoderLayer as TransformerDecoderLayer
from .modules.transformer import TransformerEncoder as TransformerEncoder
from .modules.transformer import TransformerEncoderLayer as TransformerEncoderLayer

__all__ = [  # type: ignore[reportUnsupportedDunderAll]
    name for name in dir() if not name.startswith("_") and name != "modules"
]

if not _TYPE_CHECKING:  # else every name would be right

    def __getattr__(name: str) -> object:
        raise _hints.missing("module 'adjoint.nn'", name, _hints.LAYERS)
