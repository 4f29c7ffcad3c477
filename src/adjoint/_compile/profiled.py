"""Programs as profiles see them: launches and host steps are timed one by one."""

from typing import Any

import numpy as np

from .._foundation.spans import clock, note
from ..backends.cpu.jit.timed_lists import TimedFrame
from .layouts import Buffer
from .lowering import HostStep
from .program import Program
from .running import Run

KIND = "compiled"


class TimedRun(Run):
    frame: Any = TimedFrame

    def do(self, item: HostStep, held: dict[Buffer, np.ndarray]) -> None:
        start = clock()
        super().do(item, held)
        made = [held[place.buffer] for place in item.outputs]
        note(item.step.op.name, KIND, start, clock(), made=made)


class TimedProgram(Program):
    """The same program, with memory of its own."""

    run_type = TimedRun

    def __init__(self, program: Program) -> None:
        vars(self).update(vars(program), runs=[])

    def compute(self, run: Run, *given: Any) -> Any:
        try:
            return super().compute(run, *given)
        finally:
            for frame in run.frames:
                frame.note(KIND)


def timed(program: Program) -> Program:
    if program.timed is None:
        program.timed = TimedProgram(program)
    return program.timed
