"""Ctrl-C as a wish, which is met when it fits."""

import signal
from types import FrameType
from typing import Any


class Interruption:
    """Within it the first Ctrl-C sets `asked`, which is to be looked at between steps, and the
    second raises KeyboardInterrupt as ever. Afterwards all is as before.

    Where it is ignored it stays so: shells start what scripts run in the background that way, for
    Ctrl-C to stop the script alone."""

    def __init__(self) -> None:
        self.asked = False
        self.former: Any = None

    def __enter__(self) -> "Interruption":
        self.former = signal.getsignal(signal.SIGINT)
        if self.former is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self.note)
        return self

    def __exit__(self, *exception: object) -> None:
        signal.signal(signal.SIGINT, self.former)

    def note(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
