"""What runs along an axis: sums, products, and recurrences.

Each is a scan of states that join: the state of some elements and that of those after them make the
state of all. A workgroup takes some rows side by side, and walks along them in chunks: each
invocation joins a few elements, these are joined across the workgroup, and what is before an
invocation's elements then goes through them. A long row is cut into parts, for more workgroups and
fewer roundings: a first pass finds the state of each part, a short one what is before each.
"""

import functools
import math
from typing import NamedTuple

import numpy as np

from ..launches import View
from .arrays import WGSL
from .lowering import Programs, enter
from .maps import as_contiguous
from .programs import Program, power_of_two

LANES = 256  # invocations of a workgroup
EACH = 8  # elements that one of them takes at a time
SIDE = 32  # rows side by side, from which on their elements are read together
BUSY = 128  # workgroups that are enough for a GPU
MOST_CHUNKS = 64  # of a part: more would be added one after the other
MOST_STEPS = 512  # the same where nothing is joined, only one step made after the other
STATE_SIZE = 5  # words of the largest state


class Scan(NamedTuple):
    """A state's text: its fields, that of nothing, of one element, two joined, and what comes out.

    `stepwise`: an element is joined to what is before it, not to the elements between them.
    `exponent`: what comes out beside the value, if anything.
    """

    inputs: str
    fields: str
    empty: str
    item: str
    join: str
    value: str
    stepwise: bool = False
    exponent: str = ""


def plain(operation: str, start: str) -> Scan:
    """The state is a number."""
    return Scan(
        "x",
        "total: T",
        f"State({start})",
        "State(T(x[p.at_x + at]))",
        f"return State(a.total {operation} b.total);",
        "s.total",
    )


# Products of floats overflow in part where the whole doesn't, so a factor's power of 2 is separate.
# Numbers below the normal ones are taken by their bits: a device may take them for 0.
FACTOR = """
fn factor(x: f32, power: i32) -> Factor {
    let bits = bitcast<u32>(x);
    let exponent = (bits >> 23u) & 0xffu;
    if (exponent == 0xffu || (bits & 0x7fffffffu) == 0u) { return Factor(x, 0); }
    if (exponent == 0u) {
        let size = bitcast<u32>(f32(bits & 0x7fffffu));
        return normal(bitcast<f32>(size | (bits & 0x80000000u)), power - 149);
    }
    return normal(x, power);
}
fn normal(x: f32, power: i32) -> Factor {
    let bits = bitcast<u32>(x);
    if ((bits & 0x7fffffffu) == 0u) { return Factor(x, 0); }
    let total = power + i32((bits >> 23u) & 0xffu) - 127;
    return Factor(bitcast<f32>((bits & 0x807fffffu) | 0x3f800000u), clamp(total, -LARGE, LARGE));
}
const LARGE = 0x10000000;
struct Factor { x: f32, power: i32 }
fn times(a: Factor, b: Factor) -> Factor { return factor(a.x * b.x, a.power + b.power); }
fn plus(a: Factor, b: Factor) -> Factor {
    if (a.x == 0.0) { return b; }
    if (b.x == 0.0) { return a; }
    let top = max(a.power, b.power);
    return factor(number(Factor(a.x, a.power - top)) + number(Factor(b.x, b.power - top)), top);
}
fn number(a: Factor) -> f32 {
    let first = clamp(a.power, -126, 127);
    let second = clamp(a.power - first, -126, 127);
    return a.x * bitcast<f32>(u32(first + 127) << 23u) * bitcast<f32>(u32(second + 127) << 23u);
}
"""
PRODUCT = Scan(
    "x",
    "product: Factor",
    "State(Factor(1.0, 0))",
    "State(factor(f32(x[p.at_x + at]), 0))",
    "return State(times(a.product, b.product));",
    "number(s.product)",
)
# slope * before + term, of everything before. A slope of 0 starts anew, also after an infinity.
RECURRENCE = Scan(
    "a b",
    "some: u32, slope: Factor, term: Factor",
    "State(0u, Factor(1.0, 0), Factor(0.0, 0))",
    "State(1u, factor(f32(a[p.at_a + at]), 0), factor(f32(b[p.at_b + at]), 0))",
    """
    if (a.some == 0u || b.slope.x == 0.0) { return b; }
    if (b.some == 0u) { return a; }
    return State(1u, times(a.slope, b.slope), plus(times(b.slope, a.term), b.term));""",
    "number(s.term)",
    stepwise=True,
)
SCALED_RECURRENCE = RECURRENCE._replace(
    inputs="a b n",
    item="State(1u, factor(f32(a[p.at_a + at]), 0), "
    "factor(f32(b[p.at_b + at]), i32(n[p.at_n + at])))",
    value="s.term.x",
    exponent="s.term.power",
)
INTEGER_RECURRENCE = Scan(
    "a b",
    "slope: T, term: T",
    "State(T(1), T(0))",
    "State(T(a[p.at_a + at]), T(b[p.at_b + at]))",
    "return State(a.slope * b.slope, b.slope * a.term + b.term);",
    "s.term",
)


def lower_scan(name: str, to: Programs, *views: View, axis: int, reverse: bool) -> None:
    """Views of one shape and dtype: x of a sum or product, a, b and n of recurrences."""
    shape, dtype = views[0].shape, views[0].dtype
    scan = scan_of(name, dtype)
    results = [to.result(shape, dtype) for _ in range(1 + bool(scan.exponent))]
    if not math.prod(shape):
        return
    views = tuple([as_contiguous(to, x) for x in views])
    axis %= len(shape)
    length, inner = shape[axis], math.prod(shape[axis + 1 :])
    rows = math.prod(shape) // length
    width, parts, chunks = split(rows, inner, length, scan.stepwise)
    words = {"rows": rows, "inner": inner, "length": length, "width": width, "parts": parts}
    words |= {"chunks": chunks, "reverse": reverse}
    groups = -(-rows // width) * parts
    if parts == 1:
        to.launch(program(name, dtype, "whole"), groups, *views, *results, **words)
        return
    before = to.temporary((rows, parts, STATE_SIZE), np.dtype("u4"))
    to.launch(program(name, dtype, "totals"), groups, *views, before, **words)
    to.launch(program(name, dtype, "before"), -(-rows // LANES), before, **words)
    to.launch(program(name, dtype, "out"), groups, *views, before, *results, **words)


enter("cumulative_sum", functools.partial(lower_scan, "sum"))
enter("cumulative_prod", functools.partial(lower_scan, "prod"))
enter("recurrence", functools.partial(lower_scan, "recurrence"))
enter("scaled_recurrence", functools.partial(lower_scan, "scaled recurrence"))


def split(rows: int, inner: int, length: int, stepwise: bool) -> tuple[int, int, int]:
    """How many rows a workgroup takes, how many parts a row has, and a part chunks."""
    if stepwise:
        width = min(LANES, power_of_two(rows))
    else:
        fitting = LANES * EACH // power_of_two(length)  # an invocation for each few elements
        width = max(1, min(fitting, LANES), min(SIDE, power_of_two(inner)))
        width = min(width, power_of_two(rows))
    chunks = -(-length // (LANES // width * EACH))
    if width == LANES:
        parts = -(-chunks // MOST_STEPS)
    else:
        wanted = -(-BUSY // -(-rows // width))
        parts = max(-(-chunks // MOST_CHUNKS), min(wanted, chunks // 4), 1)
    chunks = -(-chunks // parts)
    return width, parts, chunks


def scan_of(name: str, dtype: np.dtype) -> Scan:
    if name == "scaled recurrence":
        return SCALED_RECURRENCE
    if name == "recurrence":
        return RECURRENCE if dtype.kind == "f" else INTEGER_RECURRENCE
    if name == "sum":
        return plain("|", "0u") if dtype.kind == "b" else plain("+", "T(0)")
    if dtype.kind == "f":
        return PRODUCT
    return plain("&", "1u") if dtype.kind == "b" else plain("*", "T(1)")


@functools.cache
def program(name: str, dtype: np.dtype, task: str) -> Program:
    """`task`: find the "totals" of parts, what is "before" each of them, or the "out"put; or that
    of "whole" rows, which have one part."""
    scan, stored = scan_of(name, dtype), WGSL[dtype]
    given = [] if task == "before" else scan.inputs.split()
    inputs = [f"{x}:{stored}" for x in given] + (["before:State"] if task == "out" else [])
    outputs = [f"out:{stored}"] + ([f"exponents:{stored}"] if scan.exponent else [])
    if task in ("totals", "before"):
        outputs = ["totals:State"]
    words = " ".join(["rows inner length width parts chunks reverse", *[f"at_{x}" for x in given]])
    item = "" if task == "before" else f"fn item(at: u32) -> State {{ return {scan.item}; }}"
    declarations = f"""
alias T = {"f32" if stored == "f16" else stored};
struct State {{ {scan.fields} }}
fn empty() -> State {{ return {scan.empty}; }}
fn join(a: State, b: State) -> State {{ {scan.join} }}
fn value(s: State) -> {stored} {{ return {stored}({scan.value}); }}
fn exponent(s: State) -> {stored} {{ return {stored}({scan.exponent or 0}); }}
fn along(k: u32) -> u32 {{ return select(k, p.length - 1u - k, p.reverse != 0u) * p.inner; }}
{item}
{FACTOR if "Factor" in scan.fields else ""}
var<workgroup> states: array<State, {LANES}>;"""
    name, arrays = f"running {name}, {task}", " ".join([*inputs, "->", *outputs])
    body = BEFORE if task == "before" else walking(scan, task)
    return Program(name, arrays, words, body, declarations, LANES)


BEFORE = f"""
    let row = group * {LANES}u + lane;
    if (row >= p.rows) {{ return; }}
    var done = empty();
    for (var part = 0u; part < p.parts; part++) {{
        let own = totals[part * p.rows + row];
        totals[part * p.rows + row] = done;
        done = join(done, own);
    }}"""


def walking(scan: Scan, task: str) -> str:
    """The text of a workgroup's walk along its rows."""
    return f"""
    let slots = {LANES}u / p.width;
    let slot = lane / p.width;
    let column = lane % p.width;
    let last_lane = {LANES}u - p.width + column;
    let part = group % p.parts;
    let row = group / p.parts * p.width + column;
    let start = row / p.inner * p.inner * p.length + row % p.inner;
    let end = select(0u, p.length, row < p.rows);
    var done = empty();
    {FROM_BEFORE if task == "out" else ""}
    for (var chunk = 0u; chunk < p.chunks; chunk++) {{
        let first = ((part * p.chunks + chunk) * slots + slot) * {EACH}u;
        let last = min(first + {EACH}u, end);
        var own = empty();
        if ({"true" if task == "totals" else "slots > 1u"}) {{
            for (var k = first; k < last; k++) {{ own = join(own, item(start + along(k))); }}
            states[lane] = own;
            workgroupBarrier();
            for (var d = p.width; d < {LANES}u; d *= 2u) {{
                if (lane >= d) {{ own = join(states[lane - d], own); }}
                workgroupBarrier();
                states[lane] = own;
                workgroupBarrier();
            }}
        }}
        {"done = join(done, states[last_lane]);" if task == "totals" else through(scan)}
        workgroupBarrier();
    }}
    {TO_TOTALS if task == "totals" else ""}"""


FROM_BEFORE = "if (row < p.rows) { done = before[part * p.rows + row]; }"
TO_TOTALS = "if (slot == 0u && row < p.rows) { totals[part * p.rows + row] = done; }"


def through(scan: Scan) -> str:
    """The text that takes what is before an invocation's elements through them."""
    now = "now" if scan.stepwise else "join(done, now)"
    beside = f"exponents[start + along(k)] = exponent({now});" if scan.exponent else ""
    return f"""
        if (slot > 0u) {{ done = join(done, states[lane - p.width]); }}
        var now = {"done" if scan.stepwise else "empty()"};
        for (var k = first; k < last; k++) {{
            now = join(now, item(start + along(k)));
            out[start + along(k)] = value({now});
            {beside}
        }}
        workgroupBarrier();
        states[lane] = {now};
        workgroupBarrier();
        done = states[last_lane];"""
