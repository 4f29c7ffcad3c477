"""A list of launches, and the one native call that runs it.

The tables of a list are the same for all runs. What a run has of its own are words, which kernels
write into, and the addresses of memory: words are filled in only where an address has changed.
"""

import ctypes
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..backends.cpu.jit import memory, threads
from ..backends.cpu.jit.addresses import HEADER
from ..backends.cpu.jit.compiler import compiled
from ..backends.cpu.jit.handler import NO_ARGUMENTS, builtin, supported
from ..backends.cpu.jit.runner import word_of
from .layouts import Buffer
from .lowering import Launched

# What a frame has, in order: a word each.
FRAME = "pool run launches count words bases former slots starts fixups".split()
COUNTS = ("count", "slots")
FIELDS = "\n".join(
    f"  %field.{name} = getelementptr i64, ptr %frame, i64 {place}\n"
    f"  %{name} = load {'i64' if name in COUNTS else 'ptr'}, ptr %field.{name}"
    for place, name in enumerate(FRAME)
)
RUN = """
%launch = type { ptr, i64, i64, i64 }
%fixup = type { i64, i64 }

define i64 @run_list(ptr %frame) {
entry:
<fields>
  br label %slot

slot:
  %s = phi i64 [0, %entry], [%s.next, %slot.end]
  %s.more = icmp slt i64 %s, %slots
  br i1 %s.more, label %slot.look, label %work
slot.look:
  %base.at = getelementptr i64, ptr %bases, i64 %s
  %base = load i64, ptr %base.at
  %former.at = getelementptr i64, ptr %former, i64 %s
  %known = load i64, ptr %former.at
  %s.next = add i64 %s, 1
  %unchanged = icmp eq i64 %base, %known
  br i1 %unchanged, label %slot.end, label %slot.fill
slot.fill:
  store i64 %base, ptr %former.at
  %start.at = getelementptr i64, ptr %starts, i64 %s
  %start = load i64, ptr %start.at
  %stop.at = getelementptr i64, ptr %starts, i64 %s.next
  %stop = load i64, ptr %stop.at
  br label %fill
fill:
  %k = phi i64 [%start, %slot.fill], [%k.next, %fill.one]
  %k.more = icmp slt i64 %k, %stop
  br i1 %k.more, label %fill.one, label %slot.end
fill.one:
  %place.at = getelementptr %fixup, ptr %fixups, i64 %k
  %place = load i64, ptr %place.at
  %offset.at = getelementptr %fixup, ptr %fixups, i64 %k, i32 1
  %offset = load i64, ptr %offset.at
  %address = add i64 %base, %offset
  %word = getelementptr i8, ptr %words, i64 %place
  store i64 %address, ptr %word
  %k.next = add i64 %k, 1
  br label %fill
slot.end:
  br label %slot

work:
  br label %launch
launch:
  %n = phi i64 [0, %work], [%n.next, %done.one]
  %n.more = icmp slt i64 %n, %count
  br i1 %n.more, label %look, label %good
look:
  %code.at = getelementptr %launch, ptr %launches, i64 %n
  %code = load ptr, ptr %code.at
  %own.at = getelementptr %launch, ptr %launches, i64 %n, i32 1
  %own = load i64, ptr %own.at
  %own.words = getelementptr i8, ptr %words, i64 %own
  %chunks.at = getelementptr %launch, ptr %launches, i64 %n, i32 2
  %chunks = load i64, ptr %chunks.at
  %status.at = getelementptr %launch, ptr %launches, i64 %n, i32 3
  %status.place = load i64, ptr %status.at
  %n.next = add i64 %n, 1
  %single = icmp eq i64 %chunks, 1
  br i1 %single, label %here, label %shared
here:
  call void %code(ptr %own.words, i64 0)
  br label %after
shared:
  call void %run(ptr %pool, ptr %code, ptr %own.words, i64 %chunks)
  br label %after
after:
  %fails = icmp sge i64 %status.place, 0
  br i1 %fails, label %check, label %done.one
check:
  %status.word = getelementptr i8, ptr %words, i64 %status.place
  %status = load i64, ptr %status.word
  %bad = icmp ne i64 %status, 0
  br i1 %bad, label %failed, label %done.one
done.one:
  br label %launch
failed:
  store i64 0, ptr %status.word
  ret i64 %n.next
good:
  ret i64 0
}
""".replace("<fields>", FIELDS)

# The same as methods of an array that is a frame: without the interpreter's lock, and with it.
METHODS = f"""
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyLong_FromLongLong(i64)

define ptr @finish(ptr %self, ptr %nothing) {{
  %frame.at = getelementptr i8, ptr %self, i64 {HEADER}
  %frame = load ptr, ptr %frame.at
  %failed = call i64 @run_list(ptr %frame)
  %out = call ptr @PyLong_FromLongLong(i64 %failed)
  ret ptr %out
}}

define ptr @run(ptr %self, ptr %nothing) {{
  %frame.at = getelementptr i8, ptr %self, i64 {HEADER}
  %frame = load ptr, ptr %frame.at
  %thread = call ptr @PyEval_SaveThread()
  %failed = call i64 @run_list(ptr %frame)
  call void @PyEval_RestoreThread(ptr %thread)
  %out = call ptr @PyLong_FromLongLong(i64 %failed)
  ret ptr %out
}}
"""
LINE = 8  # words


def functions_of(frame: np.ndarray) -> list[Callable[[], int]]:
    """Two functions that run a frame's list and return 0, or which launch has failed. While the
    second one does, no other thread runs Python."""
    if supported():
        return [
            builtin(compiled(RUN + METHODS, name), NO_ARGUMENTS, frame)
            for name in ("run", "finish")
        ]
    address = compiled(RUN, "run_list")
    kinds = ctypes.CFUNCTYPE, ctypes.PYFUNCTYPE
    return [partial(k(ctypes.c_int64, ctypes.c_void_p)(address), frame.ctypes.data) for k in kinds]


class Listing:
    """Launches one after the other, as tables."""

    def __init__(self, items: Sequence[Any], slots: dict[Buffer, int], count: int) -> None:
        """`slots`: the place of the address of each buffer among `count` addresses; scratch memory
        lies at offsets from one of them."""
        self.launches = array("q")
        self.words = array("q")
        self.can_fail = False
        self.kernels: list[Any] = []  # with the launches, whose tables must stay
        fixups: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        for item in items:
            for launch in item.launches:
                self.add(launch, item, slots, fixups)
        self.starts = array("q", np.cumsum([0, *map(len, fixups)]).tolist())
        self.fixups = array("q", [x for own in fixups for pair in own for x in pair])
        self.slots = count

    def add(self, launch: Any, item: Launched, slots: dict, fixups: list) -> None:
        start = len(self.words)
        self.words.frombytes(launch.words)
        for position, slot, offset in launch.addresses:
            buffer, before = item.places[slot]
            own = buffer.offset if buffer.kind == "scratch" else 0
            fixups[slots[buffer]].append((8 * (start + position), own + before + offset))
        for position, number in launch.numbers:
            self.words[start + position] = word_of(item.numbers[number.key], number.dtype)
        self.words.extend([0] * (-len(self.words) % LINE))
        status = -1
        if launch.status is not None:
            status, self.can_fail = 8 * (start + launch.status.position), True
        self.launches.extend((code_of(launch, item), 8 * start, launch.chunks, status))
        self.kernels.append(launch)

    def __len__(self) -> int:
        return len(self.launches) // 4


def code_of(launch: Any, item: Launched) -> int:
    """Machine code: what writes past the caches, where all results lie in memory that is ours."""
    kernel, own = launch.kernel, [buffer.kind for buffer in item.own]
    ours = all(k == "scratch" or (k == "result" and memory.pool() is not None) for k in own)
    return kernel.past if kernel.past and own and ours else kernel.address


class Frame:
    """A listing with words of its own."""

    def __init__(self, listing: Listing, bases: np.ndarray) -> None:
        self.listing = listing
        self.words = array("q", listing.words)
        self.former = array("q", [-1] * max(1, listing.slots))
        tables = (listing.launches, len(listing), self.words, bases, self.former)
        tables = (*tables, listing.slots, listing.starts, listing.fixups)
        values = [x if isinstance(x, int) else address(x) for x in tables]
        self.frame = np.array([0, 0, *values])
        self.run, self.finish = functions_of(self.frame)
        self.pool: Any = self  # of none yet

    def meet_threads(self) -> None:
        """Know the threads of this process, which a fork leaves behind."""
        threads.run(*NOTHING)
        self.pool = threads.pool
        self.frame[:2] = threads.pool or 0, compiled_run()


def address(x: Any) -> int:
    return x.ctypes.data if isinstance(x, np.ndarray) else x.buffer_info()[0]


def compiled_run() -> int:
    """What shares the chunks of a launch between threads."""
    if threads.POSIX:
        return threads.native("run")
    from ..backends.cpu.jit import fork_join

    return compiled(fork_join.ALONE, "alone")


NOTHING = (0, 0, 0)  # no chunks: only starts the threads
