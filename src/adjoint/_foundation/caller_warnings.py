"""Warnings that point at the line that called adjoint, however deep inside they are found."""

import sys
import warnings

OWN = __name__.partition(".")[0]


def warn(text: str, category: type[Warning]) -> None:
    """Warn of the nearest line on the call stack that isn't adjoint's."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == OWN:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)
