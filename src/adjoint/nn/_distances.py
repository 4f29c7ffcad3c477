"""What is measured with norms of vectors along an axis."""

from typing import Any

from .._tensor import Tensor
from ..functions._arguments import as_axis, as_tensor, in_common_dtype, reject
from ..functions.reductions import as_float, sum
from ..functions.shapes import broadcast_shapes
from ..linalg import vector_norm
from ..primitives.elementwise import maximum


def normalize(x: Any, p: float = 2.0, axis: int = 1, eps: float = 1e-12, **unknown: Any) -> Tensor:
    """x over its p-norm along an axis, or over `eps` where that is larger.

    >>> ad.nn.functional.normalize(ad.asarray([[3.0, 4.0]]))
    tensor([[0.6, 0.8]])
    """
    if unknown:
        reject("normalize", unknown)
    x = as_float(as_tensor("normalize", x))
    axis = as_axis("normalize", axis, x.ndim)
    return x / maximum(vector_norm(x, axis=axis, keepdims=True, ord=p), eps)


def cosine_similarity(x1: Any, x2: Any, axis: int = 1, eps: float = 1e-8, **unknown: Any) -> Tensor:
    """The cosine of the angle between vectors along an axis; norms count as at least `eps`.

    >>> ad.nn.functional.cosine_similarity(ad.asarray([[1.0, 0.0]]), ad.asarray([[3.0, 4.0]]))
    tensor([0.6])
    """
    if unknown:
        reject("cosine_similarity", unknown)
    first, second = map(as_float, in_common_dtype("cosine_similarity", x1, x2))
    ndim = len(broadcast_shapes(first.shape, second.shape))
    axis = as_axis("cosine_similarity", axis, ndim) - ndim
    return sum(unit(first, axis, eps) * unit(second, axis, eps), axis)


def unit(x: Tensor, axis: int, eps: float) -> Tensor:
    return x / maximum(vector_norm(x, axis=axis, keepdims=True), eps)


def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False, **unknown: Any
) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last axis.

    >>> ad.nn.functional.pairwise_distance(ad.asarray([3.0, 4.0]), ad.asarray([0.0, 0.0]))
    tensor(5.)
    """
    if unknown:
        reject("pairwise_distance", unknown)
    first, second = map(as_float, in_common_dtype("pairwise_distance", x1, x2))
    return vector_norm(first - second + eps, axis=-1, keepdims=keepdims, ord=p)
