"""Gathers and scatter-adds, as LLVM IR: elements come from, or go to, places that are data.

Arrays are seen as (outer, axis, inner). A negative index counts from the end. An index that is out
of range counts as 0, and the status tells of it. Additions are made in the order in which they
occur: what a chunk writes to, no other chunk touches.
"""

from collections.abc import Callable, Sequence

from .template import Template
from .text import SIZES, lanes, vector_of

SCANNED = 8  # indices that are looked at together
AHEAD = 6  # rows that are fetched before they are copied
FETCHED = 1024  # bytes of such a row, at most
LINE = 64
TOGETHER = 4  # elements that one turn of a loop moves


def added(t: Template, kind: str, x: str, y: str, count: int = 0) -> str:
    operation = "fadd" if kind in ("float", "double") else "add"
    return t.new(f"{operation} {vector_of(kind, count) if count else kind} {x}, {y}")


def found(t: Template, index: str, length: str) -> tuple[str, str]:
    """The place that an index means, and whether there is none: then it is 0."""
    from_end = t.compare("slt", index, 0)
    place = t.select(from_end, "i64", t.add(index, length), index)
    wrong = t.compare("uge", place, length)
    return t.select(wrong, "i64", 0, place), wrong


def either(t: Template, conditions: Sequence[str]) -> str:
    wrong = conditions[0]
    for other in conditions[1:]:
        wrong = t.new(f"or i1 {wrong}, {other}")
    return wrong


def each(t: Template, start: str, stop: str, body: Callable[[str], str]) -> None:
    """The body for each i, a few at a time. It says what is wrong, which is told at the end."""
    wrong = "false"
    for first, last, count in t.spans(start, stop, TOGETHER):
        with t.carrying(first, last, count, ("i1", wrong)) as turn:
            found = [body(t.add(turn.index, k)) for k in range(count)]
            turn.following = [either(t, [*turn.values, *found])]
        wrong = turn.values[0]
    t.tell(wrong)


def copy(t: Template, kind: str, source: str, target: str, count: str) -> None:
    """Elements in a row. The last vector may overlap the one before it."""
    several = lanes(kind)

    def vector(at: str) -> None:
        t.store(t.load(source, kind, at, count=several), target, kind, at, count=several)

    last = t.sub(count, several)
    with t.loop("0", last, str(several)) as i:
        vector(i)
    fits = t.compare("sge", last, 0)
    with t.when(fits):
        vector(last)
    with t.loop("0", t.select(fits, "i64", 0, count)) as i:
        t.store(t.load(source, kind, i), target, kind, i)


def fetch(t: Template, source: str, count: str) -> None:
    """Bring bytes into the cache: rows that lie anywhere are out of a processor's own guesses."""
    with t.loop("0", count, LINE) as i:
        t.fetch(t.offset(source, i))


def clear(t: Template, kind: str, target: str, count: str) -> None:
    for first, last, size in t.spans("0", count, lanes(kind)):
        with t.loop(first, last, size) as i:
            t.store("zeroinitializer", target, kind, i, size)


def add_row(t: Template, kind: str, source: str, target: str, count: str) -> None:
    for first, last, size in t.spans("0", count, lanes(kind)):
        with t.loop(first, last, size) as i:
            x, y = (t.load(base, kind, i, count=size) for base in (target, source))
            t.store(added(t, kind, x, y, size), target, kind, i, size)


def combine(count: int) -> Template:
    """Indices along several axes as one index along these axes as one.

    Words: status, out, its elements, those for each chunk, then each axis: its indices and length.
    """
    t = Template("combine")
    t.status()
    (out,) = t.words("ptr", "out")
    total, step = t.words("i64", "total step")
    start, stop = t.part(step, total)
    axes = [(*t.words("ptr", f"index{k}"), *t.words("i64", f"length{k}")) for k in range(count)]

    def combined(i: str) -> str:
        total, all_wrong = "0", []
        for index, length in axes:
            place, wrong = found(t, t.load(index, "i64", i), length)
            total = t.add(t.product(total, length), place)
            all_wrong.append(wrong)
        t.store(total, out, "i64", i)
        return either(t, all_wrong)

    each(t, start, stop, combined)
    return t


def gather(kind: str) -> Template:
    """out[o, i] = x[o, index[i]] for rows of `width` elements.

    Words: status, x, index, out, rows of out, rows for each chunk, indices, axis, width.
    """
    t = Template("gather")
    t.status()
    x, index, out = t.words("ptr", "x index out")
    rows, step, count, length, width = t.words("i64", "rows step count length width")
    start, stop = t.part(step, rows)

    def source(row: str) -> tuple[str, str]:
        outer, i = t.divided(row, count)
        place, wrong = found(t, t.load(index, "i64", i), length)
        return t.at(x, kind, t.product(t.add(t.product(outer, length), place), width)), wrong

    with t.carrying(start, stop, "1", ("i1", "false")) as row:
        later, _ = source(t.minimum(t.add(row.index, AHEAD), t.sub(stop, 1)))
        fetch(t, later, t.minimum(t.product(width, SIZES[kind]), str(FETCHED)))
        here, wrong = source(row.index)
        copy(t, kind, here, t.at(out, kind, t.product(row.index, width)), width)
        row.following = [either(t, [*row.values, wrong])]
    t.tell(row.values[0])
    return t


def pick(kind: str) -> Template:
    """out[r, i] = x[r // group, index[r, i] * stride + i * ramp] for rows r of single elements.

    A chunk has some rows, or a part of one.
    Words: status, x, index, out, rows, rows for each chunk, width, chunks for each row, elements
    for each of them, group, axis, stride, ramp, indices from row to row.
    """
    t = Template("pick")
    t.status()
    x, index, out = t.words("ptr", "x index out")
    names = "rows step width parts piece group length stride ramp move"
    rows, step, width, parts, piece, group, length, stride, ramp, move = t.words("i64", names)
    block, part = t.divided("%chunk", parts)
    start, stop = t.part(step, rows, block)
    left, right = t.part(piece, width, part)
    area = t.product(length, stride)
    with t.loop(start, stop) as row:
        outer, _ = t.divided(row, group)
        source = t.at(x, kind, t.product(outer, area))
        places = t.at(index, "i64", t.product(row, move))
        target = t.at(out, kind, t.product(row, width))

        def picked(i: str) -> str:
            place, wrong = found(t, t.load(places, "i64", i), length)
            at = t.add(t.product(place, stride), t.product(i, ramp))
            t.store(t.load(source, kind, at), target, kind, i)
            return wrong

        each(t, left, right, picked)
    return t


def scatter(kind: str, single: bool) -> Template:
    """out = 0; out[o, index[i]] += x[o, i], one i after the other; rows as those of a gather.

    A chunk owns some rows of some o, and looks for them among all indices; or where rows are
    `single` elements, all rows of some o.
    Words: status, x, index, out, outer, o for each chunk, indices, axis, width, chunks for each o,
    rows for each of them.
    """
    t = Template("scatter")
    t.status()
    x, index, out = t.words("ptr", "x index out")
    names = "outers group count length width parts step"
    outers, group, count, length, width, parts, step = t.words("i64", names)
    block, part = t.divided("%chunk", parts)
    start, stop = t.part(group, outers, block)
    low, high = t.part(step, length, part)
    owned = t.sub(high, low)
    area, offset, given = (t.product(rows, width) for rows in (length, low, count))
    with t.loop(start, stop) as o:
        target = t.at(out, kind, t.add(t.product(o, area), offset))
        source = t.at(x, kind, t.product(o, given))
        clear(t, kind, target, t.product(owned, width))

        def add_element(i: str) -> str:
            place, wrong = found(t, t.load(index, "i64", i), length)
            total = added(t, kind, t.load(target, kind, place), t.load(source, kind, i))
            t.store(total, target, kind, place)
            return wrong

        def add(i: str, row: str) -> None:
            here, there = t.product(i, width), t.product(row, width)
            add_row(t, kind, t.at(source, kind, here), t.at(target, kind, there), width)

        if single:
            each(t, "0", count, add_element)
        else:
            scan(t, index, count, length, low, owned, add)
    return t


def scan(
    t: Template,
    index: str,
    count: str,
    length: str,
    low: str,
    owned: str,
    body: Callable[[str, str], None],
) -> None:
    """The body for each i whose index means one of the rows from `low` on, and for its row."""
    several, bits = vector_of("i64", SCANNED), vector_of("i1", SCANNED)
    whole = t.new(f"and i64 {count}, {-SCANNED}")
    lengths, lows, limit = (t.splat("i64", value, SCANNED) for value in (length, low, owned))
    rows = t.alloca(several)
    with t.carrying("0", whole, str(SCANNED), (bits, "zeroinitializer")) as group:
        given = t.load(index, "i64", group.index, count=SCANNED)
        from_end = t.new(f"icmp slt {several} {given}, zeroinitializer")
        other = t.new(f"add {several} {given}, {lengths}")
        place = t.new(f"select {bits} {from_end}, {several} {other}, {several} {given}")
        wrong = t.new(f"icmp uge {several} {place}, {lengths}")
        row = t.new(f"sub {several} {place}, {lows}")
        mask = as_mask(t, t.new(f"icmp ult {several} {row}, {limit}"))
        with t.when(t.compare("ne", mask, 0)):
            t.line(f"store {several} {row}, ptr {rows}, align 64")
            hits = t.call("i64", "llvm.ctpop.i64", f"i64 {mask}")
            with t.carrying("0", hits, "1", ("i64", mask)) as hit:
                rest = hit.values[0]
                lane = t.call("i64", "llvm.cttz.i64", f"i64 {rest}", "i1 true")
                body(t.add(group.index, lane), t.load(rows, "i64", lane))
                hit.following = [t.new(f"and i64 {rest}, {t.sub(rest, 1)}")]
        group.following = [t.new(f"or {bits} {group.values[0]}, {wrong}")]
    t.tell(t.compare("ne", as_mask(t, group.values[0]), 0))
    with t.loop(whole, count) as i:
        place, wrong = found(t, t.load(index, "i64", i), length)
        t.tell(wrong)
        row = t.sub(place, low)
        with t.when(t.compare("ult", row, owned)):
            body(i, row)


def as_mask(t: Template, bits: str) -> str:
    """One bit for each of the lanes that are looked at together."""
    mask = t.new(f"bitcast {vector_of('i1', SCANNED)} {bits} to i{SCANNED}")
    return t.new(f"zext i{SCANNED} {mask} to i64")


def scatter_along(kind: str, once: bool, line: bool) -> Template:
    """out = 0; out[o, index[o, i, j], j] += x[o, i, j], one i after the other.

    Where there is only one i (`once`), places get x as it is. Where there is only one j, it is a
    `line`. A chunk owns some o, or where rows are split, some j of them.
    Words: status, x, index, out, outer, o for each chunk, indices, axis, inner, chunks for each o,
    j for each of them.
    """
    t = Template("scatter_along")
    t.status()
    x, index, out = t.words("ptr", "x index out")
    names = "outers step count length inner parts width"
    outers, step, count, length, inner, parts, width = t.words("i64", names)
    block, part = t.divided("%chunk", parts)
    left, right = t.part(width, inner, part)
    start, stop = t.part(step, outers, block)
    area, given = t.product(length, inner), t.product(count, inner)
    # What a chunk owns entirely is cleared as one.
    alone = t.compare("eq", parts, 1)
    with t.when(alone):
        clear(t, kind, t.at(out, kind, t.product(start, area)), t.product(t.sub(stop, start), area))

    def put(target: str, source: str, places: str, at: str, offset: str, stride: str = "") -> str:
        place, wrong = found(t, t.load(places, "i64", at), length)
        place = t.add(t.product(place, stride) if stride else place, offset)
        value = t.load(source, kind, at)
        if not once:
            value = added(t, kind, t.load(target, kind, place), value)
        t.store(value, target, kind, place)
        return wrong

    if once and line:
        each(t, start, stop, lambda o: put(out, x, index, o, t.product(o, length)))
        return t
    runs = t.select(alone, "i64", 0, length)
    with t.loop(start, stop) as o:
        target, first = t.at(out, kind, t.product(o, area)), t.product(o, given)
        source, places = t.at(x, kind, first), t.at(index, "i64", first)
        here = target, source, places
        with t.loop("0", runs) as row:
            run = t.at(target, kind, t.add(t.product(row, inner), left))
            clear(t, kind, run, t.sub(right, left))
        if line:
            each(t, "0", count, lambda i, here=here: put(*here, i, "0"))
        else:
            with t.loop("0", count) as i:
                row = t.product(i, inner)
                each(t, left, right, lambda j, h=here, r=row: put(*h, t.add(r, j), j, inner))
    return t
