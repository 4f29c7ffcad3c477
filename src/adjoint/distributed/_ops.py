"""Exchanges as ops, whose rules are exchanges too: what a rank computes from others' values sends
its gradient back to them."""

from typing import Any

import numpy as np

from .. import op
from .._foundation.dtypes import show

ADDING = {"sum": np.add, "mean": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}


def described(name: str, x: Any, how: str = "") -> tuple[str, ...]:
    """The words of an exchange of an array, which all ranks must have alike."""
    return f"{name} {how}".strip(), f"{show(x.dtype)}{list(x.shape)}"


def reduce_raw(x: np.ndarray, world: Any, how: str) -> np.ndarray:
    factor = 1 / world.size if how == "mean" else None
    flat = np.asarray(x, order="C").reshape(-1)
    link = world._link
    work = lambda: link.reduced(flat, ADDING[how], factor)  # noqa: E731
    return link.run(described("all_reduce", x, how), work)[: x.size].reshape(x.shape)


def gather_raw(x: np.ndarray, world: Any) -> np.ndarray:
    link, own = world._link, np.asarray(x, order="C")
    return link.run(described("all_gather", x), lambda: link.gathered(own))


def scatter_raw(x: np.ndarray, world: Any) -> np.ndarray:
    link, rows = world._link, np.asarray(x, order="C")
    return link.run(described("reduce_scatter", x), lambda: link.reduced_part(rows, np.add))


def reduce_shape(x_shape: tuple[int, ...]) -> tuple[int, ...]:
    return x_shape


all_reduce = op.other(
    "all_reduce",
    "The sum, or another reduction, of all ranks' values.",
    attrs="world how",
    inputs="x",
    shape=reduce_shape,
    kernels={"cpu": reduce_raw},
    x=lambda g, world, how: all_reduce(g, world=world, how=how),
)
all_gather = op.other(
    "all_gather",
    "The values of all ranks, along a new first axis.",
    attrs="world",
    inputs="x",
    shape=lambda x_shape, world: (world.size, *x_shape),
    kernels={"cpu": gather_raw},
    x=lambda g, world: reduce_scatter(g, world=world),
)
reduce_scatter = op.other(
    "reduce_scatter",
    "This rank's part, along the first axis, of the sum of all ranks' values.",
    attrs="world",
    inputs="x",
    shape=lambda x_shape: x_shape[1:],
    kernels={"cpu": scatter_raw},
    x=lambda g, world: all_gather(g, world=world),
)
