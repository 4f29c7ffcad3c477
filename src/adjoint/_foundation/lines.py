"""Lines of users' code: the one that runs now, and the one that an error came through."""

import linecache
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from traceback import walk_stack, walk_tb
from types import FrameType

OWN = __name__.partition(".")[0]
BETWEEN = ("contextlib.py", "functools.py", "threading.py")  # of Python, which call or wait


def is_own(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__", "").partition(".")[0] == OWN


def users(frames: Iterable[tuple[FrameType, int]]) -> Iterator[tuple[str, int]]:
    """The files and numbers of those lines that are the user's."""
    for frame, number in frames:
        name = frame.f_code.co_filename
        if not is_own(frame) and not name.endswith(BETWEEN):
            yield name, number


def users_now() -> Iterator[tuple[str, int]]:
    """The user's lines that run now, the innermost first."""
    return users(walk_stack(sys._getframe()))


def present_line() -> str:
    """The user's line that runs now, as in "train.py:12: `loss.item()`"; "" if there is none."""
    return next((shown(*line) for line in users_now()), "")


def line_of(error: BaseException) -> str:
    """The innermost of the user's lines that an error came through."""
    frames = reversed([*walk_tb(error.__traceback__)])
    return next((shown(*line) for line in users(frames)), "")


def text_of(name: str, number: int) -> str:
    return linecache.getline(name, number).strip()


def shown(name: str, number: int) -> str:
    text = text_of(name, number)
    return f"{Path(name).name}:{number}" + (f": `{text}`" if text else "")
