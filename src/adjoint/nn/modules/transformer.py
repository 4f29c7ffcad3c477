"""Transformers: encoders, decoders, and both together."""

import copy
import math
from collections.abc import Callable
from typing import Any

from ..._core.tensor import Tensor
from ..._foundation.errors import DTypeError
from ...functions._arguments import as_integer, reject
from ...functions.arrangement import triu
from ...functions.creation import full
from .. import functional as F
from .. import init
from .applied import Kind, count, kind, one_of
from .attention import MultiheadAttention
from .containers import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .norms import LayerNorm

__all__ = ["Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder"]
__all__ += ["TransformerEncoderLayer"]

ACTIVATIONS: dict[str, Callable] = {"relu": F.relu, "gelu": F.gelu}


class Block(Kind):
    """What layers of encoders and decoders share: parts that are added to what they are given.

    Each is normalised after the sum, or before the part if `norm_first`.
    """

    words = ("parts",)
    parts: int  # two kinds of attention and the linear maps, or one kind and these

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        placement: dict[str, Any] = {"device": device, "dtype": dtype}

        def attention() -> MultiheadAttention:
            return MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, **placement
            )

        self.self_attn = attention()
        if self.parts == 3:
            self.multihead_attn = attention()
        self.linear1 = Linear(d_model, dim_feedforward, bias, **placement)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **placement)
        self.norm_first = norm_first
        for k in range(1, self.parts + 1):
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, **placement)
            setattr(self, f"norm{k}", norm)
        for k in range(1, self.parts + 1):
            setattr(self, f"dropout{k}", Dropout(dropout))
        if not callable(activation):
            activation = ACTIVATIONS[one_of(self, "activation", activation, tuple(ACTIVATIONS))]
        self.activation: Callable = activation

    def _added(self, x: Tensor, part: Callable[[Tensor], Tensor], k: int) -> Tensor:
        """x and what the k-th part makes of it."""
        norm, dropout = getattr(self, f"norm{k}"), getattr(self, f"dropout{k}")
        if self.norm_first:
            return x + dropout(part(norm(x)))
        return norm(x + dropout(part(x)))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(Block, parts=2):
    """Attention of a sequence to itself, then two linear maps of each step.

    >>> layer = ad.nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
    >>> layer(ad.ones((1, 5, 8)), is_causal=True).shape
    (1, 5, 8)
    """

    def forward(
        self,
        src: Any,
        src_mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool = False,
    ) -> Tensor:
        """src (L, N, d_model), or with N first if `batch_first`, or without it, after this layer.

        Masks are as in `MultiheadAttention`; `is_causal` needs none.
        """
        masks = src_key_padding_mask, False, src_mask
        x = self._added(src, lambda x: self.self_attn(x, x, x, *masks, is_causal=is_causal)[0], 1)
        return self._added(x, self._feed_forward, 2)


class TransformerDecoderLayer(Block, parts=3):
    """Attention of a sequence to itself, then to what an encoder gave, then two linear maps.

    >>> layer = ad.nn.TransformerDecoderLayer(8, nhead=2, dim_feedforward=16)
    >>> layer(ad.ones((5, 1, 8)), ad.ones((3, 1, 8)), tgt_is_causal=True).shape
    (5, 1, 8)
    """

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """tgt (L, N, d_model) after this layer, given memory (S, N, d_model).

        The masks of tgt are for its attention to itself, those of memory for its attention to that;
        both as in `MultiheadAttention`.
        """
        own = tgt_key_padding_mask, False, tgt_mask
        others = memory_key_padding_mask, False, memory_mask

        def attend(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, *own, is_causal=tgt_is_causal)[0]

        def remember(x: Tensor) -> Tensor:
            return self.multihead_attn(x, memory, memory, *others, is_causal=memory_is_causal)[0]

        x = self._added(self._added(tgt, attend, 1), remember, 2)
        return self._added(x, self._feed_forward, 3)


class Stack(Module):
    """Copies of a layer, one after the other, and a norm at the end unless it is None."""

    def __init__(self, layer: Module, num_layers: int, norm: Module | None) -> None:
        super().__init__()
        if not isinstance(layer, Module):
            raise DTypeError(f"{kind(self)}: a layer is needed, got a {type(layer).__name__}")
        self.num_layers = count(self, "num_layers", num_layers, 0)
        self.layers = ModuleList(copy.deepcopy(layer) for _ in range(self.num_layers))
        self.norm = norm

    def _through(self, x: Any, *args: Any, **masks: Any) -> Tensor:
        for layer in self.layers:
            x = layer(x, *args, **masks)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(Stack):
    """Copies of an encoder's layer, which all begin with the same weights.

    >>> layer = ad.nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16)
    >>> ad.nn.TransformerEncoder(layer, num_layers=2)(ad.ones((5, 1, 8))).shape
    (5, 1, 8)
    """

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None, **unknown: Any
    ) -> None:
        if unknown:
            reject("TransformerEncoder", unknown)
        super().__init__(encoder_layer, num_layers, norm)

    def forward(
        self,
        src: Any,
        mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """src after all layers, each of which is given the masks."""
        return self._through(
            src,
            src_mask=mask,
            src_key_padding_mask=src_key_padding_mask,
            is_causal=bool(is_causal),
        )


class TransformerDecoder(Stack):
    """Copies of a decoder's layer, which all begin with the same weights.

    >>> layer = ad.nn.TransformerDecoderLayer(8, nhead=2, dim_feedforward=16)
    >>> decoder = ad.nn.TransformerDecoder(layer, num_layers=2)
    >>> decoder(ad.ones((5, 1, 8)), ad.ones((3, 1, 8)), tgt_is_causal=True).shape
    (5, 1, 8)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """tgt after all layers, each of which is given memory and the masks."""
        return self._through(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=bool(tgt_is_causal),
            memory_is_causal=memory_is_causal,
        )


class Transformer(Module):
    """An encoder of one sequence, and a decoder of another that attends to it.

    >>> model = ad.nn.Transformer(8, 2, 1, 1, dim_feedforward=16)
    >>> model(ad.ones((3, 1, 8)), ad.ones((5, 1, 8)), tgt_is_causal=True).shape
    (5, 1, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        settings = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        placement: dict[str, Any] = {"device": device, "dtype": dtype}

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, **placement)

        def made(layer: type, stack: type, number: int) -> Module:
            first = layer(*settings, batch_first, norm_first, bias, **placement)
            return stack(first, number, norm())

        self.encoder = (
            made(TransformerEncoderLayer, TransformerEncoder, num_encoder_layers)
            if custom_encoder is None
            else custom_encoder
        )
        self.decoder = (
            made(TransformerDecoderLayer, TransformerDecoder, num_decoder_layers)
            if custom_decoder is None
            else custom_decoder
        )
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all matrices anew, as Xavier has it."""
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """tgt (L, N, d_model) after the decoder, given src (S, N, d_model)."""
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask,
            memory_mask,
            tgt_key_padding_mask,
            memory_key_padding_mask,
            tgt_is_causal,
            memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: str | None = None, dtype: Any = None
    ) -> Tensor:
        """A mask that forbids attention to later steps: -inf above the diagonal, else 0.

        >>> ad.nn.Transformer.generate_square_subsequent_mask(2)
        tensor([[  0., -inf],
                [  0.,   0.]])
        """
        size = as_integer("generate_square_subsequent_mask", "sz", sz)
        return triu(full((size, size), -math.inf, device=device, dtype=dtype), k=1)
