"""Gamma variates, from the same counters as on the CPU (see there), and by the same method.

With h = x / sqrt(9 d), x a normal number, d (1 + h) ** 3 is taken where the logarithm of a uniform
number is less than x ** 2 / 2 - d (h (3 + h (3 + h)) - 3 log(1 + h)). In float32 that is written
as 3 d (log(1 + h) - h + h ** 2 / 2 - h ** 3 / 3), whose series begins with the fourth power.
"""

import math

import numpy as np

from ..launches import View
from .logarithms import LOGARITHMS
from .lowering import Programs, lowering
from .maps import as_contiguous
from .programs import wgsl
from .threefry import GROUP, STATE, THREEFRY, after, draw_from_any_state

TRIES = 64  # each fails less often than once in twenty

DECLARATIONS = f"""
{THREEFRY}
{LOGARITHMS}

fn log_gamma_above_one(key: vec2<u32>, element: u32, alpha: f32) -> f32 {{
    let d = alpha - 1.0 / 3.0;
    for (var slot = 1u; slot < {3 * TRIES}u; slot += 3u) {{
        let radius = sqrt(-2.0 * log_fraction(key, element, slot));
        let x = radius * cosine(threefry(key, vec2<u32>(element, (slot + 1u) << 16u)).x);
        let h = x / (3.0 * sqrt(d));
        if (h > -1.0 && log_fraction(key, element, slot + 2u) < 3.0 * d * excess(h)) {{
            return log_of(d) + 3.0 * log_1_plus(h);
        }}
    }}
    return p.nan;
}}

// The logarithm of an odd multiple of 2 ** -53 between 0 and 1, from a counter.
fn log_fraction(key: vec2<u32>, element: u32, slot: u32) -> f32 {{
    let words = threefry(key, vec2<u32>(element, slot << 16u));
    if (words.x < 0x80000000u) {{ return log_of(fraction(words)); }}
    return log_1_plus(-fraction(~words));
}}

fn fraction(words: vec2<u32>) -> f32 {{
    return f32(words.x) * 0x1p-32 + f32((words.y & 0xfffff000u) | 0x800u) * 0x1p-64;
}}

// Of the angle that is a 32-bit fraction of a full one: that of an eighth, turned.
fn cosine(angle: u32) -> f32 {{
    let turned = angle + 0x20000000u;
    let t = f32(i32(turned & 0x3fffffffu) - 0x20000000) * {math.pi / 2 / 2**30:.9e};
    let z = t * t;
    let s = t * (1.0 + z * (-1.0 / 6.0 + z * (1.0 / 120.0 + z * (-1.0 / 5040.0 + z / 362880.0))));
    let c = 1.0 + z * (-0.5 + z * (1.0 / 24.0 + z * (-1.0 / 720.0 + z / 40320.0)));
    let quarter = turned >> 30u;
    let size = select(c, s, (quarter & 1u) != 0u);
    return select(size, -size, quarter == 1u || quarter == 2u);
}}

// log(1 + h) - h + h ** 2 / 2 - h ** 3 / 3.
fn excess(h: f32) -> f32 {{
    if (abs(h) > 0.125) {{ return log_1_plus(h) - h * (1.0 - h * (0.5 - h / 3.0)); }}
    let series = 1.0 / 7.0 - h * (0.125 - h / 9.0);
    return h * h * h * h * (-0.25 + h * (0.2 - h * (1.0 / 6.0 - h * series)));
}}
"""

RANDOM_LOG_GAMMA = wgsl(
    "random_log_gamma",
    "state alpha:f32 -> out:f32 after",
    "size lowest:f32 nan:f32 at_state at_alpha",
    declarations=DECLARATIONS,
    workgroup=GROUP,
)(f"""
    {STATE}
    {after("1u")}
    let i = group * {GROUP}u + lane;
    if (i >= p.size) {{ return; }}
    let own_key = threefry(key, counter);
    let given = alpha[p.at_alpha + i];
    if (bitcast<u32>(given) - 1u >= 0x7f7fffffu) {{
        out[i] = p.nan;
        return;
    }}
    let small = given < 1.0;
    var value = log_gamma_above_one(own_key, i, select(given, given + 1.0, small));
    if (small) {{ value += log_fraction(own_key, i, 0u) / given; }}
    out[i] = max(value, p.lowest);""")


@lowering
def random_log_gamma(to: Programs, state: View, alpha: View) -> None:
    """Logarithms of gamma variates, and the state after them; NaN unless 0 < alpha < infinity."""
    out, after = to.result(alpha.shape, alpha.dtype), to.result((4,), state.dtype)
    arrays = [as_contiguous(to, state), as_contiguous(to, alpha), out, after]
    lowest = float(np.finfo(alpha.dtype).min) / 4  # finite, so that differences of logarithms are
    groups = max(1, -(-alpha.size // GROUP))
    to.launch(RANDOM_LOG_GAMMA, groups, *arrays, size=alpha.size, lowest=lowest, nan=math.nan)


draw_from_any_state("random_log_gamma", lambda out: 1)
