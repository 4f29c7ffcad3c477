"""Who works on a matrix: the invocations of a workgroup together, or, if it is tiny, one alone.

The text of a program is the same for both. In it, `matrix` is which one it is, `worker` the number
of the invocation among the WORKERS that have it. `agreed(worker, most, here)` is the `here` of who
has the `most`, the smallest if several have. `sync()` lets all see what all have written.
"""

from collections.abc import Callable
from typing import NamedTuple

from .programs import Program, wgsl

TINY = 8  # rows and columns of a matrix that is one invocation's


class Team(NamedTuple):
    """`workgroup`: invocations of one; `matrices` that it has; the `head` of a body, up to where it
    is certain that there is a matrix; `declarations`."""

    workgroup: int
    matrices: int
    head: str
    declarations: str

    @property
    def workers(self) -> int:
        """Invocations that one matrix has."""
        return self.workgroup // self.matrices

    def groups(self, count: int) -> int:
        return -(-count // self.matrices)

    def program(
        self, name: str, arrays: str, words: str, more: str = ""
    ) -> Callable[[str], Program]:
        """Declare a program that is given the `count` of matrices; `more`: declarations."""
        declarations, words = self.declarations + more, f"count {words}"
        declared = wgsl(name, arrays, words, declarations, self.workgroup)
        return lambda body: declared(self.head + body)


ALONE = Team(
    64,
    64,
    """
    let matrix = group * 64u + lane;
    let worker = 0u;
    if (matrix >= p.count) { return; }
    """,
    """
const WORKERS = 1u;
fn sync() {}
fn agreed(worker: u32, most: u32, here: u32) -> u32 { return here; }
""",
)


def together(workgroup: int) -> Team:
    head = """
    let matrix = group;
    let worker = lane;
    if (matrix >= p.count) { return; }
    """
    declarations = f"""
const WORKERS = {workgroup}u;
var<workgroup> largest: atomic<u32>;
var<workgroup> nearest: atomic<u32>;
fn sync() {{
    workgroupBarrier();
    storageBarrier();
}}
fn agreed(worker: u32, most: u32, here: u32) -> u32 {{
    if (worker == 0u) {{
        atomicStore(&largest, 0u);
        atomicStore(&nearest, 0xffffffffu);
    }}
    workgroupBarrier();
    atomicMax(&largest, most);
    workgroupBarrier();
    if (most == atomicLoad(&largest)) {{ atomicMin(&nearest, here); }}
    workgroupBarrier();
    return atomicLoad(&nearest);
}}
"""
    return Team(workgroup, 1, head, declarations)


SMALL, LARGE = together(64), together(256)
