"""A step along a line that satisfies the strong Wolfe conditions.

The loss is to be lower by a part of what its slope promises, and the slope flatter. First steps
grow until an interval must contain such a point, then the interval shrinks around it (Nocedal and
Wright, Numerical Optimization, algorithms 3.5 and 3.6, with cubic interpolation).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from .._core.tensor import Tensor

LOWER = 1e-4  # the part of what the slope promises, by which the loss must be lower
FLATTER = 0.9  # the part of the slope that may be left
NARROW = 1e-9  # an interval that isn't worth dividing
MARGIN = 0.1  # the part of an interval that is kept away from its ends


class Point(NamedTuple):
    """A point on the line: how far it is, the loss, its gradient, and its slope along the line."""

    t: float
    loss: float
    g: Tensor
    slope: float


def search(
    evaluate: Callable[[float], Point], start: Point, t: float, longest: float, budget: int
) -> tuple[Point, int]:
    """A point at or beyond `start`, tried first at t, and how many points were evaluated.

    `longest` is the largest move of a single parameter per unit of t. After `budget` tries the best
    point so far is taken.
    """

    def is_low(point: Point) -> bool:
        return point.loss <= start.loss + LOWER * point.t * start.slope

    def is_flat(point: Point) -> bool:
        return abs(point.slope) <= -FLATTER * start.slope

    before, point, tries = start, evaluate(t), 0
    while tries < budget:
        if not is_low(point) or (tries > 1 and not point.loss < before.loss):
            break
        if is_flat(point):
            return point, tries + 1
        if point.slope >= 0:
            break
        bounds = point.t + 0.01 * (point.t - before.t), 10 * point.t
        t = lowest_of_cubic(before, point, *bounds)
        before, point, tries = point, evaluate(t), tries + 1
    else:
        before = start

    low, high = by_loss(before, point)
    hesitated = False
    while tries < budget and abs(high.t - low.t) * longest >= NARROW:
        t, hesitated = inside(low, high, hesitated)
        new, tries = evaluate(t), tries + 1
        if not (is_low(new) and new.loss < low.loss):
            low, high = by_loss(low, new)
        elif is_flat(new):
            return new, tries + 1
        else:
            low, high = new, low if new.slope * (high.t - low.t) >= 0 else high
    return low, tries + 1


def by_loss(one: Point, other: Point) -> tuple[Point, Point]:
    """The lower point first; a loss that is NaN isn't lower."""
    return (other, one) if other.loss < one.loss else (one, other)


def inside(one: Point, other: Point, hesitated: bool) -> tuple[float, bool]:
    """Where to try next in an interval, and whether that is near one of its ends: twice in a row,
    or at the end itself, isn't allowed, since the interval would hardly shrink."""
    first, last = sorted((one.t, other.t))
    t = lowest_of_cubic(one, other, first, last)
    margin = MARGIN * (last - first)
    if min(last - t, t - first) >= margin:
        return t, False
    if not hesitated and first < t < last:
        return t, True
    return (last - margin if last - t < t - first else first + margin), False


def lowest_of_cubic(one: Point, other: Point, first: float, last: float) -> float:
    """Where, within bounds, the cubic with the losses and slopes of two points is lowest."""
    left, right = sorted((one, other), key=lambda point: point.t)
    length = right.t - left.t
    secant = (right.loss - left.loss) / length if length else math.nan
    mean = left.slope + right.slope - 3 * secant
    square = mean * mean - left.slope * right.slope
    if not 0 <= square < math.inf:  # no lowest point, or no cubic
        return (first + last) / 2
    root = math.sqrt(square)
    bend = right.slope - left.slope + 2 * root
    if not bend:  # a straight line
        return last if right.slope < 0 else first
    return min(max(right.t - length * ((right.slope + root - mean) / bend), first), last)
