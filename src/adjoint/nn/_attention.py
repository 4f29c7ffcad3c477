"""Scaled dot-product attention."""

import math
from typing import Any

from .._core.promotion import is_at_hand
from .._core.shape_inference import broadcasts_to
from .._core.tensor import Tensor
from .._foundation.dtypes import weak
from .._foundation.errors import ArgumentError, DTypeError, ShapeError
from ..functions._arguments import as_number, as_tensor, as_tensor_like
from ..functions.contractions import matmul
from ..functions.creation import arange
from ..functions.reductions import any, softmax
from ..functions.shapes import broadcast_to, expand_dims, matrix_transpose, reshape
from ..primitives import reductions
from ..primitives.elementwise import not_equal, where
from ._dropout import as_probability, dropped
from ._operands import in_common_float, in_float32

__all__ = ["scaled_dot_product_attention"]


@in_float32
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query @ key.mT * scale + mask) @ value, for (..., L, E), (..., S, E), (..., S, V).

    A boolean `attn_mask` is true where attention is allowed, one of floats is added; a query that
    may attend to nothing gives zeros. `is_causal` allows no later key than the query's own number.
    `scale` is 1 / sqrt(E) unless given. With `enable_gqa` several heads of the query share a key.

    >>> query, key, value = ad.zeros((1, 4)), ad.ones((2, 4)), ad.asarray([[1.0], [3.0]])
    >>> ad.nn.functional.scaled_dot_product_attention(query, key, value)
    tensor([[2.]])
    """
    function = "scaled_dot_product_attention"
    query, key, value = in_common_float(function, query, key, value)
    check_matrices(query, key, value)
    p = as_probability(function, "dropout_p", dropout_p)
    if enable_gqa:
        key, value = (repeated(query, x) for x in (key, value))
    usual = 1 / math.sqrt(max(query.shape[-1], 1))
    scale = usual if scale is None else as_number(function, "scale", scale)
    scores = matmul(query * scale, matrix_transpose(key))
    mask = as_mask(attn_mask, is_causal, scores)
    weights = softmax(scores) if mask is None else masked_softmax(scores, mask)
    return matmul(dropped(weights, weights.shape, p) if p else weights, value)


def check_matrices(query: Tensor, key: Tensor, value: Tensor) -> None:
    shapes = [x.shape for x in (query, key, value)]
    q, k, v = shapes
    fits = min(map(len, shapes)) >= 2 and q[-1] == k[-1] and k[-2] == v[-2]
    if not fits:
        raise ShapeError(
            "scaled_dot_product_attention: query (..., L, E), key (..., S, E) and value (..., S, V)"
            f" are needed, got {q}, {k} and {v}"
        )


def repeated(query: Tensor, x: Tensor) -> Tensor:
    """The heads of a key or value, each as often as a head of the query uses it."""
    if query.ndim < 3 or x.ndim < 3 or not x.shape[-3] or query.shape[-3] % x.shape[-3]:
        raise ShapeError(
            "scaled_dot_product_attention: with enable_gqa the query's heads must be a multiple of "
            f"the key's and value's, got shapes {query.shape} and {x.shape}"
        )
    times = query.shape[-3] // x.shape[-3]
    shape = (*x.shape[:-2], times, *x.shape[-2:])
    return reshape(
        broadcast_to(expand_dims(x, -3), shape), (*x.shape[:-3], query.shape[-3], *x.shape[-2:])
    )


def as_mask(attn_mask: Any, is_causal: bool, scores: Tensor) -> Tensor | None:
    """Booleans that allow, or numbers to add."""
    if is_causal:
        if attn_mask is not None:
            raise ArgumentError(
                "scaled_dot_product_attention: give attn_mask or is_causal=True, not both"
            )
        return causal_mask(scores.shape[-2], scores.shape[-1], scores.device)
    if attn_mask is None:
        return None
    attn_mask = weak(attn_mask)
    mask = as_tensor("scaled_dot_product_attention", attn_mask)
    if mask.dtype.kind not in ("bool", "float"):
        raise DTypeError(
            "scaled_dot_product_attention: attn_mask must be booleans or floats, got "
            f"{mask.dtype.name}"
        )
    if not broadcasts_to(mask.shape, scores.shape):
        raise ShapeError(
            f"scaled_dot_product_attention: attn_mask of shape {mask.shape} doesn't broadcast to "
            f"the scores' {scores.shape}"
        )
    if mask.dtype.kind == "float":
        mask = as_tensor_like("scaled_dot_product_attention", scores, attn_mask)
    return mask if mask.ndim else expand_dims(mask, 0)


def causal_mask(queries: int, keys: int, device: str) -> Tensor:
    """True where a query's number is at least the key's."""
    return expand_dims(arange(queries, device=device), 1) >= arange(keys, device=device)


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """softmax of scores, as the mask allows; zeros in rows where it allows nothing."""
    if mask.dtype.kind == "float":
        allowed = not_equal(mask, -math.inf)
        added = where(allowed, mask, 0)  # infinities would look like mistakes to detect_anomaly
        if mask.requires_grad or not is_at_hand(added) or any(added):
            scores = scores + added
        mask = allowed
    return reductions.masked_softmax(scores, mask, axis=scores.ndim - 1)
