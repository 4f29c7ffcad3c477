"""Whether numbers are within a range, as LLVM IR: the status tells of the others."""

import struct

from .template import Template


def outside(low: float, high: float) -> Template:
    """Look for doubles that aren't between two numbers. Words: status, x, total, step."""
    t = Template("outside")
    t.status()
    (x,) = t.words("ptr", "x")
    total, step = t.words("i64", "total step")
    start, stop = t.part(step, total)
    with t.carrying(start, stop, "1", ("i1", "false")) as loop:
        value = t.load(x, "double", loop.index)
        above = t.new(f"fcmp ogt double {value}, {constant(low)}")
        below = t.new(f"fcmp olt double {value}, {constant(high)}")
        inside = t.new(f"and i1 {above}, {below}")
        outside = t.new(f"xor i1 {inside}, true")
        loop.following = [t.new(f"or i1 {loop.values[0]}, {outside}")]
    t.tell(loop.values[0])
    return t


def constant(number: float) -> str:
    """A double as LLVM reads it, exactly."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
