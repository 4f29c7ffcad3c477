"""The engine with several threads: nodes run as soon as all that contributes to them has run.

NumPy and BLAS release the interpreter while they compute, so independent nodes really run at once.
Contributions wait until the last has arrived and are added in the order in which the serial engine
adds them: the result is the same, bit for bit. Each pass is run by the thread that asked for it and
by helpers from a pool that all passes share; it needs none of them to get done.

A BLAS that has threads of its own is asked for one thing at a time: two products at once would only
take the cores from each other.
"""

import math
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from heapq import heappop, heappush
from queue import SimpleQueue
from typing import Any

import numpy as np

from ._lookahead import reachable
from ._modes import mode
from ._node import Joint, Node
from ._pass import Pass, add_raw, cpu, recording

# Below so many elements per op, handing nodes to threads costs more than it gains.
SMALL = 1 << 17

Key = tuple[float, ...]
START: Key = (-math.inf,)


class Pool:
    """Threads that wait for something to do, as many as were ever asked for at once."""

    def __init__(self) -> None:
        self.tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.threads: list[threading.Thread] = []
        self.growing = threading.Lock()

    def submit(self, task: Callable[[], None], times: int) -> None:
        """Have a task done by so many threads, as soon as there are any that have nothing to do."""
        with self.growing:
            for k in range(len(self.threads), times):
                thread = threading.Thread(target=self.serve, name=f"adjoint-{k}", daemon=True)
                self.threads.append(thread)
                thread.start()
        for _ in range(times):
            self.tasks.put(task)

    def serve(self) -> None:
        while True:
            self.tasks.get()()  # no name refers to it: a task holds the graph it works on


pool = Pool()


def start_anew() -> None:
    """A forked child has none of its parent's threads."""
    global pool
    pool = Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=start_anew)


def propagate(seeds: list[tuple[Node, Any]], run: Pass, workers: int) -> bool:
    """Run a pass with up to `workers` threads, this one among them.

    False, and nothing is done, if the graph is small, or on a device with a single queue.
    """
    nodes = reachable(node for node, _ in seeds)
    if run.only is not None:
        nodes = [node for node in nodes if node in run.only]
    if not all(type(g) is np.ndarray for _, g in seeds):
        return False
    one_blas_call = cpu.blas_threads() > 1
    efforts = [effort(node, one_blas_call) for node in nodes if is_op(node)]
    if sum(efforts) < SMALL * len(efforts):
        return False
    work = Work(seeds, nodes, run, one_blas_call)
    pool.submit(work.help, workers - 1)
    try:
        work.take_part()
    finally:
        work.end()
    if work.error is not None:
        work.complete_leaves()
        raise work.taken_error()
    return True


def is_op(node: Node) -> bool:
    return node.plan is not None and node.plan.output is None


def uses_blas(node: Node) -> bool:
    return is_op(node) and (node.plan.recomputes or node.plan.op.kind == "contraction")


def effort(node: Node, one_blas_call: bool) -> int:
    """About what running a node costs, in elements of a simple op; 0 if not beside others."""
    shapes = node.shape if isinstance(node, Joint) else (node.shape,)
    times = 1 if not uses_blas(node) else 0 if one_blas_call else 16
    return times * sum(map(math.prod, shapes))


class Work:
    """What is to be done of one pass: who waits for how many, who is ready, what has arrived.

    A node's `key` is its place in the serial order: its order number, after that of the checkpoint
    whose recomputation made it.
    """

    def __init__(
        self,
        seeds: list[tuple[Node, Any]],
        nodes: list[Node],
        run: Pass,
        one_blas_call: bool,
    ) -> None:
        self.run = run
        self.word = mode.word
        self.changed = threading.Condition(threading.Lock())
        self.waiting: dict[Node, int] = {}  # how many edges to each node have yet to be run
        self.key: dict[Node, Key] = {}
        self.arrived: dict[Node, list[tuple[Key, int, Any]]] = {}
        self.ready: list[tuple[Key, Node]] = []
        self.ready_for_blas: list[tuple[Key, Node]] = []
        self.one_blas_call = one_blas_call
        self.blas_is_free = True
        self.running = 0
        self.helping = 0
        self.stopped = False
        self.error: BaseException | None = None
        self.add(nodes, ())
        for position, (node, g) in enumerate(seeds):
            self.arrived.setdefault(node, []).append((START, position, g))
        for node in {node for node, _ in seeds if not self.waiting[node]}:
            self.release(node)

    def add(self, nodes: list[Node], prefix: Key) -> None:
        """Nodes that are to be run: each edge is something that its parent waits for."""
        for node in nodes:
            self.key[node] = (*prefix, node.order)
            self.waiting[node] = 0
        for node in nodes:
            for parent in node.inputs:
                if parent in self.waiting:
                    self.waiting[parent] += 1

    def leave(self, node: Node) -> list[Node]:
        """A node is done; returns those of its parents that wait for nothing any more."""
        del self.waiting[node], self.key[node]
        free = []
        for parent in node.inputs:
            if parent in self.waiting:
                self.waiting[parent] -= 1
                if not self.waiting[parent]:
                    free.append(parent)
        return free

    def release(self, node: Node) -> None:
        """All that contributes to a node has run: it is ready, or, without gradient, done."""
        free = [node]
        while free:
            node = free.pop()
            if node in self.arrived:
                queue = self.ready_for_blas if self.occupies_blas(node) else self.ready
                heappush(queue, (self.key[node], node))
            else:
                free += self.leave(node)

    def occupies_blas(self, node: Node) -> bool:
        return self.one_blas_call and uses_blas(node)

    def help(self) -> None:
        """Take part from a thread of the pool, in the mode of the thread that asked."""
        with self.changed:
            if self.stopped:
                return
            self.helping += 1
        former, mode.word = mode.word, self.word
        try:
            self.take_part()
        finally:
            mode.word = former
            with self.changed:
                self.helping -= 1
                self.changed.notify_all()

    def take_part(self) -> None:
        with recording(self.run.create_graph), self.changed:
            while (node := self.next()) is not None:
                self.running += 1
                occupies_blas = self.occupies_blas(node)
                self.blas_is_free = self.blas_is_free and not occupies_blas
                try:
                    self.process(node)
                except BaseException as error:
                    self.fail(error)
                finally:
                    self.running -= 1
                    self.blas_is_free = self.blas_is_free or occupies_blas
                    self.wake()

    def next(self) -> Node | None:
        """A node that can be run now, the newest first; None if there is nothing left to do."""
        while not self.stopped:
            queues = [self.ready, self.ready_for_blas] if self.blas_is_free else [self.ready]
            queues = [queue for queue in queues if queue]
            if queues:
                return heappop(min(queues))[1]
            if not self.running:
                return None
            self.changed.wait()
        return None

    def wake(self) -> None:
        """Let others take what can be run beyond the next node, which this thread takes itself."""
        runnable = len(self.ready) + (self.blas_is_free and bool(self.ready_for_blas))
        if self.stopped or not (runnable or self.running):
            self.changed.notify_all()
        elif runnable > 1:
            self.changed.notify(runnable - 1)

    def process(self, node: Node) -> None:
        """Run a node, with the lock released meanwhile."""
        parts = self.arrived.pop(node)
        self.changed.release()
        try:
            contributions = self.run.visit(node, total(node, parts))
            new = made_by(node, contributions)
        finally:
            self.changed.acquire()
        if new:
            only = self.run.only
            self.add([n for n in new if only is None or n in only], self.key[node])
        key = self.key[node]
        for position, (parent, g) in enumerate(contributions):
            self.arrived.setdefault(parent, []).append((key, position, g))
        for output in {output for output, _ in contributions if new and not self.waiting[output]}:
            self.release(output)
        for parent in self.leave(node):
            self.release(parent)

    def fail(self, error: BaseException) -> None:
        self.error = self.error or error
        self.stopped = True

    def taken_error(self) -> BaseException:
        """The error, no longer held by this object, which its traceback holds."""
        error, self.error = self.error, None
        return error  # type: ignore[return-value]

    def end(self) -> None:
        """Nothing more is begun; wait for what is being done."""
        with self.changed:
            self.stopped = True
            self.changed.notify_all()
            while self.helping:
                self.changed.wait()

    def complete_leaves(self) -> None:
        """After an error: leaves whose gradients are complete get them."""
        for _, node in self.ready:
            if node.plan is None:
                with suppress(Exception):  # the first error is the one to see
                    self.run.visit(node, total(node, self.arrived[node]))


def made_by(node: Node, contributions: list[tuple[Node, Any]]) -> list[Node]:
    """The nodes that a checkpoint's recomputation made: newer than it; its parents are older."""
    if node.plan is None or not node.plan.recomputes:
        return []
    return reachable((output for output, _ in contributions), newer_than=node.order)


def total(node: Node, arrived: list[tuple[Key, int, Any]]) -> Any:
    """The sum of a node's contributions, added in the serial order."""
    parts = [g for _, _, g in sorted(arrived, key=lambda part: part[:2])]
    if not isinstance(node, Joint):
        return summed(parts)
    by_output = [[part.g for part in parts if part.output == k] for k in range(len(node.shape))]
    return [summed(gs) if gs else None for gs in by_output]


def summed(parts: list) -> Any:
    out = parts[0]
    for k, g in enumerate(parts[1:]):
        # The first sum has memory of its own, to which the others can be added.
        out = np.add(out, g, out) if k and out.shape else add_raw(out, g)
    return out
