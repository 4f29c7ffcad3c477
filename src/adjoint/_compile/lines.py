"""Where in the user's code something happens."""

import linecache
import sys
from collections.abc import Iterable
from pathlib import Path
from traceback import walk_stack, walk_tb
from types import FrameType

OURS = str(Path(__file__).parents[1])
BETWEEN = ("contextlib.py", "functools.py")  # of Python, which call what they were given


def present_line() -> str:
    """The user's line that runs now."""
    return first_of_users(walk_stack(sys._getframe(1)))


def line_of(error: BaseException) -> str:
    """The innermost of the user's lines that an error came through."""
    return first_of_users(reversed([*walk_tb(error.__traceback__)]))


def first_of_users(frames: Iterable[tuple[FrameType, int]]) -> str:
    """A line as in "train.py:12: `loss.item()`"; "" if none is the user's."""
    for frame, number in frames:
        name = frame.f_code.co_filename
        if not name.startswith(OURS) and not name.endswith(BETWEEN):
            text = linecache.getline(name, number).strip()
            return f"{Path(name).name}:{number}" + (f": `{text}`" if text else "")
    return ""
