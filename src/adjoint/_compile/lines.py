"""Where in the user's code something happens."""

import linecache
import sys
from pathlib import Path
from types import FrameType, TracebackType

OURS = str(Path(__file__).parents[1])
BETWEEN = ("contextlib.py", "functools.py")  # of Python, which call what they were given


def is_users(filename: str) -> bool:
    return not filename.startswith(OURS) and not filename.endswith(BETWEEN)


def shown(filename: str, number: int) -> str:
    """A line as in "train.py:12: `loss.item()`"."""
    text = linecache.getline(filename, number).strip()
    return f"{Path(filename).name}:{number}" + (f": `{text}`" if text else "")


def present_line() -> str:
    """The user's line that runs now."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return "" if frame is None else shown(frame.f_code.co_filename, frame.f_lineno)


def line_of(error: BaseException) -> str:
    """The innermost of the user's lines that an error came through."""
    found, traceback = "", error.__traceback__
    while isinstance(traceback, TracebackType):
        filename = traceback.tb_frame.f_code.co_filename
        if is_users(filename):
            found = shown(filename, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found
