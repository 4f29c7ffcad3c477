"""Nothing leaves state torn or stale: errors, interrupts, threads, forks, and memory that ends."""

import contextlib
import gc
import os
import random
import signal
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint._compile import running
from adjoint._compile.running import Run
from adjoint.backends.cpu.jit import memory
from tests.compile.twins import Training, Twins, check_alike, copied, replay
from tests.core.interrupts import interrupted
from tests.support.helpers import in_threads, needs_kernels
from tests.support.processes import printed, python

pytestmark = needs_kernels
nn, F = ad.nn, ad.nn.functional
rng = np.random.default_rng(0)
X = ad.asarray(rng.normal(size=(6, 3)).astype(np.float32))
Y = ad.asarray(rng.normal(size=(6, 2)).astype(np.float32))


def training(side: Training | None = None) -> Training:
    """Everything that a step can change: parameters, buffers, momentum, counts, random numbers."""
    layers = nn.BatchNorm1d(3), nn.Linear(3, 4), nn.Dropout(0.25), nn.Tanh(), nn.Linear(4, 2)
    side = Training(nn.Sequential(*layers), lambda p: ad.optim.Adam(p, lr=0.01))
    generator = side.more["own"] = ad.random.Generator(3)

    def step(x: Any, y: Any) -> Any:
        loss = F.mse_loss(side.model(x + 0.1 * generator.normal(x.shape)), y)
        side.optimizer.zero_grad()
        loss.backward()
        side.optimizer.step()
        return loss

    side.step = step
    return side


def compiled_training() -> Training:
    ad.random.seed(0)
    side = training()
    side.step = ad.compile(side.step)
    return side


# Data that has no result


def embedding_training() -> Training:
    side = Training(
        nn.Sequential(nn.Embedding(5, 3), nn.Dropout(0.5), nn.BatchNorm1d(3), nn.Linear(3, 2)),
        lambda p: ad.optim.SGD(p, lr=0.1, momentum=0.9),
    )

    def step(tokens: Any, labels: Any) -> Any:
        loss = F.cross_entropy(side.model(tokens), labels)
        side.optimizer.zero_grad()
        loss.backward()
        side.optimizer.step()
        return loss

    side.step = step
    return side


@pytest.mark.parametrize("bad", ["token", "label"])
def test_a_bad_index_in_the_third_of_five_steps_changes_nothing(bad: str) -> None:
    """Eager draws its dropout before it comes to the label: all else of it is as before, too."""
    twins = Twins(embedding_training)
    tokens, labels = ad.asarray([0, 1, 2, 3, 4, 0]), ad.asarray([0, 1, 1, 0, 1, 0])
    wrong = {"token": (ad.asarray([0, 1, 2, 3, 4, 5]), labels)}
    wrong["label"] = tokens, ad.asarray([0, 1, 1, 0, 1, 2])
    for k in range(5):
        if k != 2:
            twins(tokens, labels)
            continue
        before, start = twins.compiled.state(), ad.random.get_state()
        with pytest.raises(ad.IndexingError) as found:
            twins.compiled.step(*wrong[bad])
        check_alike(twins.compiled.state(), before, 0)
        eager = twins.eager.state()
        with pytest.raises(ad.IndexingError) as expected:
            twins.eager.step(*wrong[bad])
        assert type(found.value) is type(expected.value)
        assert str(found.value) == str(expected.value)
        ad.random.set_state(start)
        restore(twins.eager, eager)
    assert twins.programs == 1


def restore(side: Training, state: dict[str, Any]) -> None:
    """Undo what an eager step did before it raised."""
    for name, x in [*side.model.named_parameters(), *side.model.named_buffers()]:
        with ad.no_grad():
            x[...] = ad.asarray(state[f"model.{name}"])
        grad = state[f"grad.{name}"]
        x.grad = None if grad is None else ad.asarray(grad)


def test_a_factorisation_that_fails_changes_nothing() -> None:
    total = ad.zeros(())

    @ad.compile
    def step(x: Any) -> Any:
        total.__iadd__(1)
        factor = ad.linalg.cholesky(x)
        total.__iadd__(factor.sum())
        return factor

    good, bad = ad.eye(3) * 4, -ad.eye(3)
    step(good)
    with pytest.raises(ad.AdjointError) as found:
        step(bad)
    assert total.item() == 7
    with pytest.raises(ad.AdjointError) as expected:
        ad.linalg.cholesky(bad)
    assert str(found.value) == str(expected.value)
    step(good)
    assert total.item() == 14


def test_an_exception_in_the_function_leaves_all_as_it_was() -> None:
    side = compiled_training()
    usual = side.step._function
    broken = True

    def step(x: Any, y: Any) -> Any:
        out = usual(x, y)
        if broken:
            raise ZeroDivisionError("here")
        return out

    side.step = ad.compile(step)
    before = side.state()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="here"):
            side.step(X, Y)
        check_alike(side.state(), before, 0)
        assert not ad.is_tracing() and ad.is_grad_enabled()
    broken = False
    other = training_replayed(1)
    side.step(X, Y)
    check_alike(side.state(), other[1])


def training_replayed(steps: int) -> list[dict[str, Any]]:
    """The states of an eager training, from the same start as `compiled_training`."""
    now = ad.random.get_state()
    ad.random.seed(0)
    states = replay(training(), steps, X, Y)
    ad.random.set_state(now)
    return states


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda x: x if x.sum() > 0 else -x, "if x.sum"),
        (lambda x: x * x.sum().item(), "item"),
        (lambda x: ad.nonzero(x), "nonzero"),
        (lambda x: x[x > 0], r"x\[x > 0\]"),
        (lambda x: ad.asarray(np.asarray(x)), "asarray"),
        (lambda x: float(x.sum()), "float"),
    ],
)
def test_values_that_are_needed_are_errors_that_name_the_line(body: Callable, message: str) -> None:
    step = ad.compile(body)
    with pytest.raises(ad.TraceError, match=message) as error:
        step(X)
    assert "test_safety.py:" in str(error.value) and str(error.value).startswith("compile: ")


def test_a_hook_that_reads_a_value_is_an_error_that_names_the_line() -> None:
    side = compiled_training()
    seen: list[float] = []
    handle = side.model[0].weight.register_hook(lambda g: seen.append(g.sum().item()))
    before = side.state()
    with pytest.raises(ad.TraceError, match=r"seen\.append") as error:
        side.step(X, Y)
    assert "test_safety.py:" in str(error.value) and seen == []
    check_alike(side.state(), before, 0)
    handle.remove()
    side.step(X, Y)
    assert side.optimizer._counts.tolist()[0] == 1


def test_hooks_that_compute_are_part_of_the_step() -> None:
    def make() -> Training:
        side = training()
        side.model[0].weight.register_hook(lambda g: g * 2)
        return side

    twins = Twins(make)
    for _ in range(2):
        twins(X, Y)
    twins.each(lambda side: side.more.update())
    twins.each(lambda side: side.model[4].weight.register_hook(lambda g: g * 0.5))
    twins(X, Y)
    twins(X, Y)


# Memory that ends


def test_no_memory_left_at_any_moment_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    side = compiled_training()
    side.step(X, Y)
    held = side.model[0].weight.detach()  # so that it moves to new memory
    states = [side.state()]
    empty = memory.empty
    left = 0

    def failing(*args: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            raise MemoryError
        return empty(*args)

    monkeypatch.setattr(memory, "empty", failing)
    monkeypatch.setattr(running, "empty", failing)
    for _, one in side.step._programs:
        one.runs.clear()  # those that come know this memory
    for n in range(1, 1000):
        left = n
        try:
            side.step(X, Y)
            break
        except MemoryError:
            left = 0
            check_alike(side.state(), states[0], 0)
    left = 0
    assert n > 3
    assert side.optimizer._counts.tolist()[0] == 2 and held is not None
    check_alike(side.state(), training_replayed(2)[2])


# Interrupts


def restorer(side: Training) -> Callable[[], None]:
    """What brings back the state that a training has now."""
    model, random_state = copied(side.model.state_dict()), ad.random.get_state()
    model = {name: ad.asarray(x) for name, x in model.items()}
    optimizer, own = side.optimizer.state_dict(), side.more["own"].state
    grads = [p.grad.numpy().copy() for p in side.model.parameters()]
    scheduler = side.scheduler and side.scheduler.state_dict()

    def restart() -> None:
        side.model.load_state_dict(model)
        side.optimizer.load_state_dict(optimizer)
        for p, g in zip(side.model.parameters(), grads, strict=True):
            p.grad = ad.asarray(g)
        ad.random.set_state(random_state)
        side.more["own"].state = own
        if side.scheduler:
            side.scheduler.load_state_dict(scheduler)

    return restart


def held_arrays(side: Training) -> list[tuple[int, int]]:
    """Where parameters lie, and how often they are referred to."""
    return [(id(p.raw), sys.getrefcount(p.raw)) for p in side.model.parameters()]


FILES = tuple(f"_compile/{name}.py" for name in "compiled program restoring running".split())
FILES += ("_core/holding.py",)
FILES += ("lr_scheduler/_factors.py", "lr_scheduler/_scheduler.py", "_trace/graph.py")


at_any_moment = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def check_interrupts(side: Training, every: int = 5, files: tuple[str, ...] = ()) -> None:
    """Interrupt a step at one moment after the other: all that it changes is as it was before, or
    as it is after it."""
    side.step(X, Y)
    restart = restorer(side)
    before = side.state()
    side.step(X, Y)
    after = side.state()
    found: list[bool] = []

    def check() -> None:
        state = side.state()
        found.append(not np.array_equal(state["more.own"], before["more.own"]))
        check_alike(state, after if found[-1] else before, 0)
        restart()

    restart()
    side.step(X, Y)
    counts = {count for _, count in held_arrays(side)}
    restart()
    assert interrupted(lambda: side.step(X, Y), check, FILES + files, every) > 20
    assert found[-1] and not found[0]
    side.step(X, Y)
    gc.collect()  # of traced frames
    assert {count for _, count in held_arrays(side)} == counts  # nothing is held any more
    check_alike(side.state(), after, 0)


@at_any_moment
def test_an_interrupt_at_every_moment_of_a_step_finds_a_whole_state() -> None:
    check_interrupts(compiled_training())


@at_any_moment
def test_a_scheduler_steps_with_all_else_or_not_at_all() -> None:
    side = compiled_training()
    side.scheduler = ad.optim.lr_scheduler.StepLR(side.optimizer, 1, gamma=0.5)
    usual = side.step._function

    def step(x: Any, y: Any) -> Any:
        out = usual(x, y)
        side.scheduler.step()
        return out

    side.step = ad.compile(step)
    check_interrupts(side)


@at_any_moment
def test_changes_beside_results_that_can_be_differentiated_are_all_made_or_none() -> None:
    side = compiled_training()
    side.step(X, Y)
    generator = side.more["own"]
    side.step = ad.compile(lambda x, y: F.mse_loss(side.model(x + generator.normal(x.shape)), y))
    check_interrupts(side, 29)


# Where it comes while Python closes a generator it is printed, and lost.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_while_a_step_is_recorded_changes_nothing() -> None:
    weight, total = ad.ones((2,)).requires_grad_(), ad.zeros(())
    optimizer = ad.optim.SGD([weight], lr=1.0, momentum=0.5)

    def step(x: Any) -> Any:
        loss = (weight * x).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total.__iadd__(1)
        return loss

    ad.compile(step)(ad.ones(2))
    before, found = [weight.detach() + 0, total + 0, optimizer.state_dict()], []

    def check() -> None:
        assert not ad.is_tracing() and ad.is_grad_enabled()
        found.append(total.item())
        if total.item() == 1:
            now = copied([weight, total, optimizer.state_dict()])
            check_alike(now, copied(before), 0)
            assert weight.grad.tolist() == [1, 1]
        with ad.no_grad():
            weight[...] = before[0]
            total[...] = 1.0
        optimizer.load_state_dict(before[2])

    files = ("_compile/compiled.py", "_compile/recording.py", "_compile/captures.py")
    files += ("_trace/graph.py", "_trace/recording.py")
    interrupted(lambda: ad.compile(step)(ad.ones(2)), check, files, 53)
    assert found[0] == 1 and found[-1] == 2


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs signals of threads")
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_at_twenty_random_moments() -> None:
    """A real signal, while steps follow each other: all is as after so many whole steps, which
    another training makes."""
    side, other = compiled_training(), compiled_training()
    ad.random.seed(1)
    random_state = ad.random.get_state()
    side.step(X, Y)
    main, chance, done = threading.get_ident(), random.Random(0), 0
    for _ in range(20):
        delay = chance.uniform(0.0005, 0.004)
        timer = threading.Timer(delay, signal.pthread_kill, (main, signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            for _ in range(10**6):
                side.step(X, Y)
        timer.join()
        found, now = side.state(), ad.random.get_state()
        ad.random.set_state(random_state)
        for _ in range(done, round(found["model.0.num_batches_tracked"].item())):
            other.step(X, Y)
            done += 1
        check_alike(found, other.state(), 0)
        random_state = ad.random.get_state()
        ad.random.set_state(now)
    assert done > 20


# Threads and processes


def test_two_threads_that_step_one_model() -> None:
    """As if one step came after the other."""
    model = nn.Linear(3, 1, bias=False)
    with ad.no_grad():
        model.weight[...] = 0.0
    optimizer = ad.optim.SGD(model.parameters(), lr=1.0)
    calls = ad.zeros(())

    @ad.compile
    def step(x: Any) -> Any:
        loss = model(x).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        calls.__iadd__(1)
        return calls * 1

    x = ad.ones((1, 3))
    step(x)
    seen: list[list[float]] = [[], []]

    def run(number: int) -> None:
        for _ in range(100):
            seen[number].append(step(x).item())

    in_threads(2, run)
    assert calls.item() == 201 and sorted(seen[0] + seen[1]) == [float(k) for k in range(2, 202)]
    np.testing.assert_array_equal(model.weight.detach().numpy(), np.full((1, 3), -201.0))


def test_two_threads_that_are_first_at_once() -> None:
    total = ad.zeros(())

    @ad.compile
    def step(x: Any) -> Any:
        total.__iadd__(x.sum())
        return total * 1

    in_threads(4, lambda _: [step(ad.ones(3)) for _ in range(5)])
    assert total.item() == 60


def test_two_models_in_two_threads() -> None:
    sides = []
    for _ in range(2):
        ad.random.seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        side = Training(model, lambda p: ad.optim.Adam(p, lr=0.01))
        side.step = step_of(side)
        sides.append(side)
    expected = []
    ad.random.seed(0)
    other = Training(
        nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)),
        lambda p: ad.optim.Adam(p, lr=0.01),
    )
    other.step = step_of(other)
    expected = [other.step(X, Y).item() for _ in range(20)]
    found: dict[int, list[float]] = {}

    def run(number: int) -> None:
        step = ad.compile(sides[number].step)
        found[number] = [step(X, Y).item() for _ in range(20)]

    in_threads(2, run)
    assert found[0] == found[1]
    np.testing.assert_allclose(found[0], expected, rtol=1e-4)


def step_of(side: Training) -> Callable:
    def step(x: Any, y: Any) -> Any:
        loss = F.mse_loss(side.model(x), y)
        side.optimizer.zero_grad()
        loss.backward()
        side.optimizer.step()
        return loss.detach()

    return step


def test_functions_without_changes_run_in_parallel() -> None:
    f = ad.compile(lambda x, k: ad.tanh(x * k).sum(axis=1) @ x)
    inputs = [ad.asarray(rng.normal(size=(20, 20))) for _ in range(8)]
    expected = [f._function(x, 3).numpy() for x in inputs]

    def run(number: int) -> None:
        for k in range(200):
            which = (k + number) % len(inputs)
            np.testing.assert_allclose(f(inputs[which], 3).numpy(), expected[which], rtol=1e-12)

    in_threads(4, run)


def test_draws_of_eager_code_beside_a_compiled_step_overlap_with_none() -> None:
    """The state moves on by the same amount, whoever draws: nobody's draw is lost."""
    generator = ad.random.Generator(1)
    draw = ad.compile(lambda: generator.bits((8,)))
    draw()

    def run(number: int) -> None:
        for _ in range(200):
            draw() if number % 2 else generator.bits((8,))

    in_threads(2, run)
    other = ad.random.Generator(1)
    for _ in range(401):
        other.bits((8,))
    np.testing.assert_array_equal(generator.state.numpy(), other.state.numpy())


def test_values_that_another_thread_takes_during_a_run_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run writes over parameters long after it has looked whether anybody shares them."""
    weight, end = ad.zeros(3), threading.Event()

    @ad.compile
    def step(x: Any) -> None:
        weight.__iadd__(x)

    for _ in range(2):
        step(ad.ones(3))
    held: list[ad.Tensor] = []
    compute = Run.compute

    def taking(run: Run) -> Any:
        out = compute(run)
        held.append(weight.detach())
        return out

    monkeypatch.setattr(Run, "compute", taking)
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        step(ad.ones(3))
        assert held[0].tolist() == [2, 2, 2] and weight.tolist() == [3, 3, 3]
    finally:
        end.set()
        thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork.. was called:RuntimeWarning")  # JAX's, if it is there
def test_a_forked_child_and_its_parent_both_go_on() -> None:
    side = compiled_training()
    for _ in range(2):
        side.step(X, Y)
    large = ad.compile(lambda x: ad.tanh(x).sum())
    x = ad.ones((300, 300))
    value = large(x).item()
    before = side.state()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            states = [side.step(X, Y).item() for _ in range(3)]
            os.write(writer, repr((states, large(x).item() == value)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        found = stream.read()
    os.waitpid(child, 0)
    check_alike(side.state(), before, 0)
    states = [side.step(X, Y).item() for _ in range(3)]
    assert found == repr((states, True)) and large(x).item() == value


# Memory over time


@contextlib.contextmanager
def traced_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def test_a_thousand_calls_leave_memory_flat() -> None:
    side = compiled_training()
    forward = ad.compile(ad.no_grad()(lambda x: side.model(x)))
    differentiable = ad.compile(lambda x: side.model[1](x).sum())

    def run() -> None:
        side.step(X, Y)
        forward(X)
        if side.optimizer._counts[0] % 20 == 0:
            differentiable(X)

    for _ in range(60):
        run()
    gc.collect()
    start_arrays = held_arrays(side)
    pool = {k: v for k, v in ad.memory_stats().items() if "in_use" in k or k == "in_use"}
    objects = len(gc.get_objects())
    with traced_memory():
        for _ in range(30):
            run()
        gc.collect()
        start, _ = tracemalloc.get_traced_memory()
        for _ in range(1000):
            run()
        gc.collect()
        end, _ = tracemalloc.get_traced_memory()
    assert end - start < 20_000  # less than an object for each call
    assert held_arrays(side) == start_arrays  # they are updated in place
    assert {k: v for k, v in ad.memory_stats().items() if k in pool} == pool
    assert len(gc.get_objects()) - objects < 100


def test_errors_and_misfits_leave_no_references() -> None:
    weight = ad.ones((5, 2))
    f = ad.compile(lambda k: weight[k] * 2)
    f(ad.asarray([0, 1]))
    count = sys.getrefcount(weight.raw)
    for _ in range(5):
        with pytest.raises(ad.IndexingError):
            f(ad.asarray([0, 7]))
    gc.collect()
    now = sys.getrefcount(weight.raw)
    assert now == count


# Where functions aren't compiled

SCRIPT = """
import warnings
import adjoint as ad
model = ad.nn.Linear(3, 1)
optimizer = ad.optim.SGD(model.parameters(), lr=0.1)
calls = []
@ad.compile
def step(x):
    calls.append(0)
    loss = (model(x) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
other = ad.compile(lambda x: x * 2)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    x = ad.ones((4, 3))
    losses = [step(x).item() for _ in range(3)]
    other(x)
assert losses[2] < losses[1] < losses[0]
print(len(calls), [str(w.message).partition(";")[0] for w in said])
"""


def test_compile_can_be_switched_off() -> None:
    assert printed("-c", SCRIPT, ADJOINT_COMPILE="0").strip() == "3 []"
    assert printed("-c", SCRIPT).strip() == "1 []"


def test_without_a_compiler_functions_run_eagerly_and_say_so_once() -> None:
    missing = "import sys; sys.modules['llvmlite'] = None\n"
    (count, told), why = printed("-c", missing + SCRIPT).split(" ", 1), "llvmlite can't be used"
    assert count == "3" and told.count("compile: functions run eagerly: " + why) == 1
    assert printed("-c", SCRIPT, ADJOINT_JIT="0").strip() == "3 []"


def test_explain_says_what_switches_compile_off() -> None:
    script = "import adjoint as ad; print(ad.compile(abs).explain())"
    for switch in ("ADJOINT_COMPILE", "ADJOINT_JIT"):
        assert f"run eagerly: {switch}=0" in printed("-c", script, **{switch: "0"})


def test_passes_are_printed_where_they_are_asked_for() -> None:
    done = python("-c", SCRIPT, ADJOINT_COMPILE_LOG="groups")
    assert done.returncode == 0 and "compile step: groups" in done.stderr
    assert "group over" in done.stderr
    done = python("-c", SCRIPT, ADJOINT_COMPILE_LOG="record,simplify")
    assert "compile step: record" in done.stderr and "compile step: simplify" in done.stderr


def test_anomaly_mode_runs_eagerly() -> None:
    f = ad.compile(lambda x: ad.log(x).sum())
    x = ad.tensor([-1.0, 2.0], requires_grad=True)
    f(x)
    with ad.detect_anomaly(), pytest.raises(ad.AnomalyError, match="log"):
        f(x).backward()
    side, other = compiled_training(), compiled_training()
    ad.random.seed(4)
    with ad.detect_anomaly():
        found = [side.step(X, Y).item() for _ in range(2)]
    ad.random.seed(4)
    np.testing.assert_allclose(found, [other.step(X, Y).item() for _ in range(2)], rtol=1e-4)


def test_explain_prints_programs_of_each_kind() -> None:
    f = ad.compile(lambda x: ad.tanh(x) * 2)
    assert f.explain() == "<lambda>: 0 programs"
    f(X)
    f(ad.tensor([1.0], requires_grad=True))
    assert "2 programs" in f.explain() and "run one by one" in f.explain()
    assert "launches" in f.explain() and "float32[6, 3]" in f.explain()
    side = compiled_training()
    side.step(X, Y)
    assert "changed in place" in side.step.explain()
    solve = ad.compile(lambda x: ad.linalg.cholesky(x) * 2)
    solve(ad.eye(3))
    assert "in Python, as there is no kernel" in solve.explain()
    assert repr(f) == "<compiled <lambda>: 2 programs>"


def test_what_isnt_a_function_is_refused() -> None:
    with pytest.raises(ad.DTypeError, match="got int"):
        ad.compile(3)  # type: ignore[arg-type]
