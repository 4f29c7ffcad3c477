"""Profiles: every op is seen, nothing is changed by looking, and nothing is left behind."""

import gc
import json
import re
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint._engine import instrumented
from adjoint._foundation import spans
from adjoint._foundation.modes import GRAD, PROFILE, mode
from adjoint._foundation.spans import Span
from adjoint._profile.garbage import Collections
from adjoint._profile.rows import Row, busy, placed, regions, rows
from tests.support.arrays import normal
from tests.support.helpers import leaf, needs_kernels, values

OPS = ("forward", "backward", "recompute", "step", "wait")
LARGE = (256, 256)  # elements enough for kernels and for rules that are put together


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Any:
    yield
    assert mode.word == GRAD and mode.logs == ()
    assert not any(isinstance(getattr(x, "__self__", None), Collections) for x in gc.callbacks)


def profiled(function: Callable, **options: Any) -> ad.profile:
    with ad.profile(quiet=True, **options) as p:
        function()
    return p


def calls(p: ad.profile) -> dict[tuple[str, str], int]:
    return {(row.name, row.kind): row.calls for row in p.rows if row.kind in OPS}


# What is seen.


def test_ops_are_counted_forward_and_backward_apart() -> None:
    x, w = ad.asarray(normal(4, 3)), leaf(normal(3, 2), np.float32)
    p = profiled(lambda: ad.tanh(x @ w).sum().backward())
    assert calls(p) == {
        ("matmul", "forward"): 1,
        ("tanh", "forward"): 1,
        ("sum", "forward"): 1,
        ("full", "forward"): 1,
        ("sum", "backward"): 1,
        ("tanh", "backward"): 1,
        ("matmul", "backward"): 1,
    }


@pytest.mark.parametrize(
    ("view", "bytes"),
    [
        (lambda x: x.T, 0),
        (lambda x: x[1:3], 0),
        (lambda x: x.reshape((4, 8)), 0),
        (lambda x: ad.reshape(ad.flip(x, axis=1), (32,)), 128),  # which has to copy
        (lambda x: ad.broadcast_to(x, (5000, 8, 4)), 0),
        (lambda x: x + 1.0, 128),
        (lambda x: x @ x.T, 256),
        (lambda x: ad.topk(x, 2), 8 * 2 * (4 + 8)),
    ],
)
def test_bytes_are_those_written_and_views_write_none(view: Callable, bytes: int) -> None:
    x = ad.asarray(normal(8, 4))
    assert sum(row.bytes for row in profiled(lambda: view(x)).rows) == bytes


@needs_kernels
def test_rules_that_are_put_together_are_named_so() -> None:
    x, s = leaf(normal(*LARGE), np.float32), ad.asarray(normal(*LARGE, seed=1))

    def step() -> None:
        ad.tanh(ad.sin(x * s)).sum().backward()

    step()
    step()  # what is met twice is worth a kernel
    x.grad = None
    found = calls(profiled(step))
    assert found["tanh+sin+multiply", "backward"] == 1
    assert ("sin", "backward") not in found and ("multiply", "backward") not in found


def test_the_engine_s_own_work_has_rows() -> None:
    x, b = leaf(normal(4, 3)), leaf(normal(3))

    def step() -> None:
        h = x + b
        (h * h + h).sum().backward()

    step()
    found = calls(profiled(step))
    assert found["unbroadcast", "backward"] == 1
    # Three contributions to h, and two gradients that are added to a .grad.
    assert found["accumulate", "backward"] == 2 + 2
    assert ("add", "backward") in found and ("sum", "backward") in found


def test_gradients_of_ops_with_several_outputs_are_accumulated() -> None:
    a = leaf(normal(3, 3, dtype=np.float64))
    h = ad.linalg.qr(a)
    p = profiled(lambda: (h.Q.sum() + h.Q.sum() + h.R.sum()).backward())
    assert calls(p)["qr", "backward"] == 1
    assert calls(p)["accumulate", "backward"] >= 1


def test_ops_in_a_rule_are_the_rule_s() -> None:
    x = leaf(normal(4, 3))
    p = profiled(lambda: ad.max(x, axis=1).sum().backward())
    assert calls(p).keys() == {
        ("max", "forward"),
        ("sum", "forward"),
        ("full", "forward"),
        ("sum", "backward"),
        ("max", "backward"),
    }


def test_ops_in_an_op_are_the_op_s() -> None:
    twice = ad.op.other("twice_profiled", forward=lambda x: x + x, x=lambda g: g + g, shape=None)
    p = profiled(lambda: twice(ad.ones(3)))
    assert calls(p) == {("full", "forward"): 1, ("twice_profiled", "forward"): 1}


def test_recomputed_ops_are_told_from_others() -> None:
    x = leaf(normal(5))
    p = profiled(lambda: ad.checkpoint(lambda x: ad.sin(ad.exp(x)), x).sum().backward())
    found = calls(p)
    assert found["exp", "forward"] == found["exp", "recompute"] == found["exp", "backward"] == 1


@pytest.mark.parametrize("where", ["hook", "post", "leaf"])
def test_what_users_let_a_pass_call_has_a_row(where: str) -> None:
    x = leaf(normal(5))

    def mine(*args: Any) -> None:
        ad.exp(args[0].detach())

    y = x * 2
    if where == "hook":
        y.register_hook(mine)
    elif where == "post":
        x.register_post_accumulate_grad_hook(mine)
    p = profiled(lambda: y.sum().backward(on_leaf_grad=mine if where == "leaf" else None))
    assert calls(p)["hook mine", "backward"] == 1
    assert not any(name == "exp" for name, _ in calls(p))


def test_writes_in_place_are_seen() -> None:
    x, y = ad.asarray(normal(*LARGE)) * 1, ad.asarray(normal(*LARGE, seed=1))

    def change(x: ad.Tensor) -> None:
        x += y
        x.add_(y, alpha=2.0)
        x[1] = 3.0

    p = profiled(lambda: change(x))
    found = {row.name: row.bytes for row in p.rows if row.kind == "forward"}
    assert found["add"] == found["add_scaled"] == x.numpy().nbytes and "assign" in found


@needs_kernels
def test_compiling_has_a_row_of_its_own() -> None:
    from adjoint.kernels.language import F32, Kernel, constant, element

    unheard_of = element(0, F32) * constant(float(np.random.default_rng().normal()), F32)
    launcher = ad.backends.backend("cpu").launcher(Kernel([unheard_of]))  # type: ignore[attr-defined]
    p = profiled(lambda: launcher.map([normal(*LARGE)], []))
    assert [(row.name, row.calls) for row in p.rows if row.kind == "compile"] == [("kernel", 1)]


@pytest.mark.parametrize(
    ("program", "op"),
    [
        (lambda x: ad.vmap(lambda row: ad.exp(row).sum())(x), "exp"),
        (lambda x: ad.grad(lambda x: ad.sin(x).sum())(x), "sin"),
        (lambda x: ad.trace(lambda x: ad.cos(x), x)(x), "cos"),
        (lambda x: ad.jvp(lambda x: ad.tanh(x), (x,), (x,)), "tanh"),
    ],
    ids=["vmap", "grad", "trace", "jvp"],
)
def test_transforms_are_seen_through(program: Callable, op: str) -> None:
    assert calls(profiled(lambda: program(ad.asarray(normal(3, 4)))))[op, "forward"] == 1


def test_tracing_computes_nothing_so_nothing_is_seen() -> None:
    x = ad.asarray(normal(3))
    assert profiled(lambda: ad.trace(lambda x: ad.exp(x) + 1, x)).rows == []


# Nothing is changed.


def network(workers: int | None = None, create_graph: bool = False) -> list[np.ndarray]:
    """Small and large arrays, rules of every kind, sums, hooks, a checkpoint, in-place writes."""
    x = ad.asarray(normal(*LARGE))
    w, b = leaf(normal(256, 256, seed=1) / 16, np.float32), leaf(normal(256, seed=2), np.float32)
    h = ad.tanh(x @ w + b) * 0.5 + ad.sin(x)
    h = ad.checkpoint(lambda h: ad.softmax(h * ad.exp(-h * h) @ w, axis=1), h)
    h.register_hook(lambda g: g * 1.25)
    h = h * h + 2 - h
    best = ad.max(h, axis=1)
    top, _ = ad.topk(h, 3)
    loss = (best * best).mean() + top.sum() / 7 + (1 / (2 + b * b)).sum()
    options = {"workers": workers, "create_graph": create_graph}
    grads = ad.autograd.grad(loss, [w, b], retain_graph=True, **options)  # type: ignore[arg-type]
    loss.backward(workers=workers)
    with ad.no_grad():
        w -= 0.1 * w.grad  # type: ignore[operator]
        b[3:5] = 0.0
    return [values(t) for t in (loss, *grads, w.grad, b.grad, w, b)]


@pytest.mark.parametrize("options", [{}, {"workers": 2}, {"create_graph": True}], ids=str)
def test_results_have_the_same_bits(options: dict[str, Any]) -> None:
    network(**options)  # from the second time on, rules are put together
    plain = network(**options)
    with ad.profile(quiet=True) as p:
        seen = network(**options)
    for expected, found in zip(plain, seen, strict=True):
        np.testing.assert_array_equal(expected, found)
    assert len(p.rows) > 20


def test_errors_are_the_same() -> None:
    def messages() -> list[str]:
        found = []
        for wrong in (
            lambda: ad.ones(3) + ad.ones(4),
            lambda: ad.ones((2, 3)) @ ad.ones(4),
            lambda: ad.sum(ad.ones(3), axis=5),
            lambda: ad.ones(3) + "x",
        ):
            with pytest.raises((ad.AdjointError, TypeError)) as caught:
                wrong()
            found.append(str(caught.value))
        return found

    plain = messages()
    with ad.profile(quiet=True):
        assert messages() == plain


def test_a_profile_keeps_no_array_alive() -> None:
    with ad.profile(quiet=True) as p:
        x = ad.asarray(normal(1000)) * 2
        gone = weakref.ref(x.raw)
        del x
        assert gone() is None
    assert p.rows


def test_gradients_are_released_and_a_second_backward_raises() -> None:
    x = leaf(normal(*LARGE))
    y = ad.tanh(x).sum()
    with ad.profile(quiet=True):
        y.backward()
        with pytest.raises(ad.GradientError, match="second time"):
            y.backward()


# Profiles themselves.


def test_without_a_profile_nothing_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise AssertionError("noted")

    for module in (spans, instrumented):
        monkeypatch.setattr(module, "note", fail)
    network()
    network(workers=2)
    with ad.profile.region("alone"):
        pass


def test_nested_profiles_see_the_same() -> None:
    x = ad.asarray(normal(3))
    with ad.profile(quiet=True) as outer:
        ad.sin(x)
        with ad.profile(quiet=True) as inner:
            ad.exp(x)
        ad.cos(x)
    assert {row.name for row in outer.rows} == {"sin", "exp", "cos"}
    assert {row.name for row in inner.rows} == {"exp"}


def test_an_exception_passes_and_leaves_what_was_seen(capsys: pytest.CaptureFixture) -> None:
    p = ad.profile()
    with pytest.raises(ZeroDivisionError), p:
        ad.exp(ad.ones(3))
        raise ZeroDivisionError
    assert capsys.readouterr().out == ""
    assert calls(p)["exp", "forward"] == 1


def test_a_pass_that_raises_leaves_nothing_behind() -> None:
    x = leaf(normal(3))

    def refuse(g: ad.Tensor) -> None:
        raise ZeroDivisionError

    y = x * 2
    y.register_hook(refuse)
    with pytest.raises(ZeroDivisionError), ad.profile(quiet=True) as p:
        y.sum().backward()
    assert [row.name for row in p.regions] == ["backward pass"]


def test_modes_inside_are_as_without_a_profile() -> None:
    x = leaf(normal(3))
    with ad.profile(quiet=True) as p, ad.no_grad():
        assert not (x * 2).requires_grad and not ad.is_grad_enabled()
        with ad.enable_grad(), ad.detect_anomaly(), pytest.raises(ad.AnomalyError):
            ad.log(x * 0 - 1)
        assert mode.word & PROFILE
    assert calls(p)["log", "forward"] == 1


def test_a_profile_runs_once() -> None:
    p = profiled(lambda: None)
    with pytest.raises(ad.ArgumentError, match="runs once"), p:
        pass
    with pytest.raises(ad.ArgumentError, match="hasn't begun"):
        ad.profile().table()
    assert "hasn't begun" in repr(ad.profile())


def test_a_running_profile_can_be_asked() -> None:
    with ad.profile(quiet=True) as p:
        ad.exp(ad.ones(3))
        assert "exp" in p.table() and p.seconds > 0
        before = p.seconds
    assert p.seconds > before and p.seconds == p.seconds


# Threads.


@needs_kernels
def test_threads_that_help_a_pass_are_seen() -> None:
    x = leaf(normal(1024, 512), np.float32)
    scales = [ad.asarray(normal(1024, 512, seed=k)) for k in range(6)]
    loss = ad.stack([ad.tanh(ad.sin(x * s)).sum() for s in scales]).sum()
    with ad.profile(quiet=True) as p:
        loss.backward(workers=3)
    found = calls(p)
    assert found["tanh", "backward"] == found["sin", "backward"] == 6
    assert found["accumulate", "backward"] == 5
    assert not any(kind == "forward" and name != "full" for name, kind in found)


def test_other_threads_are_seen_if_they_ask_for_it() -> None:
    def work(p: ad.profile | None) -> None:
        if p is None:
            ad.exp(ad.ones(3))
            return
        with p.in_this_thread():
            ad.sin(ad.ones(3))
        assert mode.word == GRAD and mode.logs == ()

    with ad.profile(quiet=True) as p:
        threads = [threading.Thread(target=work, args=(each,)) for each in (p, p, p, None)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert calls(p)["sin", "forward"] == 3 and ("exp", "forward") not in calls(p)


def test_a_thread_that_goes_on_after_the_profile_is_let_go() -> None:
    p, begun, over = ad.profile(quiet=True), threading.Event(), threading.Event()
    words = []

    def work() -> None:
        with p.in_this_thread():
            begun.set()
            over.wait()
            ad.sin(ad.ones(3))
            words.append(mode.word)

    with p:
        thread = threading.Thread(target=work)
        thread.start()
        begun.wait()
    over.set()
    thread.join()
    assert p.rows == [] and words == [GRAD]


# Regions and tables.


def test_regions_have_all_that_is_done_in_them() -> None:
    region = ad.profile.region("data")
    with ad.profile(quiet=True) as p:
        for _ in range(3):
            with region, region:  # one in the other counts with it
                ad.exp(ad.ones(1000))
        with p.region("rest"):
            pass
    found = {row.name: row for row in p.regions}
    assert found["data"].calls == 6 and found["rest"].calls == 1
    exp = next(row for row in p.rows if row.name == "exp")
    assert exp.seconds < found["data"].seconds < p.seconds


def span(name: str, kind: str, start: int, end: int, thread: int = 1, size: int = 0) -> Span:
    return Span(name, kind, start, end, thread, (), size)


# In the order in which they end; times in ns.
SPANS = [
    span("compile", "compile", 12, 16),
    span("exp", "forward", 10, 20, size=7),
    span("multiply", "forward", 31, 33, size=99),
    span("tanh+sin", "backward", 34, 38, size=5),
    span("max", "backward", 30, 40, size=3),
    span("sum", "forward", 41, 43, size=2),
    span("add", "forward", 44, 45, size=1),
    span("exp", "forward", 47, 48, size=7),
    span("checkpoint", "recompute", 46, 49),
    span("pass", "pass", 25, 50),
    span("exp", "forward", 52, 54, size=7),
    span("Adam.step", "step", 51, 60),
    span("train", "region", 5, 70),
    span("max", "backward", 35, 65, thread=2, size=3),
]


def test_time_belongs_to_the_innermost_and_parts_to_their_whole() -> None:
    found = {(row.name, row.kind): row for row in rows(placed(SPANS))}
    expected = [
        Row("exp", "forward", 1, 6 / 1e9, 7),
        Row("compile", "compile", 1, 4 / 1e9, 0),
        Row("max", "backward", 2, 36 / 1e9, 6),
        Row("tanh+sin", "backward", 1, 4 / 1e9, 5),
        Row("unbroadcast", "backward", 1, 2 / 1e9, 2),
        Row("accumulate", "backward", 1, 1 / 1e9, 1),
        Row("exp", "recompute", 1, 1 / 1e9, 7),
        Row("Adam.step", "step", 1, 9 / 1e9, 0),
    ]
    assert found == {(row.name, row.kind): row for row in expected}


def test_time_outside_is_when_nothing_ran_in_any_thread() -> None:
    assert busy(SPANS) == 45 / 1e9
    assert {row.name: row.seconds for row in regions(placed(SPANS))} == {
        "train": 65 / 1e9,
        "pass": 25 / 1e9,
    }


def test_spans_of_equal_times_nest_by_when_they_ended() -> None:
    inner, outer = span("exp", "forward", 1, 5), span("twice", "forward", 1, 5)
    (row,) = rows(placed([inner, outer]))
    assert row == Row("twice", "forward", 1, 4 / 1e9, 0)


def test_rows_and_what_is_outside_make_up_the_whole() -> None:
    x = leaf(normal(*LARGE))
    p = profiled(lambda: ad.tanh(x @ x).sum().backward())
    assert sum(row.seconds for row in p.rows) + p.outside == pytest.approx(p.seconds)


def test_the_table_is_printed_at_the_end_unless_quiet(capsys: pytest.CaptureFixture) -> None:
    with ad.profile() as p:
        ad.exp(ad.ones(3))
    assert capsys.readouterr().out == f"{p}\n" == f"{p.table()}\n"
    profiled(lambda: ad.exp(ad.ones(3)))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("sort_by", "key"),
    [
        ("time", lambda row: -row.seconds),
        ("calls", lambda row: -row.calls),
        ("bytes", lambda row: -row.bytes),
        ("name", lambda row: (row.name, row.kind)),
    ],
)
def test_tables_are_sorted(sort_by: str, key: Callable) -> None:
    p = profiled(network)
    lines = p.table(sort_by, limit=None).partition("outside ops")[0].splitlines()
    assert lines[0].split() == ["op", "pass", "calls", "time", "each", "share", "bytes"]
    expected = [[row.name, row.kind] for row in sorted(p.rows, key=key)]
    names = [row[0] for row in expected if " " not in row[0]]
    assert [line.split()[0] for line in lines[1:] if not line.startswith("hook ")] == names


def test_long_tables_are_cut() -> None:
    p = profiled(network)
    lines = p.table(limit=3).splitlines()
    assert lines[4] == f"... {len(p.rows) - 3} more ..."
    assert lines[5].startswith("outside ops: ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sort_by": "speed"}, "sort_by is one of time, calls, bytes, name; got 'speed'"),
        ({"limit": 0}, "limit is at least 1, or None for all; got 0"),
        ({"limit": "3"}, "limit is at least 1, or None for all; got '3'"),
    ],
)
def test_wrong_options_are_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ad.ArgumentError, match=message):
        profiled(lambda: None).table(**options)


def test_nothing_done_is_a_table_too() -> None:
    assert profiled(lambda: None).table().startswith("outside ops: ")


# Garbage collections.


class Slow:
    """Garbage that takes long to collect: a cycle whose end sleeps."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        time.sleep(0.1)


def test_garbage_of_before_is_collected_before_a_profile_begins() -> None:
    gone = weakref.ref(Slow())
    assert gone() is not None
    with ad.profile(quiet=True) as p:
        assert gone() is None
    assert p.rows == []


def test_a_collection_has_a_row_and_is_not_charged_to_the_op_around_it(tmp_path: Path) -> None:
    x = leaf(normal(3))

    def collect(g: ad.Tensor) -> None:
        gc.collect()

    x.register_hook(collect)

    def step() -> None:
        Slow()
        (x * 2).sum().backward()

    with ad.profile(quiet=True) as outer, ad.profile(quiet=True) as inner:
        step()
    for p in (outer, inner):
        found = {row.kind: row for row in p.rows if row.name == "garbage collection"}
        assert found["python"].calls >= 1 and found["python"].seconds > 0.09
        assert calls(p)["hook collect", "backward"] == 1
        assert all(row.seconds < 0.09 for row in p.rows if row.kind != "python")
        assert p.outside + sum(row.seconds for row in p.rows) == pytest.approx(p.seconds)
    check_nested([event for event in saved(inner, tmp_path) if event["ph"] == "X"])


def test_collections_of_threads_that_are_not_seen_are_not_either() -> None:
    with ad.profile(quiet=True) as p:
        thread = threading.Thread(target=gc.collect)
        thread.start()
        thread.join()
    assert p.rows == []


# Traces.


def saved(p: ad.profile, folder: Path) -> list[dict[str, Any]]:
    p.save_trace(folder / "trace.json")
    text = (folder / "trace.json").read_text(encoding="utf-8")
    return json.loads(text, parse_constant=lambda name: pytest.fail(name))["traceEvents"]


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("none/x.json", ad.MissingFileError, "there is no such file or folder"),
        (".", ad.FileError, "it is there, and not an ordinary file"),
    ],
)
def test_a_trace_that_cannot_be_written_names_the_file(
    tmp_path: Path, path: str, error: type[Exception], message: str
) -> None:
    file = tmp_path / path
    with pytest.raises(error, match=re.escape(f"save_trace: {file}: {message}")):
        profiled(lambda: None).save_trace(file)


def check_nested(events: list[dict[str, Any]]) -> None:
    """Events of a track begin in order, and one that begins within another ends within it."""
    tracks = defaultdict(list)
    for event in events:
        tracks[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for times in tracks.values():
        assert times == sorted(times, key=lambda x: x[0])
        around: list[float] = []
        for start, end in times:
            while around and around[-1] <= start + 1e-6:
                around.pop()
            assert start >= 0 and end >= start and (not around or end <= around[-1] + 1e-6)
            around.append(end)


def test_traces_are_what_viewers_read(tmp_path: Path) -> None:
    p = profiled(lambda: network(workers=2))
    events = saved(p, tmp_path)
    titles = [event for event in events if event["ph"] == "M"]
    assert {"ph", "name", "pid", "tid", "args"} == titles[0].keys()
    assert [event["args"]["name"] for event in titles][:2] == ["adjoint", "MainThread"]
    complete = [event for event in events if event["ph"] == "X"]
    assert len(complete) + len(titles) == len(events)
    assert all({"name", "cat", "ts", "dur", "pid", "tid"} <= event.keys() for event in complete)
    assert {event["tid"] for event in complete} <= {event["tid"] for event in titles}
    check_nested(complete)
    names = {event["name"] for event in complete}
    assert {"matmul", "matmul (backward)", "matmul (recompute)", "backward pass"} <= names


def test_traces_tell_shapes_dtypes_and_bytes(tmp_path: Path) -> None:
    x, w = ad.asarray(normal(4, 3)), leaf(normal(3, 2), np.float32)
    events = {event["name"]: event for event in saved(profiled(lambda: x @ w), tmp_path)}
    assert events["matmul"]["args"] == {
        "inputs": ["float32[4, 3]", "float32[3, 2]"],
        "bytes": 32,
    }


def test_the_parts_of_a_rule_are_in_the_trace(tmp_path: Path) -> None:
    x = leaf(normal(4, 3))
    events = saved(profiled(lambda: ad.max(x, axis=1).sum().backward()), tmp_path)
    rule = next(event for event in events if event["name"] == "max (backward)")
    parts = [event for event in events if event.get("cat") == "part"]
    assert parts and all(
        rule["ts"] <= part["ts"] and part["ts"] + part["dur"] <= rule["ts"] + rule["dur"] + 1e-6
        for part in parts
    )


# GPUs.


@pytest.fixture
def gpu() -> Any:
    pytest.importorskip("wgpu")
    try:
        return ad.backends.backend("webgpu").gpu  # type: ignore[attr-defined]
    except ad.DeviceError as error:
        pytest.skip(str(error))


def on_gpu() -> float:
    x = ad.tensor(normal(300, 20), device="webgpu", requires_grad=True)
    loss = ad.tanh(x @ x.mT).sum()
    loss.backward()
    return loss.item() + x.grad.sum().item()  # type: ignore[union-attr]


def test_gpus_tell_by_their_own_clock(gpu: Any, tmp_path: Path) -> None:
    expected = on_gpu()
    with ad.profile(quiet=True) as outer, ad.launch_times("webgpu") as times:
        with ad.profile(quiet=True) as inner:
            assert on_gpu() == expected
    assert gpu.times is None
    assert inner.programs and all(row.kind == "webgpu" for row in inner.programs)
    for p in (outer, inner):
        assert {row.name: row.calls for row in p.programs} == times.launches
        assert sum(row.seconds for row in p.programs) == pytest.approx(
            sum(times.seconds.values()), abs=1e-6
        )
    assert calls(inner)["read", "wait"] == 2
    events = saved(inner, tmp_path)
    titles = [event["args"]["name"] for event in events if event["ph"] == "M"]
    assert titles == ["adjoint", "MainThread", "webgpu (its own clock)"]
    check_nested([event for event in events if event["ph"] == "X"])
    assert "program" in inner.table()


def test_gpus_are_left_alone_if_asked_for(gpu: Any) -> None:
    p = profiled(on_gpu, gpu_times=False)
    assert p.programs == [] and calls(p)["matmul", "forward"] == 1


def test_profiles_of_two_threads_may_end_in_any_order(gpu: Any) -> None:
    first, second = ad.profile(quiet=True), ad.profile(quiet=True)
    begun, done = threading.Event(), threading.Event()

    def work() -> None:
        with second:
            begun.set()
            done.wait()
            on_gpu()

    thread = threading.Thread(target=work)
    with first:
        thread.start()
        begun.wait()
    done.set()
    thread.join()
    assert gpu.times is None and second.programs and not first.programs


def test_a_pass_that_a_profile_saw_leaves_no_garbage() -> None:
    x = leaf(normal(3))
    y = ad.tanh(x)
    gc.collect()
    gc.disable()
    try:
        with ad.profile(quiet=True):
            (g,) = ad.autograd.grad(y.sum(), [y])
        array = weakref.ref(g.raw)
        del g
        assert array() is None
    finally:
        gc.enable()
