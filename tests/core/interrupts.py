"""Ctrl-C at every moment at which it can come, one after the other."""

import dis
import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

# CPython looks for signals when a function is entered or goes on, after calls of functions written
# in C, and when a loop goes back.
BEFORE = ("CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD")


class Interrupt:
    """A trace function (see sys.settrace) that raises KeyboardInterrupt at the n-th moment in code
    that is of interest."""

    def __init__(self, n: int, of_interest: Callable[[str], bool]) -> None:
        self.left = n
        self.of_interest = of_interest
        self.names: dict[Any, dict[int, str]] = {}
        self.handlers: dict[Any, list] = {}
        self.last: dict[int, int] = {}  # by ids of frames, which mustn't live longer for this

    def __call__(self, frame: FrameType, event: str, _: Any) -> "Interrupt | None":
        if not self.of_interest(frame.f_code.co_filename):
            return None
        frame.f_trace_opcodes = True
        if event == "call":
            self.last.pop(id(frame), None)
        if event == "call" or (event == "opcode" and self.follows_a_look(frame)):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self

    def follows_a_look(self, frame: FrameType) -> bool:
        code, last = frame.f_code, self.last.get(id(frame))
        self.last[id(frame)] = frame.f_lasti
        if code not in self.names:
            self.names[code] = {x.offset: x.opname for x in dis.get_instructions(code)}
        if last is None or self.names[code][last] not in BEFORE:
            return False
        # It is the call that is interrupted; here only what comes next can be.
        return self.handler(code, last) == self.handler(code, frame.f_lasti)

    def handler(self, code: Any, offset: int) -> int | None:
        """Where an exception goes."""
        if code not in self.handlers:
            self.handlers[code] = dis._parse_exception_table(code)  # type: ignore[attr-defined]
        entries = self.handlers[code]
        return next((x.target for x in entries if x.start <= offset < x.end), None)


def interrupted(
    run: Callable[[], Any], check: Callable[[], Any], files: tuple[str, ...], step: int = 1
) -> int:
    """Run something again and again, each time interrupted a bit later, and check what is left;
    returns how often that was."""
    former, n = sys.gettrace(), 1
    while True:
        interrupt = Interrupt(n, lambda name: name.replace(os.sep, "/").endswith(files))
        try:
            sys.settrace(interrupt)
            run()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(former)
        check()
        if interrupt.left > 0:
            return n // step
        n += step
