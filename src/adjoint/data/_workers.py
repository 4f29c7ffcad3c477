"""Threads that make batches ahead of who asks for them, who gets them in their order."""

import atexit
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple

from .._foundation.errors import ForkError
from .._foundation.modes import ANOMALY, GRAD, mode
from .._foundation.spans import Shared

lines: "weakref.WeakSet[Line]" = weakref.WeakSet()


class Outcome(NamedTuple):
    """What became of a task: a batch, or an error."""

    batch: Any
    error: BaseException | None = None

    def result(self) -> Any:
        try:
            if self.error is not None:
                raise self.error
            return self.batch
        finally:
            del self  # the error holds this frame, which would hold the error


class Line:
    """Tasks are taken in order, by one worker at a time, and never more than `ahead` of what was
    delivered. What `make` makes of them is delivered in the same order."""

    def __init__(
        self,
        tasks: Iterator[Any],
        make: Callable[[Any], Any],
        ahead: int,
        closed: threading.Event,
    ) -> None:
        self.tasks = tasks
        self.make = make
        self.ahead = ahead
        self.closed = closed
        self.turn = threading.Lock()  # held while a task is taken
        self.changed = threading.Condition()  # guards what follows
        self.ready: dict[int, Outcome] = {}
        self.taken = 0
        self.delivered = 0
        self.end: int | None = None  # the number of tasks, once it is known
        self.process = os.getpid()
        self.threads: list[threading.Thread] = []

    def batches(self, workers: int) -> Generator[Any, None, None]:
        """What the workers make. They end when this does, or is closed, or dropped."""
        word, logs = mode.word & (GRAD | ANOMALY), Shared()
        lines.add(self)
        try:
            for k in range(workers):
                name = f"adjoint-data-{k}"
                thread = threading.Thread(
                    target=self.serve, args=(k, word, logs), name=name, daemon=True
                )
                thread.start()
                self.threads.append(thread)
            for number in itertools.count():
                outcome = self.receive(number)
                if outcome is None:
                    return
                yield outcome.result()
                del outcome
        finally:
            self.close()

    def receive(self, number: int) -> Outcome | None:
        """Wait for the outcome of a task; None after the last."""
        if os.getpid() != self.process:
            raise ForkError(
                "DataLoader: this iterator was made before the process was forked, and its worker "
                "threads are in the parent; iterate over the loader anew"
            )
        with self.changed:
            self.changed.wait_for(lambda: number in self.ready or number == self.end)
            self.delivered = number + 1
            self.changed.notify_all()
            return self.ready.pop(number, None)

    def close(self) -> None:
        """Have the workers end, and nobody wait."""
        self.closed.set()
        if os.getpid() == self.process:  # else a lock may be held by a thread that isn't there
            with self.changed:
                self.ready.clear()
                self.changed.notify_all()

    # In the workers

    def serve(self, worker: int, word: int, logs: Shared) -> None:
        mode.word = word
        with logs:
            self.work(worker)

    def work(self, worker: int) -> None:
        while (taken := self.take()) is not None:
            number, task = taken
            try:
                outcome = Outcome(self.make(task))
            except BaseException as error:
                error.add_note(f"DataLoader: this was in worker {worker}")
                outcome = Outcome(None, error)
            self.put(number, outcome)
            del taken, task, outcome  # nothing is held while waiting

    def take(self) -> tuple[int, Any] | None:
        """The next task and its number; None if there is nothing more to do."""
        with self.turn:
            with self.changed:
                self.changed.wait_for(
                    lambda: self.closed.is_set() or self.taken < self.delivered + self.ahead
                )
                if self.closed.is_set() or self.end is not None:
                    return None
                number = self.taken
                self.taken += 1
            try:
                return number, next(self.tasks)
            except StopIteration:
                self.finish(number)
            except BaseException as error:
                self.put(number, Outcome(None, error))
                self.finish(number + 1)
        return None

    def put(self, number: int, outcome: Outcome) -> None:
        with self.changed:
            if not self.closed.is_set():
                self.ready[number] = outcome
                self.changed.notify_all()

    def finish(self, end: int) -> None:
        with self.changed:
            self.end = end
            self.changed.notify_all()


def close_all() -> None:
    """End all workers before the interpreter does, which mustn't happen while they compute."""
    for line in list(lines):
        line.close()
        if os.getpid() == line.process:
            for thread in line.threads:
                thread.join(timeout=1)


atexit.register(close_all)
