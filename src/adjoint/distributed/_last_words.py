"""The end of a rank: those that fail tell the others why, and take them along; those that end as
they should wait for the others."""

import atexit
import os
import sys
import time
from types import TracebackType
from typing import Any

from .._foundation.lines import line_of

GRACE = 2.0  # seconds that other ranks have to show their error


def install(link: Any) -> None:
    """Have a rank's end seen by the others."""
    usual = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, lines: TracebackType | None) -> None:
        usual(kind, error, lines)
        if os.getpid() == link.process:
            end_all(link, error)

    sys.excepthook = show
    atexit.register(leave, link)


def end_all(link: Any, error: BaseException) -> None:
    """Tell the others of an error that nobody caught, let them show it, and end the program."""
    where = line_of(error)
    words = f": {error}" if str(error) else ""
    message = f"rank {link.rank} raised {type(error).__name__}{words}"
    link.stop(f"{message} (at {where})" if where else message)
    link.tell("excused")
    until = time.monotonic() + GRACE
    while len(link.excused | link.ended.keys()) < link.size - 1 and time.monotonic() < until:
        link.listen()
        time.sleep(0.01)
    sys.stdout.flush()
    sys.stderr.flush()
    link.control.Abort(1)


def leave(link: Any) -> None:
    """Wait for the others to end, too: MPI ends together."""
    if os.getpid() != link.process:
        return
    link.stop()
    link.tell("ended", link.count)
    while len(link.ended) < link.size - 1:
        link.listen()
        if link.failure is not None:
            print(f"adjoint.distributed: {link.failure}", file=sys.stderr, flush=True)
            link.tell("excused")
            time.sleep(GRACE)  # who has failed ends the program
            link.control.Abort(1)
        time.sleep(0.005)
