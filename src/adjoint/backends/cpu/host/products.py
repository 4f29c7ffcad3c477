"""Matrix products that are added to what an array has."""

import numpy as np

from ....kernels.ops import Unsupported
from ...launches import View
from .. import thresholds
from ..lowering.launchers import launched
from ..lowering.matmul import factors, lower_product
from ..lowering.native import NativeLowering


def add_product(out: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """out += x @ y, all with three axes and of one dtype, out with neighbours in a row."""
    if x.size * y.shape[-1] < thresholds.PRODUCTS or not launch_addition(out, x, y):
        out += np.matmul(x, y)


@launched
def launch_addition(to: NativeLowering, out: View, x: View, y: View) -> None:
    given = factors(x, y)
    if min(given.rows, given.columns) < thresholds.SIDE:
        raise Unsupported("a product of few rows or columns")
    batch, row, _ = (stride // out.itemsize for stride in out.strides)
    lower_product(to, given, x, y, out, steps=(row, batch))
