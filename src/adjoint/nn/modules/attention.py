"""Attention with several heads."""

import math
from typing import Any, NamedTuple

from ..._core.shape_inference import Shape
from ..._core.tensor import Tensor
from ..._foundation.errors import ArgumentError, DTypeError, ShapeError
from ...functions._arguments import as_real, as_tensor
from ...functions.contractions import matmul
from ...functions.creation import empty
from ...functions.reductions import mean, softmax
from ...functions.shapes import expand_dims, matrix_transpose, permute_dims, reshape, split, unstack
from ...primitives.elementwise import logical_not, where
from .. import functional as F
from .. import init
from .._attention import as_mask, causal_mask, masked_softmax
from .._dropout import as_probability, dropped
from .._operands import narrowed, widened
from .._parameter import Parameter
from .applied import check_multiple, count, kind
from .linear import Linear
from .module import Module

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention of queries to keys and values in several heads, each with a part of the features.

    `kdim` and `vdim` are the features of keys and values, if they aren't `embed_dim`. The weights
    of query, key and value are below each other in `in_proj_weight`, unless these differ.

    >>> attention = ad.nn.MultiheadAttention(8, num_heads=2, batch_first=True)
    >>> x = ad.ones((1, 5, 8))
    >>> out, weights = attention(x, x, x)
    >>> out.shape, weights.shape
    ((1, 5, 8), (1, 5, 5))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.embed_dim = count(self, "embed_dim", embed_dim)
        self.num_heads = count(self, "num_heads", num_heads)
        check_multiple(self, "embed_dim", "num_heads")
        if add_bias_kv or add_zero_attn:
            raise ArgumentError(
                f"{kind(self)}: there is no add_bias_kv and no add_zero_attn; append to key and "
                "value instead"
            )
        self.kdim = count(self, "kdim", self.embed_dim if kdim is None else kdim)
        self.vdim = count(self, "vdim", self.embed_dim if vdim is None else vdim)
        self.dropout = as_probability(kind(self), "dropout", dropout)
        self.batch_first = batch_first
        placement: dict[str, Any] = {"device": device, "dtype": dtype}
        self._make_weights(bias, **placement)
        self.out_proj = Linear(self.embed_dim, self.embed_dim, bias, **placement)
        self.reset_parameters()

    def _make_weights(self, bias: bool, **placement: Any) -> None:
        def made(*shape: int) -> Parameter:
            return Parameter(empty(shape, **placement))

        size = self.embed_dim
        alike = self.kdim == self.vdim == size
        self.q_proj_weight = None if alike else made(size, size)
        self.k_proj_weight = None if alike else made(size, self.kdim)
        self.v_proj_weight = None if alike else made(size, self.vdim)
        self.in_proj_weight = made(3 * size, size) if alike else None
        self.in_proj_bias = made(3 * size) if bias else None

    def reset_parameters(self) -> None:
        """Draw the weights anew, those of the inputs as Xavier has it; let biases be 0."""
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if getattr(self, name) is not None:
                init.xavier_uniform_(getattr(self, name))
        self.out_proj.reset_parameters()
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """What each query gets, and the weights (N, L, S), or None unless `need_weights`.

        Query (L, N, embed_dim), key (S, N, kdim) and value (S, N, vdim); with N first if
        `batch_first`, without N for one example. Without `need_weights` it is faster. The weights
        are those of all heads, (N, num_heads, L, S), unless they are averaged.

        Masks are true where attention is forbidden, unlike in
        `F.scaled_dot_product_attention`, or floats to add: `key_padding_mask` is (N, S),
        `attn_mask` (L, S) or (N * num_heads, L, S). With `is_causal`, and no `attn_mask`, no query
        attends to a later key. A query that may attend to nothing gets the output of zeros.
        """
        query, key, value = self._checked(query, key, value)
        layout = LAYOUTS["single" if query.ndim == 2 else "batch" if self.batch_first else "steps"]
        q, k, v = self._projected(query, key, value, layout)
        mask = self._mask(q, k, attn_mask, key_padding_mask, is_causal)
        is_causal = is_causal and mask is None
        p = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            weights = attention_weights(q, k, mask, is_causal, p)
            out = narrowed(matmul(weights, widened(v)), v)
            weights = narrowed(mean(weights, axis=-3) if average_attn_weights else weights, v)
        else:
            out = F.scaled_dot_product_attention(q, k, v, mask, p, is_causal)
        out = permute_dims(out, layout.back)
        return self.out_proj(reshape(out, (*out.shape[:-2], self.embed_dim))), weights

    # Heads

    def _projected(
        self, query: Tensor, key: Tensor, value: Tensor, layout: "Layout"
    ) -> tuple[Tensor, ...]:
        """Queries, keys and values (…, num_heads, L, features of a head)."""
        weight, bias = self.in_proj_weight, self.in_proj_bias
        if weight is not None and query is key is value:
            x = F.linear(query, weight, bias)
            x = reshape(x, (*x.shape[:-1], 3, self.num_heads, self.embed_dim // self.num_heads))
            return unstack(permute_dims(x, layout.three))
        own = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        weights = own if weight is None else split(weight, 3)
        biases = (None, None, None) if bias is None else split(bias, 3)
        parts = map(F.linear, (query, key, value), weights, biases)
        size = self.embed_dim // self.num_heads
        split_up = (reshape(x, (*x.shape[:-1], self.num_heads, size)) for x in parts)
        return tuple(permute_dims(x, layout.apart) for x in split_up)

    # Masks

    def _mask(self, q: Tensor, k: Tensor, attn_mask: Any, padding: Any, causal: bool) -> Any:
        """One mask as scaled_dot_product_attention takes it: true where attention is allowed, or
        floats; None if there is none, or only a causal one."""
        batch, length, others = q.shape[:-3], q.shape[-2], k.shape[-2]
        if attn_mask is None and padding is None:
            return None
        masks = []
        if attn_mask is not None:
            heads = (batch[0] * self.num_heads if batch else self.num_heads, length, others)
            mask = self._allowing("attn_mask", attn_mask, (length, others), heads)
            shape = (*batch, self.num_heads, length, others)
            masks.append(reshape(mask, shape) if mask.ndim == 3 else mask)
        elif causal:
            masks.append(causal_mask(length, others, q.device))
        if padding is not None:
            mask = self._allowing("key_padding_mask", padding, (*batch, others))
            masks.append(expand_dims(mask, (-3, -2)))
        return masks[0] if len(masks) == 1 else both(*masks)

    def _allowing(self, name: str, mask: Any, *shapes: tuple[int, ...]) -> Tensor:
        """A mask that is true where attention is allowed, or has floats to add."""
        mask = as_tensor(kind(self), mask)
        if mask.shape not in shapes:
            raise ShapeError(
                f"{kind(self)}: {name} has shape {' or '.join(map(str, shapes))}, got {mask.shape}"
            )
        if mask.dtype.kind not in ("bool", "float"):
            raise DTypeError(
                f"{kind(self)}: {name} is booleans, true where attention is forbidden, or floats; "
                f"got {mask.dtype.name}"
            )
        return logical_not(mask) if mask.dtype.kind == "bool" else mask

    # Checks

    def _checked(self, query: Any, key: Any, value: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Tensors; one that is given twice stays one."""
        own = {id(x): as_real(kind(self), x) for x in (query, key, value)}
        tensors = own[id(query)], own[id(key)], own[id(value)]
        shapes = [x.shape for x in tensors]
        form = "(N, L, E)" if self.batch_first else "(L, N, E)"
        sizes = (self.embed_dim, self.kdim, self.vdim)
        if not self._fit(*shapes):
            raise ShapeError(
                f"{kind(self)}: query, key and value are {form}, or (L, E) for one example, where "
                f"E is {sizes[0]}, {sizes[1]} and {sizes[2]}, and key and value have the same L; "
                f"got shapes {shapes[0]}, {shapes[1]} and {shapes[2]}"
            )
        return tensors

    def _fit(self, query: Shape, key: Shape, value: Shape) -> bool:
        if not len(query) == len(key) == len(value) in (2, 3):
            return False
        batch = slice(0, 1) if self.batch_first else slice(1, 2)
        examples = len(query) == 2 or query[batch] == key[batch]
        sizes = (query[-1], key[-1], value[-1]) == (self.embed_dim, self.kdim, self.vdim)
        return examples and sizes and key[:-1] == value[:-1]


class Layout(NamedTuple):
    """How axes move: of queries, keys and values with their heads, of all three in one, and back.

    Inside, heads are before steps: (…, num_heads, L, features of a head).
    """

    apart: Shape
    three: Shape
    back: Shape


LAYOUTS = {
    "batch": Layout((0, 2, 1, 3), (2, 0, 3, 1, 4), (0, 2, 1, 3)),
    "steps": Layout((1, 2, 0, 3), (2, 1, 3, 0, 4), (2, 0, 1, 3)),
    "single": Layout((1, 0, 2), (1, 2, 0, 3), (1, 0, 2)),
}


def attention_weights(q: Tensor, k: Tensor, mask: Any, is_causal: bool, p: float) -> Tensor:
    """Of each head, as scaled_dot_product_attention has them, with dropout."""
    q, k = widened(q), widened(k)
    scores = matmul(q * (1 / math.sqrt(q.shape[-1])), matrix_transpose(k))
    mask = as_mask(widened(mask), is_causal, scores)
    weights = softmax(scores) if mask is None else masked_softmax(scores, mask)
    return dropped(weights, weights.shape, p) if p else weights


def both(x: Tensor, y: Tensor) -> Tensor:
    """Two masks as one."""
    if x.dtype.kind == y.dtype.kind:
        return x & y if x.dtype.kind == "bool" else x + y
    allowed, added = (x, y) if x.dtype.kind == "bool" else (y, x)
    return where(allowed, added, -math.inf)
