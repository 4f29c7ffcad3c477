"""Counter-based random bits: Threefry 2x32 with 20 rounds, the same numbers as on the CPU.

A state is four words: two of the key, then the counter, low word first. It stays on the device.
"""

import math
from typing import Any

import numpy as np

from ..cpu.threefry import PARITY, ROTATIONS, advanced
from .arrays import Array, Ints
from .device import Device
from .maps import contiguous_copy
from .programs import Program
from .table import kernel

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


FUNCTIONS = f"""
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
    let key = vec2<u32>(state[0], state[1]);
    let counter = vec2<u32>(state[2], state[3]);
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


RANDOM_BITS = Program(
    "random_bits",
    {"state": "u32"},
    {"bits": "u32", "after": "u32"},
    "size",
    f"""
    {STATE}
    {after("p.size / 2u + (p.size & 1u)")}
    let block = group * {GROUP}u + lane;
    let i = 2u * block;
    if (i >= p.size) {{ return; }}
    let both = threefry(key, advanced(counter, block));
    bits[i] = both.x;
    if (i + 1u < p.size) {{ bits[i + 1u] = both.y; }}
    """,
    declarations=FUNCTIONS,
    workgroup=GROUP,
)


@kernel
def random_bits(gpu: Device, state: Array, *, shape: Ints) -> tuple[Array, Array]:
    """Bits for `shape`, and the state after them."""
    size = math.prod(shape)
    bits, after = gpu.empty(shape, state.dtype), gpu.empty((4,), state.dtype)
    groups = max(1, -(-size // (2 * GROUP)))
    gpu.run(RANDOM_BITS, [on_device(gpu, state), bits, after], [size], groups)
    return bits, state_after(state, after, (size + 1) // 2)


def on_device(gpu: Device, state: Any) -> Array:
    """A state, which generators have on the CPU, where a program can read it."""
    if isinstance(state, np.ndarray):
        return gpu.send(state)
    return contiguous_copy(state)


def state_after(state: Any, after: Array, counters: int) -> Any:
    """The state after some counters, where the state was."""
    return advanced(state, counters) if isinstance(state, np.ndarray) else after
