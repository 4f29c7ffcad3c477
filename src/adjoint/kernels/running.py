"""What runs along an axis, as LLVM IR: sums, products, recurrences, one element after the other.

Arrays are seen as (outer, axis, inner). Along a last axis (inner is 1) a few lines run side by
side; else all lines of a row do. A chunk has some of the outer, or where rows are split, some lanes
of them. Floats are added up as doubles.

Words: the arrays, out; `outer`, and for each chunk a `group` of it; the `length` of the axis;
`inner`; chunks for each outer (`parts`), lanes for each of them (`width`, LANES at most); the
element that comes `first` along the axis, and how far the next ones `move`: 1 or -1.
"""

from collections.abc import Callable

from .template import Template
from .text import lanes, vector_of

LANES = 512  # lanes of a row that a chunk takes, at most
SIDE_BY_SIDE = 8  # lines along a last axis
# What a line holds beside what the arrays hold.
HELD = {"float": "double", "double": "double", "i32": "i32", "i64": "i64"}

# What follows the value so far, of vectors of a type: (template, type, last, *terms).
Step = Callable[..., str]


def operation(name: str) -> Step:
    def step(t: Template, type: str, last: str, term: str) -> str:
        prefix = "f" if "double" in type else ""
        return t.new(f"{prefix}{name} {type} {last}, {term}")

    return step


def recurred(t: Template, type: str, last: str, factor: str, term: str) -> str:
    """factor * last + term; a factor of 0 starts anew, also after an infinity."""
    bits = type.replace("double", "i1")
    product = t.new(f"fmul {type} {factor}, {last}")
    none = t.new(f"fcmp oeq {type} {factor}, zeroinitializer")
    kept = t.new(f"select {bits} {none}, {type} zeroinitializer, {type} {product}")
    return t.new(f"fadd {type} {kept}, {term}")


class Lines:
    """The words of a kernel, and how its elements are read and written."""

    def __init__(self, t: Template, kind: str, sources: str, step: Step) -> None:
        self.t, self.kind, self.held, self.step = t, kind, HELD[kind], step
        *self.sources, self.out = t.words("ptr", f"{sources} out")
        names = "outer group length inner parts width"
        self.outer, self.group, self.length, self.inner, self.parts, self.width = t.words(
            "i64", names
        )
        self.first, self.move = t.words("i64", "first move")

    def terms(self, place: str, count: int) -> list[str]:
        """What the arrays have at a place, as it is held."""
        return [
            self.converted(self.t.load(source, self.kind, place, count=count), "fpext", count)
            for source in self.sources
        ]

    def converted(self, value: str, how: str, count: int) -> str:
        if self.kind == self.held:
            return value
        here, there = (vector_of(kind, count) for kind in (self.kind, self.held))
        if how == "fptrunc":
            here, there = there, here
        return self.t.new(f"{how} {here} {value} to {there}")

    def next(self, last: str | None, place: str, count: int) -> str:
        """The value at a place, which is written; `last` is the one before it, if there is one."""
        *factors, term = self.terms(place, count)
        if last is not None:
            term = self.step(self.t, vector_of(self.held, count), last, *factors, term)
        value = self.converted(term, "fptrunc", count)
        self.t.store(value, self.out, self.kind, place, count)
        return term


def run_along_last(lines: Lines) -> None:
    t, length = lines.t, lines.length
    start, stop = t.part(lines.group, lines.outer)
    for first, last, count in t.spans(start, stop, SIDE_BY_SIDE):
        with t.loop(first, last, count) as row:
            rows = [t.product(t.add(row, k), length) for k in range(count)]
            run(lines, rows)


def run(lines: Lines, rows: list[str]) -> None:
    """Lines side by side, which start at the given places."""
    t = lines.t
    values = [lines.next(None, t.add(row, lines.first), 1) for row in rows]
    second = t.add(lines.first, lines.move)
    carried = [(vector_of(lines.held, 1), value) for value in values]
    with t.carrying("1", lines.length, "1", *carried, ("i64", second)) as turn:
        *values, place = turn.values
        pairs = zip(values, rows, strict=True)
        turn.following = [lines.next(value, t.add(row, place), 1) for value, row in pairs]
        turn.following.append(t.add(place, lines.move))


def run_along_rows(lines: Lines) -> None:
    t = lines.t
    block, part = t.divided("%chunk", lines.parts)
    start, stop = t.part(lines.group, lines.outer, block)
    left, right = t.part(lines.width, lines.inner, part)
    count = t.sub(right, left)
    held = t.alloca(f"[{LANES} x {lines.held}]")
    area, step = t.product(lines.length, lines.inner), t.product(lines.move, lines.inner)
    with t.loop(start, stop) as outer:
        first = t.add(t.product(outer, area), t.add(t.product(lines.first, lines.inner), left))
        advance(lines, held, first, count, anew=True)
        with t.carrying("1", lines.length, "1", ("i64", t.add(first, step))) as row:
            advance(lines, held, row.values[0], count, anew=False)
            row.following = [t.add(row.values[0], step)]


def advance(lines: Lines, held: str, row: str, count: str, anew: bool) -> None:
    """One row: as vectors, then what is left of it."""
    t = lines.t
    for first, last, size in t.spans("0", count, lanes(lines.kind)):
        with t.loop(first, last, size) as lane:
            before = None if anew else t.load(held, lines.held, lane, count=size)
            value = lines.next(before, t.add(row, lane), size)
            t.store(value, held, lines.held, lane, size)


def running(name: str, kind: str, sources: str, step: Step, last: bool) -> Template:
    lines = Lines(Template(name), kind, sources, step)
    run_along_last(lines) if last else run_along_rows(lines)
    return lines.t


def cumulative_sum(kind: str, last: bool) -> Template:
    return running("cumulative_sum", kind, "x", operation("add"), last)


def cumulative_prod(kind: str, last: bool) -> Template:
    return running("cumulative_prod", kind, "x", operation("mul"), last)


def recurrence(kind: str, last: bool) -> Template:
    """out = a * (out before it) + b, for arrays a and b of floats."""
    return running("recurrence", kind, "a b", recurred, last)
