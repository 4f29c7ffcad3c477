"""Matrix products on NumPy."""

import numpy as np

from .table import lowered

LONG = 1 << 14  # products in a sum, from which on float32 loses digits that a plain sum would keep
PART = 1 << 16  # of them that are in memory at a time


@lowered("matmul", least="FACTORS")
def matmul(x, y):
    is_inner = x.shape[-2:-1] == (1,) and y.shape[-2:] == (*x.shape[-1:], 1)
    if is_inner and x.shape[-1] >= LONG and x.dtype == y.dtype == np.float32:
        return long_inner_products(x[..., 0, :], y[..., 0])[..., None, None]
    return np.matmul(x, y)


def long_inner_products(x, y):
    """Sums of products along the last axis, in float64."""
    total = np.zeros(np.broadcast_shapes(x.shape[:-1], y.shape[:-1]))
    for k in range(0, x.shape[-1], PART):
        products = np.multiply(x[..., k : k + PART], y[..., k : k + PART], dtype=np.float64)
        total += np.add.reduce(products, axis=-1)
    return total.astype(np.float32)


@lowered("matmul", least="FACTORS")
def linear(x, weight, bias):
    out = np.matmul(x, weight.T)
    return out if bias is None else np.add(out, bias, out)
