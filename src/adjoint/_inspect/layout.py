"""Places boxes in rows, each below its inputs, so that edges cross little and pass no box.

An edge over several rows gets a place of no width in each row between, shared by all edges from
the same output; so what lies in a row never overlaps, and curves only run between rows.
"""

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable
from itertools import pairwise
from math import inf
from typing import NamedTuple

GAP_BETWEEN_BOXES = 26.0
GAP_BESIDE_EDGES = 14.0
GAP_BETWEEN_ROWS = 30.0
PORT_PITCH = 16.0
SWEEPS = 12


class Box(NamedTuple):
    """What is to be placed: its size, its inputs as (box, output) and how many outputs it has."""

    width: float
    height: float
    inputs: list[tuple[int, int]]
    outputs: int = 1


class Place:
    """A box in its row, or, without a box, where an edge passes the row."""

    __slots__ = ("above", "below", "box", "order", "row", "x")

    def __init__(self, row: int, box: Box | None) -> None:
        self.row = row
        self.box = box
        self.x = 0.0
        self.order = 0
        self.above: list[Link] = []
        self.below: list[Link] = []

    @property
    def width(self) -> float:
        return self.box.width if self.box else 0.0

    @property
    def weight(self) -> float:
        """How much others give way to it: ops stay in line, leaves stand aside."""
        if self.box is None:
            return 0.2
        return 2.0 if self.box.inputs else 0.05


class Link(NamedTuple):
    """An edge from one row to the next."""

    source: Place
    output: int
    target: Place

    @property
    def offset(self) -> float:
        """Where the edge starts, from the middle of its source."""
        box = self.source.box
        return box.width * ((self.output + 0.5) / box.outputs - 0.5) if box else 0.0

    @property
    def start(self) -> float:
        return self.source.x + self.offset

    @property
    def start_order(self) -> float:
        box = self.source.box
        return self.source.order + (self.output / box.outputs if box else 0.0)


class Layout:
    """The places of boxes (`places`, in the given order), row by row, and the `links` between."""

    def __init__(self, boxes: list[Box]) -> None:
        depths = rows_of(boxes)
        self.rows: list[list[Place]] = [[] for _ in range(max(depths) + 1)]
        self.links: list[Link] = []
        self.places = [self.place(row, box) for row, box in zip(depths, boxes, strict=True)]
        self.connect(boxes)
        self.reorder()
        self.spread()
        self.tops, self.bottoms = self.heights()
        right = max(place.x + place.width / 2 for row in self.rows for place in row)
        self.width, self.height = right, self.bottoms[-1]

    def place(self, row: int, box: Box | None = None) -> Place:
        place = Place(row, box)
        place.order = len(self.rows[row])
        self.rows[row].append(place)
        return place

    def connect(self, boxes: list[Box]) -> None:
        """Link every box to its inputs, by way of the rows between."""
        passing: dict[tuple[int, int, int], Place] = {}
        for box, target in zip(boxes, self.places, strict=True):
            for source, output in box.inputs:
                place = self.places[source]
                for row in range(place.row + 1, target.row):
                    key = source, output, row
                    if key not in passing:
                        passing[key] = self.place(row)
                        self.link(place, output, passing[key])
                    place = passing[key]
                self.link(place, output, target)

    def link(self, source: Place, output: int, target: Place) -> None:
        link = Link(source, output if source.box else 0, target)
        self.links.append(link)
        source.below.append(link)
        target.above.append(link)

    def reorder(self) -> None:
        """Sort rows by the middle of their neighbours, downwards and upwards; keep the best."""
        best, least = [list(row) for row in self.rows], self.crossings()
        for sweep in range(SWEEPS):
            if not least:
                break
            downwards = sweep % 2 == 0
            for row in self.rows if downwards else reversed(self.rows):
                row.sort(key=middle_above if downwards else middle_below)
                number(row)
            crossings = self.crossings()
            if crossings < least:
                best, least = [list(row) for row in self.rows], crossings
        self.rows = best
        for row in self.rows:
            number(row)

    def crossings(self) -> int:
        return sum(crossings_below(row) for row in self.rows)

    def spread(self) -> None:
        """Give places an x near their neighbours', without overlaps; the left edge is at 0."""
        for row in self.rows:
            self.move(row, lambda place: 0.0)
        for wanted in (wanted_from_above, wanted_from_below) * SWEEPS:
            for row in self.rows if wanted is wanted_from_above else reversed(self.rows):
                self.move(row, wanted)
        for _ in range(SWEEPS):
            for row in self.rows:
                self.move(row, wanted_from_both)
        self.straighten()
        left = min(place.x - place.width / 2 for row in self.rows for place in row)
        for row in self.rows:
            for place in row:
                place.x -= left

    def move(self, row: list[Place], wanted: Callable[[Place], float]) -> None:
        gaps = [0.0, *(gap(x, y) for x, y in pairwise(row))]
        weights = [place.weight for place in row]
        for place, x in zip(row, apart([wanted(p) for p in row], weights, gaps), strict=True):
            place.x = x

    def straighten(self) -> None:
        """Put what follows each other on one vertical line, as far as there is room."""
        places = [place for row in self.rows for place in row]
        lines = lines_of(places)
        lined = {place for line in lines for place in line}
        for _ in range(2):
            for line in lines:
                self.align(line)
            for place in places:
                if place not in lined:
                    settle([place], *self.room(place), wanted_from_both(place))

    def align(self, line: list[Place]) -> None:
        """Straighten a line in the longest runs that have room for it, from the top."""
        run: list[Place] = []
        left, right = -inf, inf
        for place in line:
            first, last = self.room(place)
            if max(left, first) > min(right, last):
                settle(run, left, right, middle(run))
                run, left, right = [], -inf, inf
            run.append(place)
            left, right = max(left, first), min(right, last)
        settle(run, left, right, middle(run))

    def room(self, place: Place) -> tuple[float, float]:
        """From where to where a place can move between its neighbours."""
        row, k = self.rows[place.row], place.order
        left = row[k - 1].x + gap(row[k - 1], place) if k else -inf
        right = row[k + 1].x - gap(place, row[k + 1]) if k + 1 < len(row) else inf
        return min(left, place.x), max(right, place.x)  # it has its own, whatever rounding says

    def heights(self) -> tuple[list[float], list[float]]:
        """The top and the bottom of each row; wide curves get more room."""
        tops, bottoms, y = [], [], 0.0
        for row in self.rows:
            tops.append(y)
            y += max(place.box.height for place in row if place.box)
            bottoms.append(y)
            widest = max((abs(x.start - x.target.x) for p in row for x in p.below), default=0.0)
            y += GAP_BETWEEN_ROWS + min(widest * 0.08, GAP_BETWEEN_ROWS)
        return tops, bottoms

    def top(self, place: Place) -> float:
        """The top of a box: it is in the middle of its row."""
        height = place.box.height if place.box else 0.0
        return (self.tops[place.row] + self.bottoms[place.row] - height) / 2


def rows_of(boxes: list[Box]) -> list[int]:
    """The row of each box: below its inputs, and near its first use where that costs nothing."""
    rows: list[int] = []
    uses: list[list[int]] = [[] for _ in boxes]
    for k, box in enumerate(boxes):
        rows.append(max((rows[source] + 1 for source, _ in box.inputs), default=0))
        for source, _ in box.inputs:
            uses[source].append(k)
    for k in reversed(range(len(boxes))):
        movable = len({x for x in boxes[k].inputs if boxes[x[0]].inputs}) <= 1
        if movable and uses[k]:
            rows[k] = min(rows[use] for use in uses[k]) - 1
    return rows


def number(row: list[Place]) -> None:
    for order, place in enumerate(row):
        place.order = order


def middle_above(place: Place) -> float:
    return mean([(link.start_order, 1.0) for link in place.above], place.order)


def middle_below(place: Place) -> float:
    return mean([(link.target.order, 1.0) for link in place.below], place.order)


def wanted_from_above(place: Place) -> float:
    return mean([(link.start, link.source.weight) for link in place.above], place.x)


def wanted_from_below(place: Place) -> float:
    return mean([(x.target.x - x.offset, x.target.weight) for x in place.below], place.x)


def wanted_from_both(place: Place) -> float:
    above = [(link.start, link.source.weight) for link in place.above]
    below = [(link.target.x - link.offset, link.target.weight) for link in place.below]
    return mean(above + below, place.x)


def mean(weighted: list[tuple[float, float]], default: float) -> float:
    total = sum(weight for _, weight in weighted)
    return sum(x * weight for x, weight in weighted) / total if weighted else default


def lines_of(places: Iterable[Place]) -> list[list[Place]]:
    """Chains of ops, then long edges, each from top to bottom."""
    following: dict[Place, Place] = {}
    followed: set[Place] = set()
    ops, edges = [], []
    for place in places:
        for link in place.below:
            alike = link.offset == 0 and is_op(place) == is_op(link.target) and not is_leaf(place)
            if alike and place not in following and link.target not in followed:
                following[place] = link.target
                followed.add(link.target)
        if place not in followed and place in following:
            (ops if is_op(place) else edges).append([place])
    for line in ops + edges:
        while line[-1] in following:
            line.append(following[line[-1]])
    return ops + edges


def is_op(place: Place) -> bool:
    return place.box is not None and bool(place.box.inputs)


def is_leaf(place: Place) -> bool:
    return place.box is not None and not place.box.inputs


def middle(run: list[Place]) -> float:
    return sum(place.x for place in run) / len(run)


def settle(run: list[Place], left: float, right: float, wanted: float) -> None:
    """Give all of a run the x nearest to what is wanted between left and right."""
    for place in run:
        place.x = min(max(wanted, left), right)


def crossings_below(row: list[Place]) -> int:
    """How many pairs of edges to the next row cross."""
    ends = sorted((link.start_order, link.target.order) for p in row for link in p.below)
    seen: list[int] = []
    count = 0
    for _, end in ends:
        count += len(seen) - bisect_right(seen, end)
        insort(seen, end)
    return count


def gap(x: Place, y: Place) -> float:
    """How far the middles of two neighbours must be apart."""
    between = GAP_BETWEEN_BOXES if x.box and y.box else GAP_BESIDE_EDGES
    return (x.width + y.width) / 2 + between


def apart(wanted: list[float], weights: list[float], gaps: list[float]) -> list[float]:
    """The positions nearest to those wanted (in weighted squares) that keep order and gaps.

    Without the gaps this is a regression by a rising sequence: neighbours that would overlap move
    as one group, to the mean of what they want.
    """
    starts, start = [], 0.0
    for step in gaps:
        start += step
        starts.append(start)
    groups: list[list[float]] = []  # weighted sum, weight, members
    for x, weight, start in zip(wanted, weights, starts, strict=True):
        groups.append([(x - start) * weight, weight, 1])
        while len(groups) > 1 and groups[-2][0] * groups[-1][1] > groups[-1][0] * groups[-2][1]:
            last = groups.pop()
            groups[-1] = [x + y for x, y in zip(groups[-1], last, strict=True)]
    levels = [total / weight for total, weight, members in groups for _ in range(int(members))]
    return [level + start for level, start in zip(levels, starts, strict=True)]


def ports(place: Place) -> dict[int, float]:
    """Where the edges into a box end, from the left as they come: link id -> x."""
    links = sorted(place.above, key=lambda link: link.start)
    pitch = min(PORT_PITCH, place.width / (len(links) + 1))
    first = place.x - pitch * (len(links) - 1) / 2
    return {id(link): first + pitch * k for k, link in enumerate(links)}
