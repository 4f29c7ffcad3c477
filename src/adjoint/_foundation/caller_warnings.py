"""Warnings that point at the line that called adjoint, however deep inside they are found."""

import sys
import warnings

from .lines import is_own


def warn(text: str, category: type[Warning]) -> None:
    """Warn of the nearest line on the call stack that isn't adjoint's."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and is_own(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)
