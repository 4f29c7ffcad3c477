"""Borders around signals, images and volumes."""

from collections.abc import Sequence
from typing import Any

from ..._core.tensor import Tensor
from ..._foundation.errors import ArgumentError
from ...functions._arguments import as_integers
from .. import functional as F
from .._operands import as_scalar
from .applied import Kind, kind, settings

__all__ = ["CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d"]
__all__ += ["ConstantPad3d", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d"]
__all__ += ["ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d"]
__all__ += ["ZeroPad3d"]


class Padding(Kind):
    """A border: one width for all sides, or (before, after) of each axis, the last one first."""

    words = ("spatial", "mode")
    spatial: int
    mode = "constant"
    value: float | None = None

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        widths, sides = as_integers(kind(self), "padding", padding), 2 * self.spatial
        self.padding = tuple(widths) if isinstance(padding, Sequence) else (*widths,) * sides
        if len(self.padding) != sides:
            raise ArgumentError(
                f"{kind(self)}: padding must be one width or {sides} of them, got {padding!r}"
            )

    def forward(self, x: Any) -> Tensor:
        """x with a border; negative widths take elements away."""
        return F.pad(x, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        return str(self.padding)


class ZeroPad1d(Padding, spatial=1):
    """Zeros around signals (N, C, L).

    >>> ad.nn.ZeroPad1d((0, 1))(ad.asarray([[1.0, 2.0]]))
    tensor([[1., 2., 0.]])
    """


class ZeroPad2d(Padding, spatial=2):
    """Zeros around images (N, C, H, W): a width, or (left, right, top, bottom).

    >>> ad.nn.ZeroPad2d(1)(ad.ones((1, 3, 4, 4))).shape
    (1, 3, 6, 6)
    """


class ZeroPad3d(Padding, spatial=3):
    """Zeros around volumes (N, C, D, H, W).

    >>> ad.nn.ZeroPad3d(1)(ad.ones((1, 3, 4, 4, 4))).shape
    (1, 3, 6, 6, 6)
    """


class ConstantPad(Padding):
    """ConstantPad1d, ConstantPad2d, ConstantPad3d."""

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = as_scalar(kind(self), "value", value)

    def extra_repr(self) -> str:
        return settings(self, "padding", "value")


class ConstantPad1d(ConstantPad, spatial=1):
    """A number around signals (N, C, L).

    >>> ad.nn.ConstantPad1d((0, 1), 7.0)(ad.asarray([[1.0, 2.0]]))
    tensor([[1., 2., 7.]])
    """


class ConstantPad2d(ConstantPad, spatial=2):
    """A number around images (N, C, H, W).

    >>> ad.nn.ConstantPad2d((1, 1, 0, 0), 7.0)(ad.ones((1, 3, 4, 4))).shape
    (1, 3, 4, 6)
    """


class ConstantPad3d(ConstantPad, spatial=3):
    """A number around volumes (N, C, D, H, W).

    >>> ad.nn.ConstantPad3d(1, 7.0)(ad.ones((1, 3, 4, 4, 4))).shape
    (1, 3, 6, 6, 6)
    """


class ReflectionPad1d(Padding, spatial=1, mode="reflect"):
    """Signals (N, C, L) continued by their mirror image.

    >>> ad.nn.ReflectionPad1d(2)(ad.asarray([[1.0, 2.0, 3.0]]))
    tensor([[3., 2., 1., 2., 3., 2., 1.]])
    """


class ReflectionPad2d(Padding, spatial=2, mode="reflect"):
    """Images (N, C, H, W) continued by their mirror image.

    >>> ad.nn.ReflectionPad2d(1)(ad.ones((1, 3, 4, 4))).shape
    (1, 3, 6, 6)
    """


class ReflectionPad3d(Padding, spatial=3, mode="reflect"):
    """Volumes (N, C, D, H, W) continued by their mirror image.

    >>> ad.nn.ReflectionPad3d(1)(ad.ones((1, 3, 4, 4, 4))).shape
    (1, 3, 6, 6, 6)
    """


class ReplicationPad1d(Padding, spatial=1, mode="replicate"):
    """Signals (N, C, L) continued by their first and last element.

    >>> ad.nn.ReplicationPad1d(2)(ad.asarray([[1.0, 2.0, 3.0]]))
    tensor([[1., 1., 1., 2., 3., 3., 3.]])
    """


class ReplicationPad2d(Padding, spatial=2, mode="replicate"):
    """Images (N, C, H, W) continued by the pixels at their edges.

    >>> ad.nn.ReplicationPad2d(1)(ad.ones((1, 3, 4, 4))).shape
    (1, 3, 6, 6)
    """


class ReplicationPad3d(Padding, spatial=3, mode="replicate"):
    """Volumes (N, C, D, H, W) continued by the elements at their faces.

    >>> ad.nn.ReplicationPad3d(1)(ad.ones((1, 3, 4, 4, 4))).shape
    (1, 3, 6, 6, 6)
    """


class CircularPad1d(Padding, spatial=1, mode="circular"):
    """Signals (N, C, L) continued from their other end.

    >>> ad.nn.CircularPad1d(2)(ad.asarray([[1.0, 2.0, 3.0]]))
    tensor([[2., 3., 1., 2., 3., 1., 2.]])
    """


class CircularPad2d(Padding, spatial=2, mode="circular"):
    """Images (N, C, H, W) continued from their other side.

    >>> ad.nn.CircularPad2d(1)(ad.ones((1, 3, 4, 4))).shape
    (1, 3, 6, 6)
    """


class CircularPad3d(Padding, spatial=3, mode="circular"):
    """Volumes (N, C, D, H, W) continued from their other side.

    >>> ad.nn.CircularPad3d(1)(ad.ones((1, 3, 4, 4, 4))).shape
    (1, 3, 6, 6, 6)
    """
