"""Windows of images as columns, and back."""

from typing import Any

from .. import functional as F
from .._patches import geometry
from .._windows import per_axis
from .applied import OfOne

__all__ = ["Fold", "Unfold"]

WINDOW = ("kernel_size", "dilation", "padding", "stride")


class Unfold(OfOne, function=F.unfold, options=WINDOW):
    """The windows of images (N, C, H, W) as columns: (N, C h w, windows).

    >>> ad.nn.Unfold((2, 3))(ad.ones((1, 4, 5, 5))).shape
    (1, 24, 12)
    """

    def __init__(
        self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        geometry("Unfold", kernel_size, dilation, padding, stride)
        self.kernel_size, self.dilation = kernel_size, dilation
        self.padding, self.stride = padding, stride


class Fold(OfOne, function=F.fold, options=("output_size", *WINDOW)):
    """Images from columns (N, C h w, windows): what falls on one pixel adds up.

    >>> ad.nn.Fold((5, 5), (2, 3))(ad.ones((1, 24, 12))).shape
    (1, 4, 5, 5)
    """

    def __init__(
        self,
        output_size: Any,
        kernel_size: Any,
        dilation: Any = 1,
        padding: Any = 0,
        stride: Any = 1,
    ) -> None:
        super().__init__()
        geometry("Fold", kernel_size, dilation, padding, stride)
        per_axis("Fold", "output_size", output_size, 2, 1)
        self.output_size, self.kernel_size, self.dilation = output_size, kernel_size, dilation
        self.padding, self.stride = padding, stride
