"""How far vectors are from each other."""

from typing import Any

from ..._core.tensor import Tensor
from ...functions._arguments import as_integer, as_number
from .. import functional as F
from .applied import Applied

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class Between(Applied, shown=()):
    """A function of two tensors."""

    def forward(self, x1: Any, x2: Any) -> Tensor:
        """The function of x1 and x2, with the layer's settings."""
        return self._applied(x1, x2)


class CosineSimilarity(Between, function=F.cosine_similarity, options=("axis", "eps")):
    """The cosine of the angle between vectors along an axis; norms count as at least `eps`.

    >>> ad.nn.CosineSimilarity()(ad.asarray([[1.0, 0.0]]), ad.asarray([[3.0, 4.0]]))
    tensor([0.6])
    """

    def __init__(self, axis: int = 1, eps: float = 1e-8, **unknown: Any) -> None:
        super().__init__(**unknown)
        self.axis = as_integer("CosineSimilarity", "axis", axis)
        self.eps = as_number("CosineSimilarity", "eps", eps)


class PairwiseDistance(Between, function=F.pairwise_distance, options=("p", "eps", "keepdims")):
    """The p-norm of x1 - x2 + eps along the last axis.

    >>> ad.nn.PairwiseDistance()(ad.asarray([3.0, 4.0]), ad.asarray([0.0, 0.0]))
    tensor(5.)
    """

    def __init__(
        self, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False, **unknown: Any
    ) -> None:
        super().__init__(**unknown)
        self.p = as_number("PairwiseDistance", "p", p)
        self.eps = as_number("PairwiseDistance", "eps", eps)
        self.keepdims = keepdims
