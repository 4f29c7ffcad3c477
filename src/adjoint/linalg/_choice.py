"""Vectors that can be chosen: whether what a function says depends on the choice.

A factorisation leaves rotations of some vectors free. A function has a gradient if it says nothing
of such a rotation. That it doesn't for the vectors that LAPACK chose may be chance: zeros are
common in them. So it must stay so as the vectors rotate, and as whatever else the function depends
on changes. What it says is differentiated for that, and weighed with numbers without a pattern.
"""

import functools
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from .._core.node import Node
from .._core.tensor import Tensor, wrap
from .._engine.graph_walks import leading_to, reachable, region
from .._engine.propagation import propagate
from .._engine.recorded_gradients import differentiates_gradients
from .._foundation.modes import no_grad
from .._transforms.scopes import filled, ignore
from ..primitives.creation import arange
from ..primitives.elementwise import abs as absolute
from ..primitives.elementwise import floor, maximum
from ..primitives.reductions import max_, sum_
from ..primitives.shapes import reshape
from ..primitives.solving import gauge

GOLDEN_RATIO = 0.6180339887498949  # its multiples are spread evenly, and no two are alike


def largest(gs: Sequence[Tensor]) -> Tensor:
    """The largest absolute value in matrices, as matrices of one element; 0 if there is none."""

    def top(g: Tensor) -> Tensor:
        choose = max_ if 0 not in g.shape[-2:] else sum_
        return choose(absolute(g), axis=(g.ndim - 2, g.ndim - 1), keepdims=True)

    return functools.reduce(maximum, map(top, gs))


class Choice(NamedTuple):
    """A choice that a factorisation leaves.

    `rotation` makes of gradients of its `outputs`, which are the vectors, what they say of
    rotations that are free. `gs` are the gradients that came. What is said may change with the
    `values`. `asked`: what to say if it depends on the choice.
    """

    rotation: Callable[..., Tensor]
    gs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    values: Sequence[Tensor]
    asked: str

    def made_freely(self, out: Tensor, said: Tensor, scale: Tensor) -> Tensor:
        """out, if what is `said` of the rotations is 0, for numbers of a scale, and stays so."""
        out = gauge(out, said, scale, asked=self.asked)
        if said.node is None:
            return out
        found = Differentiated([said], self.outputs, self.values)
        pairs = zip(self.outputs, found.kept, strict=True)
        turned = [filled(x, 0) if g is None else g for x, g in pairs]
        again, scale = self.rotation(*turned), maximum(scale, largest(turned))
        out = gauge(out, again, scale, asked=self.asked)
        if found.others:
            recorded = [g for g in self.gs if g.node is not None]
            size = Differentiated(recorded, self.outputs, self.values)
            for node, g in found.others.items():
                whole = size.others.get(node, g)
                out = gauge(out, as_matrix(g), as_matrix(whole), asked=self.asked)
        return out


def as_matrix(x: Tensor) -> Tensor:
    return reshape(x, shape=(1, x.size))


class Differentiated:
    """What tensors, weighed, say of outputs of a factorisation, as `kept`, and of all `others` that
    they depend on: leaves, and outputs of factorisations of this kind."""

    def __init__(
        self, tensors: Sequence[Tensor], outputs: Sequence[Tensor], values: Sequence[Tensor]
    ) -> None:
        roots = [x.node for x in tensors if x.node is not None]
        firsts = accumulate((x.size for x in tensors), initial=1)
        pairs = zip(tensors, firsts, strict=False)
        seeds: list[tuple[Any, Any]] = [(x.node, weights(x, first).raw) for x, first in pairs]
        nodes, ends = region(roots, is_end=differentiates_gradients)
        found: dict[Node, Any] = {}
        propagate(
            seeds,
            ignore,
            retain_graph=True,
            watch=frozenset(ends),
            watched=found.__setitem__,
            only={*nodes, *ends},
            hooks=False,
        )
        grads = {node: g if isinstance(g, Tensor) else wrap(g) for node, g in found.items()}
        own = [x.node for x in (*outputs, *values)]
        self.kept = [grads.get(x.node) for x in outputs]  # type: ignore[arg-type]
        self.others = {node: g for node, g in grads.items() if node not in own}


def weights(x: Tensor, first: int) -> Tensor:
    """Numbers from 1 to 2 without a pattern, in the shape of x; `first`: which of them."""
    dtype, device = x.raw.dtype, x.device
    with no_grad():
        counts = arange(start=first, stop=first + x.size, step=1, dtype=dtype, device=device)
        multiples = counts * GOLDEN_RATIO
        return reshape(1 + multiples - floor(multiples), shape=x.shape)


def pulled_back(
    outputs: list[Tensor], gs: list[Tensor], inputs: list[Tensor], create_graph: bool
) -> list[Tensor | None]:
    """What gradients of outputs say of inputs. No hook is run, and nothing released."""
    targets: list[Any] = [x.node for x in inputs]
    seeds: list[tuple[Any, Any]] = [
        (x.node, g if create_graph else g.raw) for x, g in zip(outputs, gs, strict=True)
    ]
    found: dict[Node, Any] = {}
    if seeds:
        propagate(
            seeds,
            ignore,
            create_graph=create_graph,
            retain_graph=True,
            watch=frozenset(targets),
            watched=found.__setitem__,
            only=leading_to(reachable(node for node, _ in seeds), targets),
            hooks=False,
        )
    out = [found.get(node) for node in targets]
    return [g if g is None or isinstance(g, Tensor) else wrap(g) for g in out]
