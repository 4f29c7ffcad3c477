"""Einsum: subscripts become a contraction, whose steps are a few matrix products.

It is found once for subscripts and shapes: axes of length 1 are dropped (that is broadcasting),
indices that only one operand has are summed, and the rest is contracted pair by pair in the order
that takes the fewest multiplications. Each pair is one batched matmul, or a product with
broadcasting where nothing is summed. Everything is made of ops, so gradients of every order follow.

`_subscripts` says what the indices are, `_contraction_order` looks for the order.
"""

import functools
import math
from typing import Any, NamedTuple

from .._core.tensor import Tensor
from ..primitives.contractions import matmul
from ..primitives.elementwise import multiply
from ..primitives.reductions import sum_
from ..primitives.shapes import permute_dims, reshape
from ._arguments import in_common_dtype
from ._contraction_order import Path, as_optimize, contraction_order, product
from ._subscripts import Equation, Labels, Lengths, Shape, Subscripts, arguments, equation
from .arrangement import diagonal

__all__ = ["einsum", "einsum_path"]


def einsum(subscripts: Any, /, *operands: Any, optimize: Any = True) -> Tensor:
    """Products of operands, summed over the indices that the output doesn't have.

    `"ij,jk->ik"` is a matrix product, `"ii"` a trace, `"...ij->...ji"` a transpose; without an
    arrow the output has the indices that occur once, in alphabetical order. Instead of a string,
    each operand may be followed by a list of integers: `einsum(x, [0, 1], y, [1, 2], [0, 2])`.

    Operands are contracted two at a time in the best order for their shapes; `optimize=False`
    goes from left to right, and a path from `ad.einsum_path` goes as it says.

    >>> x, y = ad.asarray([[1.0, 2.0], [3.0, 4.0]]), ad.asarray([1.0, 10.0])
    >>> ad.einsum("ij,j->i", x, y)
    tensor([21., 43.])
    """
    terms, given = arguments("einsum", subscripts, operands)
    return contracted(terms, in_common_dtype("einsum", *given), optimize)


def contracted(subscripts: Subscripts, tensors: list[Tensor], optimize: Any = True) -> Tensor:
    """Einsum of tensors of one dtype."""
    if not isinstance(optimize, bool):
        optimize = as_optimize(optimize)
    shapes = tuple([x.raw.shape for x in tensors])
    values: list[Any] = list(tensors)
    for call, sources, attrs in contraction(subscripts, shapes, optimize).steps:
        inputs = [values[k] for k in sources]
        for k in sources:  # each value is used once: let go of it
            values[k] = None
        values.append(call(*inputs, **attrs))
    return values[-1]


def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = True) -> tuple[list[Any], str]:
    """The order in which `einsum` contracts its operands, and a readable account of it.

    Each step names two positions in the list of what is left; both are taken out, and their
    product is put at the end. The path can be given to `einsum` as `optimize=`.

    >>> x, y, z = ad.ones((2, 50)), ad.ones((50, 40)), ad.ones((40, 3))
    >>> path, summary = ad.einsum_path("ij,jk,kl->il", x, y, z)
    >>> path
    ['einsum_path', (0, 1), (0, 1)]
    >>> print(summary)
    ij,jk,kl->il: 24000 multiplications at once, 4240 in pairs
    multiplications  elements  contraction
               4000        80  ij,jk->ik
                240         6  kl,ik->il
    """
    terms, given = arguments("einsum_path", subscripts, operands)
    shapes = tuple([x.shape for x in in_common_dtype("einsum_path", *given)])
    found = contraction(terms, shapes, as_optimize(optimize))
    return ["einsum_path", *found.path], summary(found)


# Contractions.


class Step(NamedTuple):
    """An op on values: first come the operands, and each step adds its result."""

    call: Any
    sources: tuple[int, ...]
    attrs: dict[str, Any]


class Value(NamedTuple):
    """An operand or the result of a step, and the indices of its axes."""

    number: int
    labels: Labels


class Contraction(NamedTuple):
    """What to do, and for `einsum_path` how that was found: `pairs` has indices of x, y, out."""

    steps: tuple[Step, ...]
    path: Path
    meaning: Equation
    pairs: list[tuple[Labels, Labels, Labels]]


@functools.lru_cache(maxsize=4096)
def contraction(subscripts: Subscripts, shapes: tuple[Shape, ...], optimize: Any) -> Contraction:
    """How to compute an einsum of operands of these shapes."""
    meaning = equation(subscripts, shapes)
    builder = Builder(meaning.lengths, len(shapes))
    given = list(zip(meaning.terms, shapes, strict=True))
    long = [{k for k, n in zip(*pair, strict=True) if n != 1} for pair in given]
    values = [
        builder.prepare(k, *entry, {*meaning.output}.union(*long[:k], *long[k + 1 :]))
        for k, entry in enumerate(given)
    ]
    output = tuple(k for k in meaning.output if meaning.lengths[k] != 1)
    path = contraction_order([v.labels for v in values], output, meaning.lengths, optimize)
    pairs = []
    for step in path:
        taken = [values[k] for k in step]
        values = [v for k, v in enumerate(values) if k not in step]
        while len(taken) > 1:
            x, y, *rest = taken
            kept = {*output}.union(*(v.labels for v in (*rest, *values)))
            last = not rest and not values
            taken = [builder.contract(x, y, kept, output if last else None), *rest]
            pairs.append((x.labels, y.labels, taken[0].labels))
        values += taken
    builder.finish(values[0], meaning.output)
    return Contraction(tuple(builder.steps), path, meaning, pairs)


class Builder:
    """Collects the steps of a contraction. Values have no axes of length 1, and no index twice."""

    def __init__(self, lengths: Lengths, operands: int) -> None:
        self.lengths = lengths
        self.operands = operands
        self.steps: list[Step] = []

    def emit(self, call: Any, *sources: int, **attrs: Any) -> int:
        self.steps.append(Step(call, sources, attrs))
        return self.operands + len(self.steps) - 1

    def prepare(self, number: int, labels: Labels, shape: Shape, kept: set[int]) -> Value:
        """Take an operand's diagonals, drop axes of length 1, sum over what nothing else has."""
        while len(set(labels)) < len(labels):
            number, labels, shape = self.take_diagonal(number, labels, shape)
        long = tuple(k for k, n in zip(labels, shape, strict=True) if n != 1)
        if len(long) < len(labels):
            number = self.emit(reshape, number, shape=self.shape(long))
        lonely = tuple(axis for axis, k in enumerate(long) if k not in kept)
        if lonely:
            number = self.emit(sum_, number, axis=lonely, keepdims=False)
        left = tuple(k for k in long if k in kept)
        return Value(number, left)

    def take_diagonal(self, number: int, labels: Labels, shape: Shape) -> tuple[int, Labels, Shape]:
        """Take the diagonal over two axes that have one index; it becomes the last axis."""
        label = next(k for k in labels if labels.count(k) > 1)
        first = labels.index(label)
        second = labels.index(label, first + 1)
        number = self.emit(diagonal, number, offset=0, axis1=first, axis2=second)
        rest = [k for k in range(len(labels)) if k not in (first, second)]
        return (
            number,
            (*(labels[k] for k in rest), label),
            (*(shape[k] for k in rest), shape[first]),
        )

    def shape(self, labels: Labels) -> Shape:
        return tuple([self.lengths[k] for k in labels])

    def permute(self, value: Value, wanted: Labels) -> int:
        if value.labels == wanted:
            return value.number
        axes = tuple(map(value.labels.index, wanted))
        return self.emit(permute_dims, value.number, axes=axes)

    def group(self, value: Value, *groups: Labels) -> int:
        """Give the value one axis for each group of indices."""
        number = self.permute(value, tuple(k for group in groups for k in group))
        if all(len(group) == 1 for group in groups):
            return number
        return self.emit(
            reshape, number, shape=tuple(product(group, self.lengths) for group in groups)
        )

    def contract(self, x: Value, y: Value, kept: set[int], wanted: Labels | None) -> Value:
        """Multiply two values, and sum over what both have and nothing else keeps."""
        common = [k for k in x.labels if k in y.labels]
        if all(k in kept for k in common):
            return self.multiply(x, y, wanted)
        batch = tuple(k for k in wanted or x.labels if k in common and k in kept)
        first = next((k for k in wanted or () if k not in batch), None)
        if first in y.labels:  # so that the result comes in the order of the output
            x, y = y, x
        larger = max(x, y, key=lambda v: product(v.labels, self.lengths))
        summed = tuple(k for k in larger.labels if k in common and k not in kept)
        left = tuple(k for k in x.labels if k not in common)
        right = tuple(k for k in y.labels if k not in common)
        singles = [(k,) for k in batch]
        number = self.emit(
            matmul,
            self.group(x, *singles, left, summed),
            self.group(y, *singles, summed, right),
        )
        labels = (*batch, *left, *right)
        if len(left) != 1 or len(right) != 1:
            number = self.emit(reshape, number, shape=self.shape(labels))
        return Value(number, labels)

    def multiply(self, x: Value, y: Value, wanted: Labels | None) -> Value:
        """Multiply two values of which nothing is summed."""
        if len(y.labels) > len(x.labels):
            x, y = y, x
        labels = wanted or (*(k for k in y.labels if k not in x.labels), *x.labels)
        number = self.emit(multiply, self.spread(x, labels), self.spread(y, labels))
        return Value(number, labels)

    def spread(self, value: Value, labels: Labels) -> int:
        """Put the value's axes where `labels` has them, and ones between them."""
        own = tuple(k for k in labels if k in value.labels)
        number = self.permute(value, own)
        after = labels[labels.index(own[0]) :] if own else ()
        if after == own:
            return number
        shape = tuple(self.lengths[k] if k in own else 1 for k in after)
        return self.emit(reshape, number, shape=shape)

    def finish(self, value: Value, output: Labels) -> None:
        """Put the axes in the order of the output, and those of length 1 back."""
        number = self.permute(value, tuple(k for k in output if k in value.labels))
        if len(value.labels) < len(output) or not self.steps:  # a result is a tensor of its own
            if self.steps and self.steps[-1].call is reshape:
                number = self.steps.pop().sources[0]
            self.emit(reshape, number, shape=self.shape(output))


# The account that einsum_path gives.


def summary(found: Contraction) -> str:
    """How many multiplications there are without and with pairs, and what each pair takes."""
    terms, output, lengths = found.meaning
    at_once = math.prod(lengths.values()) * (len(terms) - 1)
    counts = [product({*x, *y}, lengths) for x, y, _ in found.pairs]
    lines = [
        f"{written(*terms, output)}: {at_once} multiplications at once, {sum(counts)} in pairs",
        *(["multiplications  elements  contraction"] if counts else []),
        *(
            f"{count:15}  {product(pair[-1], lengths):8}  {written(*pair)}"
            for count, pair in zip(counts, found.pairs, strict=True)
        ),
    ]
    return "\n".join(lines)


def written(*terms: Labels) -> str:
    """Indices as subscripts; those that aren't letters as numbers in brackets."""
    *inputs, output = ["".join(chr(k) if k >= 65 else f"[{k}]" for k in term) for term in terms]
    return f"{','.join(inputs)}->{output}"
