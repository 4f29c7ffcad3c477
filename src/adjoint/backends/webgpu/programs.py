"""Programs: WGSL text with named arrays and named words.

A program says what it reads, what it writes, which words it is given with each launch, and what one
invocation does. All the rest of the text is written here.

    DOUBLE = wgsl("double", "x:f32 -> out:f32", "count")('''
        let i = group * 64u + lane;
        if (i < p.count) { out[i] = 2.0 * x[i]; }''')

In the body `lane` is the number of the invocation in its workgroup, `group` that of the workgroup
(groups beyond the limit of one dimension go on in the second, so there may be more than were asked
for), and `p` has the words. They, and the elements of arrays, are u32, unless it says otherwise as
`name:i32` or `name:f32`. A word `at_x` is where the array `x` begins in its buffer, and is filled
in at each launch. An array without such a word has to begin at the start.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any

from ..._foundation.errors import DeviceError

# Rounds of all loops of an invocation together: some software drivers end them after 65535, without
# a word. What may take more is done by several launches.
ROUNDS = 1 << 15
WORKGROUP = 256  # invocations, where each has one element
FORMATS = {"u32": "i", "i32": "i", "f32": "f"}  # the bits of u32 are those of i32


def check_rounds(what: str, count: int) -> None:
    """Refuse a sum, or the like, that would take more, and isn't parted into several launches."""
    if count > 3 * ROUNDS // 2:
        raise DeviceError(
            f"{what} takes {count} steps for each element, more than a GPU is asked to do at once "
            f"({3 * ROUNDS // 2}); part its window, or use the CPU"
        )


class Program:
    """What is compiled to a pipeline. It is told from others by identity: make each one once.

    `words`: their names. `starts`: for each array the name of its `at_` word, or None. `pack` makes
    bytes of words, `unpack` words of bytes, `put(buffer, place, bytes)` puts them into a buffer.
    """

    def __init__(
        self, name: str, arrays: str, words: str, body: str, declarations: str, workgroup: int
    ) -> None:
        self.name, self.workgroup = name, workgroup
        inputs, outputs = map(typed, arrays.split("->"))
        self.access = "r" * len(inputs) + "w" * len(outputs)
        self.arrays = tuple([array for array, _ in (*inputs, *outputs)])
        members = typed(words)
        self.words = tuple([word for word, _ in members])
        starts = [f"at_{array}" for array in self.arrays]
        self.starts = tuple([start if start in self.words else None for start in starts])
        packing = struct.Struct("<" + "".join(FORMATS[type] for _, type in members))
        self.pack, self.unpack, self.size = packing.pack, packing.unpack, packing.size
        self.put = struct.Struct(f"{self.size}s").pack_into
        lines = ["enable f16;"] if "f16" in arrays else []
        for k, (array, type) in enumerate((*inputs, *outputs)):
            how = "read" if k < len(inputs) else "read_write"
            lines.append(f"@group(0) @binding({k}) var<storage, {how}> {array}: array<{type}>;")
        fields = ", ".join(f"{word}: {type}" for word, type in members)
        lines += [
            f"struct Words {{ {fields or 'unused: u32'} }}",
            "@group(1) @binding(0) var<uniform> p: Words;",
            declarations,
            f"@compute @workgroup_size({workgroup})",
            "fn main(",
            "    @builtin(local_invocation_index) lane: u32,",
            "    @builtin(workgroup_id) place: vec3<u32>,",
            "    @builtin(num_workgroups) places: vec3<u32>,",
            ") {",
            "    let group = place.x + place.y * places.x;",
            body,
            "}",
        ]
        self.text = "\n".join(lines)

    def in_order(self, words: Mapping[str, Any]) -> list[Any]:
        """Words by name, in the order in which the program has them."""
        try:
            values = list(map(words.__getitem__, self.words))
        except KeyError:
            values = []
        if len(words) != len(values):
            wrong = ", ".join(sorted(words.keys() ^ set(self.words)))
            raise TypeError(f"{self.name}: {wrong}: words that are missing, or unknown")
        return values

    def __repr__(self) -> str:
        return f"<program {self.name}>"


def wgsl(
    name: str, arrays: str, words: str, declarations: str = "", workgroup: int = 64
) -> Callable[[str], Program]:
    """Declare a program: what this returns is given the body. `arrays`: "inputs -> outputs"."""
    return lambda body: Program(name, arrays, words, body, declarations, workgroup)


def per_element(
    name: str, arrays: str, words: str, declarations: str = "", workgroup: int = WORKGROUP
) -> Callable[[str], Program]:
    """Declare a program whose body is run for each number `at` below the word `size`."""
    head = f"""
    let at = group * {workgroup}u + lane;
    if (at >= p.size) {{ return; }}
    """
    words = f"size {words}"
    return lambda body: Program(name, arrays, words, head + body, declarations, workgroup)


def power_of_two(n: int) -> int:
    """The least one that isn't below n."""
    return 1 << max(n - 1, 0).bit_length()


def typed(names: str) -> list[tuple[str, str]]:
    """Names and their types."""
    parted = [one.partition(":") for one in names.split()]
    return [(name, type or "u32") for name, _, type in parted]
