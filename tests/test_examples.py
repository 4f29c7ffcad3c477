"""The examples run as a user runs them, and what they print and draw is right."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest
from helpers import close

import adjoint as ad

EXAMPLES = Path(__file__).parents[1] / "examples"
POINTS = 90
SVG = "{http://www.w3.org/2000/svg}"


def run(example: str, *options: str, folder: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "-W", "error", str(EXAMPLES / example), *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def printed(example: str, *options: str, folder: Path) -> str:
    done = run(example, *options, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


# Digits.


def test_digits_are_read_better_than_by_chance_after_one_epoch(tmp_path: Path) -> None:
    out = printed("digits.py", "--epochs", "1", folder=tmp_path)
    found = re.fullmatch(r"test accuracy: (\d+\.\d)%\n", out)
    assert found and float(found[1]) > 60


# The Gaussian process: what it computes.


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "gaussian_process", EXAMPLES / "gaussian_process.py"
    )
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
