"""Pooling of images (N, H, W), as LLVM IR: largest elements and sums of windows, and the adjoint.

Outputs whose windows are whole along W are computed as vectors, those at the borders one by one.
`wide` says along W what the text depends on; the rest are words: images, images for each chunk, H,
W, windows along H and W, then along H kernel, stride, dilation and padding, the padding along W,
and from where to where outputs are computed as vectors.
"""

from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from .template import Template
from .text import constants, vector_of

STRIDE = 4  # vectors are taken apart by shuffles up to this stride


class Wide(NamedTuple):
    """Along W: kernel, stride, dilation, and how many outputs are computed together."""

    kernel: int
    stride: int
    dilation: int
    lanes: int


# The words of a kernel that aren't arrays.
Geometry = namedtuple(
    "Geometry", "images step h w rows columns kernel stride dilation top left first last"
)


def geometry(t: Template) -> Geometry:
    return Geometry(*t.words("i64", " ".join(Geometry._fields)))


@contextmanager
def each_row(t: Template, images: str, step: str, rows: str) -> Iterator[tuple[str, str]]:
    """Each row of each image of the chunk."""
    start, stop = t.part(step, images)
    with t.loop(start, stop) as image:
        with t.loop("0", rows) as row:
            yield image, row


def each_vector(
    t: Template, first: str, last: str, lanes: int, body: Callable[[str], None]
) -> None:
    """The body for each vector of the range. The last one may overlap the one before it."""
    end = t.sub(last, lanes)
    with t.loop(first, last, str(lanes)) as at:
        body(t.minimum(at, end))


def each_other(t: Template, first: str, last: str, count: str, body: Callable[[str], None]) -> None:
    """The body for each place before `first` and from `last` on."""
    inside = t.sub(last, first)
    with t.loop("0", t.sub(count, inside)) as place:
        before = t.compare("slt", place, first)
        body(t.select(before, "i64", place, t.add(place, inside)))


def inside(t: Template, start: str, kernel: str, dilation: str, size: str) -> tuple[str, str]:
    """Which elements of a window lie in the image: the first, and the one after the last."""
    past = t.sub(dilation, 1)

    def steps(distance: str) -> str:
        return t.new(f"sdiv i64 {t.add(distance, past)}, {dilation}")

    first = steps(t.maximum(t.sub("0", start), 0))
    return first, t.minimum(kernel, steps(t.maximum(t.sub(size, start), 0)))


def neighbours(t: Template, kind: str, base: str, wide: Wide) -> list[str]:
    """For each element of a window, that of all windows of a vector."""
    size, stride, dilation, lanes = wide
    if stride == 1:
        return [t.load(base, kind, j * dilation, count=lanes) for j in range(size)]
    if dilation == 1 and stride <= min(size, STRIDE):
        return [part for j in range(0, size, stride) for part in apart(t, kind, base, wide, j)]
    vector, found = vector_of(kind, lanes), []
    for j in range(size):
        value = "poison"
        for lane in range(lanes):
            element = t.load(base, kind, j * dilation + lane * stride)
            value = t.new(f"insertelement {vector} {value}, {kind} {element}, i64 {lane}")
        found.append(value)
    return found


def apart(t: Template, kind: str, base: str, wide: Wide, j: int) -> list[str]:
    """Elements j, j + 1, ... of a window, as many as the stride: they are loaded as one."""
    size, stride, _, lanes = wide
    start = min(j, size - stride)  # not beyond the end of the row
    count = stride * lanes
    loaded, vector = t.load(base, kind, start, count=count), vector_of(kind, count)
    shifts = range(j - start, min(j + stride, size) - start)
    orders = [range(shift, count, stride) for shift in shifts]
    return [t.shuffle(vector, loaded, "poison", order) for order in orders]


class Window(NamedTuple):
    """Where a window's elements are in an image: `rows` by `columns` of them."""

    first: str
    rows: str
    step: str  # from row to row
    columns: str


def max_pool(kind: str, wide: Wide) -> Template:
    """The largest element of each window, and its place in the image: the first of equals; a NaN
    counts as largest. Words: x, values, places, then the geometry."""
    t = Template("max_pool")
    x, values, places = t.words("ptr", "x values places")

    def write(base: str, out: str, window: Window, lanes: int) -> None:
        value, place = largest(t, kind, wide, base, window, lanes)
        t.store(value, values, kind, out, lanes)
        t.store(place, places, "i64", out, lanes)

    each_window(t, kind, wide, x, geometry(t), write)
    return t


def window_sum(kind: str, wide: Wide) -> Template:
    """The sum of each window, along H first. Words: x, sums, then the geometry."""
    t = Template("window_sum")
    x, sums = t.words("ptr", "x out")

    def write(base: str, out: str, window: Window, lanes: int) -> None:
        if lanes > 1:
            t.store(summed_vectors(t, kind, wide, base, window), sums, kind, out, lanes)
        else:  # from a zero that changes nothing that is added to it
            t.store(summed(t, kind, base, window, t.add, "-0.0"), sums, kind, out)

    each_window(t, kind, wide, x, geometry(t), write)
    return t


def each_window(
    t: Template,
    kind: str,
    wide: Wide,
    x: str,
    g: Geometry,
    write: Callable[[str, str, Window, int], None],
) -> None:
    """Write what is made of each window, or of a vector of them.

    `write` is given the image, the place of the output, the window, and how many there are.
    """
    size, across = str(wide.kernel), str(wide.dilation)
    area, step = t.product(g.h, g.w), t.product(g.dilation, g.w)
    with each_row(t, g.images, g.step, g.rows) as (image, row):
        base = t.at(x, kind, t.product(image, area))
        out = t.product(t.add(t.product(image, g.rows), row), g.columns)
        top = t.sub(t.product(row, g.stride), g.top)
        low, high = inside(t, top, g.kernel, g.dilation, g.h)
        start = t.product(t.add(top, t.product(low, g.dilation)), g.w)
        rows = t.sub(high, low)

        def several(column: str) -> None:
            left = t.sub(t.product(column, wide.stride), g.left)
            window = Window(t.add(start, left), rows, step, size)
            write(base, t.add(out, column), window, wide.lanes)

        def single(column: str) -> None:
            left = t.sub(t.product(column, wide.stride), g.left)
            near, far = inside(t, left, size, across, g.w)
            first = t.add(start, t.add(left, t.product(near, across)))
            window = Window(first, rows, step, t.sub(far, near))
            write(base, t.add(out, column), window, 1)

        if wide.lanes:
            each_vector(t, g.first, g.last, wide.lanes, several)
        each_other(t, g.first, g.last, g.columns, single)


class Best(NamedTuple):
    """The largest value so far, and its place: a vector's less what differs between lanes."""

    value: str
    place: str


def improved(t: Template, kind: str, lanes: int, best: Best, value: str, place: str) -> Best:
    """A larger value takes over, or a NaN from a number."""
    type, numbers, bits = (vector_of(k, lanes) for k in (kind, "i32", "i1"))
    more = t.new(f"fcmp ugt {type} {value}, {best.value}")
    number = t.new(f"fcmp ord {type} {best.value}, {best.value}")
    takes = t.new(f"and {bits} {more}, {number}")
    return Best(
        t.new(f"select {bits} {takes}, {type} {value}, {type} {best.value}"),
        t.new(f"select {bits} {takes}, {numbers} {place}, {numbers} {best.place}"),
    )


def largest(
    t: Template, kind: str, wide: Wide, base: str, window: Window, lanes: int
) -> tuple[str, str]:
    type, numbers = vector_of(kind, lanes), vector_of("i32", lanes)
    lowest = constants(kind, ["0xFFF0000000000000"] * lanes)

    def everywhere(place: str) -> str:
        return t.splat("i32", t.new(f"trunc i64 {place} to i32"), lanes)

    first = window.first
    carried = [(type, lowest), (numbers, everywhere(first)), ("i64", first)]
    with t.carrying("0", window.rows, "1", *carried) as row:
        best, offset = Best(*row.values[:2]), row.values[2]
        if lanes > 1:
            for j, value in enumerate(neighbours(t, kind, t.at(base, kind, offset), wide)):
                place = everywhere(t.add(offset, j * wide.dilation))
                best = improved(t, kind, lanes, best, value, place)
        else:
            so_far = (type, best.value), (numbers, best.place)
            with t.carrying("0", window.columns, "1", *so_far) as j:
                at = t.add(offset, t.product(j.index, wide.dilation))
                value = t.load(base, kind, at, count=1)
                j.following = improved(t, kind, 1, Best(*j.values), value, everywhere(at))
            best = Best(*j.values)
        row.following = [*best, t.add(offset, window.step)]
    ramp = constants("i32", [lane * wide.stride for lane in range(lanes)])
    place = t.new(f"add {numbers} {row.values[1]}, {ramp}")
    places = t.new(f"sext {numbers} {place} to {vector_of('i64', lanes)}")
    return row.values[0], places


def summed_vectors(t: Template, kind: str, wide: Wide, base: str, window: Window) -> str:
    """Sums along H for each of the columns of the windows, then their sum."""
    type = vector_of(kind, wide.lanes)
    start = constants(kind, ["-0.0"] * wide.lanes)  # which changes nothing that is added to it
    carried = [(type, start)] * wide.kernel
    with t.carrying("0", window.rows, "1", *carried, ("i64", window.first)) as row:
        *sums, offset = row.values
        terms = neighbours(t, kind, t.at(base, kind, offset), wide)
        pairs = zip(sums, terms, strict=True)
        row.following = [t.new(f"fadd {type} {s}, {term}") for s, term in pairs]
        row.following.append(t.add(offset, window.step))
    total, *rest = row.values[:-1]
    for column in rest:
        total = t.new(f"fadd {type} {total}, {column}")
    return total


def summed(
    t: Template, kind: str, base: str, window: Window, move: Callable[[str, str], str], zero: str
) -> str:
    """The sum of a window's elements, along H first. `move` goes from one to the next: t.add, or
    t.sub if they are counted backwards."""
    with t.carrying("0", window.columns, "1", (kind, zero)) as j:
        first = move(window.first, j.index)
        with t.carrying("0", window.rows, "1", (kind, zero), ("i64", first)) as i:
            total, at = i.values
            term = t.load(base, kind, at)
            i.following = [t.new(f"fadd {kind} {total}, {term}"), move(at, window.step)]
        j.following = [t.new(f"fadd {kind} {j.values[0]}, {i.values[0]}")]
    return j.values[0]


def window_spread(kind: str, wide: Wide) -> Template:
    """Each element of x added to all of its window. Words: x, out, then the geometry.

    With its padding, out has columns q * stride + c, each of which gets columns q, q - 1, ... of x.
    Vectors go from `first` to `last` along q: those of all c are stored as one.
    """
    t = Template("window_spread")
    x, out = t.words("ptr", "x out")
    g = geometry(t)
    area = t.product(g.rows, g.columns)
    with each_row(t, g.images, g.step, g.h) as (image, row):
        base = t.at(x, kind, t.product(image, area))
        target = t.at(out, kind, t.product(t.add(t.product(image, g.h), row), g.w))
        down = covering(t, t.add(row, g.top), g.kernel, g.stride, g.rows)

        def several(q: str) -> None:
            parts = spread_vectors(t, kind, wide, base, q, down, g.columns)
            place = t.sub(t.product(q, wide.stride), g.left)
            whole = interleaved(t, kind, wide.lanes, parts)
            t.store(whole, target, kind, place, wide.lanes * wide.stride)

        def single(column: str) -> None:
            left, count = covering(
                t, t.add(column, g.left), str(wide.kernel), str(wide.stride), g.columns
            )
            start = t.add(t.product(down[0], g.columns), left)
            window = Window(start, down[1], g.columns, count)
            t.store(summed(t, kind, base, window, t.sub, "0.0"), target, kind, column)

        first, last = g.first, g.last
        if wide.lanes:
            each_vector(t, first, last, wide.lanes, several)
            first, last = (t.sub(t.product(q, wide.stride), g.left) for q in (first, last))
            some = t.compare("sgt", g.last, g.first)
            first, last = (t.select(some, "i64", at, 0) for at in (first, last))
        each_other(t, first, last, g.w, single)
    return t


def covering(t: Template, place: str, kernel: str, stride: str, count: str) -> tuple[str, str]:
    """The windows that cover a place: the last of them, and how many there are."""
    last = t.minimum(t.new(f"sdiv i64 {place}, {stride}"), t.sub(count, 1))
    # Of those that start at least `kernel` before the place, none reaches it.
    missed = t.new(f"sdiv i64 {t.maximum(t.add(t.sub(place, kernel), stride), 0)}, {stride}")
    return last, t.sub(t.add(last, 1), missed)


def spread_vectors(
    t: Template, kind: str, wide: Wide, base: str, q: str, down: tuple[str, str], columns: str
) -> list[str]:
    """For each c, the sums of the elements of x that columns q * stride + c get."""
    type, zeros = vector_of(kind, wide.lanes), constants(kind, ["0.0"] * wide.lanes)
    depth = -(-wide.kernel // wide.stride)
    last, count = down
    start = t.add(t.product(last, columns), q)
    with t.carrying("0", count, "1", *[(type, zeros)] * depth, ("i64", start)) as row:
        *sums, offset = row.values
        here = t.at(base, kind, offset)
        terms = [t.load(here, kind, -m, count=wide.lanes) for m in range(depth)]
        pairs = zip(sums, terms, strict=True)
        row.following = [t.new(f"fadd {type} {s}, {term}") for s, term in pairs]
        row.following.append(t.sub(offset, columns))
    parts = []
    for c in range(wide.stride):
        total = zeros
        for m in range(len(range(c, wide.kernel, wide.stride))):
            total = t.new(f"fadd {type} {total}, {row.values[m]}")
        parts.append(total)
    return parts


def interleaved(t: Template, kind: str, lanes: int, parts: list[str]) -> str:
    """The first elements of all parts, then the second ones, and so on. There are 1, 2 or 4."""
    if len(parts) == 1:
        return parts[0]
    even, odd = (interleaved(t, kind, lanes, parts[k::2]) for k in (0, 1))
    half = lanes * len(parts) // 2
    order = [lane for k in range(half) for lane in (k, k + half)]
    return t.shuffle(vector_of(kind, half), even, odd, order)
