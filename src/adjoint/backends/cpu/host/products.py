"""Matrix products that are added to what an array has."""

import numpy as np

from ....kernels.ops import Unsupported
from ...launches import Cache, Launch
from .. import thresholds
from ..jit import threads
from ..jit.runner import run
from ..lowering.matmul import factors, lower_product
from ..lowering.native import NativeLowering
from ..lowering.targets import current_target, layout_of

launches = Cache()


def add_product(out: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """out += x @ y, all with three axes and of one dtype, out with neighbours in a row."""
    found: tuple[Launch, ...] | None = ()
    if x.size * y.shape[-1] >= thresholds.PRODUCTS:
        key = (x.shape, x.strides, y.shape, y.strides, out.strides, x.dtype, threads.chosen)
        found = launches[key]
        if found is None:
            found = launches.keep(key, lower_addition(out, x, y))
    if found:
        run(found, (x, y), (), (out,))
    else:
        out += np.matmul(x, y)


def lower_addition(out: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[Launch, ...]:
    to = NativeLowering([layout_of(x), layout_of(y)], current_target())
    left, right = to.views
    try:
        given = factors(left, right)
    except Unsupported:
        return ()
    if min(given.rows, given.columns) < thresholds.SIDE:
        return ()
    target = to.result(out.shape, out.dtype, out.strides)
    batch, row, _ = (stride // out.itemsize for stride in out.strides)
    lower_product(to, given, left, right, target, steps=(row, batch))
    return to.finished()
