"""Dropout: in training a random part is put to zero; in evaluation nothing happens."""

from typing import Any

from .. import functional as F
from .._dropout import as_probability
from .applied import OfOne, kind

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d"]


class Drop(OfOne, options=("p", "training"), shown=("p",)):
    """A kind of dropout with probability p."""

    _numbers = ("p",)

    def __init__(self, p: float = 0.5, *more: Any, **unknown: Any) -> None:
        super().__init__(*more, **unknown)
        as_probability(kind(self), "p", p)
        self.p = p


class Dropout(Drop, function=F.dropout):
    """x with each element put to 0 with probability p, the others divided by 1 - p, in training.

    >>> layer = ad.nn.Dropout(0.25)
    >>> abs(layer(ad.ones(1000)).mean().item() - 1) < 0.1
    True
    >>> layer.eval()(ad.ones(2))
    tensor([1., 1.])
    """


class Dropout1d(Drop, function=F.dropout1d):
    """Dropout of whole channels of (N, C, L) or (C, L), in training.

    >>> x = ad.nn.Dropout1d()(ad.ones((2, 4, 3)))
    >>> ad.all(x == x[:, :, :1])
    tensor(True)
    """


class Dropout2d(Drop, function=F.dropout2d):
    """Dropout of whole channels of (N, C, H, W) or (C, H, W), in training.

    >>> x = ad.nn.Dropout2d()(ad.ones((1, 8, 2, 2)))
    >>> ad.all(x == x[:, :, :1, :1])
    tensor(True)
    """


class Dropout3d(Drop, function=F.dropout3d):
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W), in training.

    >>> ad.nn.Dropout3d()(ad.ones((1, 2, 2, 2, 2))).shape
    (1, 2, 2, 2, 2)
    """


class AlphaDropout(Drop, function=F.alpha_dropout):
    """Dropout for networks of `SELU`: mean 0 and variance 1 stay.

    >>> x = ad.nn.AlphaDropout(0.2)(ad.random.normal((10000,)))
    >>> abs(x.mean().item()) < 0.1, abs(ad.std(x).item() - 1) < 0.1
    (True, True)
    """
