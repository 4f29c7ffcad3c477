"""Kernels on all cores: a fork-join of a few microseconds.

Work is a function, its arguments and a number of chunks. The caller opens it, takes chunks itself
beside the workers, closes it when none is left, and waits for the workers that are still inside.
The workers are Python threads that stay in a native function (`fork_join`), without the
interpreter's lock: they look for work for a short time, and then sleep. One caller at a time has
the workers; others, and kernels that run kernels, do their work alone. Which thread does which
chunk is chance, so chunks must not depend on each other, nor on how many threads there are.

Why not libgomp: it isn't on every machine, and its threads spin for so long that they take the
cores from the BLAS. This is one mechanism, which we control, wherever there are POSIX threads.
Elsewhere (Windows) everything runs on the caller, and that is what `get_num_threads` says.
"""

import ctypes
import os
import threading
from collections.abc import Callable
from contextlib import suppress

from ...._foundation.thread_limits import checked_threads
from . import fork_join
from .availability import obstacle
from .compiler import compiled

POSIX = os.name == "posix"
POINTER, INTEGER = ctypes.c_void_p, ctypes.c_int64
# The last one is a number, too, but ctypes takes longer for those.
RUN = ctypes.CFUNCTYPE(None, POINTER, POINTER, POINTER, POINTER)
CREATE = ctypes.CFUNCTYPE(POINTER)
SERVE = ctypes.CFUNCTYPE(None, POINTER, INTEGER)  # employ has the same


def run(address: int, arguments: int, chunks: int) -> None:
    """Call void f(ptr arguments, i64 chunk), whose address this is, for each of the chunks.

    Returns when all are done. The interpreter is free meanwhile.
    """
    entry(pool, address, arguments, chunks)


def set_num_threads(n: int) -> None:
    """Let each kernel run on up to n threads, the caller's among them. Results don't depend on it.

    The default is the number of cores that this process may use, or what the environment says as
    `ADJOINT_NUM_THREADS`.
    """
    global chosen
    chosen = checked_threads(n, "set_num_threads: n")
    with changing:
        if pool is not None:
            employ(chosen - 1)


def get_num_threads() -> int:
    """How many threads a kernel runs on, at most: 1, too, where there are no kernels."""
    n = allowed()
    return n if POSIX and obstacle() is None else 1


def allowed() -> int:
    """How many threads a kernel may run on."""
    global chosen
    if chosen is None:
        chosen = default()
    return chosen


def default() -> int:
    named = os.environ.get("ADJOINT_NUM_THREADS")
    if named:
        is_number = named.isdecimal() and len(named) < 20
        return checked_threads(int(named) if is_number else named, "ADJOINT_NUM_THREADS")
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def start_and_run(_: None, address: int, arguments: int, chunks: int) -> None:
    with changing:
        if entry is start_and_run:
            start()
    run(address, arguments, chunks)


def start() -> None:
    global pool, entry
    helpers = allowed() - 1
    if POSIX:
        pool = CREATE(native("create"))()
        workers.clear()  # an interrupted start may have left some in another pool
        employ(helpers)
    entry = RUN(entry_address())


def entry_address() -> int:
    """The native function that shares the chunks of a kernel between threads."""
    return native("run") if POSIX else compiled(fork_join.ALONE, "alone")


def native(name: str) -> int:
    return compiled(fork_join.text(), name)


def employ(count: int) -> None:
    """Have so many workers: start those that are missing, let go those that are too many."""
    SERVE(native("employ"))(pool, count)
    for worker in workers[count:]:
        worker.join()
    del workers[count:]
    serve = SERVE(native("serve"))
    with suppress(RuntimeError):  # no more threads can be had: fewer will do
        for index in range(len(workers), count):
            name = f"kernels-{index + 1}"
            worker = threading.Thread(target=serve, args=(pool, index), name=name, daemon=True)
            worker.start()
            workers.append(worker)


def start_anew() -> None:
    """A forked child has none of its parent's threads, and its pool as it was in mid-work."""
    global pool, entry, workers, changing
    pool, entry, workers, changing = None, start_and_run, [], threading.Lock()


chosen: int | None = None
pool: int | None
entry: Callable[..., None]
workers: list[threading.Thread]
changing: threading.Lock
start_anew()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=start_anew)
