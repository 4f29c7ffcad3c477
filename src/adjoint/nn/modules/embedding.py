"""Vectors for integers."""

from typing import Any

from ..._core.tensor import Tensor
from ..._foundation.errors import ArgumentError, ShapeError
from ..._foundation.modes import no_grad
from ...functions._arguments import as_integer, as_tensor, reject
from ...functions.creation import empty
from .. import functional as F
from .. import init
from .._parameter import Parameter
from .applied import count
from .module import Module

__all__ = ["Embedding"]


class Embedding(Module):
    """Vectors that are learnt, one for each integer below `num_embeddings`.

    The row `padding_idx` is zeros at the start, and isn't trained.

    >>> words = ad.nn.Embedding(1000, 16, padding_idx=0)
    >>> words(ad.asarray([[3, 14, 15], [92, 6, 0]])).shape
    (2, 3, 16)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        device: str | None = None,
        dtype: Any = None,
        **unknown: Any,
    ) -> None:
        super().__init__()
        if unknown:
            reject("Embedding", unknown)
        self._set_sizes(num_embeddings, embedding_dim, padding_idx)
        shape = (self.num_embeddings, self.embedding_dim)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        self.reset_parameters()

    @classmethod
    def from_pretrained(
        cls, embeddings: Any, freeze: bool = True, padding_idx: int | None = None
    ) -> "Embedding":
        """A layer with given vectors (num_embeddings, embedding_dim), not trained if `freeze`.

        >>> ad.nn.Embedding.from_pretrained(ad.eye(3))(ad.asarray([2]))
        tensor([[0., 0., 1.]])
        """
        vectors = as_tensor("Embedding.from_pretrained", embeddings)
        if vectors.ndim != 2:
            raise ShapeError(
                "Embedding.from_pretrained: vectors (num_embeddings, embedding_dim) are needed, "
                f"got shape {vectors.shape}"
            )
        layer = cls.__new__(cls)
        rows, columns = vectors.shape
        layer._set_sizes(rows, columns, padding_idx)
        layer.weight = Parameter(vectors, requires_grad=not freeze)
        return layer

    def _set_sizes(self, num_embeddings: Any, embedding_dim: Any, padding_idx: Any) -> None:
        self.num_embeddings = count(self, "num_embeddings", num_embeddings, least=0)
        self.embedding_dim = count(self, "embedding_dim", embedding_dim, least=0)
        self.padding_idx: int | None = None
        if padding_idx is not None:
            row, rows = as_integer("Embedding", "padding_idx", padding_idx), self.num_embeddings
            if not -rows <= row < rows:
                raise ArgumentError(
                    f"Embedding: padding_idx={row} isn't a row: num_embeddings={rows}"
                )
            self.padding_idx = row % rows

    @no_grad()
    def reset_parameters(self) -> None:
        """Draw the vectors anew from a normal distribution; the padding is zeros."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight[self.padding_idx] = 0

    def forward(self, indices: Any) -> Tensor:
        """The vectors (…, embedding_dim) of integers (…)."""
        return F.embedding(indices, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"
