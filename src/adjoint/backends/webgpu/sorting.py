"""Sorting, always stable, and what is told from a sorted array.

Elements are ranked first: 32 bits that count up as they do. Ranks are sorted in tiles that fit into
a workgroup's memory, together with their positions, and runs of them are merged until a row is one.
Where few of a row are wanted, each tile hands on its first ones only.
"""

import functools

from ..launches import View
from ..spaces import merged
from .arrays import Array, contiguous
from .fills import WORKGROUP, groups_for, per_axis, stored_as, walk
from .indexing import INT32, UINT32, along_axis, words_of
from .lowering import Programs, lowering, on_arrays
from .maps import as_contiguous, copy
from .programs import Program
from .table import KERNELS, kernel

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
    words = {"size": x.size, "flip": -1 if largest else 0, **words_of(axes, "n x")}
    program = ranker(stored_as(x.dtype), x.dtype.kind, len(axes.sizes) or 1)
    to.launch(program, groups_for(x.size), x, out, **words)
    return out


@functools.cache
def ranker(type: str, kind: str, rank: int) -> Program:
    return Program(
        "rank",
        {"x": type},
        {"out": "u32"},
        "size at_x flip " + per_axis(rank, "n x"),
        f"""
    let at = group * {WORKGROUP}u + lane;
    if (at >= p.size) {{ return; }}
    var source = p.at_x;
    {walk(rank, "source += c * p.x{k};")}
    out[at] = rank({bits("x[source]", type)}) ^ p.flip;""",
        declarations=ranking(kind),
        workgroup=WORKGROUP,
    )


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
        words = {"size": keys.size, "length": length, "run": run}
        to.launch(MERGE, groups_for(keys.size), keys, order, *targets, **words)
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
TILES = Program(
    "sort tiles",
    {"keys": "u32", "order": "u32"},
    {"sorted_keys": "u32", "sorted_order": "u32"},
    "rows length span parts keep kept ordered",
    f"""
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
            while (low < high) {{
                let between = (low + high) / 2u;
                let found = tile[between];
                if (found < key || (second && found == key)) {{
                    low = between + 1u;
                }} else {{
                    high = between;
                }}
            }}
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
    }}""",
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
)

# Two runs become one: an element goes as far beyond its place in its own run as there are elements
# before it in the other, where those of the first run go before equals.
MERGE = Program(
    "merge runs",
    {"keys": "u32", "order": "u32"},
    {"merged_keys": "u32", "merged_order": "u32"},
    "size length run",
    f"""
    let at = group * {WORKGROUP}u + lane;
    if (at >= p.size) {{ return; }}
    let row = at / p.length * p.length;
    let column = at - row;
    let start = column / (2u * p.run) * 2u * p.run;
    let middle = min(start + p.run, p.length);
    let second = column >= middle;
    var low = select(middle, start, second);
    var high = select(min(middle + p.run, p.length), middle, second);
    let other = low;
    let key = keys[at];
    while (low < high) {{
        let between = (low + high) / 2u;
        let found = keys[row + between];
        if (found < key || (second && found == key)) {{
            low = between + 1u;
        }} else {{
            high = between;
        }}
    }}
    let own = column - select(start, middle, second);
    merged_keys[row + start + own + low - other] = key;
    merged_order[row + start + own + low - other] = order[at];""",
    workgroup=WORKGROUP,
)


@lowering
def searchsorted(to: Programs, x: View, values: View, *, after: bool) -> None:
    out = to.result(values.shape, INT32)
    words = {"size": out.size, "length": x.size, "stride": x.strides[0], "after": after}
    program = searching(stored_as(x.dtype), x.dtype.kind)
    to.launch(program, groups_for(out.size), x, as_contiguous(to, values), out, **words)


@functools.cache
def searching(type: str, kind: str) -> Program:
    return Program(
        "searchsorted",
        {"x": type, "values": type},
        {"out": "u32"},
        "size length at_x at_values stride after",
        f"""
    let at = group * {WORKGROUP}u + lane;
    if (at >= p.size) {{ return; }}
    let value = rank({bits("values[p.at_values + at]", type)});
    var low = 0u;
    var high = p.length;
    while (low < high) {{
        let between = (low + high) / 2u;
        let found = rank({bits("x[p.at_x + between * p.stride]", type)});
        if (found < value || (p.after != 0u && found == value)) {{
            low = between + 1u;
        }} else {{
            high = between;
        }}
    }}
    out[at] = low;""",
        declarations=ranking(kind),
        workgroup=WORKGROUP,
    )


@kernel
def unique(x: Array) -> tuple[Array, Array, Array]:
    """Every NaN is distinct, as it isn't equal to itself."""
    order, flags = flagged(x)
    numbers = KERNELS["cumulative_sum"](flags, axis=0, reverse=False)
    count = int(x.gpu.read(numbers.view((), (), x.size - 1))) if x.size else 0
    return distinct(order, flags, numbers, count=count)


@on_arrays
def flagged(to: Programs, x: View) -> None:
    """The order of elements; whether each, in that order, differs from the one before it."""
    order, flags = (to.result((x.size,), INT32) for _ in range(2))
    if x.size:
        keys, found = in_order(to, ranks(to, x, 0, False))
        copy(to, order, found.view(order.shape, order.strides))
        words = {"size": x.size, "floats": x.dtype.kind == "f"}
        to.launch(FIRSTS, groups_for(x.size), keys, flags, **words)


@on_arrays
def distinct(to: Programs, order: View, flags: View, numbers: View, *, count: int) -> None:
    """Where the first of each kind is, which kind each element is of, and how many are."""
    size = order.size
    indices, inverse, counts = (to.result((n,), INT32) for n in (count, size, count))
    starts = to.temporary((count,), INT32)
    arrays = [order, flags, numbers, inverse, starts, indices]
    to.launch(DISTINCT, groups_for(size), *arrays, size=size)
    to.launch(COUNTS, groups_for(count), starts, counts, size=size, count=count)


FIRSTS = Program(
    "firsts",
    {"keys": "u32"},
    {"out": "u32"},
    "size floats",
    f"""
    let at = group * {WORKGROUP}u + lane;
    if (at >= p.size) {{ return; }}
    let key = keys[at];
    let other = at == 0u || keys[max(at, 1u) - 1u] != key;
    out[at] = select(0u, 1u, other || (p.floats != 0u && key == {NAN}u));""",
    workgroup=WORKGROUP,
)
DISTINCT = Program(
    "distinct",
    {"order": "u32", "flags": "u32", "numbers": "u32"},
    {"inverse": "u32", "starts": "u32", "indices": "u32"},
    "size at_order at_flags at_numbers",
    f"""
    let at = group * {WORKGROUP}u + lane;
    if (at >= p.size) {{ return; }}
    let number = numbers[p.at_numbers + at] - 1u;
    let source = order[p.at_order + at];
    inverse[source] = number;
    if (flags[p.at_flags + at] != 0u) {{
        starts[number] = at;
        indices[number] = source;
    }}""",
    workgroup=WORKGROUP,
)
COUNTS = Program(
    "counts",
    {"starts": "u32"},
    {"counts": "u32"},
    "size count",
    f"""
    let at = group * {WORKGROUP}u + lane;
    if (at >= p.count) {{ return; }}
    var end = p.size;
    if (at + 1u < p.count) {{ end = starts[at + 1u]; }}
    counts[at] = end - starts[at];""",
    workgroup=WORKGROUP,
)
