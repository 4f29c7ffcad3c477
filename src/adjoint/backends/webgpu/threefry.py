"""Counter-based random bits: Threefry 2x32 with 20 rounds, the same numbers as on the CPU.

A state is four words: two of the key, then the counter, low word first. It stays on the device.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..cpu.threefry import PARITY, ROTATIONS, advanced
from ..launches import View
from .arrays import Array, Ints
from .device import Device
from .lowering import Programs, lowering
from .maps import as_contiguous
from .programs import wgsl
from .table import FUNCTIONS

GROUP = 256


def rounds() -> str:
    """All rounds, written out."""
    lines = []
    for block in range(5):
        lines += [
            f"x.x += x.y; x.y = (x.y << {r}u) | (x.y >> {32 - r}u); x.y ^= x.x;"
            for r in ROTATIONS[block % 2]
        ]
        one, other = (block + 1) % 3, (block + 2) % 3
        lines.append(f"x.x += keys[{one}]; x.y += keys[{other}] + {block + 1}u;")
    return "\n    ".join(lines)


THREEFRY = f"""
fn threefry(key: vec2<u32>, counter: vec2<u32>) -> vec2<u32> {{
    let keys = vec3<u32>(key, key.x ^ key.y ^ {PARITY:#x}u);
    var x = counter + key;
    {rounds()}
    return x;
}}

// A counter, low word first, moved on.
fn advanced(counter: vec2<u32>, by: u32) -> vec2<u32> {{
    let low = counter.x + by;
    return vec2<u32>(low, counter.y + select(0u, 1u, low < by));
}}
"""

STATE = """
    let key = vec2<u32>(state[p.at_state], state[p.at_state + 1u]);
    let counter = vec2<u32>(state[p.at_state + 2u], state[p.at_state + 3u]);
"""


def after(by: str) -> str:
    """The state after some counters, written by one invocation."""
    return f"""
    if (group == 0u && lane == 0u) {{
        let end = advanced(counter, {by});
        after[0] = key.x;
        after[1] = key.y;
        after[2] = end.x;
        after[3] = end.y;
    }}
    """


RANDOM_BITS = wgsl(
    "random_bits", "state -> bits after", "size at_state", declarations=THREEFRY, workgroup=GROUP
)(f"""
    {STATE}
    {after("p.size / 2u + (p.size & 1u)")}
    let block = group * {GROUP}u + lane;
    let i = 2u * block;
    if (i >= p.size) {{ return; }}
    let both = threefry(key, advanced(counter, block));
    bits[i] = both.x;
    if (i + 1u < p.size) {{ bits[i + 1u] = both.y; }}""")


@lowering
def random_bits(to: Programs, state: View, *, shape: Ints) -> None:
    """Bits for `shape`, and the state after them."""
    bits, after = to.result(shape, state.dtype), to.result((4,), state.dtype)
    groups = max(1, -(-bits.size // (2 * GROUP)))
    to.launch(RANDOM_BITS, groups, as_contiguous(to, state), bits, after, size=bits.size)


def draw_from_any_state(name: str, counters: Callable[[Array], int]) -> None:
    """Let an op draw from a state on the CPU too, where generators have it. `counters`: how many a
    result takes."""
    draw = FUNCTIONS[name]

    def call(gpu: Device, state: Any, *inputs: Array, **attrs: Any) -> tuple[Array, Any]:
        if not isinstance(state, np.ndarray):
            return draw(state, *inputs, **attrs)
        out, _ = draw(gpu.send(state), *inputs, **attrs)
        return out, advanced(state, counters(out))

    FUNCTIONS[name] = call


draw_from_any_state("random_bits", lambda bits: (bits.size + 1) // 2)
