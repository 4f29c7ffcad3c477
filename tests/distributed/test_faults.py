"""A rank that fails takes the others along: quickly, with the rank and the cause, and with nothing
left of the program but what it has saved."""

import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import adjoint as ad
from tests.distributed import programs
from tests.distributed.ranks import finish, need_mpi, start

TIMEOUT = 3  # seconds that ranks wait for one that doesn't come
SECONDS = 20  # in which a program ends; where it does so at once, its timeout is longer
LEFT = 5  # seconds in which all of its processes do


class Fault(NamedTuple):
    """A program, and a pattern of what it prints."""

    program: str
    says: str
    ranks: int
    is_kill: bool = False
    is_late: bool = False  # the ranks wait for the timeout


def training(fault: str, says: str, ranks: int = 3, **options: bool) -> tuple[str, Fault]:
    return fault, Fault(f"train_until {fault}", says, ranks, **options)


def program(name: str, says: str, ranks: int = 2, **options: bool) -> tuple[str, Fault]:
    return name.replace("_", " "), Fault(f"faults:{name}", says, ranks, **options)


WAITED = r"call \d+, gradients, bucket \d of \d, has waited for timeout=3 seconds: "
ENDED = r"rank 1 has ended after \d+ calls, but rank [02] is at call \d+, gradients"
KILLED = r"adjoint\.distributed: rank 1 was killed \(process \d+ on \S+\), so all ranks end\n"
DIFFER = "ranks differ at call {}: rank 0 has {}, rank 1 has {}"

AFTER_SAVING = dict([
    training("raise", r"rank 1 raised ValueError: a bad sample \(at programs\.py:\d+: `raise "),
    training("exit", ENDED),
    training("batches", ENDED),
    training("kill", KILLED, is_kill=True),
    training("stop", WAITED + "rank 1 doesn't answer: it is stopped", is_late=True),
    training("hang", rf"{WAITED}rank 1 .* is at programs\.py:\d+: `.*time\.sleep", is_late=True),
])  # fmt: skip
FAULTS = AFTER_SAVING | dict([
    training("parameters", DIFFER.format(
        r"\d of DataParallel", r"bias: float32\[3\]", "nothing"), 2),
    training("shapes", DIFFER.format(
        r"\d of DataParallel", r"weight: float32\[3, 8\]", r"weight: float32\[4, 8\]"), 2),
    program("other_shape", DIFFER.format(
        r"\d of all_reduce sum", r"float32\[2\]", r"float32\[3\]")),
    program("other_reduction_that_is_caught", DIFFER.format(
        r"\d", "all_reduce sum", "all_reduce max")),
    program("other_call", DIFFER.format(r"\d", "barrier", "all_reduce sum")),
    program("other_key", DIFFER.format(
        r"\d of all_reduce sum", r"\['count'\]: int", r"\['hits'\]: int")),
    program("error_without_words_on_the_first",
        r"rank 0 raised AssertionError \(at faults\.py:\d+: `assert not world\.is_first`\)"),
    program("error_after_others_have_ended", r"ValueError: a bad sample\n(.*\n)*.*rank 1\b"),
    program("interrupt_of_a_backward_pass",
        r"rank 1 raised KeyboardInterrupt \(at faults\.py:\d+: `.*backward\(\)`\)", 3),
    program("kill_at_once", KILLED, is_kill=True),
    program("kill_after_others_have_ended", KILLED, is_kill=True),
    program("kill_of_one_that_has_ended", KILLED, is_kill=True),
    program("hang_in_a_worker",
        r"rank 1 hasn't come to it: it is at faults\.py:\d+: `for _ in .*DataLoader", is_late=True),
])  # fmt: skip


class Ended(NamedTuple):
    """What became of a program."""

    folder: Path
    printed: str
    code: int
    seconds: float
    left: list[str]


def outcome(fault: Fault, folder: Path) -> Ended:
    begin = time.monotonic()
    name, *args = fault.program.split()
    timeout = str(TIMEOUT if fault.is_late else 3 * SECONDS)
    process = start(fault.ranks, name, folder, *args, TIMEOUT=timeout)
    printed = finish(process, 3 * SECONDS)
    seconds = time.monotonic() - begin
    return Ended(folder, printed, process.returncode, seconds, left_of(folder))


def left_of(folder: Path) -> list[str]:
    """The processes of a program that haven't ended after some seconds."""
    until = time.monotonic() + LEFT
    while (found := processes_of(folder)) and time.monotonic() < until:
        time.sleep(0.05)
    return found


def processes_of(folder: Path) -> list[str]:
    """The commands of all processes that have the folder in their environment; Linux shows them."""
    mark, found = f"RANKS_OF={folder}".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:  # another user's, or it has ended
            continue
    return found


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Ended]]]:
    """Of all faults, while they are looked at: several programs at once, as they mostly wait."""
    need_mpi()
    with ThreadPoolExecutor(3) as pool:
        first = sorted(FAULTS.items(), key=lambda pair: not pair[1].is_late)
        folders = tmp_path_factory.mktemp("faults")
        futures = {}
        for name, fault in first:
            (folders / name).mkdir()
            futures[name] = pool.submit(outcome, fault, folders / name)
        yield futures
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_ends_all_ranks_with_its_cause(
    name: str, outcomes: dict[str, Future[Ended]]
) -> None:
    fault, found = FAULTS[name], outcomes[name].result()
    assert re.search(fault.says, found.printed), found.printed
    assert found.code != 0
    assert found.left == []
    assert found.seconds < SECONDS
    if sys.platform == "linux" or not fault.is_kill:
        assert found.printed.count(" was killed ") == fault.is_kill, found.printed


@pytest.mark.parametrize("name", AFTER_SAVING)
def test_what_was_saved_before_a_fault_is_whole(
    name: str, outcomes: dict[str, Future[Ended]]
) -> None:
    saved = ad.load(outcomes[name].result().folder / "last.safetensors")
    assert saved["step"] == 2
    expected = programs.accumulated(3, steps=3)
    for key, value in saved["model"].items():
        np.testing.assert_array_equal(value.numpy(), expected[key], err_msg=key)


@pytest.mark.parametrize(("name", "code"), [("nothing", 0), ("calls_from_elsewhere", 3)])
def test_nothing_is_said_where_nothing_is_wrong(name: str, code: int, tmp_path: Path) -> None:
    """Not even where names of temporary files are longer than those that sockets may have."""
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    process = start(2, f"faults:{name}", tmp_path, TIMEOUT="2", TMPDIR=str(folder))
    assert (finish(process), process.returncode) == ("", code)
    assert left_of(tmp_path) == []
    assert list(folder.iterdir()) == []


def test_nothing_is_left_when_mpiexec_is_killed(tmp_path: Path) -> None:
    process = start(2, "faults:hang_of_all", tmp_path)
    until = time.monotonic() + 20
    while len(list(tmp_path.glob("*.here"))) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    process.kill()
    finish(process, 20)
    assert process.returncode != 0
    assert left_of(tmp_path) == []
