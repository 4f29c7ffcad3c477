"""What is measured with norms of vectors along an axis."""

from typing import Any

from .._core.shape_inference import broadcast_shapes
from .._core.tensor import Tensor
from ..functions._arguments import as_axis, as_number, reject
from ..functions.reductions import sum
from ..linalg import vector_norm
from ..primitives.elementwise import maximum
from ._operands import as_reals, in_common_float, in_float32

__all__ = ["cosine_similarity", "normalize", "pairwise_distance"]


@in_float32
def normalize(x: Any, p: float = 2.0, axis: int = 1, eps: float = 1e-12, **unknown: Any) -> Tensor:
    """x over its p-norm along an axis, or over `eps` where that is larger.

    >>> ad.nn.functional.normalize(ad.asarray([[3.0, 4.0]]))
    tensor([[0.6, 0.8]])
    """
    if unknown:
        reject("normalize", unknown)
    x = as_reals("normalize", x)
    axis, p = as_axis("normalize", axis, x.ndim), as_number("normalize", "p", p)
    return unit(x, p, axis, as_number("normalize", "eps", eps))


@in_float32
def cosine_similarity(x1: Any, x2: Any, axis: int = 1, eps: float = 1e-8, **unknown: Any) -> Tensor:
    """The cosine of the angle between vectors along an axis; norms count as at least `eps`.

    >>> ad.nn.functional.cosine_similarity(ad.asarray([[1.0, 0.0]]), ad.asarray([[3.0, 4.0]]))
    tensor([0.6])
    """
    if unknown:
        reject("cosine_similarity", unknown)
    return cosine("cosine_similarity", x1, x2, axis, eps)


def cosine(function: str, x1: Any, x2: Any, axis: int, eps: float) -> Tensor:
    first, second = in_common_float(function, x1, x2)
    ndim = len(broadcast_shapes(function, [first.shape, second.shape]))
    axis, eps = as_axis(function, axis, ndim) - ndim, as_number(function, "eps", eps)
    return sum(unit(first, 2.0, axis, eps) * unit(second, 2.0, axis, eps), axis)


def unit(x: Tensor, p: float, axis: int, eps: float) -> Tensor:
    return x / maximum(vector_norm(x, axis=axis, keepdims=True, ord=p), eps)


@in_float32
def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False, **unknown: Any
) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last axis.

    >>> ad.nn.functional.pairwise_distance(ad.asarray([3.0, 4.0]), ad.asarray([0.0, 0.0]))
    tensor(5.)
    """
    if unknown:
        reject("pairwise_distance", unknown)
    return distance("pairwise_distance", x1, x2, p, eps, keepdims)


def distance(
    function: str, x1: Any, x2: Any, p: float, eps: float, keepdims: bool = False
) -> Tensor:
    first, second = in_common_float(function, x1, x2)
    shape = broadcast_shapes(function, [first.shape, second.shape])
    axis, p = as_axis(function, -1, len(shape)), as_number(function, "p", p)
    apart = first - second + as_number(function, "eps", eps)
    return vector_norm(apart, axis=axis, keepdims=keepdims, ord=p)
