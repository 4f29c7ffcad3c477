"""The command line: what each command prints, and how it tells what is wrong. `devices` is in
test_devices, `demo` in test_demo."""

import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest

import adjoint as ad
from adjoint import __main__ as command_line
from adjoint._commands import COMMANDS, bench, workloads
from adjoint._commands.arguments import UsageError, positive, whole_number
from adjoint._commands.times import on_a_clock
from adjoint._foundation.formatting import show_seconds
from tests.support.paths import ROOT
from tests.support.processes import python

NAMES = [command.NAME for command in COMMANDS]


class Shown(NamedTuple):
    """What a command left: its exit code, and what it printed."""

    code: Any
    out: str
    err: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    """A function that runs a command in this process."""

    def command(*arguments: object) -> Shown:
        try:
            code: Any = command_line.main([str(argument) for argument in arguments])
        except SystemExit as stopped:
            code = stopped.code
        shown = capsys.readouterr()
        return Shown(code, shown.out, shown.err)

    return command


# What all commands share


@pytest.mark.parametrize("name", NAMES)
def test_help_has_the_examples_of_a_command(run, name: str) -> None:
    shown = run(name, "--help")
    assert shown.code == 0
    command = COMMANDS[NAMES.index(name)]
    assert command.SUMMARY.lower() in " ".join(shown.out.lower().split())
    for call, what in command.EXAMPLES.items():
        assert f"adjoint {call}" in shown.out and what in shown.out


def test_without_a_command_all_of_them_are_listed(run) -> None:
    shown = run()
    assert shown.code == 0
    for name in NAMES:
        assert f"\n    {name} " in shown.out and f"adjoint {name}" in shown.out


def test_the_version_is_that_of_the_package(run) -> None:
    assert run("--version") == (0, f"adjoint {ad.__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["demmo"], "invalid choice: 'demmo'"),
        (["demo", "--nonsense"], "unrecognized arguments: --nonsense"),
        (["demo", "--epochs", "0"], "--epochs: from 1 to 100000 is possible, got 0"),
        (["demo", "--batch-size", "2000"], "--batch-size: from 1 to 1437 is possible, got 2000"),
        (["demo", "--lr", "nan"], "--lr: a number above 0 is needed, got nan"),
        (["demo", "--seed", "-1"], "--seed: from 0 to"),
        (["bench", "--rounds", "many"], "--rounds: invalid"),
        (["bench", "--peer", "numpy"], "--peer: invalid choice: 'numpy'"),
        (["graph"], "MODULE:NAME"),
        (["graph", "m:f", "--input", "flot32[3]"], "'flot32[3]' is no dtype with a shape"),
        (["graph", "m:f", "--input", "tanh[3]"], "'tanh[3]' is no dtype with a shape"),
        (["graph", "m:f", "--shape", "-3"], "--shape"),
        (["graph", "m:f", "--shape", "4x3"], "'4x3' is no shape; write it as 4,3"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_exits_with_2(run, arguments: list[str], complaint: str) -> None:
    shown = run(*arguments)
    assert shown.code == 2 and shown.out == ""
    assert shown.err.startswith("usage: ") and complaint in shown.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["graph", "mine.py"], "'mine.py' is no MODULE:NAME; write"),
        (["graph", "m:f", "--out", "l.png"], "l.png: .txt, .mmd, .md, .svg say the format, .png"),
        (["graph", "m:f", "--device", "cuda"], "there is no device 'cuda'; devices are cpu,"),
        (["demo", "--device", "cuda"], "there is no device 'cuda'; devices are cpu,"),
        (["demo", "--weights", "w.pt"], "--weights w.pt: it must end in .npz or .safetensors"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_that_a_command_finds_is_a_line(
    run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = run(*arguments)
    assert shown.code == 2 and shown.out == "" and list(tmp_path.iterdir()) == []
    assert shown.err.startswith(f"adjoint {arguments[0]}: ") and shown.err.count("\n") == 1
    assert complaint in shown.err


def test_an_error_is_one_line_without_a_traceback() -> None:
    done = python("-m", "adjoint", "graph", "nothing.py:f")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "adjoint graph: there is no file nothing.py\n"


@pytest.mark.parametrize("before", [True, False], ids=["before the command", "after it"])
def test_debug_shows_where_an_error_was_raised(run, before: bool) -> None:
    arguments = ["bench", "--device", "gpu9"]
    arguments.insert(0 if before else 1, "--debug")
    with pytest.raises(UsageError):
        run(*arguments)


@pytest.mark.parametrize(("value", "raises"), [("1", True), ("0", False), ("", False)])
def test_the_environment_can_ask_for_tracebacks(
    run, monkeypatch: pytest.MonkeyPatch, value: str, raises: bool
) -> None:
    monkeypatch.setenv("ADJOINT_TRACEBACK", value)
    if raises:
        with pytest.raises(UsageError):
            run("bench", "--device", "gpu9")
    else:
        assert run("bench", "--device", "gpu9").code == 2


def test_a_fault_of_ours_keeps_its_traceback(run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(bench, "check_device", broken)
    with pytest.raises(ZeroDivisionError):
        run("bench")


def test_ctrl_c_exits_with_130(run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "check_device", interrupted)
    assert run("bench") == (130, "", "adjoint bench: interrupted\n")


INTERRUPTED_IMPORT = """
import runpy, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "adjoint._commands":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["adjoint", "info"]
runpy.run_module("adjoint", run_name="__main__")
"""


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_while_commands_are_imported_is_a_line_too() -> None:
    """That takes half of the start. Before it Python runs no code of the command line."""
    done = python("-c", INTERRUPTED_IMPORT, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "adjoint: interrupted\n")


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of shells")
def test_a_reader_that_stops_reading_is_no_error() -> None:
    command = f'"{sys.executable}" -m adjoint devices --json | true; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_installed_program_is_there() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts["adjoint"].partition(":")
    assert getattr(importlib.import_module(module), function) is command_line.program


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (0.6, "0:01"), (75.4, "1:15"), (3599.7, "1:00:00"), (7325, "2:02:05")],
)
def test_times_on_a_clock(seconds: float, text: str) -> None:
    assert on_a_clock(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2.5e-7, "0.25 µs"),
        (1.234e-3, "1.23 ms"),
        (0.0123, "12.3 ms"),
        (0.5, "500 ms"),
        (3, "3.00 s"),
    ],
)
def test_times_have_three_digits(seconds: float, text: str) -> None:
    assert show_seconds(seconds) == text


def test_numbers_in_arguments() -> None:
    assert whole_number(0, 3)("3") == 3 and positive("1e-3") == 1e-3
    for text in ("4", "-1"):
        with pytest.raises(Exception, match=f"from 0 to 3 is possible, got {text}"):
            whole_number(0, 3)(text)
    for text in ("0", "-1", "inf", "nan"):
        with pytest.raises(Exception, match="a number above 0"):
            positive(text)


# info


def test_info_tells_versions_machine_devices_and_environment(
    run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ADJOINT_CACHE_DIR", str(tmp_path))
    (tmp_path / "a.kernel").write_bytes(bytes(1000))
    (tmp_path / "b.kernel").write_bytes(bytes(500))
    (tmp_path / "other.txt").write_bytes(bytes(7))
    found = json.loads(run("info", "--json").out)
    versions, machine = found["versions"], found["machine"]
    assert versions["adjoint"] == ad.__version__
    assert versions["python"].startswith(sys.version.split()[0])
    assert versions.keys() >= {"numpy", "llvmlite", "wgpu"}
    assert machine["cores"] == os.cpu_count() and machine["threads"] == ad.get_num_threads()
    assert machine["processor"] and machine["platform"]
    assert found["devices"].keys() >= {"cpu", "webgpu"}
    assert found["kernel cache"] == {"folder": str(tmp_path), "kernels": 2, "bytes": 1500}
    assert found["environment"]["ADJOINT_CACHE_DIR"] == str(tmp_path)


def test_info_has_the_same_facts_as_text(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJOINT_NUM_THREADS", "2")
    found, text = json.loads(run("info", "--json").out), run("info").out
    for section, entries in found.items():
        assert f"\n{section}\n" in f"\n{text}"
        for name in entries:
            assert f"\n  {name}" in text
    assert re.search(rf"^  adjoint +{re.escape(ad.__version__)}$", text, re.MULTILINE)


@pytest.mark.parametrize("folder", ["", "/nonexistent/folder"], ids=["no cache", "none yet"])
def test_info_without_kernels(run, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    monkeypatch.setenv("ADJOINT_CACHE_DIR", folder)
    cache = json.loads(run("info", "--json").out)["kernel cache"]
    assert cache == {"folder": folder or None, "kernels": 0, "bytes": 0}
    assert ("as ADJOINT_CACHE_DIR says" in run("info").out) == (not folder)


# bench


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements that take no longer than the steps themselves."""
    monkeypatch.setattr(bench, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(bench, "REPEATS", 1)


def test_bench_measures_every_workload(run, quick: None) -> None:
    shown = run("bench", "--rounds", "2", "--json")
    assert shown.code == 0
    found = json.loads(shown.out)
    assert list(found["workloads"]) == [workload.name for workload in workloads.WORKLOADS]
    for result in found["workloads"].values():
        (times,) = result["rounds"].values()
        assert len(times) == 2 and all(0 < t < 60 for t in times)
        assert result["seconds"]["adjoint"] == min(times)
    matmul = found["workloads"]["matmul"]
    rate = 2e-9 * 1024**3 / matmul["seconds"]["adjoint"]
    assert matmul["GFLOP/s"]["adjoint"] == pytest.approx(rate)


@pytest.mark.parametrize(
    ("rounds", "trust"),
    [("1", "nobody knows how much is noise, --rounds 5 tells it"), ("2", "below that are noise")],
)
def test_bench_prints_a_table_and_how_far_to_trust_it(
    run, quick: None, monkeypatch: pytest.MonkeyPatch, rounds: str, trust: str
) -> None:
    monkeypatch.setattr(bench, "WORKLOADS", workloads.WORKLOADS[2:3])
    out = run("bench", "--rounds", rounds).out
    assert out.startswith("cpu, ") and "ratio" not in out
    assert "GFLOP/s  1024 x 1024" in out and trust in " ".join(out.split())
    assert ("% longer" in out) == (rounds != "1")


def test_bench_compares_with_torch(run, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    monkeypatch.setattr(bench, "WORKLOADS", workloads.WORKLOADS[-2:])
    try:
        out = run("bench", "--rounds", "1", "--peer", "torch").out
        head, *rows = [
            line for line in out.splitlines() if line.startswith(("workload", "MLP", "CNN"))
        ]
        assert head.split()[:4] == ["workload", "adjoint", "torch", "ratio"] and len(rows) == 2
        assert "adjoint is faster than torch" in " ".join(out.split())
    finally:
        torch.set_num_threads(threads)


def test_the_steps_of_both_libraries_compute_the_same() -> None:
    torch = pytest.importorskip("torch")
    for workload in workloads.WORKLOADS[:5]:
        ours = workload.make(ad, "cpu")().detach().numpy()
        theirs = workload.make(torch, "cpu")().detach().numpy()
        scale = abs(theirs).max()
        assert abs(ours - theirs).max() < 1e-4 * scale, workload.name


def test_a_peer_that_is_not_there_is_told(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    shown = run("bench", "--peer", "torch")
    assert shown.code == 1 and shown.out == ""
    assert "torch can't be imported" in shown.err and "leave --peer out" in shown.err


@pytest.mark.webgpu
def test_a_peer_is_for_the_cpu(run, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(set_num_threads=lambda n: None)
    monkeypatch.setitem(sys.modules, "torch", fake)
    shown = run("bench", "--peer", "torch", "--device", "webgpu")
    assert shown.code == 2 and "--peer torch is for the CPU, not for webgpu" in shown.err


@pytest.mark.webgpu
def test_bench_runs_on_a_gpu(run, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = tuple(w for w in workloads.WORKLOADS if w.name in ("small op", "MLP step"))
    monkeypatch.setattr(bench, "WORKLOADS", steps)
    shown = run("bench", "--rounds", "1", "--device", "webgpu")
    assert shown.code == 0 and shown.out.startswith("webgpu, ")


# graph

MODEL = """
import adjoint as ad

net = ad.nn.Linear(3, 2)
scale = ad.tensor(2.0, requires_grad=True)
number = 3
name = "net"


class Net(ad.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = ad.nn.Linear(3, 4)

    def forward(self, x):
        return ad.relu(self.layer(x))


class Sized(ad.nn.Module):
    def __init__(self, size):
        super().__init__()


class Plain:
    pass


def loss(x):
    return ad.square(net(x) * scale).mean()


def product(x, y):
    return x * y


def looked_up(indices):
    return ad.nn.functional.embedding(indices, ad.ones((5, 2), requires_grad=True))


def constant():
    return ad.ones(2)


def failing(x):
    return {}["missing"]
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file in the current folder, which this process hasn't imported and will forget."""
    file = tmp_path / "graph_model.py"
    file.write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "graph_model", raising=False)
    yield file
    sys.modules.pop("graph_model", None)


GRAPHS = [
    ("graph_model:loss", ["--shape", "4,3"], ["%x : float32[4, 3]", "%net.weight", "%scale"]),
    ("graph_model.py:loss", ["--input", "float32[4,3]"], ["%net.bias", "square", "return"]),
    ("graph_model:net", ["--shape", "4,3"], ["%weight : float32[2, 3] leaf", "float32[4, 3]"]),
    ("graph_model:Net", ["--input", "float32[2, 3]"], ["%layer.weight", "relu"]),
    ("graph_model:net.forward", ["--shape", "(4, 3)"], ["%net.weight"]),
    ("graph_model:product", ["--shape", "3", "--input", "float64[2,1]"], ["float64[2, 3] = "]),
    ("graph_model:looked_up", ["--input", "int64[6]"], ["float32[6, 2]"]),
    ("graph_model:product", ["--shape", "", "--shape", ""], ["%x : float32[] leaf"]),
]


@pytest.mark.parametrize(("target", "options", "mentions"), GRAPHS, ids=[g[0] for g in GRAPHS])
def test_graph_prints_what_is_recorded(
    run, model: Path, target: str, options: list[str], mentions: list[str]
) -> None:
    shown = run("graph", target, *options)
    assert (shown.code, shown.err) == (0, "")
    for mention in mentions:
        assert mention in shown.out


def test_parameters_are_enough_where_a_module_has_them(run, model: Path) -> None:
    lines = run("graph", "graph_model:net", "--shape", "4,3").out.splitlines()
    assert [line.split()[0] for line in lines if "leaf" in line][:2] == ["%weight", "%bias"]
    assert not any(line.startswith("%input") for line in lines)


@pytest.mark.parametrize(
    ("out", "form", "start"),
    [
        (None, "mermaid", "flowchart TD"),
        (None, "svg", "<svg"),
        ("g.svg", None, "<svg"),
        ("g.mmd", None, "flowchart TD"),
        ("g.txt", None, "%net.weight"),
        ("g.dat", "text", "%net.weight"),
        ("g", None, "%net.weight"),
        ("g.svg", "text", "%net.weight"),
    ],
)
def test_graph_writes_formats(
    run, model: Path, out: str | None, form: str | None, start: str
) -> None:
    options = [*(["--out", out] if out else []), *(["--format", form] if form else [])]
    shown = run("graph", "graph_model:loss", "--shape", "4,3", *options)
    assert shown.code == 0
    text = shown.out if out is None else Path(out).read_text()
    assert text.startswith(start)
    if start == "<svg":
        ElementTree.fromstring(text)
    assert out is None or (shown.out, shown.err) == ("", f"wrote {out}\n")


def test_inputs_are_random_by_the_seed_and_zero_if_asked(run, model: Path) -> None:
    model.write_text(MODEL + "\n\ndef shown(x):\n    print(x.tolist())\n    return x * 2\n")

    def printed(*options: str) -> str:
        return run("graph", "graph_model.py:shown", "--shape", "2", *options).out.splitlines()[0]

    assert printed() == printed("--seed", "0") != printed("--seed", "1")
    assert printed("--zeros") == "[0.0, 0.0]"


class Refused(NamedTuple):
    """A wrong call, and what the message mentions."""

    arguments: list[str]
    mentions: list[str]


REFUSED = [
    Refused(["graph_modle:loss"], ["no module 'graph_modle'", "path.py:name"]),
    Refused(["other.py:loss"], ["there is no file other.py"]),
    Refused(["graph_model:los"], ["graph_model has no 'los'", "did you mean 'loss'?"]),
    Refused(["graph_model:net.weihgt"], ["no 'net.weihgt'"]),
    Refused(["graph_model:zzzz"], ["there are", "product"]),
    Refused(["graph_model:number"], ["is an int;", "a function or an nn.Module is needed"]),
    Refused(["graph_model:name"], ["is a str;"]),
    Refused(["graph_model:Plain"], ["is a class, and not one of nn.Module"]),
    Refused(["graph_model:Sized"], ["can't be made without arguments", "size"]),
    Refused(["graph_model:product", "--shape", "3"], ["takes (x, y)", "1 input was given"]),
    Refused(["graph_model:loss"], ["takes (x)", "0 inputs were given", "--shape"]),
    Refused(["graph_model:loss", "--shape", "4,5"], ["float32[4, 5]", "raised", "--debug"]),
    Refused(["graph_model:failing", "--shape", "1"], ["raised KeyError: 'missing'"]),
    Refused(["graph_model:constant"], ["nothing was recorded"]),
    Refused(["graph_model:loss", "--shape", "4,3", "--out", "no/g.svg"], ["no/g.svg"]),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: " ".join(case.arguments))
def test_what_graph_cannot_show_is_told(run, model: Path, case: Refused) -> None:
    shown = run("graph", *case.arguments)
    assert shown.code == 1 and shown.out == ""
    assert shown.err.startswith("adjoint graph: ") and shown.err.count("\n") == 1
    for mention in case.mentions:
        assert mention in shown.err


@pytest.mark.parametrize(
    ("source", "mentions"),
    [
        ("import nothing_like_it", "ModuleNotFoundError: No module named 'nothing_like_it'"),
        ("def f(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
@pytest.mark.parametrize("target", ["graph_model:f", "graph_model.py:f"])
def test_a_module_that_cannot_be_imported_says_why(
    run, model: Path, target: str, source: str, mentions: str
) -> None:
    model.write_text(source)
    shown = run("graph", target)
    assert shown.code == 1 and "can't be imported" in shown.err and mentions in shown.err


def test_a_file_may_have_the_name_of_another_module(run, model: Path) -> None:
    """And import its neighbours."""
    model.with_name("json.py").write_text("import graph_model\n\nloss = graph_model.loss\n")
    assert run("graph", "json.py:loss", "--shape", "4,3").code == 0
    assert sys.modules["json"] is json


def test_graph_works_in_a_process_of_its_own(model: Path) -> None:
    done = python(
        "-m", "adjoint", "graph", "graph_model:loss", "--shape", "4,3", folder=model.parent
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("%net.weight : float32[2, 3] leaf")


@pytest.mark.webgpu
def test_graph_runs_on_a_gpu(run, model: Path) -> None:
    before = ad.get_default_device()
    try:
        assert run("graph", "graph_model:loss", "--shape", "4,3", "--device", "webgpu").code == 0
    finally:
        ad.set_default_device(before)
