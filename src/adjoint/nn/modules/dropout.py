"""Dropout: in training a random part is put to zero; in evaluation nothing happens."""

from typing import Any

from .. import functional as F
from .._dropout import as_probability
from .applied import OfOne, kind, settings

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d"]


class Drop(OfOne):
    """A kind of dropout with probability p."""

    options = ("p", "training")
    _numbers = ("p",)

    def __init__(self, p: float = 0.5, *more: Any, **unknown: Any) -> None:
        super().__init__(*more, **unknown)
        as_probability(kind(self), "p", p)
        self.p = p

    def extra_repr(self) -> str:
        return settings(self, "p")


class Dropout(Drop):
    """x with each element put to 0 with probability p, the others divided by 1 - p, in training.

    >>> layer = ad.nn.Dropout(0.25)
    >>> abs(layer(ad.ones(1000)).mean().item() - 1) < 0.1
    True
    >>> layer.eval()(ad.ones(2))
    tensor([1., 1.])
    """

    function = staticmethod(F.dropout)


class Dropout1d(Drop):
    """Dropout of whole channels of (N, C, L) or (C, L), in training.

    >>> x = ad.nn.Dropout1d()(ad.ones((2, 4, 3)))
    >>> ad.all(x == x[:, :, :1])
    tensor(True)
    """

    function = staticmethod(F.dropout1d)


class Dropout2d(Drop):
    """Dropout of whole channels of (N, C, H, W) or (C, H, W), in training.

    >>> x = ad.nn.Dropout2d()(ad.ones((1, 8, 2, 2)))
    >>> ad.all(x == x[:, :, :1, :1])
    tensor(True)
    """

    function = staticmethod(F.dropout2d)


class Dropout3d(Drop):
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W), in training.

    >>> ad.nn.Dropout3d()(ad.ones((1, 2, 2, 2, 2))).shape
    (1, 2, 2, 2, 2)
    """

    function = staticmethod(F.dropout3d)


class AlphaDropout(Drop):
    """Dropout for networks of `SELU`: mean 0 and variance 1 stay.

    >>> x = ad.nn.AlphaDropout(0.2)(ad.random.normal((10000,)))
    >>> abs(x.mean().item()) < 0.1, abs(ad.std(x).item() - 1) < 0.1
    (True, True)
    """

    function = staticmethod(F.alpha_dropout)
