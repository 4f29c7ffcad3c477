"""Lists of launches, each run by one native call.

The tables of a list are the same for all runs. What a run has of its own are words, which kernels
write into, and the addresses of memory: words are filled in only where an address has changed.
"""

import ctypes
import functools
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ....kernels.text import Function
from ...launches import Launch
from . import threads
from .addresses import HEADER
from .compiler import compiled
from .handler import NO_ARGUMENTS, builtin, supported
from .runner import word_of

FUNCTIONS = ("run", "finish")
LINE = 8  # words
LAUNCH = ("code", "words", "chunks", "status")  # of a launch; offsets, the last one may be -1
LAUNCH_BYTES = 8 * len(LAUNCH)
NOTHING = (0, 0, 0)  # no chunks: only starts the threads
FRAME = {"pool": "ptr", "run": "ptr", "launches": "ptr", "count": "i64", "words": "ptr"}
FRAME |= {"bases": "ptr", "former": "ptr", "slots": "i64", "starts": "ptr", "fixups": "ptr"}


class Listed(NamedTuple):
    """A launch in a list. `places`: for each of its slots, which of a run's addresses it is at, and
    how far behind. `past`: whether its results may be written past the caches. `bytes`: written."""

    launch: Launch
    places: Sequence[tuple[int, int]]
    numbers: Any
    past: bool = False
    bytes: int = 0


class Listing:
    """Launches one after the other, as tables; `count` addresses are those of a run."""

    def __init__(self, listed: Sequence[Listed], count: int) -> None:
        self.listed = listed  # with the launches, whose own tables must stay
        self.launches = array("q")
        self.words = array("q")
        fixups: list[list[int]] = [[] for _ in range(count)]
        for one in listed:
            self.add(one, fixups)
        self.starts = array("q", np.cumsum([0, *(len(own) // 2 for own in fixups)]).tolist())
        self.fixups = array("q", [x for own in fixups for x in own])
        self.count = count

    def add(self, one: Listed, fixups: list[list[int]]) -> None:
        launch, kernel, start = one.launch, one.launch.kernel, len(self.words)
        self.words.frombytes(launch.words)
        for position, slot, offset in launch.addresses:
            base, behind = one.places[slot]
            fixups[base] += 8 * (start + position), behind + offset
        for position, number in launch.numbers:
            self.words[start + position] = word_of(one.numbers[number.key], number.dtype)
        self.words.extend([0] * (-len(self.words) % LINE))
        status = -1 if launch.status is None else 8 * (start + launch.status.position)
        code = kernel.past if kernel.past and one.past else kernel.address
        self.launches.extend((code, 8 * start, launch.chunks, status))

    def __len__(self) -> int:
        return len(self.listed)


class Frame:
    """A listing with words of its own, in pieces: the first launch and the count of each.

    `run` gives 0, or which launch has failed; so does `finish`, and no other thread runs Python
    meanwhile. They are those of the first piece, mostly the only one.
    """

    def __init__(
        self, listing: Listing, bases: np.ndarray, pieces: Sequence[tuple[int, int]] = ()
    ) -> None:
        self.listing, self.bases = listing, bases
        self.words = array("q", listing.words)
        self.former = array("q", [-1] * max(1, listing.count))
        self.rows = np.array([self.row(*piece) for piece in pieces or [(0, len(listing))]])
        self.pieces = [functions_of(row) for row in self.rows]
        self.run, finish = self.pieces[0]
        self.finishing = [(finish,)]

    def row(self, first: int, count: int) -> list[int]:
        """The words of FRAME. The first piece fills in addresses for all."""
        tables = self.words, self.former, self.listing.starts, self.listing.fixups
        words, former, starts, fixups = (x.buffer_info()[0] for x in tables)
        launches = self.listing.launches.buffer_info()[0] + LAUNCH_BYTES * first
        slots = 0 if first else self.listing.count
        bases = self.bases.ctypes.data
        return [0, 0, launches, count, words, bases, former, slots, starts, fixups]

    def meet_threads(self) -> None:
        """Know the threads of this process, which a fork leaves behind."""
        threads.run(*NOTHING)
        self.rows[:, :2] = threads.pool or 0, threads.entry_address()


def functions_of(frame: np.ndarray) -> list[Callable[[], int]]:
    """`run` and `finish` of a row of words."""
    if supported():
        return [builtin(compiled(methods(), x), NO_ARGUMENTS, frame) for x in FUNCTIONS]
    address = compiled(str(run_list()), "run_list")
    kinds = ctypes.CFUNCTYPE, ctypes.PYFUNCTYPE
    return [partial(k(ctypes.c_int64, ctypes.c_void_p)(address), frame.ctypes.data) for k in kinds]


def run_list() -> Function:
    """Fill in the addresses that have changed, and run all launches up to one that fails."""
    t = Function("run_list(ptr %frame)", result="i64")
    frame = {name: t.load("%frame", kind, k) for k, (name, kind) in enumerate(FRAME.items())}
    words = frame["words"]
    with t.loop("0", frame["slots"]) as slot:
        base = t.load(frame["bases"], "i64", slot)
        with t.when(t.compare("ne", base, t.load(frame["former"], "i64", slot))):
            t.store(base, frame["former"], "i64", slot)
            start, stop = (t.load(t.at(frame["starts"], "i64", k), "i64", slot) for k in (0, 1))
            with t.loop(start, stop) as k:
                fixup = t.at(frame["fixups"], "[2 x i64]", k)
                place, offset = t.load(fixup, "i64"), t.load(fixup, "i64", 1)
                t.store(t.add(base, offset), t.offset(words, place), "i64")
    with t.loop("0", frame["count"]) as number:
        launch = t.offset(frame["launches"], t.product(number, LAUNCH_BYTES))
        code = t.load(launch, "ptr")
        own, chunks, status = (t.load(launch, "i64", k) for k in (1, 2, 3))
        own = t.offset(words, own)
        with t.when(t.compare("eq", chunks, 1)):
            t.line(f"call void {code}(ptr {own}, i64 0)")
        with t.when(t.compare("ne", chunks, 1)):
            given = f"ptr {frame['pool']}, ptr {code}, ptr {own}, i64 {chunks}"
            t.line(f"call void {frame['run']}({given})")
        with t.when(t.compare("sge", status, 0)):
            status = t.offset(words, status)
            has_failed = t.compare("ne", t.load(status, "i64"), 0)
            t.store("0", status, "i64")
            t.give_if(has_failed, t.add(number, 1))
    t.give("0")
    return t


@functools.cache
def methods() -> str:
    """The module of two methods of an array that is a frame: `run`, which lets other threads run
    Python, and `finish`."""
    run, finish = (Function(f"{x}(ptr %self, ptr %nothing)", result="ptr") for x in FUNCTIONS)
    thread = run.call("ptr", "PyEval_SaveThread")
    for t in (run, finish):
        failed = t.new(f"call i64 @run_list(ptr {t.load('%self', 'ptr', HEADER // 8)})")
        if t is run:
            t.call("void", "PyEval_RestoreThread", f"ptr {thread}")
        t.give(t.call("ptr", "PyLong_FromLongLong", f"i64 {failed}"))
    finish.others += run_list(), run
    return str(finish)
