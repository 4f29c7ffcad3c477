"""How programs of three ranks end in tests, besides the faults of `programs.train_until`."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad

PAUSE = 0.5  # seconds in which the other ranks come to where they wait


def go_on(world: Any) -> None:
    """Calls that a rank with a fault doesn't come to."""
    for _ in range(10):
        world.barrier()


# All ranks are there, but they don't ask for the same.


def other_shape(world: Any, folder: Path) -> None:
    world.barrier()
    world.all_reduce(ad.ones(3 if world.rank == 1 else 2))


def other_dtype(world: Any, folder: Path) -> None:
    world.all_gather({"a": ad.ones(2), "b": np.ones(2, np.int32 if world.rank == 2 else np.int64)})


def other_reduction(world: Any, folder: Path) -> None:
    world.all_reduce(1.0, "max" if world.rank == 1 else "sum")


def other_call(world: Any, folder: Path) -> None:
    if world.rank == 1:
        world.all_reduce(1.0)
    else:
        world.barrier()


def other_key(world: Any, folder: Path) -> None:
    world.all_reduce({"loss": 1.0, ("hits" if world.rank == 1 else "count"): 2})


def other_root(world: Any, folder: Path) -> None:
    world.broadcast(1.0, root=int(world.rank == 2))


def caught(world: Any, folder: Path) -> None:
    """An error that the program catches is one of all calls that come later."""
    for _ in range(2):
        with pytest.raises(ad.RankError, match=r"ranks differ at call 3: rank 0 has all_reduce"):
            other_reduction(world, folder)


# A rank ends.


def error_on_the_first(world: Any, folder: Path) -> None:
    if world.is_first:
        raise ValueError("a bad sample")
    go_on(world)


def error_on_all(world: Any, folder: Path) -> None:
    raise ValueError(f"a bad sample of {world.rank}")


def error_that_cannot_be_shown(world: Any, folder: Path) -> None:
    class BadError(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    if world.rank == 1:
        raise BadError
    go_on(world)


def interrupt(world: Any, folder: Path) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if world.rank == 1:
        os.kill(os.getpid(), signal.SIGINT)
    go_on(world)


def interrupt_of_one_that_waits(world: Any, folder: Path) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    processes = world.all_gather(os.getpid()).tolist()
    if world.rank == 2:
        time.sleep(PAUSE)
        os.kill(processes[1], signal.SIGINT)
        time.sleep(PAUSE)
    go_on(world)


def interrupt_of_one_that_has_ended(world: Any, folder: Path) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    processes = world.all_gather(os.getpid()).tolist()
    if world.rank == 2:
        time.sleep(PAUSE)
        os.kill(processes[1], signal.SIGINT)
        time.sleep(PAUSE)


def error_after_others_have_ended(world: Any, folder: Path) -> None:
    if world.rank == 1:
        time.sleep(PAUSE)
        raise ValueError("a bad sample")


def kill_after_others_have_ended(world: Any, folder: Path) -> None:
    if world.rank == 1:
        time.sleep(PAUSE)
        os.kill(os.getpid(), signal.SIGKILL)


def kill_of_one_that_has_ended(world: Any, folder: Path) -> None:
    processes = world.all_gather(os.getpid()).tolist()
    if world.rank == 2:
        time.sleep(PAUSE)
        os.kill(processes[1], signal.SIGKILL)
        time.sleep(PAUSE)


def kill_with_a_child(world: Any, folder: Path) -> None:
    if world.rank == 1:
        if not os.fork():
            time.sleep(3)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    go_on(world)


def segfault(world: Any, folder: Path) -> None:
    if world.rank == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    go_on(world)


def exit_at_once(world: Any, folder: Path) -> None:
    if world.rank == 1:
        os._exit(5)
    go_on(world)


# Programs that end as they should.


def nothing(world: Any, folder: Path) -> None:
    pass


def exit_together(world: Any, folder: Path) -> None:
    world.barrier()
    sys.exit(3)


def late_end(world: Any, folder: Path) -> None:
    """A rank may go on for longer than the timeout when the others have ended."""
    if world.rank == 1:
        time.sleep(1.5)


def child_of(world: Any, queue: Any) -> None:
    try:
        world.all_reduce(1.0)
    except ad.ForkError as error:
        queue.put(str(error))


def forked_child(world: Any, folder: Path) -> dict[str, Any]:
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=child_of, args=(world, queue))
    child.start()
    said = queue.get(timeout=10)
    child.join()
    return {"said": np.array(said), "sum": np.array(world.all_reduce(1))}


def forked_child_that_fails(world: Any, folder: Path) -> dict[str, Any]:
    """It ends by itself, with the handlers that Python calls at the end."""
    child = os.fork()
    if not child:
        world.barrier()
    _, status = os.waitpid(child, 0)
    return {"code": np.array(os.waitstatus_to_exitcode(status)), "sum": world.all_reduce(1)}


def other_thread(world: Any, folder: Path) -> dict[str, Any]:
    said = []

    def call() -> None:
        try:
            world.barrier()
        except ad.RankError as error:
            said.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    return {"said": np.array(said), "sum": np.array(world.all_reduce(1))}
