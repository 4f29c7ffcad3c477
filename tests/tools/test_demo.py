"""The demo: what it learns, shows and writes, and that Ctrl-C loses nothing."""

import concurrent.futures
import io
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import adjoint as ad
from adjoint.__main__ import main, make_parser
from adjoint._commands import demo
from adjoint._commands.interruption import Interruption
from adjoint._commands.plot import Axis, epoch_ticks, linear_ticks, log_ticks, training_plot
from adjoint._commands.progress import Progress
from adjoint._commands.training import Epoch, Settings, Training
from tests.support.helpers import close

SVG = "{http://www.w3.org/2000/svg}"
COMMAND = [sys.executable, "-W", "error", "-m", "adjoint", "demo"]
ENVIRONMENT = os.environ | {"ADJOINT_NUM_THREADS": "1"}  # several run at a time


# The digits


def test_digits_are_the_same_each_time_and_none_is_in_both_parts() -> None:
    images, labels = ad.data.digits().tensors
    test_images, test_labels = ad.data.digits(train=False).tensors
    assert images.shape == (1437, 1, 8, 8) and test_images.shape == (360, 1, 8, 8)
    assert images.dtype == ad.float32 and labels.dtype == ad.int32
    assert ad.min(images).item() == 0 and ad.max(images).item() == 1
    assert set(test_labels.tolist()) == set(range(10))
    close(ad.data.digits().tensors[0], images.numpy())
    both = ad.concat([images, test_images]).reshape((1797, 64)).numpy()
    assert len(np.unique(both, axis=0)) == 1797


def test_digits_are_those_of_scikit_learn() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    theirs = datasets.load_digits()
    order = np.random.default_rng(0).permutation(1797)
    images, labels = ad.data.digits().tensors
    np.testing.assert_array_equal(16 * images.numpy()[:, 0], theirs.images[order[:1437]])
    np.testing.assert_array_equal(labels.numpy(), theirs.target[order[:1437]])


@pytest.mark.webgpu
def test_digits_can_be_on_a_gpu() -> None:
    images, labels = ad.data.digits(train=False, device="webgpu").tensors
    assert images.device == labels.device == "webgpu"


# The training


def train(training: Training, most_steps: int = 10**9) -> Training:
    """Train to the end, or for so many steps."""
    steps = 0
    while not training.finished:
        for _ in training.epoch():
            steps += 1
            if steps == most_steps:
                return training
        training.end_epoch()
    return training


def same_weights(one: Training, other: Training) -> bool:
    pairs = zip(one.model.state_dict().items(), other.model.state_dict().items(), strict=True)
    return all(
        name == name2 and np.array_equal(x.numpy(), y.numpy()) for (name, x), (name2, y) in pairs
    )


def test_digits_that_it_has_not_seen_are_read_well() -> None:
    training = train(Training(Settings(), "cpu"))
    assert training.history[-1].accuracy >= 0.98
    assert training.history[-1].loss < 0.05 * training.history[0].loss


@pytest.mark.parametrize("workers", [0, 2])
def test_every_run_has_the_same_result(workers: int) -> None:
    settings = Settings(seed=3, epochs=1, batch_size=256)
    one, other = (train(Training(settings, "cpu", n)) for n in (0, workers))
    assert one.history == other.history and same_weights(one, other)
    assert not same_weights(one, train(Training(settings._replace(seed=4), "cpu")))


@pytest.mark.parametrize("stop", [0, 1, 5, 6, 7, 12], ids=lambda stop: f"after {stop} steps")
def test_a_training_goes_on_as_if_it_had_not_stopped(tmp_path: Path, stop: int) -> None:
    settings = Settings(epochs=2, batch_size=256)  # 6 steps each
    whole = train(Training(settings, "cpu"))
    part = Training(settings, "cpu")
    if stop:
        train(part, stop)
    part.save(tmp_path / "checkpoint.npz")
    ad.random.normal((7,))  # what others draw in between doesn't matter
    again = Training.resumed(ad.load(tmp_path / "checkpoint.npz"), "cpu", 0)
    assert again.done == stop
    train(again)
    assert again.history == whole.history and same_weights(again, whole)


@pytest.mark.webgpu
def test_it_trains_on_a_gpu() -> None:
    ours, expected = (train(Training(Settings(), device), 3) for device in ("webgpu", "cpu"))
    assert ours.loss == pytest.approx(expected.loss, rel=1e-4)
    assert ours.evaluate()[0] == pytest.approx(expected.evaluate()[0], rel=1e-4)


# What it prints and writes


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess]:
    folder = tmp_path_factory.mktemp("demo")
    command = [*COMMAND, "--epochs", "2", "--out", str(folder / "run")]
    return folder / "run", subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_result_goes_to_standard_output_and_progress_to_the_other(finished) -> None:
    folder, done = finished
    assert done.returncode == 0, done.stderr
    pattern = (
        r"final loss: (0\.\d{8,})\ntest loss: 0\.\d{8,}\ntest accuracy: (\d\d\.\d)%\n"
        r"wrote (.+)\nwrote (.+)\nwrote (.+)\n"
    )
    found = re.fullmatch(pattern, done.stdout)
    assert found and float(found[2]) > 90
    names = ["weights.npz", "training.svg", "graph.svg"]
    assert list(found.groups()[2:]) == [str(folder / name) for name in names]
    first, *epochs = done.stderr.splitlines()
    assert first.startswith("starting: 1437 digits to train with, 360 to test with")
    assert [line[:11] for line in epochs] == ["epoch 1/2  ", "epoch 2/2  "]
    assert re.fullmatch(r"epoch 2/2  loss 0\.\d{4}  accuracy \d\d\.\d%", epochs[1])


def test_the_weights_are_those_of_the_training(finished) -> None:
    folder, _ = finished
    training = Training.resumed(ad.load(folder / "checkpoint.npz"), "cpu", 0)
    before = training.history[-1]
    training.model.load_state_dict(ad.load(folder / "weights.npz"))
    assert training.evaluate() == (before.test_loss, before.accuracy)


@pytest.mark.parametrize(
    ("name", "mentions"),
    [
        ("training.svg", ["Loss", "Accuracy", "epoch"]),
        ("graph.svg", ["conv1.weight", "linear.bias", "cross_entropy"]),
    ],
)
def test_the_pictures_can_be_read(finished, name: str, mentions: list[str]) -> None:
    root = ElementTree.parse(finished[0] / name).getroot()
    assert root.tag == f"{SVG}svg"
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert set(mentions) <= set(texts)


def test_resuming_what_is_finished_says_so_and_writes_what_is_missing(finished, capsys) -> None:
    folder, done = finished
    (folder / "graph.svg").unlink()
    before = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    result = done.stdout.splitlines()[:3]
    for wrote in ([f"wrote {folder / 'graph.svg'}"], []):
        assert main(["demo", "--out", str(folder), "--resume"]) == 0
        shown = capsys.readouterr()
        assert shown.out.splitlines() == [*result, *wrote]
        assert shown.err.startswith(f"finished: the training in {folder} has all its 2 epochs;")
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert (folder / "graph.svg").exists()


def test_the_weights_of_what_is_finished_can_be_had_in_another_file(finished, tmp_path) -> None:
    weights = tmp_path / "weights.npz"
    weights.write_bytes(b"of another training")
    assert main(["demo", "--out", str(finished[0]), "--resume", "--weights", str(weights)]) == 0
    assert weights.read_bytes() == (finished[0] / "weights.npz").read_bytes()


def test_the_weights_may_go_elsewhere(tmp_path: Path, capsys) -> None:
    pytest.importorskip("safetensors")
    weights = tmp_path / "new" / "digits.safetensors"
    arguments = ["demo", "--epochs", "1", "--batch-size", "512", "--weights", str(weights)]
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 0
    assert f"wrote {weights}\n" in capsys.readouterr().out
    assert ad.load(weights)["conv1.weight"].shape == (32, 1, 3, 3)
    assert not (tmp_path / "out" / "weights.npz").exists()


# What is refused


def refused(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 1) -> str:
    """The message of a command that fails before it trains."""
    assert main(["demo", *map(str, arguments)]) == code
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1
    return shown.err


def test_nothing_to_resume(tmp_path: Path, capsys) -> None:
    message = refused(capsys, "--out", tmp_path / "new", "--resume")
    assert f"there is no {tmp_path / 'new' / 'checkpoint.npz'}; start without --resume" in message
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "option", [("--seed", 1), ("--epochs", 3), ("--batch-size", 32), ("--lr", 0.5)]
)
def test_another_training_cannot_be_resumed(finished, capsys, option: tuple[str, Any]) -> None:
    name, value = option
    before = (finished[0] / "checkpoint.npz").read_bytes()
    message = refused(capsys, "--out", finished[0], "--resume", name, value)
    assert f"{name} {value}: the training in {finished[0]} has" in message
    assert (finished[0] / "checkpoint.npz").read_bytes() == before


def test_a_file_of_something_else_is_no_checkpoint(tmp_path: Path, capsys) -> None:
    ad.save({"weight": ad.ones(2)}, tmp_path / "checkpoint.npz")
    assert "is no checkpoint of the demo" in refused(capsys, "--out", tmp_path, "--resume")


def test_a_damaged_checkpoint_is_told(finished, tmp_path: Path, capsys) -> None:
    whole = (finished[0] / "checkpoint.npz").read_bytes()
    (tmp_path / "checkpoint.npz").write_bytes(whole[: len(whole) // 2])
    assert "checkpoint.npz" in refused(capsys, "--out", tmp_path, "--resume")


@pytest.mark.parametrize("name", ["weights.pt", "weights"])
def test_weights_in_no_known_format_are_refused_before_the_training(
    tmp_path: Path, capsys, name: str
) -> None:
    message = refused(capsys, "--out", tmp_path / "out", "--weights", tmp_path / name, code=2)
    assert "must end in .npz or .safetensors" in message and not (tmp_path / "out").exists()


def test_safetensors_that_is_not_installed_is_told(
    tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    message = refused(capsys, "--out", tmp_path / "out", "--weights", "x.safetensors")
    assert "pip install 'adjoint[safetensors]'" in message and not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, capsys) -> None:
    (tmp_path / "file").write_text("")
    message = refused(capsys, "--out", tmp_path / "file")
    assert message == f"adjoint demo: {tmp_path / 'file'}: File exists\n"


# Ctrl-C


@pytest.mark.usefixtures("ctrl_c")
def test_the_first_ctrl_c_is_noted_and_the_second_stops() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), Interruption() as interruption:
        assert not interruption.asked
        signal.raise_signal(signal.SIGINT)
        assert interruption.asked
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.usefixtures("ctrl_c")
def test_where_ctrl_c_is_ignored_it_stays_so() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Interruption() as interruption:
        signal.raise_signal(signal.SIGINT)
    assert not interruption.asked
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def started(folder: Path) -> subprocess.Popen:
    """A demo that takes long, once it has said that it starts."""
    command = [*COMMAND, "--epochs", "5000", "--batch-size", "512", "--out", str(folder)]
    process = subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("starting: ")
    return process


def interrupted(process: subprocess.Popen, seconds: float) -> str:
    """What it says when Ctrl-C comes after a while."""
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, ""), err
    return err


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.skipif(sys.platform == "win32", reason="processes get no Ctrl-C there")
def test_ctrl_c_at_any_moment_leaves_a_checkpoint_to_resume(tmp_path: Path) -> None:
    waits = [0.0, *(random.random() for _ in range(19))]
    folders = [tmp_path / str(k) for k in range(len(waits))]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        messages = list(pool.map(lambda *run: interrupted(started(run[0]), run[1]), folders, waits))
    for folder, message, wait in zip(folders, messages, waits, strict=True):
        when = f"Ctrl-C after {wait} s"
        file = folder / "checkpoint.npz"
        assert f"saved {file}; the same command with --resume" in message, when
        assert "Traceback" not in message and list(folder.iterdir()) == [file], when
        options = make_parser().parse_args(["demo", "--resume", "--out", str(folder)])
        training = demo.begun(options, file)
        before = training.done
        assert train(training, most_steps=1).done == before + 1, when


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.skipif(sys.platform == "win32", reason="processes get no Ctrl-C there")
def test_an_interrupted_run_ends_as_one_that_was_not(tmp_path: Path) -> None:
    options = ["--epochs", "2", "--batch-size", "32"]
    command = [*COMMAND, *options]
    whole = subprocess.run(
        [*command, "--out", str(tmp_path / "whole")], capture_output=True, text=True, timeout=120
    )
    process = subprocess.Popen(
        [*command, "--workers", "2", "--out", str(tmp_path / "part")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr and process.stderr.readline()
    assert "interrupted in epoch" in interrupted(process, 0.05)
    rest = subprocess.run(
        [*COMMAND, "--resume", "--out", str(tmp_path / "part")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert rest.returncode == 0, rest.stderr
    assert rest.stdout.splitlines()[:3] == whole.stdout.splitlines()[:3]
    files = [(tmp_path / run / "weights.npz").read_bytes() for run in ("whole", "part")]
    assert files[0] == files[1]


# Progress


class Terminal(io.StringIO):
    """A terminal that keeps what was written."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__()
        self.named = encoding

    @property
    def encoding(self) -> str:
        return self.named

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        """What was drawn, one over the other, without colours."""
        plain = re.sub(r"\x1b\[\d+m", "", self.getvalue())
        return [line for line in re.split(r"\r\x1b\[K|\n", plain) if line]


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    yield monkeypatch


def drawn(terminal: Terminal, done: int = 30) -> str:
    progress = Progress(terminal, epochs=12, steps=120)
    progress.draw(done, epoch=4, loss=0.12345, accuracy=0.975)
    progress.close()
    return terminal.lines()[-1]


def test_a_terminal_shows_epoch_bar_loss_accuracy_and_time_left(wide) -> None:
    line = drawn(Terminal())
    pattern = r"epoch  4/12  (━+)(─+)  loss 0\.1235  accuracy 97\.5%  \d+:\d\d left"
    found = re.fullmatch(pattern, line)
    assert found and (len(found[1]), len(found[2])) == (10, 30)


@pytest.mark.parametrize("columns", [5, 12, 30, 45, 60, 80, 200])
def test_a_line_is_never_wider_than_the_terminal(wide, columns: int) -> None:
    wide.setenv("COLUMNS", str(columns))
    for done in (0, 60, 120):
        line = drawn(Terminal(), done)
        assert len(line) < columns and line.startswith("epoch  4/12"[: columns - 1])


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (64, ["bar", "loss", "accuracy", "left"]),
        (63, ["bar", "loss", "accuracy"]),
        (53, ["bar", "loss", "accuracy"]),
        (52, ["loss", "accuracy"]),
        (30, ["loss"]),
        (25, ["loss"]),
        (24, []),
    ],
)
def test_a_narrow_terminal_keeps_the_loss_longest(wide, columns: int, shown: list[str]) -> None:
    wide.setenv("COLUMNS", str(columns))
    line = drawn(Terminal(), done=120).replace("━", "bar")
    assert [word for word in ("bar", "loss", "accuracy", "left") if word in line] == shown


def test_lines_are_drawn_over(wide) -> None:
    terminal = Terminal()
    progress = Progress(terminal, epochs=12, steps=120)
    progress.draw(1, epoch=1, loss=2.0, accuracy=None)
    progress.epoch(10, epoch=1, loss=1.0, accuracy=0.5)
    progress.close()
    assert terminal.getvalue().count("\n") == 1 and terminal.getvalue().endswith("\n")
    first, second = terminal.lines()
    assert "accuracy" not in first and "accuracy 50.0%" in second


def test_steps_are_not_drawn_more_often_than_the_eye_sees(wide) -> None:
    progress = Progress(Terminal(), epochs=12, steps=120)
    assert progress.due()
    progress.draw(1, epoch=1, loss=2.0, accuracy=None)
    assert not progress.due()


@pytest.mark.parametrize(("value", "colored"), [("", True), ("1", False)])
def test_no_color_is_respected(wide, value: str, colored: bool) -> None:
    wide.setenv("NO_COLOR", value)
    terminal = Terminal()
    drawn(terminal)
    assert ("\x1b[36m" in terminal.getvalue()) == colored


def test_a_terminal_without_such_letters_gets_others(wide) -> None:
    assert "##########.............................." in drawn(Terminal("ascii"))


def test_a_dumb_terminal_gets_a_line_per_epoch(wide) -> None:
    wide.setenv("TERM", "dumb")
    terminal = Terminal()
    progress = Progress(terminal, epochs=12, steps=120)
    assert not progress.due()
    progress.epoch(10, epoch=1, loss=1.0, accuracy=0.5)
    progress.close()
    assert terminal.getvalue() == "epoch  1/12  loss 1.0000  accuracy 50.0%\n"


def test_the_time_left_is_that_of_the_steps_made_here(wide) -> None:
    progress = Progress(Terminal(), epochs=12, steps=120, done=100)
    progress.start -= 10
    assert progress.left(110) == "0:10"


# The picture of the training

HISTORIES = {
    "one epoch": [Epoch(2.0, 1.9, 0.5)],
    "several": [Epoch(2.0 / k, 1.9 / k, 1 - 0.5 / k) for k in range(1, 16)],
    "many": [Epoch(2.0 / k, 1.9 / k, 1 - 0.5 / k) for k in range(1, 300)],
    "no loss at all": [Epoch(0.0, 0.0, 1.0)] * 3,
    "worse than chance": [Epoch(1e6, 1e9, 0.0)] * 3,
    "diverged": [Epoch(1.0, 1.0, 0.5), Epoch(float("nan"), float("inf"), 0.1)],
    "diverged at once": [Epoch(float("nan"), float("nan"), 0.1)] * 2,
}


@pytest.mark.parametrize("name", HISTORIES)
def test_the_plot_shows_every_epoch_within_its_frame(name: str) -> None:
    history = HISTORIES[name]
    root = ElementTree.fromstring(training_plot(*zip(*history, strict=True)))
    width, height = (float(root.attrib[side]) for side in ("width", "height"))
    lines = [
        [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
        for line in root.iter(f"{SVG}polyline")
        if line.attrib["class"] == "line"
    ]
    finite = [int(np.isfinite(values).sum()) for values in zip(*history, strict=True)]
    legend = [2, 2, 2]
    assert sorted(map(len, lines)) == sorted(finite + legend)
    for x, y in (point for line in lines for point in line):
        assert 0 < x < width and 0 < y < height


def test_the_plot_puts_values_where_they_belong() -> None:
    axis = Axis(0.01, 1.0, 300, 100, np.log10)
    assert [axis.at(v) for v in (0.01, 0.1, 1.0)] == pytest.approx([300, 200, 100])


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(48.0, 100.0, [50, 60, 70, 80, 90, 100]), (99.0, 100.0, [99, 99.2, 99.4, 99.6, 99.8, 100])],
)
def test_rules_are_at_round_values(low: float, high: float, ticks: list[float]) -> None:
    assert linear_ticks(low, high) == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.003, 4.0, [0.003, 0.01, 0.03, 0.1, 0.3, 1, 3]),
        (1e-6, 2.0, [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1]),
        (1.0, 4.1, [1, 1.5, 2, 3]),
    ],
)
def test_rules_of_losses_are_far_enough_apart(low: float, high: float, ticks: list[float]) -> None:
    assert log_ticks(low, high) == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("epochs", "ticks"),
    [(1, [1]), (3, [1, 2, 3]), (15, [1, 5, 10, 15]), (200, [1, 50, 100, 150, 200])],
)
def test_epochs_are_numbered(epochs: int, ticks: list[int]) -> None:
    assert epoch_ticks(epochs) == ticks
