"""Python's full garbage collections, while a profile is on."""

import gc
import threading
from typing import Any

from .._foundation.modes import mode
from .._foundation.spans import Log, Span, clock

FULL = 2  # generation


class Collections:
    """Notes full garbage collections in a log, which would count as time of the op in which they
    begin. Collections of young objects take hardly any time, and would be in every table."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.start: int | None = None
        if not mode.logs:  # else it would be in the profile around this one
            gc.collect()  # what was left before isn't this program's

    def note(self, phase: str, info: dict[str, Any]) -> None:
        """Python calls it before and after, in the thread that collects: one at a time."""
        if info["generation"] < FULL:
            return
        if phase == "start":
            self.start = clock()
        elif self.start is not None and self.log in mode.logs:
            thread = threading.get_ident()
            self.log.add(Span("garbage collection", "python", self.start, clock(), thread))
