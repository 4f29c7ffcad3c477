"""The order in which the operands of an einsum are contracted, two at a time.

A pair costs as many multiplications as all its indices together have values. Up to eight operands
the best order is found exactly, by dynamic programming over subsets; beyond that greedily.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

from .._foundation.errors import ArgumentError
from ._arguments import as_integer
from ._subscripts import Lengths

Path = tuple[tuple[int, ...], ...]
Indices = frozenset[int]

EXACT = 8  # operands; the effort grows as 3 ** n


def contraction_order(
    terms: list[tuple[int, ...]], output: tuple[int, ...], lengths: Lengths, optimize: Any
) -> Path:
    """Positions to contract, step by step: they are taken out, and the result is put at the end."""
    count = len(terms)
    if isinstance(optimize, tuple):
        return checked(optimize, count)
    if count <= 2 or optimize is False:
        return from_left(count)
    sets = [frozenset(term) for term in terms]
    exact = optimize == "optimal" or (optimize is True and count <= EXACT)
    return (best_order if exact else greedy_order)(sets, frozenset(output), lengths)


def as_optimize(optimize: Any) -> Any:
    """`optimize=` in a form that can be looked up: a bool, a word, or a path of tuples."""
    if isinstance(optimize, bool) or (
        isinstance(optimize, str) and optimize in ("optimal", "greedy")
    ):
        return optimize
    try:
        steps = list(optimize)
        if steps and steps[0] == "einsum_path":
            del steps[0]
        return tuple(tuple(as_integer("einsum", "a position", k) for k in step) for step in steps)
    except TypeError:
        raise ArgumentError(
            "einsum: optimize= is True, False, 'optimal', 'greedy', or a path from ad.einsum_path, "
            f"got {optimize!r}"
        ) from None


def product(labels: Iterable[int], lengths: Lengths) -> int:
    return math.prod([lengths[k] for k in labels])


def from_left(count: int) -> Path:
    """The first two, then the result with the third, and so on."""
    return tuple((0, left - 1) if left < count else (0, 1) for left in range(count, 1, -1))


def checked(path: Path, count: int) -> Path:
    """A path that the user gives, if it makes one result of all operands."""
    left = count
    for step in path:
        if not step or len(set(step)) < len(step) or not all(0 <= k < left for k in step):
            raise ArgumentError(
                f"einsum: optimize={list(path)}: step {step} must name different positions below "
                f"{left}, the number of operands left"
            )
        left += 1 - len(step)
    if left > 1:
        raise ArgumentError(f"einsum: optimize={list(path)} leaves {left} operands uncontracted")
    return path


def best_order(terms: list[Indices], output: Indices, lengths: Lengths) -> Path:
    """The order with the fewest multiplications, and among those the smallest intermediates."""
    everything = (1 << len(terms)) - 1
    within = [frozenset[int]()] * (everything + 1)  # indices in a set of operands, a bit for each
    for group in range(1, everything + 1):
        low = group & -group
        within[group] = within[group ^ low] | terms[low.bit_length() - 1]
    open_ = [own & (output | within[everything ^ group]) for group, own in enumerate(within)]
    cost: list[tuple[int, int]] = [(0, 0)] * (everything + 1)
    part = [0] * (everything + 1)
    count = remembered(lengths)
    for group in range(1, everything + 1):
        if group & (group - 1):
            best = min(
                (
                    cost[one][0] + cost[group ^ one][0] + count(open_[one] | open_[group ^ one]),
                    cost[one][1] + cost[group ^ one][1],
                    one,
                )
                for one in halves(group)
            )
            cost[group] = best[0], best[1] + count(open_[group])
            part[group] = best[2]
    return as_path(part, len(terms))


def halves(group: int) -> Iterable[int]:
    """The ways to part a set of bits in two, by the part that has the lowest bit."""
    low = group & -group
    rest = group ^ low
    one = rest
    while one:
        one = (one - 1) & rest
        yield one | low


def remembered(lengths: Lengths) -> Callable[[Indices], int]:
    known: dict[Indices, int] = {}

    def count(labels: Indices) -> int:
        if labels not in known:
            known[labels] = product(labels, lengths)
        return known[labels]

    return count


def as_path(part: list[int], count: int) -> Path:
    """Positions, from the half that each set of operands is made of."""
    order: list[int] = []  # sets with more than one operand, the last to contract first
    waiting = [(1 << count) - 1]
    while waiting:
        group = waiting.pop()
        if part[group]:
            order.append(group)
            waiting += [part[group], group ^ part[group]]
    left = [1 << k for k in range(count)]
    path = []
    for group in reversed(order):
        one, other = sorted((left.index(part[group]), left.index(group ^ part[group])))
        path.append((one, other))
        left = [*left[:one], *left[one + 1 : other], *left[other + 1 :], group]
    return tuple(path)


def greedy_order(terms: list[Indices], output: Indices, lengths: Lengths) -> Path:
    """In each step the pair whose result adds the fewest elements to what is there."""
    left = list(terms)
    count = remembered(lengths)
    path = []
    while len(left) > 1:
        uses = Counter(k for term in left for k in term)
        pairs = combinations(range(len(left)), 2)
        one, other = min(
            pairs, key=lambda pair: growth(left[pair[0]], left[pair[1]], output, uses, count)
        )
        path.append((one, other))
        joined = result(left[one], left[other], output, uses)
        left = [*left[:one], *left[one + 1 : other], *left[other + 1 :], joined]
    return tuple(path)


def result(x: Indices, y: Indices, output: Indices, uses: Counter[int]) -> Indices:
    """What is left of the indices of two operands, of which each is used so often in all."""
    return frozenset(k for k in x | y if k in output or uses[k] > (k in x) + (k in y))


def growth(
    x: Indices, y: Indices, output: Indices, uses: Counter[int], count: Callable[[Indices], int]
) -> tuple:
    """How bad a pair is: outer products come last, then memory counts, then multiplications."""
    outer = bool(x) and bool(y) and x.isdisjoint(y)
    return outer, count(result(x, y, output, uses)) - count(x) - count(y), count(x | y)
