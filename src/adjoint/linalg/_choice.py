"""Vectors that can be chosen: whether what a function says depends on the choice.

A factorisation leaves rotations of some vectors free. A function has a gradient if it says nothing
of such a rotation. That it doesn't for the vectors that LAPACK chose may be chance: zeros are
common in them. So it must stay so as the vectors rotate, and as whatever else the function depends
on changes. What it says is differentiated for that, and weighed with random numbers.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._lookahead import leading_to, reachable
from .._node import Node, Output, needing_graph
from .._reverse import propagate
from .._tensor import Tensor, wrap
from .._variables import filled, ignore
from ..primitives.elementwise import abs as absolute
from ..primitives.elementwise import maximum
from ..primitives.reductions import max_, sum_
from ..primitives.shapes import reshape
from ..primitives.solving import gauge


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
    """What tensors, weighed with random numbers, say of outputs of a factorisation, as `kept`, and
    of all `others` that they depend on: leaves, and outputs of factorisations of this kind."""

    def __init__(
        self, tensors: Sequence[Tensor], outputs: Sequence[Tensor], values: Sequence[Tensor]
    ) -> None:
        roots = [x.node for x in tensors if x.node is not None]
        draws = np.random.default_rng(0)
        seeds = [(x.node, weights(x, draws)) for x in tensors]
        nodes, ends = region(roots)
        found: dict[Node, Any] = {}
        propagate(
            seeds,  # type: ignore[arg-type]
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


def weights(x: Tensor, draws: np.random.Generator) -> np.ndarray:
    return draws.uniform(1, 2, x.shape).astype(x.data.dtype)


def region(roots: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """The nodes that roots depend on, up to `ends`: leaves, and outputs of factorisations whose
    rules can't be asked."""
    seen, nodes, ends = set(roots), [], []
    stack = list(seen)
    while stack:
        node = stack.pop()
        if node.plan is None or (type(node) is Output and node.parents in needing_graph):
            ends.append(node)
            continue
        nodes.append(node)
        for parent in node.inputs:
            if parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return nodes, ends


def pulled_back(
    outputs: list[Tensor], gs: list[Tensor], inputs: list[Tensor], create_graph: bool
) -> list[Tensor | None]:
    """What gradients of outputs say of inputs. No hook is run, and nothing released."""
    targets: list[Any] = [x.node for x in inputs]
    seeds: list[tuple[Any, Any]] = [
        (x.node, g if create_graph else g.data) for x, g in zip(outputs, gs, strict=True)
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
