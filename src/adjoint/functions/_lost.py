"""Assignments to tensors that nobody holds, such as x[0][1] = 5: what they write is lost."""

import sys
from opcode import opmap
from sys import getrefcount
from typing import Any

from .._foundation.caller_warnings import warn
from .._foundation.errors import LostAssignmentWarning

# What x[index] = value is compiled to; Python before 3.12 has the first only.
STORES = {opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in opmap}


class Probe:
    """Counts the references to itself where a tensor does: when something is assigned to it."""

    def __setitem__(self, counts: list[int], value: Any) -> None:
        counts.append(getrefcount(self))


def measure_unheld() -> int:
    """Count references to an object that nobody holds, in its own `__setitem__`. 0, which none has,
    where a variable adds nothing to it: from Python 3.14 on the stack borrows from variables."""
    counts: list[int] = []
    Probe()[counts] = None
    held = Probe()
    held[counts] = None
    unheld, of_variable = counts
    return unheld if of_variable == unheld + 1 else 0


UNHELD = measure_unheld()


def check_caller() -> None:
    """Warn that an assignment is lost, if it is one: a call of `x.__setitem__` hands its reference
    on to us, so that the count of a variable's tensor is as low."""
    caller = sys._getframe(2)
    if caller.f_code.co_code[caller.f_lasti] in STORES:
        warn(
            "this assignment is lost: it changes a tensor that nobody holds, as x[0], x.T and "
            "x.detach() are values of their own; write x[0, 1] = 5 instead of x[0][1] = 5, or hold "
            "the tensor in a name first",
            LostAssignmentWarning,
        )
