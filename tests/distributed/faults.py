"""How programs of ranks end in tests, besides the faults of `programs.train_until`."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad

PAUSE = 0.5  # seconds in which the other ranks come to where they wait

if "EARLY_FAULT" in os.environ and os.environ.get("PMI_RANK") == "1":
    raise ValueError("a fault before distributed.init")


def go_on(world: Any) -> None:
    """Calls that a rank with a fault doesn't come to."""
    for _ in range(10):
        world.barrier()


def process_ids(world: Any) -> list[int]:
    return world.all_gather(ad.asarray([os.getpid()]))[:, 0].tolist()


# All ranks are there, but they don't ask for the same.


def other_shape(world: Any, folder: Path) -> None:
    world.barrier()
    world.all_reduce(ad.ones(3 if world.rank == 1 else 2))


def other_dtype(world: Any, folder: Path) -> None:
    world.all_gather(ad.ones(2, dtype=ad.int32 if world.rank == 1 else ad.int64))


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
    world.broadcast(1.0, root=int(world.rank == 1))


def caught(world: Any, folder: Path) -> None:
    """An error that the program catches is one of all calls that come later."""
    for _ in range(2):
        with pytest.raises(ad.RankError, match="ranks differ"):
            other_reduction(world, folder)


# A rank fails, or is killed.


def early(world: Any, folder: Path) -> None:
    """Rank 1 doesn't come here."""


def error_on_the_first(world: Any, folder: Path) -> None:
    if world.is_first:
        raise ValueError("a bad sample")
    go_on(world)


def error_without_words(world: Any, folder: Path) -> None:
    assert world.rank != 1
    go_on(world)


def error_after_others_have_ended(world: Any, folder: Path) -> None:
    if world.rank == 1:
        time.sleep(PAUSE)
        raise ValueError("a bad sample")


def interrupt_of_one_that_waits(world: Any, folder: Path) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    processes = process_ids(world)
    if world.is_first:
        time.sleep(PAUSE)
        os.kill(processes[1], signal.SIGINT)
        time.sleep(PAUSE)
    go_on(world)


def kill_at_once(world: Any, folder: Path) -> None:
    if world.rank == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    go_on(world)


def kill_after_others_have_ended(world: Any, folder: Path) -> None:
    if world.rank == 1:
        time.sleep(PAUSE)
        os.kill(os.getpid(), signal.SIGKILL)


def kill_of_one_that_has_ended(world: Any, folder: Path) -> None:
    processes = process_ids(world)
    if world.is_first:
        time.sleep(PAUSE)
        os.kill(processes[1], signal.SIGKILL)
        time.sleep(PAUSE)


def kill_with_a_child(world: Any, folder: Path) -> None:
    """The child has the connections of the rank that is killed."""
    if world.rank == 1:
        time.sleep(PAUSE)
        if not os.fork():
            time.sleep(2 * PAUSE)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    go_on(world)


class Slow(ad.data.Dataset):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, k: int) -> int:
        time.sleep(1000)
        return k


def hang_in_a_worker(world: Any, folder: Path) -> None:
    if world.rank == 1:
        for _ in ad.data.DataLoader(Slow(), num_workers=1):
            pass
    go_on(world)


def hang_of_all(world: Any, folder: Path) -> None:
    world.barrier()
    (folder / f"{world.rank}.here").touch()
    time.sleep(1000)


# Programs that end as they should.


def nothing(world: Any, folder: Path) -> None:
    pass


def call_in_a_child(world: Any, queue: Any) -> None:
    try:
        world.all_reduce(1.0)
    except ad.ForkError as error:
        queue.put(str(error))


def calls_from_elsewhere(world: Any, folder: Path) -> None:
    """A forked child's call and a thread's are errors that no other rank hears of."""
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=call_in_a_child, args=(world, queue))
    child.start()
    assert "this process was forked from a rank" in queue.get(timeout=10)
    child.join()

    said = []

    def call() -> None:
        with pytest.raises(ad.RankError, match=r"all_reduce sum: it was called in another thread"):
            world.all_reduce(1.0)
        said.append(True)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert said
    assert world.all_reduce(1) == world.size


def late_end_with_a_code(world: Any, folder: Path) -> None:
    """A rank may go on for longer than the timeout when the others have ended."""
    if world.rank == 1:
        time.sleep(2)
    sys.exit(3)
