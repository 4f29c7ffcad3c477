"""Under a profile a compiled function runs its program, and each launch is seen."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.compile.test_safety import (
    X,
    Y,
    at_any_moment,
    check_interrupts,
    compiled_training,
    embedding_training,
)
from tests.compile.twins import Training, check_alike
from tests.support.helpers import needs_kernels

pytestmark = needs_kernels


def profiled(function: Callable) -> ad.profile:
    with ad.profile(quiet=True) as p:
        function()
    return p


def calls(p: ad.profile, kind: str) -> dict[str, int]:
    return {row.name: row.calls for row in p.rows if row.kind == kind}


def launches(step: Any) -> Counter:
    """How often each kernel is launched in the only program of a function."""
    ((_, program),) = step._programs
    launched = [item for item in program.built.items if hasattr(item, "launches")]
    return Counter(launch.name for item in launched for launch in item.launches)


# What is shown


def test_each_launch_is_seen_by_the_name_of_its_kernel() -> None:
    side = compiled_training()
    side.step(X, Y)
    p = profiled(lambda: [side.step(X, Y) for _ in range(3)])
    expected = {name: 3 * count for name, count in launches(side.step).items()}
    assert calls(p, "compiled") == expected
    assert {row.kind for row in p.rows} <= {"compiled", "python"}  # nothing ran eagerly
    assert [(row.name, row.kind, row.calls) for row in p.regions] == [("step", "region", 3)]
    assert all(0 < row.seconds < p.regions[0].seconds for row in p.rows)
    assert "elements" in str(p) and "compiled" in str(p)


def test_bytes_are_those_that_launches_write() -> None:
    product = ad.compile(lambda x: ad.tanh(x @ x.T))
    x = ad.ones((16, 8))
    product(x)
    found = {row.name: row.bytes for row in profiled(lambda: product(x)).rows}
    assert found == {"matmul": 16 * 16 * 4, "elements": 16 * 16 * 4}
    weights = [ad.zeros((300, 200), requires_grad=True) for _ in range(3)]
    optimizer = ad.optim.SGD(weights, lr=0.1)
    for p in weights:
        p.grad = ad.ones((300, 200))
    update = ad.compile(optimizer.step)
    update()
    seen = profiled(update)  # of arrays that are updated together
    assert sum(row.bytes for row in seen.rows) == 3 * 300 * 200 * 4


def test_host_steps_stand_beside_launches() -> None:
    solve = ad.compile(lambda x: ad.linalg.cholesky(x * 2.0) * 3.0)
    solve(ad.eye(4))
    x = ad.eye(4)
    found = profiled(lambda: solve(x))
    assert calls(found, "compiled")["cholesky"] == 1
    assert next(row.bytes for row in found.rows if row.name == "cholesky") == 64


def test_a_timeline_has_launches_within_the_function(tmp_path: Path) -> None:
    side = compiled_training()
    side.step(X, Y)
    with ad.profile(quiet=True) as p, ad.profile.region("epoch"):
        side.step(X, Y)
    p.save_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"][2:]
    epoch, step, *rest = [event for event in events if event["cat"] != "python"]
    assert (epoch["name"], step["name"]) == ("epoch", "step")
    assert Counter(event["name"] for event in rest) == {
        f"{name} (compiled)": count for name, count in launches(side.step).items()
    }
    ends = [step["ts"], *(event["ts"] + event["dur"] for event in rest), step["ts"] + step["dur"]]
    assert ends == sorted(ends)
    assert any(event["args"].get("bytes") for event in rest)


def test_a_recording_is_a_row_of_its_own() -> None:
    f = ad.compile(lambda x: ad.exp(x) * 2.0)
    x = ad.ones(5)
    p = profiled(lambda: f(x))
    assert calls(p, "compile")["<lambda>"] == 1 and calls(p, "forward") == {}
    assert calls(p, "compiled") == {"elements": 1}
    assert calls(profiled(lambda: f(x)), "compile") == {} and len(f._programs) == 1
    f(x)
    assert len(f._programs) == 1


def test_ops_that_stay_differentiable_are_seen_as_ops() -> None:
    f = ad.compile(lambda x: (ad.exp(x) * x).sum())
    x = ad.ones((5,), requires_grad=True)
    f(x)
    p = profiled(lambda: f(x).backward())
    assert {"exp", "multiply", "sum"} <= calls(p, "forward").keys()
    assert "exp" in calls(p, "backward")


def test_arrays_of_numpy_and_other_shapes_are_one_call_each() -> None:
    f = ad.compile(lambda x: x + 1.0)
    f(ad.ones(3))
    p = profiled(lambda: [f(np.ones(n, np.float32)) for n in (3, 4, 3)])
    assert [(row.name, row.calls) for row in p.regions] == [("<lambda>", 3)]
    assert calls(p, "compiled") == {"elements": 3} and calls(p, "compile")["<lambda>"] == 1


def test_nested_profiles_see_the_same_launches() -> None:
    f = ad.compile(lambda x: x + 1.0)
    x = ad.ones(3)
    f(x)
    with ad.profile(quiet=True) as outer:
        inner = profiled(lambda: f(x))
        f(x)
    assert calls(outer, "compiled") == {"elements": 2}
    assert calls(inner, "compiled") == {"elements": 1}


# Nothing changes by looking


def test_what_changes_between_profiled_runs_is_seen_and_recorded_once() -> None:
    drop = ad.nn.Dropout(0.5)
    f = ad.compile(lambda x: drop(x) * 2.0)
    x = ad.ones(64)
    f(x)
    drop.unused = 1  # so that all is looked at again
    found = [calls(profiled(lambda: f(x)), "compile").get("<lambda>", 0)]
    drop.eval()
    found += [calls(profiled(lambda: f(x)), "compile").get("<lambda>", 0) for _ in range(2)]
    assert found == [0, 1, 0]


def test_results_and_state_are_those_of_a_run_without_a_profile() -> None:
    sides: list[Training] = []
    found: list[list[float]] = []
    for is_profiled in (False, True):
        side = compiled_training()
        sides.append(side)
        found.append([side.step(X, Y).item()])
        held = side.model[0].weight.detach()  # so that it moves to new memory
        for _ in range(3):
            if is_profiled:
                profiled(lambda side=side: found[-1].append(side.step(X, Y).item()))
            else:
                found[-1].append(side.step(X, Y).item())
        found[-1].append(side.step(X, Y).item())
        assert held is not None
    assert found[0] == found[1]
    check_alike(sides[1].state(), sides[0].state(), 0)
    assert len(sides[1].step._programs) == 1


def test_an_error_in_a_profiled_run_leaves_all_as_it_was() -> None:
    ad.random.seed(0)
    side = embedding_training()
    side.step = ad.compile(side.step)
    tokens, labels = ad.asarray([0, 1, 2, 3, 4, 0]), ad.asarray([0, 1, 1, 0, 1, 0])
    side.step(tokens, labels)
    before = side.state()
    for wrong in ((ad.asarray([0, 1, 2, 3, 4, 5]), labels), (tokens, labels + 2)):
        with ad.profile(quiet=True) as p, pytest.raises(ad.IndexingError):
            side.step(*wrong)
        check_alike(side.state(), before, 0)
        assert calls(p, "compiled")  # those up to the one that failed
        assert sum(calls(p, "compiled").values()) < sum(launches(side.step).values())
    side.step(tokens, labels)


@at_any_moment
def test_an_interrupt_at_every_moment_of_a_profiled_step_finds_a_whole_state() -> None:
    files = "_compile/profiled.py", "jit/timed_lists.py"
    with ad.profile(quiet=True):  # one for all, as each begins by collecting garbage
        check_interrupts(compiled_training(), 7, files)


def test_anomaly_mode_under_a_profile_runs_eagerly() -> None:
    f = ad.compile(lambda x: ad.log(x).sum())
    x = ad.tensor([-1.0, 2.0])
    f(x)
    with ad.profile(quiet=True) as p, ad.detect_anomaly(), pytest.raises(ad.AnomalyError):
        f(x)
    assert calls(p, "forward") == {"log": 1} and calls(p, "compiled") == {}
