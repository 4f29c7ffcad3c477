"""Backward with several threads: the serial result bit for bit, and no way to hang."""

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint._engine import parallel

WORKERS = (2, 4, 8)


@pytest.fixture(autouse=True)
def no_graph_is_small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(parallel, "SMALL", 0)
    yield
    alive = [t for t in threading.enumerate() if t.name.startswith("adjoint")]
    assert len(alive) < max(WORKERS), "threads are used again, not left behind"


# Random graphs


class Program:
    """A random program of a few leaves; every choice is drawn beforehand."""

    UNARY: tuple[Callable, ...] = (
        ad.tanh,
        ad.sin,
        lambda x: x * x,
        lambda x: x.T,
        lambda x: ad.softmax(x, axis=1),
        lambda x: ad.max(x, axis=0, keepdims=True) + x,
        lambda x: ad.topk(x, 2, axis=0)[0].sum(axis=0, keepdims=True) * x,
        lambda x: x[::-1] - x.detach(),
        lambda x: ad.checkpoint(lambda x: ad.tanh(x * 2) * x, x),
    )
    BINARY: tuple[Callable, ...] = (
        lambda x, y: x + y,
        lambda x, y: x * y,
        lambda x, y: x - 2 * y,
        lambda x, y: x @ y,
        lambda x, y: ad.concat([x, y], axis=1)[:, 1:5],
        lambda x, y: ad.checkpoint(lambda x: ad.sin(x) * y, x),
    )

    def __init__(self, leaves: int, steps: list[tuple[int, int, int]]) -> None:
        self.leaves, self.steps = leaves, steps

    def run(self, seed: int) -> tuple[list[ad.Tensor], list[ad.Tensor], ad.Tensor]:
        rng = np.random.default_rng(seed)
        leaves = [
            ad.tensor(rng.standard_normal((4, 4)), requires_grad=True) for _ in range(self.leaves)
        ]
        values = list(leaves)
        for kind, i, j in self.steps:
            x, y = values[i % len(values)], values[j % len(values)]
            unary = kind < len(self.UNARY)
            values.append(
                self.UNARY[kind](x) if unary else self.BINARY[kind - len(self.UNARY)](x, y)
            )
        parts = values[-1 - min(5, len(self.steps)) :]
        return leaves, values[len(leaves) :], sum((v * v).mean() for v in parts)  # type: ignore


KINDS = len(Program.UNARY) + len(Program.BINARY)
programs = st.builds(
    Program,
    st.integers(1, 4),
    st.lists(
        st.tuples(st.integers(0, KINDS - 1), st.integers(0, 30), st.integers(0, 30)),
        min_size=4,
        max_size=24,
    ),
)


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(programs, st.integers(0, 1000))
def test_the_result_is_the_serial_one_bit_for_bit(program: Program, seed: int) -> None:
    leaves, values, loss = program.run(seed)
    branches = [ad.sin(leaves[0] * 2), ad.cos(leaves[0] * 3)]
    loss = loss + sum(branches).mean()  # type: ignore[union-attr]
    serial = ad.gradients(loss, retain_graph=True)
    both = threading.Barrier(2, timeout=30)

    def meet(g: ad.Tensor) -> None:
        both.wait()

    for branch in branches:  # independent of each other: two threads must get to them at once
        branch.register_hook(meet)
    ran: set[int] = set()
    for value in [*leaves, *values]:
        value.register_hook(lambda g: ran.add(threading.get_ident()))
    for workers in WORKERS:
        for _ in range(5):
            found = ad.gradients(loss, retain_graph=True, workers=workers)
            assert list(found) == list(serial)
            for tensor in serial:
                np.testing.assert_array_equal(found[tensor].numpy(), serial[tensor].numpy())
    assert len(ran) > 1, "several threads ran the program's own nodes too"


def test_a_thread_may_come_to_a_node_that_another_has_already_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = ad.tensor([1.0, 2.0], dtype=ad.float64, requires_grad=True)
    late: list[bool] = []
    add_up = parallel.Work.add_up

    def held_up(work: parallel.Work, node: object) -> bool:
        if node is x.node and not late:  # this thread has said that its node is done, no more
            late.append(True)
            end = time.monotonic() + 30
            while node in work.inboxes and time.monotonic() < end:
                time.sleep(0.001)
            late.append(node not in work.inboxes)
        return add_up(work, node)  # type: ignore[arg-type]

    monkeypatch.setattr(parallel.Work, "add_up", held_up)
    found = ad.gradients((ad.sin(x) + ad.cos(x)).sum(), workers=2)
    assert late == [True, True]
    np.testing.assert_allclose(found[x].numpy(), np.cos([1.0, 2.0]) - np.sin([1.0, 2.0]))


@pytest.mark.parametrize("workers", WORKERS)
def test_backward_and_grad_give_the_serial_result_too(workers: int) -> None:
    steps = [(k, 3 * k + 1, 5 * k + 2) for k in range(KINDS)] * 2
    leaves, _, loss = Program(4, steps).run(3)
    serial = ad.gradients(loss, retain_graph=True)
    loss.backward(retain_graph=True, workers=workers)
    for x in serial:
        assert x is loss or np.array_equal(x.grad.numpy(), serial[x].numpy())  # type: ignore
    used = [x for x in leaves if x in serial]
    grads = ad.autograd.grad(loss, used, workers=workers)
    for x, g in zip(used, grads, strict=True):
        assert g is not None
        np.testing.assert_array_equal(g.numpy(), serial[x].numpy())


def test_the_default_holds_for_all_and_is_overruled(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(
        parallel, "try_in_parallel", lambda seeds, run, workers: asked.append(workers) or False
    )
    x = ad.tensor(2.0, requires_grad=True)
    ad.set_default_workers(3)
    try:
        (x * x).backward()
        ad.gradients(x * x, workers=2)
        ad.autograd.grad(x * x, x, workers=1)
        ad.grad(lambda x: x * x)(2.0)
    finally:
        ad.set_default_workers(1)
    assert asked == [3, 2, 3] and ad.get_default_workers() == 1


def test_the_default_is_a_positive_integer_too() -> None:
    with pytest.raises(ad.ArgumentError, match="set_default_workers: workers is a positive"):
        ad.set_default_workers(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [0, -1, 1.5, True, "2", 10**6])
def test_workers_is_a_positive_integer(workers: object) -> None:
    x = ad.tensor(2.0, requires_grad=True)
    for call in (
        lambda: (x * x).backward(workers=workers),
        lambda: ad.gradients(x * x, workers=workers),  # type: ignore[arg-type]
        lambda: ad.autograd.grad(x * x, x, workers=workers),  # type: ignore[arg-type]
        lambda: ad.set_default_workers(workers),  # type: ignore[arg-type]
    ):
        with pytest.raises(ad.ArgumentError, match="workers is a positive integer"):
            call()


@pytest.mark.parametrize("options", [{"create_graph": True}, {}], ids=["recorded", "traced"])
def test_recorded_gradients_and_traces_are_serial(options: dict, monkeypatch) -> None:
    monkeypatch.setattr(parallel, "try_in_parallel", lambda *args: pytest.fail("not serial"))
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    if options:
        ad.gradients((x * x).sum(), workers=4, **options)
    else:
        ad.trace(lambda x: ad.gradients((x * x).sum(), workers=4)[x], x)


def test_small_graphs_are_serial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "SMALL", 1 << 18)
    monkeypatch.setattr(parallel, "Work", lambda *args: pytest.fail("not serial"))
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward(workers=8)
    assert x.grad is not None and x.grad.tolist() == [2.0, 4.0]


def test_a_blas_with_threads_of_its_own_is_asked_for_one_thing_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy, most, meeting = [0], [0], [iter(range(0))]
    meet = threading.Barrier(2, timeout=30)
    kernel = parallel.cpu.FUNCTIONS["matmul"]

    def counted(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        busy[0] += 1
        most[0] = max(most[0], busy[0])
        if next(meeting[0], None) is not None:  # of those that may run at once, two must get here
            meet.wait()
            most[0] = max(most[0], busy[0])
        else:
            time.sleep(0.001)
        busy[0] -= 1
        return kernel(x, y)

    product = ad.op.contraction(
        "counted_matmul",
        kernels={"cpu": counted},
        x=lambda g, y: product(g, ad.matrix_transpose(y)),
        y=lambda g, x: product(ad.matrix_transpose(x), g),
    )
    x = ad.tensor(np.eye(4), requires_grad=True)
    for threads, at_once in ((2, 1), (1, 2)):
        monkeypatch.setattr(parallel.cpu, "blas_threads", lambda n=threads: n)
        loss = sum(product(ad.sin(x), ad.cos(x)).sum() for _ in range(8))
        most[0], meeting[0] = 0, iter(range(2 * (at_once - 1)))
        loss.backward(workers=4)  # type: ignore[union-attr]
        assert most[0] == 1 if at_once == 1 else most[0] > 1


# Errors


class Mine(Exception):
    pass


def fails_at(target: list[int], counter: list[int]) -> Callable:
    """An identity whose rule raises at one of its uses."""

    def rule(g, k):
        if k == target[0]:
            counter[0] += 1
            raise Mine(f"at {k}")
        return g * 1.0 if k % 2 else g

    return ad.op.elementwise("maybe", attrs="k", x=rule, forward=lambda x, k: x * 1.0)


def test_an_exception_in_a_rule_or_a_hook_is_that_exception_and_the_next_pass_is_right() -> None:
    rng = random.Random(0)
    target, counter = [-1], [0]
    maybe = fails_at(target, counter)
    x = ad.tensor(np.arange(1.0, 5.0), requires_grad=True)
    width, depth = 6, 5

    def build(hooks: bool) -> ad.Tensor:
        ends = []
        for b in range(width):
            h = x * (b + 1.0)
            for d in range(depth):
                k = b * depth + d
                h = ad.sin(h) if hooks else maybe(ad.sin(h), k=k)
                if hooks:
                    h.register_hook(lambda g, k=k: raise_at(k))
            ends.append(h)
        return sum(ends).sum()  # type: ignore[union-attr]

    def raise_at(k: int) -> None:
        if k == target[0]:
            raise Mine(f"at {k}")

    build(False).backward()
    expected, x.grad = x.grad, None
    threads = threading.active_count()
    for run in range(500):
        target[0] = rng.randrange(width * depth)
        loss = build(hooks=bool(run % 2))
        with pytest.raises(Mine, match=f"^at {target[0]}$"):
            loss.backward(workers=rng.choice(WORKERS))
        assert x.grad is None
        target[0] = -1
        build(hooks=bool(run % 2)).backward(workers=4)
        assert x.grad is not None and expected is not None
        np.testing.assert_array_equal(x.grad.numpy(), expected.numpy())
        x.grad = None
    assert threading.active_count() < threads + max(WORKERS)


def test_a_node_without_gradient_never_blocks() -> None:
    nothing = ad.op.other(
        "nothing",
        inputs="x y",
        vjp=lambda g, needs: (None, g),
        kernels={"cpu": lambda x, y: x + y},
        shape=lambda x_shape: x_shape,
    )
    x, y = (ad.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    without = ad.sin(ad.sin(x * 2) + ad.exp(x * 3))
    loss = (nothing(without, y * 2) + nothing(ad.cos(without), y)).sum()
    loss.backward(workers=4)
    assert x.grad is None
    assert y.grad is not None and y.grad.tolist() == [3.0, 3.0]


def test_the_first_of_many_exceptions_surfaces_and_complete_leaves_keep_their_gradient() -> None:
    done, broken = (ad.tensor(np.ones(4), requires_grad=True) for _ in range(2))

    def fails(g: ad.Tensor) -> None:
        time.sleep(0.01)
        raise Mine("hook")

    parts = [ad.sin(broken * k) for k in range(8)]
    for part in parts:
        part.register_hook(fails)
    loss = sum(parts).sum() + (done * 3).sum()  # type: ignore[union-attr]
    with pytest.raises(Mine, match="hook"):
        loss.backward(workers=4)
    assert broken.grad is None
    assert done.grad is not None and done.grad.tolist() == [3.0] * 4


def test_a_hook_may_run_backward_itself() -> None:
    x = ad.tensor(np.ones(4), requires_grad=True)
    inner: list[list[float]] = []

    def again(g: ad.Tensor) -> None:
        with ad.enable_grad():
            y = ad.tensor([1.0, 2.0], requires_grad=True)
            ad.sin(y * y).sum().backward(workers=4)
        inner.append(y.grad.tolist())  # type: ignore[union-attr]

    parts = [ad.sin(x * k) for k in range(6)]
    for part in parts:
        part.register_hook(again)
    sum(parts).sum().backward(workers=4)  # type: ignore[union-attr]
    assert len(inner) == 6 and all(g == inner[0] for g in inner)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_an_interrupt_is_that_interrupt_and_the_next_pass_is_right() -> None:
    leaves = [ad.tensor(np.linspace(0, 1, 500), requires_grad=True) for _ in range(10)]
    loss = sum(ad.tanh(ad.sin(ad.tanh(x))).sum() for x in leaves)
    expected = ad.gradients(loss, retain_graph=True)  # type: ignore[arg-type]
    rng, armed = random.Random(0), [False]

    def interrupt(*args: object) -> None:
        if armed[0]:
            raise KeyboardInterrupt

    former = signal.signal(signal.SIGALRM, interrupt)
    gc.disable()  # what is raised in a callback of the collector (Hypothesis has one) is lost
    try:
        for _ in range(100):
            try:
                armed[0] = True
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.0002, 0.005), 0.5)
                while True:
                    ad.gradients(loss, retain_graph=True, workers=4)  # type: ignore[arg-type]
            except KeyboardInterrupt:
                armed[0] = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
        gc.enable()
    found = ad.gradients(loss, workers=4)  # type: ignore[arg-type]
    for x in leaves:
        np.testing.assert_array_equal(found[x].numpy(), expected[x].numpy())


@pytest.mark.parametrize("uses", [10, 40])
def test_contributions_are_added_as_they_arrive(uses: int) -> None:
    def peak() -> int:
        h = w * 1.0
        for _ in range(uses):
            h = ad.tanh(h * w)
        loss = h.sum()
        tracemalloc.start()
        loss.backward(workers=2)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    w = ad.tensor(np.ones((64, 64)), requires_grad=True)
    least = min(peak() for _ in range(3))  # a thread that has to wait may fall behind
    assert least < 12 * w.raw.nbytes, "and not kept until the last one is there"


def test_no_more_threads_than_nodes() -> None:
    before = len(parallel.pool.threads)
    x = ad.tensor(np.ones(4), requires_grad=True)
    (x * x).sum().backward(workers=200)
    assert len(parallel.pool.threads) <= max(before, 3)


def test_grad_mode_in_hooks_is_that_of_the_serial_engine() -> None:
    x = ad.tensor(np.ones(4), requires_grad=True)
    modes: list[bool] = []
    parts = [ad.sin(x * k) for k in range(8)]
    for part in parts:
        part.register_hook(lambda g: modes.append(ad.is_grad_enabled()))
    sum(parts).sum().backward(workers=4)  # type: ignore[union-attr]
    assert modes == [False] * 8 and ad.is_grad_enabled()


# Several passes at once


@pytest.mark.parametrize("workers", [1, 4])
def test_threads_on_graphs_that_share_leaves_lose_no_update(workers: int) -> None:
    w = ad.tensor(np.ones((8, 8)), requires_grad=True)
    rounds, users = 40, 4
    errors: list[BaseException] = []

    def train() -> None:
        try:
            for _ in range(rounds):
                sum((w * k).sum() for k in range(1, 4)).backward(workers=workers)  # type: ignore
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=train) for _ in range(users)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors and not any(t.is_alive() for t in threads)
    assert w.grad is not None
    np.testing.assert_array_equal(w.grad.numpy(), 6.0 * rounds * users)


def test_leaf_callbacks_come_once_each_with_the_total() -> None:
    leaves = [ad.tensor(np.ones(4), requires_grad=True) for _ in range(5)]
    parts = [ad.sin(a) * b for a in leaves for b in leaves]
    loss = sum(parts).sum()  # type: ignore[union-attr]
    serial = ad.gradients(loss, retain_graph=True)
    seen: list[tuple[ad.Tensor, ad.Tensor]] = []
    ad.gradients(loss, workers=4, on_leaf_grad=lambda x, g: seen.append((x, g)))
    assert {id(x) for x, _ in seen} == {id(x) for x in leaves} and len(seen) == 5
    for x, g in seen:
        np.testing.assert_array_equal(g.numpy(), serial[x].numpy())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_starts_threads_of_its_own() -> None:
    script = """
import os, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, adjoint as ad
from adjoint._engine import parallel
parallel.SMALL = 0
def run():
    x = ad.tensor(np.ones(4), requires_grad=True)
    sum(ad.sin(x * k) for k in range(8)).sum().backward(workers=4)
    return x.grad.tolist()
first = run()
pid = os.fork()
if not pid:
    os._exit(0 if run() == first else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", script], timeout=60, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
