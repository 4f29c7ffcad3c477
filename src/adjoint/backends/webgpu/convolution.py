"""Convolution and its gradient with respect to the input: products of matrices that are never
written down.

An invocation keeps a tile of sums in registers, so that what it reads once is used for a whole row
or column of the tile. The operands don't go through workgroup memory: the invocations of a
workgroup read neighbours in an image, and all of them the same weights, which caches are made for.

`conv` and `conv_input` are one program, windows by weights. A tile is `spots` positions in `images`
images each, by `wide` channels of the output. Along an axis of stride s, the places i of
conv_input's output that have the same i mod s, a phase of it, meet the same elements of the kernel,
`step` apart: a phase is a convolution of stride 1. `conv` has one phase.

Words are u32, whose sums and products wrap around: negative strides need no care, and a place is
inside of an image if it is less than its size. What is read beyond the end of a tile isn't stored.
"""

import functools
import math
from typing import NamedTuple

from ..launches import View
from ..spaces import Ints
from .arrays import WGSL
from .elementwise import described
from .fills import axis_words, per_axis
from .lowering import Programs, lowering
from .maps import lower_map
from .programs import ROUNDS, Program, check_rounds, wgsl
from .tiles import SUMMED
from .unrolled import LANES, TALL, by_axis, loaded, repeated, vectors, width

RUN = 16  # channels that are read before the next element of the kernel


class Axis(NamedTuple):
    """An axis of windows by weights: its words."""

    phases: int
    read: int  # size of what is read
    out: int  # places of a phase in the output
    size: int  # all of the output
    kernel: int
    start: int  # place in the input, times phases, of element 0 of the first window
    dilation: int  # how far it goes back, times phases, from one element of the kernel to the next
    step: int  # from one element to the next of the same phase
    turn: int  # how far the place in the input moves with that
    move: int  # from one window to the next


WORDS = """
    blocks groups tiles count batch channels outs at_x x_image x_channel
    at_w w_group w_out w_channel biased at_bias bias_step y_image y_channel
"""
AXIS_WORDS = " ".join((*Axis._fields, "x", "w", "y"))
PHASE = """
    let phase$a = rest % p.phases$a;
    rest /= p.phases$a;
    let start$a = i32(phase$a + p.start$a);
    var first$a = 0u;
    while ((first$a < p.kernel$a)
        & ((start$a - i32(first$a * p.dilation$a)) % i32(p.phases$a) != 0)) { first$a++; }
    let base$a = u32((start$a - i32(first$a * p.dilation$a)) / i32(p.phases$a));
    let taps$a = (p.kernel$a - first$a + p.step$a - 1u) / p.step$a;
    taps *= taps$a;
"""
SPOT = """
    var left$s = spot + $su * LANES;
    var live$s = left$s < p.count;
    var x_start$s = x_base;
    var y_start$s = part * p.outs * p.y_channel;
"""
SPOT_AXIS = """
    let y$s_$a = left$s % p.out$a;
    left$s /= p.out$a;
    let q$s_$a = y$s_$a * p.move$a + base$a;
    x_start$s += q$s_$a * p.x$a;
    let place$s_$a = y$s_$a * p.phases$a + phase$a;
    live$s &= place$s_$a < p.size$a;
    y_start$s += place$s_$a * p.y$a;
"""
SPOT_IMAGE = """
    let image$s = left$s * IMAGES;
    x_start$s += image$s * p.x_image;
    y_start$s += image$s * p.y_image;
"""
TAP_AXIS = """
    let shift$a = tap$a * p.turn$a;
    x_shift += shift$a * p.x$a;
    w_at += (first$a + tap$a * p.step$a) * p.w$a;
"""
NEXT_AXIS = """
    tap$a += carry;
    carry = u32(tap$a == taps$a);
    tap$a *= 1u - carry;
"""


def put(type: str, wide: int) -> str:
    """The function that stores a vector of sums, each for a channel."""
    count, vector = vectors(wide, SUMMED[type])
    value = "value" if wide == 1 else "value[$k]"
    store = f"if (o + $ku < p.outs) {{ out[start + (o + $ku) * p.y_channel] = {type}({value}); }}"
    return f"""
fn put(live: bool, start: u32, o: u32, value: {vector}) {{
    if (live) {{ {repeated(store, k=wide // count)} }}
}}
"""


@functools.cache
def windows_by_weights(type: str, rank: int, spots: int, images: int, wide: int) -> Program:
    number = SUMMED[type]
    count, vector = vectors(wide, number)
    inside = "".join(f" & (q$s_{a} + shift{a} < p.read{a})" for a in range(rank))
    body = f"""
    var rest = group;
    let o0 = rest % p.blocks * {wide}u;
    rest /= p.blocks;
    let part = rest % p.groups;
    rest /= p.groups;
    let spot = rest % p.tiles * {LANES * spots}u + lane;
    rest /= p.tiles;
    var taps = 1u;
    {repeated(PHASE, a=rank)}
    if (rest > 0u) {{ return; }}
    let x_base = p.at_x + part * p.channels * p.x_channel;
    let w_base = p.at_w + part * p.w_group + o0 * p.w_out;
    {repeated(SPOT + by_axis(SPOT_AXIS, rank) + SPOT_IMAGE, s=spots)}
    {repeated("let image_at$i = $iu * p.x_image;", i=images)}

    let bias_at = p.at_bias + (part * p.outs + o0) * p.bias_step;
    {loaded("bias", "bias_at", "p.bias_step", wide, number)}
    {repeated(f"let first_sum$v = select({vector}(), bias$v, p.biased == 1u);", v=count)}
    {repeated("var sum$s_$i_$v = first_sum$v;", s=spots, i=images, v=count)}

    var c0 = 0u;
    {repeated("var tap$a = 0u;", a=rank)}
    while ((c0 < p.channels) & (taps > 0u)) {{
        var x_shift = 0u;
        var w_at = w_base + c0 * p.w_channel;
        {by_axis(TAP_AXIS, rank)}
        {repeated(f"let inside$s = live$s{inside};", s=spots)}
        {repeated("var at$s = select(x_base, x_start$s + x_shift, inside$s);", s=spots)}
        {repeated("at$s += c0 * p.x_channel;", s=spots)}
        let c1 = min(c0 + {RUN}u, p.channels);
        for (var c = c0; c < c1; c++) {{
            {loaded("w", "w_at", "p.w_out", wide, number)}
            {repeated(f"let x$s_$i = {number}(x[at$s + image_at$i]);", s=spots, i=images)}
            {repeated(f"let z$s_$i = select({number}(), x$s_$i, inside$s);", s=spots, i=images)}
            {repeated("sum$s_$i_$v += z$s_$i * w$v;", s=spots, i=images, v=count)}
            w_at += p.w_channel;
            {repeated("at$s += p.x_channel;", s=spots)}
        }}
        var carry = 1u;
        {by_axis(NEXT_AXIS, rank)}
        c0 += carry * {RUN}u;
    }}
    {repeated("let y_at$s_$i = y_start$s + $iu * p.y_image;", s=spots, i=images)}
    {repeated("let put$s_$i = live$s & (image$s + $iu < p.batch);", s=spots, i=images)}
    {repeated("put(put$s_$i, y_at$s_$i, o0 + $vu * 4u, sum$s_$i_$v);", s=spots, i=images, v=count)}
    """
    name = f"windows_by_weights {type} {rank} {spots}x{images}x{wide}"
    arrays = f"x:{type} w:{type} bias:{type} -> out:{type}"
    words = WORDS + per_axis(rank, AXIS_WORDS)
    declarations = f"const LANES = {LANES}u; const IMAGES = {images}u;" + put(type, wide)
    return wgsl(name, arrays, words, declarations, LANES)(body)


class Product(NamedTuple):
    """Windows by weights; `w_strides`: along the output's, and the input's channels."""

    x: View
    w: View
    bias: View | None
    out: View
    groups: int
    w_strides: Ints
    axes: list[Axis]


def multiply(to: Programs, product: Product) -> None:
    x, w, bias, out, groups, w_strides, axes = product
    batch, outs, channels = x.shape[0], out.shape[1] // groups, x.shape[1] // groups
    taps = math.prod([axis.kernel for axis in axes])
    rounds = taps * (channels + 3)  # of the loop over channels, and of those around it
    if rounds > ROUNDS and groups == 1 and channels > 1:
        multiply_in_runs(to, product, max(1, ROUNDS // taps - 3))
        return
    check_rounds("a convolution", rounds)
    images = min(TALL, 1 << (batch - 1).bit_length())
    count = -(-batch // images) * math.prod([axis.out for axis in axes])
    spots, wide = TALL // images if count > LANES else 1, width(outs)
    blocks, tiles = -(-outs // wide), -(-count // (LANES * spots))
    words = {"blocks": blocks, "groups": groups, "tiles": tiles, "count": count, "batch": batch}
    words |= {"channels": channels, "outs": outs, "w_group": w.shape[0] // groups * w.strides[0]}
    words |= {"x_image": x.strides[0], "x_channel": x.strides[1], "w_out": w_strides[0]}
    words |= {"w_channel": w_strides[1], "y_image": out.strides[0], "y_channel": out.strides[1]}
    words |= {"biased": bias is not None, "bias_step": 0 if bias is None else bias.strides[0]}
    along = (x.strides[2:], w.strides[2:], out.strides[2:])
    words |= axis_words(AXIS_WORDS, *zip(*axes, strict=True), *along)
    phases = math.prod([axis.phases for axis in axes])
    program = windows_by_weights(WGSL[x.dtype], len(axes), spots, images, wide)
    arrays = [x, w, w if bias is None else bias, out]
    to.launch(program, blocks * groups * tiles * phases, *arrays, **words)


def multiply_in_runs(to: Programs, product: Product, run: int) -> None:
    """The same for so many channels that the sums over them are made of several."""
    x, w, _, out, _, w_strides, _ = product
    channels, (rows, columns) = x.shape[1], w.shape[:2]
    along = int(w_strides[1] == w.strides[1] if rows == columns else columns == channels)
    add = described("add", (out.dtype, out.dtype), (), None)
    more = to.temporary(out.shape, out.dtype)
    for first in range(0, channels, run):
        size = min(run, channels - first)
        part = x.view((x.shape[0], size, *x.shape[2:]), x.strides, first * x.strides[1])
        shape = tuple(size if k == along else n for k, n in enumerate(w.shape))
        own = w.view(shape, w.strides, first * w.strides[along])
        if not first:
            multiply(to, product._replace(x=part, w=own))
        else:
            multiply(to, product._replace(x=part, w=own, bias=None, out=more))
            lower_map(to, add, [out, more], [out])


@lowering
def conv(to: Programs, x: View, w: View, *bias: View, stride, padding, dilation, groups):
    sizes = zip(x.shape[2:], w.shape[2:], stride, padding, dilation, strict=True)
    axes = []
    for n, k, s, (before, after), d in sizes:
        size = (n + before + after - d * (k - 1) - 1) // s + 1
        axes.append(Axis(1, n, size, size, k, -before, -d, 1, d, s))
    out = to.result((x.shape[0], w.shape[0], *[axis.size for axis in axes]), x.dtype)
    if out.size:
        given = bias[0] if bias else None
        multiply(to, Product(x, w, given, out, groups, w.strides[:2], axes))


@lowering
def conv_input(to: Programs, g: View, w: View, *, x_shape, stride, padding, dilation, groups):
    """Gradient of conv with respect to its input, given the gradient g of its output."""
    out = to.result(x_shape, g.dtype)
    sizes = zip(x_shape[2:], g.shape[2:], w.shape[2:], stride, padding, dilation, strict=True)
    axes = []
    for n, read, k, s, (before, _), d in sizes:
        common = math.gcd(s, d)
        axes.append(Axis(s, read, -(-n // s), n, k, before, d, s // common, -d // common, 1))
    if out.size:
        multiply(to, Product(g, w, None, out, groups, w.strides[1::-1], axes))
