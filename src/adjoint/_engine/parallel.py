"""The engine with several threads: nodes run as soon as all that contributes to them has run.

NumPy and BLAS release the interpreter while they compute, so independent nodes really run at once.
Contributions are added in the order in which the serial engine adds them: the result is the same,
bit for bit. Each pass is run by the thread that asked for it and by helpers from a pool that all
passes share; it needs none of them to get done.

A BLAS that has threads of its own is asked for one thing at a time: two products at once would only
take the cores from each other.
"""

import itertools
import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from heapq import heappop, heappush
from queue import SimpleQueue
from typing import Any

import numpy as np

from .._core.node import Joint, Node
from .._foundation.modes import mode
from .._foundation.spans import region
from .graph_walks import reachable
from .sums import add_onto, cpu
from .visit import Contributions, Pass, Seeds, recording

# Below so many elements per op, handing nodes to threads costs more than it gains.
SMALL = 1 << 18
SAMPLE = 4096  # ops that are looked at to find that out

# A node's place in the serial order: its order number, after that of the checkpoint whose
# recomputation made it.
Key = tuple[float, ...]
START: Key = (-math.inf,)
END: Key = (math.inf,)


class Pool:
    """Threads that wait for something to do, as many as were ever asked for at once."""

    def __init__(self) -> None:
        self.tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.threads: list[threading.Thread] = []
        self.growing = threading.Lock()

    def submit(self, task: Callable[[], None], times: int) -> None:
        """Have a task done by so many threads, as soon as there are any that have nothing to do."""
        with self.growing, suppress(RuntimeError):  # no more threads can be had: fewer will do
            for k in range(len(self.threads), times):
                thread = threading.Thread(target=self.serve, name=f"adjoint-{k}", daemon=True)
                thread.start()
                self.threads.append(thread)
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


def try_in_parallel(seeds: Seeds, run: Pass, workers: int) -> bool:
    """Run a pass with up to `workers` threads, this one among them.

    False, and nothing is done, if the graph is small, or on a device with a single queue.
    """
    roots = [node for node, _ in seeds]
    one_blas_call = cpu.blas_threads() > 1
    if not all(type(g) is np.ndarray for _, g in seeds) or is_small(roots, run, one_blas_call):
        return False
    nodes = [node for node in reachable(roots) if run.wants(node)]
    work = Work(seeds, nodes, run, one_blas_call)
    pool.submit(work.help, min(workers, len(nodes)) - 1)
    try:
        work.take_part()
    finally:
        work.end()
    if work.error is not None:
        work.complete_leaves()
        raise work.take_error()
    return True


def is_small(roots: list[Node], run: Pass, one_blas_call: bool) -> bool:
    efforts = [
        effort(node, one_blas_call) for node in itertools.islice(ops_from(roots, run), SAMPLE)
    ]
    return sum(efforts) < SMALL * len(efforts)


def ops_from(roots: list[Node], run: Pass) -> Iterator[Node]:
    """The ops that gradients could reach, in no particular order."""
    seen = {node for node in roots if run.wants(node)}
    stack = list(seen)
    while stack:
        node = stack.pop()
        if is_op(node):
            yield node
        for parent in node.inputs:
            if parent not in seen and run.wants(parent):
                seen.add(parent)
                stack.append(parent)


def is_op(node: Node) -> bool:
    return node.plan is not None and node.plan.output is None


def uses_blas(node: Node) -> bool:
    return is_op(node) and (node.plan.recomputes or node.plan.op.kind == "contraction")


def effort(node: Node, one_blas_call: bool) -> int:
    """About what running a node costs, in elements of a simple op; 0 if not beside others."""
    shapes = node.shape if isinstance(node, Joint) else (node.shape,)
    times = 1 if not uses_blas(node) else 0 if one_blas_call else 16
    return times * sum(map(math.prod, shapes))


class Inbox:
    """What a node waits for, and what has arrived, added up as far as the order is settled."""

    __slots__ = ("adding", "consumers", "done", "is_complete", "key", "parts", "total")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.consumers: list[Key] = []  # a heap; those that have run are also in `done`
        self.done: set[Key] = set()
        self.parts: list[tuple[Key, int, Any]] = []  # a heap
        self.total: Total | None = None
        self.adding = False  # a thread is: it will also see what arrives meanwhile
        self.is_complete = False

    @property
    def next_consumer(self) -> Key:
        """The first of those that have yet to run, in the serial order."""
        while self.consumers and self.consumers[0] in self.done:
            self.done.remove(heappop(self.consumers))
        return self.consumers[0] if self.consumers else END

    def take_settled(self) -> list[Any]:
        """Take out the contributions that can be added now, in order."""
        first, out = self.next_consumer, []
        while self.parts and self.parts[0][0] < first:
            out.append(heappop(self.parts)[2])
        return out


class Total:
    """A gradient that is being added up, with memory of its own after the first addition."""

    __slots__ = ("add_onto", "g", "is_own")

    def __init__(self, node: Node, first: Any, add_onto: Callable[..., Any]) -> None:
        self.add_onto = add_onto
        self.is_own = False
        self.g = first
        if isinstance(node, Joint):
            self.g = [None] * len(node.shape)
            self.add(first)

    def add(self, part: Any) -> None:
        if isinstance(self.g, list):
            former = self.g[part.output]
            missing = former is None
            self.g[part.output] = part.g if missing else self.add_onto(former, False, part.g)
        else:
            self.g = self.add_onto(self.g, self.is_own, part)
            self.is_own = True


class Work:
    """What is to be done of one pass, and who does it. Nodes are run without holding the lock.

    Threads sleep on a queue and not on a condition variable, which an interrupt (Ctrl-C) can leave
    locked or unlocked at the wrong moment: a lock and a queue are single steps for the interpreter.
    """

    def __init__(
        self,
        seeds: Seeds,
        nodes: list[Node],
        run: Pass,
        one_blas_call: bool,
    ) -> None:
        self.run = run
        self.mode = mode.word, mode.draws, mode.recomputing, mode.logs
        noted = run.instrument
        self.add_onto = add_onto if noted is None else noted.noted_sum(add_onto)
        self.lock = threading.Lock()
        self.alarms: SimpleQueue[None] = SimpleQueue()  # one wakes one thread that sleeps
        self.departures: SimpleQueue[None] = SimpleQueue()  # of helpers
        self.inboxes: dict[Node, Inbox] = {}
        self.ready: list[tuple[Key, Node]] = []
        self.ready_for_blas: list[tuple[Key, Node]] = []
        self.one_blas_call = one_blas_call
        self.blas_is_free = True
        self.running = 0
        self.sleeping = 0
        self.helping = 0
        self.stopped = False
        self.error: BaseException | None = None
        self.add(nodes, ())
        for position, (node, g) in enumerate(seeds):
            heappush(self.inboxes[node].parts, (START, position, g))
        for node in {node for node, _ in seeds}:
            self.add_up(node)

    def add(self, nodes: list[Node], prefix: Key) -> None:
        """Nodes that are to be run: each is something that its parents wait for."""
        for node in nodes:
            self.inboxes[node] = Inbox((*prefix, node.order))
        for node in nodes:
            for parent in set(node.inputs):
                if parent in self.inboxes:
                    heappush(self.inboxes[parent].consumers, self.inboxes[node].key)

    # What each thread does.

    def help(self) -> None:
        """Take part from a thread of the pool, in the mode of the thread that asked."""
        with self.lock:
            if self.stopped:
                return
            self.helping += 1
        former = mode.word, mode.draws, mode.recomputing, mode.logs
        mode.word, mode.draws, mode.recomputing, mode.logs = self.mode
        try:
            with region("backward helper", "pass"):
                self.take_part()
        finally:
            mode.word, mode.draws, mode.recomputing, mode.logs = former
            with self.lock:
                self.helping -= 1
            self.departures.put(None)

    def take_part(self) -> None:
        try:
            with recording(self.run.create_graph):
                while (node := self.take()) is not None:
                    contributions = self.run.visit(node, self.take_total(node))
                    self.give_back(node, contributions, made_by(node, contributions))
        except BaseException as error:
            with self.lock:
                self.error = self.error or error
                self.stop()

    def take(self) -> Node | None:
        """A node that can be run now, the newest first; None if there is nothing left to do."""
        while True:
            with self.lock:
                if not self.stopped and not (self.ready or self.ready_for_blas or self.running):
                    self.stop()
                if self.stopped:
                    return None
                queues = [self.ready, self.ready_for_blas] if self.blas_is_free else [self.ready]
                queues = [queue for queue in queues if queue]
                if queues:
                    node = heappop(min(queues))[1]
                    self.running += 1
                    self.blas_is_free = self.blas_is_free and not self.occupies_blas(node)
                    return node
                self.sleeping += 1
            self.alarms.get()

    def take_total(self, node: Node) -> Any:
        inbox = self.inboxes[node]
        total, inbox.total = inbox.total, None
        return total.g  # type: ignore[union-attr]

    def give_back(self, node: Node, contributions: Contributions, new: list[Node]) -> None:
        """A node has run: hand its contributions to those that wait for them."""
        with self.lock:
            self.add([n for n in new if self.run.wants(n)], self.inboxes[node].key)
            key = self.inboxes[node].key
            for position, (parent, g) in enumerate(contributions):
                heappush(self.inboxes[parent].parts, (key, position, g))
        for output in {output for output, _ in contributions if new}:
            self.add_up(output)
        contributions.clear()
        self.leave(node)
        with self.lock:
            self.running -= 1
            self.blas_is_free = self.blas_is_free or self.occupies_blas(node)
            runnable = len(self.ready) + (self.blas_is_free and bool(self.ready_for_blas))
            self.wake(runnable - 1)  # this thread takes one itself

    def leave(self, node: Node) -> None:
        """A node is done, and so are those that turn out to get no gradient from anywhere."""
        done = [node]
        while done:
            node = done.pop()
            with self.lock:
                key = self.inboxes.pop(node).key
                parents = [n for n in set(node.inputs) if n in self.inboxes]
                for parent in parents:
                    self.inboxes[parent].done.add(key)
            done += [parent for parent in parents if self.add_up(parent)]

    def add_up(self, node: Node) -> bool:
        """Add what can be added of a node's gradient; True if it is done without having any."""
        while True:
            with self.lock:
                inbox = self.inboxes.get(node)
                if inbox is None or inbox.adding:  # another thread has done it, or is about to
                    return False
                parts = inbox.take_settled()
                if not parts:
                    return self.is_without_gradient(node, inbox)
                if inbox.total is None:
                    inbox.total = Total(node, parts.pop(0), self.add_onto)
                total, inbox.adding = inbox.total, True
            for part in parts:
                total.add(part)
            with self.lock:
                inbox.adding = False

    def is_without_gradient(self, node: Node, inbox: Inbox) -> bool:
        """Let a node whose gradient is complete be run; True, once, if it has none."""
        if inbox.is_complete or inbox.next_consumer != END:
            return False
        inbox.is_complete = True
        if inbox.total is None:
            return True
        queue = self.ready_for_blas if self.occupies_blas(node) else self.ready
        heappush(queue, (inbox.key, node))
        return False

    def occupies_blas(self, node: Node) -> bool:
        return self.one_blas_call and uses_blas(node)

    def wake(self, count: int) -> None:
        for _ in range(min(count, self.sleeping)):
            self.sleeping -= 1
            self.alarms.put(None)

    # The end.

    def stop(self) -> None:
        """Nothing more is begun."""
        self.stopped = True
        self.wake(self.sleeping)

    def end(self) -> None:
        """Stop, and wait for what is being done."""
        with self.lock:
            self.stop()
        while self.helping:  # one that leaves says so after it has been counted
            self.departures.get()

    def take_error(self) -> BaseException:
        """The error, no longer held by this object, which its traceback holds."""
        error, self.error = self.error, None
        return error  # type: ignore[return-value]

    def complete_leaves(self) -> None:
        """After an error: leaves whose gradients are complete get them."""
        for _, node in self.ready:
            if node.plan is None:
                with suppress(Exception):  # the first error is the one to see
                    self.run.visit(node, self.take_total(node))


def made_by(node: Node, contributions: Contributions) -> list[Node]:
    """The nodes that a checkpoint's recomputation made: newer than it; its parents are older."""
    if node.plan is None or not node.plan.recomputes:
        return []
    return reachable((output for output, _ in contributions), newer_than=node.order)
