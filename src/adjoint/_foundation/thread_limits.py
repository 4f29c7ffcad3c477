"""How many threads may be asked for: by kernels, by backward passes, by loaders of data."""

import os
from typing import Any

from .errors import ArgumentError

CORES = os.cpu_count() or 1
# Threads beyond the number of cores mostly wait for each other. What was set for a larger machine
# still works; but a million would take all threads that the system has, from other programs too.
MOST = max(256, 4 * CORES)


def checked_threads(n: Any, what: str) -> int:
    if type(n) is not int or n < 1 or n > MOST:
        # Python refuses to write out the longest integers.
        shown = f"one of {n.bit_length()} bits" if type(n) is int and n >> 64 > 0 else repr(n)
        raise ArgumentError(
            f"{what} is a positive integer of at most {MOST} (this machine has {CORES} "
            f"core{'s' * (CORES > 1)}), got {shown}"
        )
    return n


class DefaultWorkers:
    """How many threads a backward pass may use that isn't told, for the whole process."""

    count = 1
