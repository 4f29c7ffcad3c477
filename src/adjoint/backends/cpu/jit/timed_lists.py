"""Lists of launches under a profile: run one by one, and timed."""

import numpy as np

from ...._foundation.spans import clock, note_span
from .lists import Frame, Listing


class TimedFrame:
    """A listing whose launches are run one by one, with a look at the clock before and after each.

    `finishing`: the same as calls of functions in C, while no other thread runs Python.
    """

    def __init__(self, listing: Listing, bases: np.ndarray) -> None:
        self.frame = Frame(listing, bases, [(k, 1) for k in range(len(listing))])
        self.meet_threads = self.frame.meet_threads
        self.times: list[int] = []
        self.look = look = map(self.times.append, iter(clock, None)).__next__
        steps = [((look,), (finish,), (look,)) for _, finish in self.frame.pieces]
        self.finishing = [(self.times.clear,), *(call for step in steps for call in step)]

    def run(self) -> int:
        """Run all; returns 0, or which launch has failed."""
        self.times.clear()
        for number, (run, _) in enumerate(self.frame.pieces, 1):
            self.look()
            failed = run()
            self.look()
            if failed:
                return number
        return 0

    def note(self, kind: str) -> None:
        """Tell profiles of the launches that were run: after an error not of all."""
        times = zip(self.times[::2], self.times[1::2], strict=False)
        for one, (start, end) in zip(self.frame.listing.listed, times, strict=False):
            note_span(one.launch.name, kind, start, end, bytes=one.bytes)
        self.times.clear()
