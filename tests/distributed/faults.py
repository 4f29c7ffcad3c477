"""How programs of ranks end in tests, besides the faults of `programs.train_until`."""

import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import adjoint as ad
from tests.distributed.checks import raises

PAUSE = 0.5  # seconds in which the other ranks come to where they wait


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


def other_call(world: Any, folder: Path) -> None:
    if world.rank == 1:
        world.all_reduce(1.0)
    else:
        world.barrier()


def other_key(world: Any, folder: Path) -> None:
    world.all_reduce({"loss": 1.0, ("hits" if world.rank == 1 else "count"): 2})


def other_reduction_that_is_caught(world: Any, folder: Path) -> None:
    """The error is that of all calls that come later, too."""
    for _ in range(2):
        with raises(ad.RankError, "ranks differ"):
            world.all_reduce(1.0, "max" if world.rank == 1 else "sum")


# A rank fails, or is killed.


def error_without_words_on_the_first(world: Any, folder: Path) -> None:
    assert not world.is_first
    go_on(world)


def error_after_others_have_ended(world: Any, folder: Path) -> None:
    if world.rank == 1:
        time.sleep(PAUSE)
        raise ValueError("a bad sample")


def interrupt_of_a_backward_pass(world: Any, folder: Path) -> None:
    """Rank 1 waits in it for the first one, which doesn't come."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    processes = process_ids(world)
    model = ad.distributed.DataParallel(ad.nn.Linear(2, 2))
    if world.is_first:
        time.sleep(PAUSE)
        os.kill(processes[1], signal.SIGINT)
        time.sleep(1000)
    model(ad.ones((1, 2))).sum().backward()


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
    """A forked child's call and a thread's are errors that no other rank hears of; and a rank may
    go on for longer than the timeout when the others have ended."""
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=call_in_a_child, args=(world, queue))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 and later warn of forks beside threads
        child.start()
    assert "this process was forked from a rank" in queue.get(timeout=10)
    child.join()

    said = []

    def call() -> None:
        with raises(ad.RankError, r"all_reduce sum: it was called in another thread"):
            world.all_reduce(1.0)
        said.append(True)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert said
    assert world.all_reduce(1) == world.size
    if world.rank == 1:
        time.sleep(3)
    sys.exit(3)
