"""Sorting, always stable, and what is told from a sorted array.

Elements are ranked first: 32 bits that count up as they do. Ranks are sorted in tiles that fit into
a workgroup's memory, together with their positions, and runs of them are merged until a row is one.
Where few of a row are wanted, each tile hands on its first ones only.
"""

import functools

from ..launches import View
from ..spaces import merged
from .arrays import Array, contiguous
from .fills import per_axis, stored_as, walk
from .indexing import INT32, UINT32, along_axis, numbered_flags, words_of
from .lowering import Programs, lowering, on_arrays
from .maps import as_contiguous, copy
from .programs import WORKGROUP, Program, per_element, wgsl
from .table import entry

EACH = 4  # elements that an invocation has in its workgroup's memory
TILE = EACH * WORKGROUP  # elements that a workgroup sorts
FEW = TILE // 4  # that are handed on at most
NAN = 0xFFC00000  # the rank of all NaNs

RANK = {
    "f": f"""
    if ((bits & 0x7fffffffu) > 0x7f800000u) {{ return {NAN}u; }}
    if (bits == 0x80000000u) {{ return bits; }}
    return select(bits | 0x80000000u, ~bits, bits > 0x7fffffffu);""",
    "i": "return bits ^ 0x80000000u;",
    "u": "return bits;",
    "b": "return bits;",
}


def ranking(kind: str) -> str:
    """WGSL's `rank`: numbers in the order of elements, given by their bits. NaN is the largest."""
    return f"fn rank(bits: u32) -> u32 {{ {RANK[kind]} }}"


def bits(element: str, type: str) -> str:
    return f"bitcast<u32>(f32({element}))" if type == "f16" else element


def bisection(element: str, key: str, after: str) -> str:
    """Text that moves `low`, up to `high`, to where a key belongs: `after` equals, or before them.
    `element`: the one at `between`."""
    return f"""while (low < high) {{
        let between = (low + high) / 2u;
        let found = {element};
        let beyond = found < {key} || ({after} && found == {key});
        low = select(low, between + 1u, beyond);
        high = select(between, high, beyond);
    }}"""


@lowering
def topk(to: Programs, x: View, *, k: int, axis: int, largest: bool) -> None:
    """Equals stay in the order of their indices. NaN counts as the largest."""
    rest = (*x.shape[:axis], *x.shape[axis + 1 :])
    shape, strides = (*rest[:axis], k, *rest[axis:]), [k * s for s in contiguous(rest)]
    strides.insert(axis, 1)
    values, indices = to.result(shape, x.dtype), to.result(shape, INT32, tuple(strides))
    if indices.size:
        rows = indices.view((indices.size // k, k), (k, 1))
        first_of(to, rows, ranks(to, x, axis, largest))
        along_axis(to, values, x, indices, axis)


def ranks(to: Programs, x: View, axis: int, largest: bool) -> View:
    """The ranks of elements along an axis, as rows; if `largest`, they count down."""
    length = x.shape[axis]
    shape = (*x.shape[:axis], *x.shape[axis + 1 :], length)
    steps = (*x.strides[:axis], *x.strides[axis + 1 :], x.strides[axis])
    axes = merged(shape, [steps])
    out = to.temporary((x.size // max(length, 1), length), UINT32)
    program = ranker(stored_as(x.dtype), x.dtype.kind, len(axes.sizes) or 1)
    to.launch_each(program, x.size, x, out, flip=-1 if largest else 0, **words_of(axes, "n x"))
    return out


@functools.cache
def ranker(type: str, kind: str, rank: int) -> Program:
    return per_element(
        "rank", f"x:{type} -> out", "at_x flip " + per_axis(rank, "n x"), declarations=ranking(kind)
    )(f"""
    var source = p.at_x;
    {walk(rank, "source += c * p.x{k};")}
    out[at] = rank({bits("x[source]", type)}) ^ p.flip;""")


def first_of(to: Programs, out: View, keys: View) -> None:
    """For each row of keys, the positions of the least ones, in order."""
    count, order = out.shape[1], None
    if count > FEW and keys.shape[1] > TILE:
        _, order = in_order(to, keys)
        copy(to, out, order.view(out.shape, order.strides))
        return
    while keys.shape[1] > TILE:
        keys, order = sorted_tiles(to, keys, order, count)
    sorted_tiles(to, keys, order, count, out)


def in_order(to: Programs, keys: View) -> tuple[View, View]:
    """Rows of keys in order, and the positions that these had."""
    length, run = keys.shape[1], TILE
    keys, order = sorted_tiles(to, keys, None, TILE)
    while run < length:
        targets = to.temporary(keys.shape, UINT32), to.temporary(keys.shape, INT32)
        to.launch_each(MERGE, keys.size, keys, order, *targets, length=length, run=run)
        keys, order = targets
        run *= 2
    return keys, order


def sorted_tiles(
    to: Programs, keys: View, order: View | None, keep: int, positions: View | None = None
) -> tuple[View, View]:
    """Each tile of a row in order, of which the first ones are kept, and their positions."""
    rows, length = keys.shape
    parts = -(-length // TILE)
    span = TILE if parts > 1 else 1 << (length - 1).bit_length()
    kept = min(parts * keep, length) if keep == TILE else parts * keep
    out = to.temporary((rows, kept), UINT32), positions or to.temporary((rows, kept), INT32)
    words = {"rows": rows, "length": length, "span": span, "parts": parts, "keep": keep}
    words |= {"kept": kept, "ordered": order is not None}
    groups = -(-rows * parts * span // TILE)
    to.launch(TILES, groups, keys, order or keys, *out, **words)
    return out


# Rows that are shorter than a tile lie in it side by side, each in a span. What a span has
# no element for comes last. Each invocation sorts a few neighbours; then runs are merged.
TILES = wgsl(
    "sort tiles",
    "keys order -> sorted_keys sorted_order",
    "rows length span parts keep kept ordered",
    declarations=f"""
struct Slot {{ row: u32, part: u32, column: u32 }}
fn slot_at(group: u32, k: u32) -> Slot {{
    let span = group * ({TILE}u / p.span) + k / p.span;
    let part = span % p.parts;
    return Slot(span / p.parts, part, part * p.span + k % p.span);
}}
var<workgroup> tile: array<u32, {TILE}>;
var<workgroup> positions: array<u32, {TILE}>;""",
    workgroup=WORKGROUP,
)(f"""
    for (var e = 0u; e < {EACH}u; e++) {{
        let k = e * {WORKGROUP}u + lane;
        let slot = slot_at(group, k);
        var key = 0xffffffffu;
        var position = 0xffffffffu;
        if (slot.row < p.rows && slot.column < p.length) {{
            let at = slot.row * p.length + slot.column;
            key = keys[at];
            position = slot.column;
            if (p.ordered != 0u) {{ position = order[at]; }}
        }}
        tile[k] = key;
        positions[k] = position;
    }}
    workgroupBarrier();
    let few = min({EACH}u, p.span);
    for (var k = lane * {EACH}u; k < (lane + 1u) * {EACH}u; k++) {{
        for (var j = k; j % few != 0u && tile[j] < tile[j - 1u]; j--) {{
            let key = tile[j];
            let position = positions[j];
            tile[j] = tile[j - 1u];
            positions[j] = positions[j - 1u];
            tile[j - 1u] = key;
            positions[j - 1u] = position;
        }}
    }}
    workgroupBarrier();
    var own: array<vec3<u32>, {EACH}>;
    for (var run = few; run < p.span; run *= 2u) {{
        for (var e = 0u; e < {EACH}u; e++) {{
            let k = e * {WORKGROUP}u + lane;
            let key = tile[k];
            let second = (k & run) != 0u;
            let start = k & ~(2u * run - 1u);
            let other = start + select(run, 0u, second);
            var low = other;
            var high = other + run;
            {bisection("tile[between]", "key", "second")}
            own[e] = vec3(key, positions[k], start + (k & (run - 1u)) + low - other);
        }}
        workgroupBarrier();
        for (var e = 0u; e < {EACH}u; e++) {{
            tile[own[e].z] = own[e].x;
            positions[own[e].z] = own[e].y;
        }}
        workgroupBarrier();
    }}
    for (var e = 0u; e < {EACH}u; e++) {{
        let k = e * {WORKGROUP}u + lane;
        let slot = slot_at(group, k);
        let column = slot.part * p.keep + k % p.span;
        if (slot.row < p.rows && k % p.span < p.keep && column < p.kept) {{
            sorted_keys[slot.row * p.kept + column] = tile[k];
            sorted_order[slot.row * p.kept + column] = positions[k];
        }}
    }}""")

# Two runs become one: an element goes as far beyond its place in its own run as there are elements
# before it in the other, where those of the first run go before equals.
MERGE = per_element("merge runs", "keys order -> merged_keys merged_order", "length run")(f"""
    let row = at / p.length * p.length;
    let column = at - row;
    let start = column / (2u * p.run) * 2u * p.run;
    let middle = min(start + p.run, p.length);
    let second = column >= middle;
    var low = select(middle, start, second);
    var high = select(min(middle + p.run, p.length), middle, second);
    let other = low;
    let key = keys[at];
    {bisection("keys[row + between]", "key", "second")}
    let own = column - select(start, middle, second);
    merged_keys[row + start + own + low - other] = key;
    merged_order[row + start + own + low - other] = order[at];""")


@lowering
def searchsorted(to: Programs, x: View, values: View, *, after: bool) -> None:
    out = to.result(values.shape, INT32)
    words = {"length": x.size, "stride": x.strides[0], "after": after}
    program = searching(stored_as(x.dtype), x.dtype.kind)
    to.launch_each(program, out.size, x, as_contiguous(to, values), out, **words)


@functools.cache
def searching(type: str, kind: str) -> Program:
    arrays = f"x:{type} values:{type} -> out"
    words = "length at_x at_values stride after"
    return per_element("searchsorted", arrays, words, ranking(kind))(f"""
    let value = rank({bits("values[p.at_values + at]", type)});
    var low = 0u;
    var high = p.length;
    {bisection(f"rank({bits('x[p.at_x + between * p.stride]', type)})", "value", "p.after != 0u")}
    out[at] = low;""")


@entry
def unique(x: Array) -> tuple[Array, Array, Array]:
    """Every NaN is distinct, as it isn't equal to itself."""
    order, flags = flagged(x)
    numbers, count = numbered_flags(flags)
    return distinct(order, flags, numbers, count=count)


@on_arrays
def flagged(to: Programs, x: View) -> None:
    """The order of elements; whether each, in that order, differs from the one before it."""
    order, flags = (to.result((x.size,), INT32) for _ in range(2))
    if x.size:
        keys, found = in_order(to, ranks(to, x, 0, False))
        copy(to, order, found.view(order.shape, order.strides))
        to.launch_each(FIRSTS, x.size, keys, flags, floats=x.dtype.kind == "f")


@on_arrays
def distinct(to: Programs, order: View, flags: View, numbers: View, *, count: int) -> None:
    """Where the first of each kind is, which kind each element is of, and how many are."""
    size = order.size
    indices, inverse, counts = (to.result((n,), INT32) for n in (count, size, count))
    starts = to.temporary((count,), INT32)
    to.launch_each(DISTINCT, size, order, flags, numbers, inverse, starts, indices)
    to.launch_each(COUNTS, count, starts, counts, end=size)


FIRSTS = per_element("firsts", "keys -> out", "floats")(f"""
    let key = keys[at];
    let other = at == 0u || keys[max(at, 1u) - 1u] != key;
    out[at] = select(0u, 1u, other || (p.floats != 0u && key == {NAN}u));""")
DISTINCT = per_element(
    "distinct", "order flags numbers -> inverse starts indices", "at_order at_flags at_numbers"
)("""
    let number = numbers[p.at_numbers + at] - 1u;
    let source = order[p.at_order + at];
    inverse[source] = number;
    if (flags[p.at_flags + at] != 0u) {
        starts[number] = at;
        indices[number] = source;
    }""")
COUNTS = per_element("counts", "starts -> counts", "end")("""
    var end = p.end;
    if (at + 1u < p.size) { end = starts[at + 1u]; }
    counts[at] = end - starts[at];""")
