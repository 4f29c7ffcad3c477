"""Whether numbers are within a range, as LLVM IR: the status tells of the others."""

from .language import F64
from .template import Template
from .vectors import number_text


def outside(low: float, high: float) -> Template:
    """Look for doubles that aren't between two numbers. Words: status, x, total, step."""
    t = Template("outside")
    t.status()
    (x,) = t.words("ptr", "x")
    total, step = t.words("i64", "total step")
    start, stop = t.part(step, total)
    with t.carrying(start, stop, "1", ("i1", "false")) as loop:
        value = t.load(x, "double", loop.index)
        above = t.new(f"fcmp ogt double {value}, {number_text(low, F64)}")
        below = t.new(f"fcmp olt double {value}, {number_text(high, F64)}")
        inside = t.new(f"and i1 {above}, {below}")
        outside = t.new(f"xor i1 {inside}, true")
        loop.following = [t.new(f"or i1 {loop.values[0]}, {outside}")]
    t.tell(loop.values[0])
    return t
