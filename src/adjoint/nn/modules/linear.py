"""Layers that are linear in their input, or pass it on."""

import math
from typing import Any

from ..._core.tensor import Tensor
from ...functions.creation import empty
from .. import functional as F
from .. import init
from .._parameter import Parameter
from .applied import count
from .module import Module

__all__ = ["Identity", "Linear"]


class Linear(Module):
    """x @ weight.mT + bias, with a weight of shape (out_features, in_features).

    >>> layer = ad.nn.Linear(3, 2)
    >>> layer(ad.ones((5, 3))).shape
    (5, 2)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = count(self, "in_features", in_features, least=0)
        self.out_features = count(self, "out_features", out_features, least=0)
        shape = (self.out_features, self.in_features)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        self.bias = Parameter(empty(shape[:1], device=device, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, uniformly from ±1/√in_features."""
        init.uniform_within(1 / math.sqrt(max(self.in_features, 1)), self.weight, self.bias)

    def forward(self, x: Any) -> Tensor:
        """x (…, in_features) as (…, out_features)."""
        return F.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Identity(Module):
    """x itself, whatever the arguments; to take the place of a layer.

    >>> ad.nn.Identity()(ad.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, x: Any) -> Any:
        """x itself."""
        return x
