"""Gradient of a convolution with respect to its weight: images by gradients.

The lanes of a workgroup have the same tile of the weight, and share the positions that it is a sum
over; workgroups may share them, too, and then leave parts that are added up by another launch. How
a tile is summed up is told in `convolution`.
"""

import functools
import math

import numpy as np

from ..launches import View
from ..spaces import Ints
from .arrays import WGSL
from .fills import axis_words, per_axis
from .lowering import Programs, lowering
from .programs import ROUNDS, Program, wgsl
from .tiles import SUMMED, total
from .unrolled import LANES, TALL, by_axis, loaded, repeated, vectors, width

WORKGROUPS = 128  # up to which the sums are split
LEAST = 1024  # terms of a sum that is split off

WORDS = """
    blocks rows groups parts span lines stretch batch channels outs taps
    at_x x_image x_channel at_g g_image g_channel
"""
AXIS_WORDS = "in size kernel before dilation stride x g"
# A column of the weight is one element of the kernel in one channel. A tile has columns that follow
# each other, or the same element in several channels.
COLUMNS = """
    let column$u = block * TALL + $uu;
    let c$u = column$u / p.taps;
    var tap$u = column$u % p.taps;
"""
CHANNELS = """
    let runs = (p.channels + TALL - 1u) / TALL;
    let c$u = block % runs * TALL;
    var tap$u = block / runs;
"""
COLUMN_PLACE = """
    let column = block * TALL + lane / WIDE;
    let fits = column < p.channels * p.taps;
"""
CHANNEL_PLACE = """
    let c = c0 + lane / WIDE;
    let column = c * p.taps + block / runs;
    let fits = c < p.channels;
"""
OFFSET = """
    let offset$u_$a = tap$u % p.kernel$a * p.dilation$a - p.before$a;
    tap$u /= p.kernel$a;
    x_start$u += offset$u_$a * p.x$a;
"""
LINE_AXIS = """
    let y$a = left % p.size$a;
    left /= p.size$a;
    g_at += y$a * p.g$a;
    let q$a = y$a * p.stride$a;
    x_shift += q$a * p.x$a;
"""


def summed(rank: int, columns: int, wide: int, number: str) -> str:
    """The loop in which a lane adds up its tile, over the lines that it takes."""
    run, (count, vector) = TALL // columns, vectors(wide, number)
    inside = " & ".join(f"(q{a} + offset$u_{a} < p.in{a})" for a in range(rank))
    return f"""
    {repeated(f"var sum$u_$r_$v = {vector}();", u=columns, r=run, v=count)}

    let end = min((share + 1u) * p.span, p.lines);
    for (var line = share * p.span + lane; line < end; line += LANES) {{
        var left = line;
        var x_shift = 0u;
        var g_at = p.at_g + (part * p.outs + o0) * p.g_channel;
        {by_axis(LINE_AXIS, rank)}
        let first = left * p.stretch;
        x_shift += first * p.x_image;
        g_at += first * p.g_image;
        {repeated(f"let inside$u = {inside};", u=columns)}
        {repeated("var at$u = select(p.at_x, x_start$u + x_shift, inside$u);", u=columns)}
        let last = min(first + p.stretch, p.batch);
        for (var image = first; image < last; image++) {{
            {loaded("g", "g_at", "p.g_channel", wide, number)}
            {repeated(f"let x$u_$r = {number}(x[at$u + $ru * p.x_channel]);", u=columns, r=run)}
            {repeated(f"let z$u_$r = select({number}(), x$u_$r, inside$u);", u=columns, r=run)}
            {repeated("sum$u_$r_$v += z$u_$r * g$v;", u=columns, r=run, v=count)}
            g_at += p.g_image;
            {repeated("at$u += p.x_image;", u=columns)}
        }}
    }}
    """.strip()


def shared(columns: int, count: int) -> str:
    """A lane's sums, put where the others find them; lanes begin at different banks of memory."""
    run = TALL // columns
    share = "shares[lane * SHARE + (lane + {}u) % SHARE] = sum{}_{}_{};"
    return " ".join(
        share.format((u * run + r) * count + v, u, r, v)
        for u in range(columns)
        for r in range(run)
        for v in range(count)
    )


@functools.cache
def images_by_gradients(type: str, to: str, rank: int, columns: int, wide: int) -> Program:
    """`columns` of a tile have places of their own, with a run of channels each."""
    number = SUMMED[type]
    count, vector = vectors(wide, number)
    of_lane = "shares[k * SHARE + (k + lane / 4u) % SHARE][lane % 4u]"
    if wide == 1:
        of_lane = "shares[k * SHARE + (k + lane) % SHARE]"
    body = f"""
    var rest = group;
    let block = rest % p.blocks;
    rest /= p.blocks;
    let o0 = rest % p.rows * WIDE;
    rest /= p.rows;
    let part = rest % p.groups;
    let share = rest / p.groups;
    {repeated(COLUMNS if columns > 1 else CHANNELS, u=columns)}
    {repeated("var x_start$u = p.at_x + (part * p.channels + c$u) * p.x_channel;", u=columns)}
    {repeated(by_axis(OFFSET, rank), u=columns)}
    {summed(rank, columns, wide, number)}
    {shared(columns, count)}
    workgroupBarrier();

    {COLUMN_PLACE if columns > 1 else CHANNEL_PLACE}
    let o = o0 + lane % WIDE;
    if ((lane < TALL * WIDE) & (share < p.parts) & (o < p.outs) & fits) {{
        var sum = {number}();
        for (var k = 0u; k < LANES; k++) {{ sum += {of_lane}; }}
        let row = (share * p.groups + part) * p.outs + o;
        out[row * p.channels * p.taps + column] = {to}(sum);
    }}
    """
    name = f"images_by_gradients {type} {to} {rank} {columns}x{TALL // columns}x{wide}"
    arrays = f"x:{type} g:{type} -> out:{to}"
    words = WORDS + per_axis(rank, AXIS_WORDS)
    declarations = f"""
            const LANES = {LANES}u; const TALL = {TALL}u; const WIDE = {wide}u;
            const SHARE = {TALL * count}u;
            var<workgroup> shares: array<{vector}, {LANES * TALL * count}>;
        """
    return wgsl(name, arrays, words, declarations, LANES)(body)


def split(batch: int, positions: int, tiles: int) -> Ints:
    """Into how many parts the sums over images and positions are split, how many lines each part
    has, how many lines there are, and of how many images: a line is one position in them."""
    most = min(batch * positions // LEAST, WORKGROUPS // tiles)
    most = max(most, 2 * batch * positions // (LANES * ROUNDS))
    parts = 1 << max(most, 1).bit_length() - 1
    pieces = -(-batch // max(1, batch * positions // (LANES * parts)))
    lines = pieces * positions
    return parts, -(-lines // parts), lines, -(-batch // max(pieces, 1))


@lowering
def conv_weight(to: Programs, x: View, g: View, *, w_shape, stride, padding, dilation, groups):
    """Gradient of conv with respect to its weight, given the gradient g of its output."""
    out = to.result(w_shape, g.dtype)
    if not out.size:
        return
    batch, outs = x.shape[0], w_shape[0] // groups
    channels, taps = w_shape[1], math.prod(w_shape[2:])
    columns, wide = 1 if channels >= TALL else TALL, width(outs)
    blocks = taps * -(-channels // TALL) if columns == 1 else -(-taps * channels // TALL)
    rows = -(-outs // wide)
    tiles = blocks * rows * groups
    parts, span, lines, stretch = split(batch, math.prod(g.shape[2:]), tiles)
    words = {"blocks": blocks, "rows": rows, "groups": groups, "parts": parts, "span": span}
    words |= {"lines": lines, "stretch": stretch, "batch": batch, "channels": channels}
    words |= {"outs": outs, "taps": taps, "x_image": x.strides[0], "x_channel": x.strides[1]}
    words |= {"g_image": g.strides[0], "g_channel": g.strides[1]}
    before = [start for start, _ in padding]
    sizes = x.shape[2:], g.shape[2:], w_shape[2:], before, dilation, stride
    words |= axis_words(AXIS_WORDS, *sizes, x.strides[2:], g.strides[2:])
    type = WGSL[g.dtype]
    if parts == 1:
        program = images_by_gradients(type, type, len(stride), columns, wide)
        to.launch(program, tiles, x, g, out, **words)
        return
    sums = to.temporary((parts, *w_shape), np.dtype("f4") if type == "f16" else g.dtype)
    program = images_by_gradients(type, SUMMED[type], len(stride), columns, wide)
    to.launch(program, tiles * parts, x, g, sums, **words)
    to.launch_each(total(type), out.size, sums, out, number=parts)
