"""Compiled kernels: the first call of each, what threads cost, and how fast single ops are."""

import json
import os
import statistics
import tempfile
from collections.abc import Callable
from functools import partial

from adjoint.backends.cpu.jit.availability import available

from ._common import Report, duration, markdown_table, output
from ._machine import described
from .peers import environment
from .workloads.measuring import mean_time

FIRST_CALLS = {"compiled": 0.1, "from disk": 0.005}  # seconds, at most
Calls = dict[str, dict[str, float]]  # seconds by FIRST_CALLS and name
Times = dict[str, dict[str, dict[str, float]]]  # seconds by op, dtype, library

CHUNKS = (1, 2, 8, 64)
BUSY = """
define void @busy(ptr %arguments, i64 %chunk) {{
entry:
  %place = alloca i64
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %next, %body ]
  %done = icmp sge i64 %k, {steps}
  br i1 %done, label %end, label %body
body:
  store volatile i64 %k, ptr %place
  %next = add i64 %k, 1
  br label %head
end:
  ret void
}}
"""
BUSY_STEPS = 20_000


def run(rounds: int) -> Report:
    if not available():
        print("llvmlite isn't installed: there are no kernels")
        return Report({})
    calls, kernels = first_calls(rounds)
    print_first_calls(calls, kernels)
    forks = fork_join(20 * rounds)
    print(*(f"{what}: {duration(seconds)}" for what, seconds in forks.items()), sep="\n")
    ops = throughput(rounds)
    print_throughput(ops)
    problems = [
        f"kernels: first call, {name}, {how}: {duration(seconds)} a kernel, over {duration(limit)}"
        for how, limit in FIRST_CALLS.items()
        for name, seconds in calls[how].items()
        if seconds > limit
    ]
    figures = {"first_calls": calls, "kernels": kernels, "fork_join": forks, "throughput": ops}
    return Report(figures, problems, for_documents(calls, forks, ops))


def first_calls(rounds: int) -> tuple[Calls, dict[str, int]]:
    """Seconds for each kernel of each call, in fresh processes, and how many kernels it has.

    The directory for kernels is empty at first, and then isn't.
    """
    found: dict[str, list[dict[str, float]]] = {how: [] for how in FIRST_CALLS}
    kernels: dict[str, int] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as directory:
            for times in found.values():
                env = {**os.environ, "ADJOINT_CACHE_DIR": directory}
                calls = json.loads(output("-m", "benchmarks._first_calls", env=env))
                kernels = kernels or {name: compiled for name, (_, compiled) in calls.items()}
                times.append({name: t / max(1, kernels[name]) for name, (t, _) in calls.items()})
    return {how: least(times) for how, times in found.items()}, kernels


def least(times: list[dict[str, float]]) -> dict[str, float]:
    return {name: min(one[name] for one in times) for name in times[0]}


def print_first_calls(calls: Calls, kernels: dict[str, int]) -> None:
    limits = [f"{how} (at most {duration(limit)})" for how, limit in FIRST_CALLS.items()]
    print(f"{'first call, by kernel':24} {'kernels':>8} " + " ".join(f"{w:>26}" for w in limits))
    for name, count in kernels.items():
        times = " ".join(f"{duration(calls[how][name]):>26}" for how in FIRST_CALLS)
        print(f"{name:24} {count:8} {times}")


def fork_join(repeats: int) -> dict[str, float]:
    """Seconds of calls that do nothing, and by how much two busy chunks take longer than one."""
    from adjoint.backends.cpu.jit.threads import run

    nothing, busy = busy_kernel(0), busy_kernel(BUSY_STEPS)
    calls = {f"an empty kernel, {n} chunks": partial(run, nothing, 0, n) for n in CHUNKS}
    found = {what: best_of_a_row(call, repeats) for what, call in calls.items()}
    one, two = (best_of_a_row(partial(run, busy, 0, n), repeats) for n in (1, 2))
    return {**found, "one busy chunk": one, "two busy chunks": two}


def busy_kernel(steps: int) -> int:
    """The address of a function that stores as often as this; nobody may leave a store out."""
    from adjoint.backends.cpu.jit.compiler import compiled

    return compiled(BUSY.format(steps=steps), "busy")


def best_of_a_row(call: Callable[[], None], repeats: int) -> float:
    return min(mean_time(call, 100) for _ in range(repeats))


def throughput(rounds: int) -> Times:
    env = environment()
    found = [json.loads(output("-m", "benchmarks._throughput", env=env)) for _ in range(rounds)]
    return {
        op: {dtype: least([one[op][dtype] for one in found]) for dtype in dtypes}
        for op, dtypes in found[0].items()
    }


def print_throughput(ops: Times) -> None:
    for dtype in next(iter(ops.values())):
        print(f"{dtype + ', 4M elements':22} {'adjoint':>9} {'/ numpy':>8} {'/ torch':>8}")
        for op, times in ops.items():
            ratios = " ".join(f"{ratio(times[dtype], peer):>8}" for peer in ("numpy", "torch"))
            print(f"{op:22} {duration(times[dtype]['adjoint']):>9} {ratios}")


def ratio(times: dict[str, float], peer: str) -> str:
    return f"{times['adjoint'] / times[peer]:.2f}" if peer in times else ""


def for_documents(calls: Calls, forks: dict[str, float], ops: Times) -> str:
    head = ["first call of a new kernel", "median", "most", "at most"]
    body = [
        [how, duration(statistics.median(times.values())), duration(max(times.values())), limit]
        for how, times in calls.items()
        for limit in [duration(FIRST_CALLS[how])]
    ]
    launches = [[what, duration(seconds)] for what, seconds in forks.items()]
    names = [(dtype, peer) for dtype in ("float32", "float64") for peer in ("numpy", "torch")]
    ratios = [[f"`{op}`", *(ratio(times[d], p) for d, p in names)] for op, times in ops.items()]
    columns = [f"{dtype} / {peer}" for dtype, peer in names]
    return "\n".join(
        [
            markdown_table(head, body),
            markdown_table(["launch", "time"], launches),
            "Time of an op on 4 million elements over that of another library:\n",
            markdown_table(["op", *columns], ratios),
            f"{described()}.\n",
        ]
    )
