"""The examples run as a user runs them, and what they print and draw is right."""

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest

import adjoint as ad
from tests.distributed.ranks import MPIEXEC, need_mpi
from tests.support.helpers import DEVICES, close, derivative, values
from tests.support.paths import ROOT
from tests.support.processes import python

EXAMPLES = ROOT / "examples"
POINTS = 90
SVG = "{http://www.w3.org/2000/svg}"


def run(example: str, *options: str, folder: Path) -> subprocess.CompletedProcess:
    return python(EXAMPLES / example, *options, folder=folder)


def printed(example: str, *options: str, folder: Path) -> str:
    done = run(example, *options, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(pattern: str, text: str) -> tuple[float, ...]:
    """What stands where a pattern has groups."""
    found = re.search(pattern, text)
    assert found, f"no {pattern!r} in:\n{text}"
    return tuple(map(float, found.groups()))


def load_example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def double() -> Iterator[None]:
    """float64 by default, as in the examples that need it."""
    ad.set_default_dtype(ad.float64)
    yield
    ad.set_default_dtype(ad.float32)


# All of them.

NAMES = sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_every_example_is_described_and_says_what_it_can_do(name: str, tmp_path: Path) -> None:
    assert f"`{name}`" in (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert printed(name, "--help", folder=tmp_path).startswith(f"usage: {name}")


# Networks, in their short modes: each learns something.


def test_transformer_learns_more_than_the_frequencies_of_letters(tmp_path: Path) -> None:
    out = printed("char_transformer.py", "--quick", folder=tmp_path)
    loss, held_out, entropy = numbers(
        r"loss ([\d.]+), held-out loss ([\d.]+), entropy of the letters ([\d.]+)\n", out
    )
    assert 2.9 < entropy < 3.2
    assert loss < entropy - 0.3 and held_out < entropy - 0.3


def test_transformer_sees_no_letters_to_come() -> None:
    example = load_example("char_transformer")
    model = example.Transformer(symbols=9, context=8, width=16, heads=2, layers=2).eval()
    x = ad.random.integers(0, 9, (1, 8))
    other = ad.concat([x[:, :5], 8 - x[:, 5:]], axis=1)
    close(model(x)[:, :5], values(model(other)[:, :5]), 1e-5)
    assert ad.max(ad.abs(model(x)[:, 5:] - model(other)[:, 5:])).item() > 1e-3


def test_digits_are_read_and_the_saved_weights_are_those_that_were_tested(tmp_path: Path) -> None:
    out = printed("cnn_digits.py", "--quick", "--weights", "weights.npz", folder=tmp_path)
    (accuracy,) = numbers(r"test accuracy: ([\d.]+)%\n", out)
    assert accuracy > 93
    example = load_example("cnn_digits")
    model = example.network()
    model.load_state_dict(ad.load(tmp_path / "weights.npz"))
    again = example.accuracy(model, ad.data.digits(train=False))
    assert 100 * again == pytest.approx(accuracy, abs=0.01)


def test_training_in_parallel_goes_on_on_another_number_of_ranks(tmp_path: Path) -> None:
    options = "--quick", "--checkpoint", str(tmp_path / "last.npz")
    first = printed("data_parallel.py", *options, "--epochs", "2", folder=tmp_path)
    assert "epoch 2" in first and "1 ranks" in first
    need_mpi()
    command = [str(MPIEXEC), "-n", "2", sys.executable, str(EXAMPLES / "data_parallel.py")]
    done = subprocess.run([*command, *options, "--sharded"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "going on after epoch 2\nepoch 3" in done.stdout and "2 ranks" in done.stdout
    (accuracy,) = numbers(r"test accuracy ([\d.]+)%\n", done.stdout)
    assert accuracy > 90


def test_moved_digits_are_the_digits_up_to_a_pixel() -> None:
    example = load_example("cnn_digits")
    images = ad.data.digits().tensors[0][:100]
    wide = np.pad(images.numpy(), ((0, 0), (0, 0), (1, 1), (1, 1)))
    places = [wide[:, :, i : i + 8, j : j + 8] for i in range(3) for j in range(3)]
    moved = example.moved(images).numpy()
    matches = np.array([np.all(place == moved, axis=(1, 2, 3)) for place in places])
    assert np.all(matches.any(axis=0)) and np.all(matches.any(axis=1))


def test_lstm_adds_better_than_the_mean(tmp_path: Path) -> None:
    out = printed("lstm_sequence.py", "--quick", folder=tmp_path)
    error, baseline = numbers(r"mean squared error ([\d.]+), of always saying 1: ([\d.]+)\n", out)
    assert baseline == pytest.approx(1 / 6, rel=0.15)
    assert error < baseline / 10


def test_sequences_have_two_marks_and_their_sum() -> None:
    x, sums = load_example("lstm_sequence").sequences(50, 10)
    values, marks = np.moveaxis(x.numpy(), -1, 0)
    assert np.all(marks[:, :5].sum(axis=1) == 1) and np.all(marks[:, 5:].sum(axis=1) == 1)
    close(sums, [row[mark == 1].sum() for row, mark in zip(values, marks, strict=True)], 1e-6)


def test_physics_informed_network_finds_the_solution(tmp_path: Path) -> None:
    out = printed("physics_informed.py", "--quick", folder=tmp_path)
    loss, error = r"loss ([\d.e+-]+)", r"relative error ([\d.e+-]+)"
    first = numbers(rf"untrained: +{loss}, {error}", out)
    adam = numbers(rf"after Adam: +{loss}, {error}", out)
    lbfgs = numbers(rf"after L-BFGS: +{loss}, {error}", out)
    assert first[0] > 10 * adam[0] > 100 * lbfgs[0]
    assert first[1] > 0.5 and lbfgs[1] < 1e-2


@pytest.mark.usefixtures("double")
def test_the_exact_solution_solves_the_equation() -> None:
    example = load_example("physics_informed")
    points = example.Points(200)

    class Exact(ad.nn.Module):
        def forward(self, x: ad.Tensor, t: ad.Tensor) -> ad.Tensor:
            return example.exact(x, t)

    assert example.loss_of(Exact(), points).item() < 1e-24


def test_neural_ode_learns_the_equations(tmp_path: Path) -> None:
    out = printed("neural_ode.py", "--quick", folder=tmp_path)
    through, adjoint, difference, after, before, standing = numbers(
        r"backpropagation keeps +([\d.]+) kB\nadjoint method keeps +([\d.]+) kB\n"
        r"their gradients differ by ([\d.e+-]+) of their length\n(?:.*\n)*"
        r".*: ([\d.]+); untrained ([\d.]+), no change ([\d.]+)\n",
        out,
    )
    assert adjoint < through / 10
    assert difference < 1e-5
    assert after < before / 3 and after < standing / 3


@pytest.mark.usefixtures("double")
def test_adjoint_method_approaches_backpropagation_with_the_fourth_power_of_the_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    example = load_example("neural_ode")
    rate = example.Rate(8)
    start = ad.random.normal((4, 2))
    differences = []
    for steps in (1, 2):
        monkeypatch.setattr(example, "SOLVER_STEPS", steps)
        grads = [
            derivative(ad.sum(states**2), rate.layers[0].weight)
            for states in (example.solved(rate, start, 6), example.adjoint_solver(rate)(start, 6))
        ]
        differences.append(ad.max(ad.abs(grads[0] - grads[1])).item())
    assert 8 < differences[0] / differences[1] < 32


def test_checkpoints_need_less_memory_and_give_the_same_gradients(tmp_path: Path) -> None:
    out = printed("checkpoint_deep.py", "--quick", folder=tmp_path)
    table = "8 checkpoints{row}2 checkpoints{row}none{row}"
    kept8, kept2, kept = numbers(table.format(row=r" +([\d.]+) MB.* same\n"), out)
    assert kept8 < kept / 10 and kept2 < kept8
    if ad.memory_stats()["limit"] == 0:  # there is no pool
        assert out.count("unknown") == 3
        return
    peak8, peak2, peak = numbers(table.format(row=r".* MB +([\d.]+) MB.* same\n"), out)
    assert peak8 < peak2 < peak and peak8 < peak / 2


# Weights of PyTorch.


@pytest.mark.parametrize("device", DEVICES)
def test_weights_move_between_adjoint_and_pytorch(tmp_path: Path, device: str) -> None:
    pytest.importorskip("safetensors")
    out = printed("torch_weights.py", "--quick", "--device", device, folder=tmp_path)
    titles = ["file saved from PyTorch", "saved and loaded by adjoint"]
    if importlib.util.find_spec("torch"):
        titles += ["adjoint to PyTorch", "PyTorch to adjoint"]
    else:
        assert "PyTorch is not installed" in out
    for title in titles:
        (difference,) = numbers(rf"{title} +outputs differ by at most ([\d.e+-]+)\n", out)
        assert difference < 1e-5


def without(package: str, example: str, folder: Path) -> subprocess.CompletedProcess:
    """Run an example as where a package isn't installed."""
    code = (
        "import importlib.util, runpy, sys; package, path = sys.argv[1:]; "
        "sys.modules[package] = None; find = importlib.util.find_spec; "
        "importlib.util.find_spec = lambda name: None if name == package else find(name); "
        "sys.argv = [path]; runpy.run_path(path, run_name='__main__')"
    )
    return python("-c", code, package, EXAMPLES / example, folder=folder)


def test_adjoints_half_of_the_weights_needs_no_pytorch(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    done = without("torch", "torch_weights.py", tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 3 and "PyTorch is not installed" in done.stdout


def test_where_safetensors_is_missing_the_example_says_how_to_get_it(tmp_path: Path) -> None:
    done = without("safetensors", "torch_weights.py", tmp_path)
    assert done.returncode == 1 and "pip install" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_shipped_weights_are_small_and_their_outputs_not_trivial() -> None:
    pytest.importorskip("safetensors")
    path = EXAMPLES / "torch_mlp.safetensors"
    assert path.stat().st_size < 50_000
    outputs = ad.load(path)["outputs"]
    assert outputs.shape == (16, 4) and ad.std(outputs).item() > 0.1


# The Gaussian process: what it computes.


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return load_example("gaussian_process")


def numpy_covariance(logs: np.ndarray, times: np.ndarray, others: np.ndarray) -> np.ndarray:
    trend, trend_years, season, smoothness, wander, wander_years, _ = np.exp(logs)
    years = np.abs(np.subtract.outer(times, others))
    slow = trend**2 * np.exp(-0.5 * years**2 / trend_years**2)
    yearly = season**2 * np.exp(-2 * np.sin(np.pi * years) ** 2 / smoothness**2)
    return slow + yearly + wander**2 * np.exp(-years / wander_years)


def numpy_measured(logs: np.ndarray, years: np.ndarray) -> np.ndarray:
    return numpy_covariance(logs, years, years) + np.exp(2 * logs[-1]) * np.eye(len(years))


def numpy_log_likelihood(logs: np.ndarray, years: np.ndarray, ppm: np.ndarray) -> float:
    """Of a normal distribution, by eigenvalues."""
    values, vectors = np.linalg.eigh(numpy_measured(logs, years))
    parts = vectors.T @ (ppm - ppm.mean())
    return -0.5 * np.sum(parts**2 / values + np.log(2 * np.pi * values)).item()


def some_logs(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.7, 7)


def test_data_are_in_order_and_divided_at_the_year(example: ModuleType) -> None:
    known, held_out = example.load_series(1992, 500)
    years = np.concatenate([known.years.numpy(), held_out.years.numpy()])
    ppm = np.concatenate([known.ppm.numpy(), held_out.ppm.numpy()])
    assert len(years) == 521 and np.all(np.diff(years) > 0)
    assert 1958 < years[0] and years[-1] < 2002
    assert np.all((ppm > 310) & (ppm < 375))
    assert known.years[-1].item() < 1992 < held_out.years[0].item()


def test_points_are_the_last_ones_before_the_year(example: ModuleType) -> None:
    every, _ = example.load_series(1992, 500)
    few, _ = example.load_series(1992, 60)
    close(few.years, every.years.numpy()[-60:])
    close(few.ppm, every.ppm.numpy()[-60:])


@pytest.mark.parametrize("seed", range(3))
def test_likelihood_is_that_of_a_normal_distribution(example: ModuleType, seed: int) -> None:
    known, _ = example.load_series(1992, POINTS)
    logs = some_logs(seed)
    expected = numpy_log_likelihood(logs, known.years.numpy(), known.ppm.numpy())
    close(example.log_likelihood(ad.asarray(logs), known), expected, 1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_derivatives_of_the_likelihood(example: ModuleType, seed: int) -> None:
    known, _ = example.load_series(1992, 60)
    logs = ad.asarray(some_logs(seed))
    ad.testing.check_grads(lambda p: example.log_likelihood(p, known), (logs,), order=2)


def test_prediction_is_that_of_a_normal_distribution(example: ModuleType) -> None:
    known, held_out = example.load_series(1992, POINTS)
    logs, years, ppm = some_logs(0), known.years.numpy(), known.ppm.numpy()
    later = held_out.years.numpy()
    weights = np.linalg.solve(numpy_measured(logs, years), numpy_covariance(logs, years, later))
    variance = numpy_measured(logs, later) - numpy_covariance(logs, later, years) @ weights
    found = example.predict(ad.asarray(logs), known, held_out.years)
    close(found.mean, ppm.mean() + (ppm - ppm.mean()) @ weights, 1e-9)
    close(found.deviation, np.sqrt(np.diagonal(variance)), 1e-9)


@pytest.mark.parametrize(
    "curvatures",
    [(5.0, 3.0), (5.0, -3.0), (-5.0, -3.0), (5.0, 0.0), (1e-9, 1e9)],
    ids=["valley", "saddle", "hill", "flat", "narrow"],
)
def test_a_step_of_newton_leads_down_and_not_far(example: ModuleType, curvatures: tuple) -> None:
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    hessian = ad.asarray(turn @ np.diag(curvatures) @ turn.T)
    slope = ad.asarray([2.0, 1.0], dtype=ad.float64)
    move = example.downhill(slope, hessian)
    assert (slope @ move).item() < 0
    assert ad.max(ad.abs(move)).item() <= 1


def test_a_step_of_newton_ends_at_the_lowest_point_of_a_parabola(example: ModuleType) -> None:
    hessian = np.array([[3.0, 1.0], [1.0, 2.0]])
    slope = np.array([0.5, -0.25])
    found = example.downhill(ad.asarray(slope), ad.asarray(hessian))
    close(found, -np.linalg.solve(hessian, slope))


def test_a_step_of_newton_is_as_long_where_the_loss_curves_downwards(example: ModuleType) -> None:
    slope = ad.asarray([0.4, 0.2], dtype=ad.float64)
    for first in (4.0, -4.0):
        hessian = ad.asarray([[first, 0.0], [0.0, 2.0]], dtype=ad.float64)
        close(example.downhill(slope, hessian), [-0.1, -0.1])


# The Gaussian process: what it prints and draws.


class Result(NamedTuple):
    """What a run printed, and the numbers of its table, for the guess, gradients and Newton."""

    text: str
    rows: dict[str, np.ndarray]
    plot: Path


def result_of(text: str, plot: Path) -> Result:
    found = re.findall(r"^(\S.*?) +(-?[\d.]+) +(-?[\d.]+) +(-?[\d.]+)$", text, re.MULTILINE)
    return Result(text, {name: np.array(row, float) for name, *row in found}, plot)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("gaussian_process")
    text = printed("gaussian_process.py", "--points", str(POINTS), folder=folder)
    return result_of(text, folder / "gaussian_process.svg")


def test_both_fits_have_the_same_hyperparameters(example: ModuleType, result: Result) -> None:
    for name in example.GUESS:
        guess, descent, newton = result.rows[name]
        assert guess == example.GUESS[name]
        assert newton == pytest.approx(descent, rel=0.01), name
    assert "the two ways agree" in result.text


def test_both_fits_are_as_likely_and_newton_takes_few_steps(result: Result) -> None:
    guess, descent, newton = result.rows["log marginal likelihood"]
    assert newton == pytest.approx(descent, abs=1e-3) and newton > guess + 50
    _, descent_steps, newton_steps = result.rows["steps"]
    assert 0 < newton_steps < descent_steps / 10


def test_the_fit_is_a_maximum_of_the_likelihood(example: ModuleType, result: Result) -> None:
    known, _ = example.load_series(1992, POINTS)
    data = known.years.numpy(), known.ppm.numpy()
    logs = np.log([result.rows[name][-1] for name in example.GUESS])
    best = numpy_log_likelihood(logs, *data)
    assert best == pytest.approx(result.rows["log marginal likelihood"][-1], abs=1e-3)
    for move in 0.1 * np.concatenate([np.eye(7), -np.eye(7)]):
        assert numpy_log_likelihood(logs + move, *data) < best


def test_errors_on_held_out_months_are_those_of_the_prediction(
    example: ModuleType, result: Result
) -> None:
    known, held_out = example.load_series(1992, POINTS)
    logs = ad.log(ad.asarray([result.rows[name][-1] for name in example.GUESS], dtype=ad.float64))
    mean, deviation = (part.numpy() for part in example.predict(logs, known, held_out.years))
    errors = np.abs(mean - held_out.ppm.numpy())
    found = re.search(r"error ([\d.]+) ppm \(RMS\), (\d+)% in the 95% interval", result.text)
    assert found
    assert float(found[1]) == pytest.approx(np.sqrt(np.mean(errors**2)), abs=0.02)
    assert float(found[2]) == pytest.approx(100 * np.mean(errors < 1.96 * deviation), abs=1)


def test_fits_that_were_cut_short_are_said_not_to_agree(tmp_path: Path) -> None:
    options = ("--points", "60", "--steps", "2", "--plot", "short.svg")
    result = result_of(printed("gaussian_process.py", *options, folder=tmp_path), Path())
    assert "the two ways do not agree" in result.text
    assert list(result.rows["steps"]) == [0, 2, 2]
    assert (tmp_path / "short.svg").exists()


def drawn_places(root: ElementTree.Element, kind: str) -> np.ndarray:
    """Where dots, or points of a line, are drawn, without the legend, which comes first."""
    if kind in ("known", "held-out"):
        _, *dots = root.findall(f"{SVG}circle[@class='{kind}']")
        return np.array([(dot.attrib["cx"], dot.attrib["cy"]) for dot in dots], float)
    _, line = root.findall(f"{SVG}path[@class='{kind}']")
    pairs = line.attrib["d"].removeprefix("M ").split()
    return np.array([pair.split(",") for pair in pairs], float)


@pytest.mark.parametrize(
    ("kind", "count"), [("known", POINTS), ("held-out", 120), ("mean", 800), ("band", 1600)]
)
def test_the_picture_shows_everything_within_its_frame(
    example: ModuleType, result: Result, kind: str, count: int
) -> None:
    root = ElementTree.parse(result.plot).getroot()
    assert root.tag == f"{SVG}svg"
    places = drawn_places(root, kind)
    assert len(places) == count
    x, y = places.T
    assert np.all((x > example.LEFT) & (x < example.RIGHT))
    assert np.all((y > example.TOP) & (y < example.BOTTOM))


def test_the_predicted_line_runs_through_what_was_fitted(result: Result) -> None:
    root = ElementTree.parse(result.plot).getroot()
    x, y = drawn_places(root, "known").T
    assert np.all(np.abs(np.interp(x, *drawn_places(root, "mean").T) - y) < 6)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--points", "3"), "--points: from 60 to 500 is possible, got 3"),
        (("--points", "many"), "--points: invalid number value: 'many'"),
        (("--until", "2010"), "--until: from 1970 to 2000 is possible, got 2010"),
        (("--steps", "0"), "--steps: from 1 to 100000 is possible, got 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    tmp_path: Path, options: tuple[str, str], complaint: str
) -> None:
    done = run("gaussian_process.py", *options, folder=tmp_path)
    assert done.returncode == 2 and complaint in done.stderr
    assert not list(tmp_path.iterdir())
