"""The link between ranks: one thread makes all calls of MPI, in the order in which they are asked
for, while the program goes on.

Before data is exchanged all ranks compare which call they are at, so that different calls are an
error instead of a deadlock. While it waits the thread listens to the others: a rank that fails says
why, one that ends says so, and one that is waited for too long is asked where it is.
"""

import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from .._foundation.errors import ForkError, RankError
from .._foundation.lines import shown, users
from .._foundation.silence import compute
from ..backends.cpu import empty
from ._last_words import install
from ._launch import mpi
from ._watcher import ENDED, FAILED, watch

IDLE = 0.05  # seconds between looks at what other ranks say, while there is nothing to do
SPINS = 30  # looks at a request before the thread sleeps between them
PAUSE = 0.05  # how long it sleeps, of the time that it has waited
LEAST, MOST = 2e-5, 1e-3  # seconds that it sleeps
BESIDE = 2e-5  # the least while the program computes: each look may wait for the interpreter's lock
ANSWER = 1.0  # seconds that a rank has to say where it is
SMALL = 1 << 15  # bytes of all ranks' arrays, up to which each gets all of them at once

Lines = tuple[str, ...]  # what a call is, in words: all ranks must have the same


class Call:
    """Something for the thread to do, and what came of it."""

    def __init__(self, lines: Lines, work: Callable[[], Any]) -> None:
        self.lines = lines
        self.work = work
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None

    def wait(self) -> Any:
        self.done.wait()
        if self.error is not None:
            raise self.error
        return self.result


class Link:
    """`timeout`: seconds after which a rank that doesn't come to a call is given up. `delay`: of
    each byte that is sent, in seconds, to try slow networks."""

    def __init__(self, comm: Any, timeout: float) -> None:
        self.rank, self.size = comm.rank, comm.size
        self.data, self.control = comm.Dup(), comm.Dup()
        self.timeout = timeout
        self.delay = 0.0
        self.process = os.getpid()
        self.caller = threading.get_ident()
        self.calls: SimpleQueue[Call | None] = SimpleQueue()
        self.count = 0  # of calls so far
        self.lines: Lines = ()  # of the present one, or the last
        self.is_at_call = self.is_awaited = False
        self.failure: str | None = None
        self.ended: dict[int, int] = {}  # ranks that have ended, after how many calls
        self.excused: set[int] = set()  # ranks that have shown their error
        self.places: dict[int, tuple[int, str]] = {}  # where ranks say that they are
        self.sent: list[Any] = []
        self.thread = threading.Thread(target=self.serve, name="adjoint-link", daemon=True)
        self.thread.start()
        self.watcher = watch(self)
        install(self)

    # What the program asks for.

    def start(self, lines: Lines, work: Callable[[], Any], any_thread: bool = False) -> Call:
        """Have a call made, after those that were asked for before."""
        if os.getpid() != self.process:
            raise ForkError(
                "distributed: this process was forked from a rank, and has no link to the others"
            )
        if not any_thread and threading.get_ident() != self.caller:
            raise RankError(
                f"{lines[0]}: it was called in another thread than distributed.init, where the "
                "order of calls isn't the same on all ranks; call it in that thread, and use no "
                "workers= for its gradient"
            )
        call = Call(lines, work)
        self.calls.put(call)
        return call

    def run(self, lines: Lines, work: Callable[[], Any]) -> Any:
        return self.await_all([self.start(lines, work)])[0]

    def await_all(self, calls: Sequence[Call]) -> list[Any]:
        """The results of calls, for which the program waits."""
        self.is_awaited = True
        try:
            return [call.wait() for call in calls]
        finally:
            self.is_awaited = False

    # The thread.

    def serve(self) -> None:
        while True:
            try:
                call = self.calls.get(timeout=IDLE)
            except Empty:
                self.listen()
                continue
            if call is None:
                return
            self.do(call)
            del call

    def do(self, call: Call) -> None:
        try:
            self.check()
            self.count += 1
            self.lines, self.is_at_call = call.lines, True
            self.agree(call.lines)
            call.result = compute(call.work)  # NumPy says nothing of infinities
        except BaseException as error:
            call.error = error if self.failure is None else RankError(self.failure)
            self.fail(f"rank {self.rank} got {type(error).__name__}: {error}")
        finally:
            self.is_at_call = False
            call.done.set()

    def agree(self, lines: Lines) -> None:
        """Compare with the other ranks what this call is; raise if it isn't the same."""
        own = hashlib.blake2b("\n".join(lines).encode(), digest_size=8).digest()
        found = np.empty((self.size, 8), np.uint8)
        self.wait(self.data.Iallgather(np.frombuffer(own, np.uint8), found))
        if (found == found[0]).all():
            return
        all_lines = [text.split("\n") for text in self.gather_texts("\n".join(lines))]
        self.raise_failure(difference(self.count, all_lines))

    def gather_texts(self, text: str) -> list[str]:
        """The texts of all ranks."""
        own = np.frombuffer(text.encode(), np.uint8)
        sizes = np.empty(self.size, np.int64)
        self.wait(self.data.Iallgather(np.array([own.size]), sizes))
        ends = np.cumsum(sizes)
        found = np.empty(int(ends[-1]), np.uint8)
        places = sizes.tolist(), (ends - sizes).tolist()
        self.wait(self.data.Iallgatherv(own, [found, places]))
        return [bytes(part).decode() for part in np.split(found, ends[:-1])]

    def wait(self, request: Any) -> None:
        """Wait for a request, and listen meanwhile."""
        for _ in range(SPINS if self.is_awaited else 1):
            if request.Test():
                return
        start = last = time.monotonic()
        waited, asked = 0.0, False
        while not request.Test():
            least = LEAST if self.is_awaited else BESIDE
            time.sleep(min(max(PAUSE * waited, least), MOST))
            now = time.monotonic()
            waited = now - start
            if now - last < IDLE:
                continue
            last = now
            self.listen()
            self.check()
            if not asked and waited > max(self.timeout - ANSWER, 0.5 * self.timeout):
                self.places.clear()
                self.tell("where")
                asked = True
            if waited > self.timeout:
                self.raise_failure(self.who_is_late())

    # What ranks tell each other besides data.

    def tell(self, kind: str, *words: Any, to: int | None = None) -> None:
        others = [k for k in range(self.size) if k != self.rank] if to is None else [to]
        self.sent = [request for request in self.sent if not request.Test()]
        self.sent += [self.control.isend((kind, *words), dest=k) for k in others]

    def listen(self) -> None:
        """Take note of what other ranks have said."""
        status = mpi().Status()
        while self.control.Iprobe(status=status):
            rank = status.Get_source()
            kind, *words = self.control.recv(source=rank)
            if kind == "failed":
                self.failure = self.failure or words[0]
            elif kind == "excused":
                self.excused.add(rank)
            elif kind == "ended":
                self.ended[rank] = words[0]
            elif kind == "where":
                self.tell("here", self.count, self.place(), to=rank)
            else:
                self.places[rank] = tuple(words)  # type: ignore[assignment]

    def place(self) -> str:
        """The user's line at which the program is."""
        frame = sys._current_frames().get(self.caller)
        found = []
        while frame is not None:
            found.append((frame, frame.f_lineno))
            frame = frame.f_back
        return next((shown(*line) for line in users(found)), "no line of Python")

    def check(self) -> None:
        """Raise if a rank has failed, or has ended before it came to the present call."""
        if self.failure is not None:
            raise RankError(self.failure)
        for rank, count in self.ended.items() if self.is_at_call else ():
            if count < self.count:
                self.raise_failure(
                    f"rank {rank} has ended after {count} calls, but rank {self.rank} is at call "
                    f"{self.count}, {self.lines[0]}: all ranks have to make the same calls, such "
                    "as steps with equally many batches"
                )

    def who_is_late(self) -> str:
        late = []
        for rank in range(self.size):
            count, place = self.places.get(rank, (-1, ""))
            if rank != self.rank and rank not in self.places:
                late.append(f"rank {rank} doesn't answer: it is stopped, or its machine is")
            elif 0 <= count < self.count:
                late.append(f"rank {rank} hasn't come to it: it is at {place}")
        why = "; ".join(late) or "all ranks are at it, so the network may be slow"
        return (
            f"call {self.count}, {self.lines[0]}, has waited for timeout={self.timeout:g} seconds: "
            f"{why}"
        )

    def raise_failure(self, message: str) -> None:
        self.fail(message)
        raise RankError(self.failure)

    def fail(self, message: str) -> None:
        """Let no rank wait any more."""
        if self.failure is None:
            self.failure = message
            self.tell("failed", message)

    def stop(self, message: str | None = None) -> None:
        """End the thread, whose place the caller takes; with a message, as this rank has failed."""
        is_first = message is not None and self.failure is None
        self.failure = self.failure or message  # the thread waits no longer
        self.calls.put(None)
        self.thread.join()
        if self.watcher is not None:
            with suppress(OSError):  # it may have ended, as another rank failed
                self.watcher.send(FAILED if message else ENDED)
        if is_first:
            self.tell("failed", message)

    # Exchanges of arrays, for calls.

    def pay(self, nbytes: int) -> None:
        if self.delay:
            time.sleep(self.delay * nbytes)

    def broadcast(self, array: np.ndarray, root: int) -> None:
        """Fill an array with that of a rank."""
        self.wait(self.data.Ibcast(as_bytes(array), root))

    def gathered(self, array: np.ndarray) -> np.ndarray:
        """The arrays of all ranks, along a new first axis."""
        out = empty((self.size, *array.shape), array.dtype)
        self.wait(self.data.Iallgather(as_bytes(array), as_bytes(out)))
        return out

    def reduced_part(self, array: np.ndarray, add: np.ufunc) -> np.ndarray:
        """Of the sum of all ranks' arrays, added in the order of ranks, this rank's row."""
        found = empty(array.shape, array.dtype)
        self.wait(self.data.Ialltoall(as_bytes(array), as_bytes(found)))
        return in_order(found, add)

    def reduced(self, array: np.ndarray, add: np.ufunc, factor: float | None) -> np.ndarray:
        """The sum of all ranks' flat arrays, added in the order of ranks, times a factor."""
        self.pay(array.nbytes)
        if array.nbytes * self.size <= SMALL or self.size == 2:  # for two as many bytes, but once
            return times(in_order(self.gathered(array), add), factor)
        # In equal parts: with others MPICH's exchange takes forty times as long.
        each = -(-array.size // self.size)
        if each * self.size != array.size:
            array = np.concatenate([array, np.zeros(each * self.size - array.size, array.dtype)])
        own = times(self.reduced_part(array.reshape(self.size, each), add), factor)
        return self.gathered(own).reshape(-1)


def in_order(arrays: np.ndarray, add: np.ufunc) -> np.ndarray:
    """The sum of arrays, from the first to the last, in the memory of the first."""
    out = arrays[0, ...]
    for array in arrays[1:]:
        add(out, array, out=out)
    return out


def times(array: np.ndarray, factor: float | None) -> np.ndarray:
    return array if factor is None else np.multiply(array, array.dtype.type(factor), out=array)


def as_bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)


def difference(count: int, all_lines: Sequence[Sequence[str]]) -> str:
    """The first thing in which ranks differ, in words."""
    first = all_lines[0]
    rank, other = next((k, x) for k, x in enumerate(all_lines) if list(x) != list(first))
    pairs = [(x, y) for x, y in zip(first, other, strict=False) if x != y]
    if pairs:
        mine, theirs = pairs[0]
    else:
        longer = max(first, other, key=len)
        line = longer[min(len(first), len(other))]
        mine, theirs = (line, "nothing") if longer is first else ("nothing", line)
    what = f" of {first[0]}" if first[0] == other[0] else ""
    return f"ranks differ at call {count}{what}: rank 0 has {mine}, rank {rank} has {theirs}"
