"""Fits a Gaussian process to the carbon dioxide above Mauna Loa, and predicts the years after.

The hyperparameters are those with the highest marginal likelihood, found twice from the same guess:
by gradient descent, and by Newton's method, which needs far fewer steps. What was measured, what is
predicted and how sure that is go to a picture.
"""

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import adjoint as ad

FLAT = 1e-3  # largest slope of the loss at which a fit is done

GUESS = {
    "trend, ppm": 10.0,
    "trend, years": 10.0,
    "season, ppm": 1.0,
    "season, smoothness": 1.0,
    "wander, ppm": 1.0,
    "wander, years": 1.0,
    "noise, ppm": 1.0,
}


class Series(NamedTuple):
    """Times in years, and the carbon dioxide measured then, in parts per million."""

    years: ad.Tensor
    ppm: ad.Tensor


class Prediction(NamedTuple):
    """What is expected to be measured, and its standard deviation."""

    mean: ad.Tensor
    deviation: ad.Tensor


class Fit(NamedTuple):
    """Logarithms of hyperparameters, and how many steps led to them."""

    logs: ad.Tensor
    steps: int


Loss = Callable[[ad.Tensor], ad.Tensor]


def main() -> None:
    options = parse_arguments()
    known, held_out = load_series(options.until, options.points)
    print(f"fitting {len(known.years)} months, predicting {len(held_out.years)}")

    def loss(logs: ad.Tensor) -> ad.Tensor:
        return -log_likelihood(logs, known)

    guess = Fit(ad.log(ad.asarray(list(GUESS.values()), dtype=ad.float64)), steps=0)
    descent = fit_by_gradients(loss, guess.logs, options.steps)
    newton = fit_by_newton(loss, guess.logs, options.steps)
    print_fits(loss, {"guess": guess, "gradients": descent, "Newton": newton})
    print_errors(predict(newton.logs, known, held_out.years), held_out.ppm)

    first, last = known.years[0].item(), held_out.years[-1].item()
    grid = ad.linspace(first, last, 800, dtype=ad.float64)
    drawing = picture(known, held_out, grid, predict(newton.logs, known, grid))
    options.plot.write_text(drawing, encoding="utf-8")
    print(f"picture: {options.plot}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--until",
        type=whole_number(1970, 2000),
        default=1992,
        metavar="YEAR",
        help="what is measured from then on is held out; 1970 to 2000 (default: %(default)s)",
    )
    parser.add_argument(
        "--points",
        type=whole_number(60, 500),
        default=264,
        metavar="N",
        help="months to fit, the last ones before that; 60 to 500 (default: %(default)s)",
    )
    parser.add_argument(
        "--steps",
        type=whole_number(1, 100_000),
        default=1000,
        metavar="N",
        help="most steps that a fit may take (default: %(default)s)",
    )
    parser.add_argument(
        "--plot",
        type=Path,
        default=Path("gaussian_process.svg"),
        metavar="FILE",
        help="file for the picture (default: %(default)s)",
    )
    return parser.parse_args()


def whole_number(least: int, most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"from {least} to {most} is possible, got {text}")
        return int(text)

    return number


def load_series(until: int, points: int) -> tuple[Series, Series]:
    """What to fit, and what to predict."""
    data = np.loadtxt(Path(__file__).with_name("co2.csv"), delimiter=",", skiprows=1)
    first = np.searchsorted(data[:, 0], until).item()
    known, held_out = ad.asarray(data[:first][-points:]), ad.asarray(data[first:])
    return Series(*known.T), Series(*held_out.T)


# The model: a slow trend, a season that repeats every year, what wanders between, and noise.


def covariance(logs: ad.Tensor, times: ad.Tensor, others: ad.Tensor) -> ad.Tensor:
    """How much the values at two sets of times have in common, noise apart."""
    trend, trend_years, season, smoothness, wander, wander_years, _ = ad.exp(logs)
    years = ad.abs(times[:, None] - others)
    return (
        trend**2 * ad.exp(-((years / trend_years) ** 2) / 2)
        + season**2 * ad.exp(-2 * (ad.sin(math.pi * years) / smoothness) ** 2)
        + wander**2 * ad.exp(-years / wander_years)
    )


def factor(logs: ad.Tensor, years: ad.Tensor) -> ad.Tensor:
    """The Cholesky factor of the covariance of what is measured."""
    noise = ad.exp(logs[-1])
    return ad.linalg.cholesky(
        covariance(logs, years, years) + noise**2 * ad.eye(len(years), dtype=ad.float64)
    )


def log_likelihood(logs: ad.Tensor, known: Series) -> ad.Tensor:
    """The logarithm of the probability density of what was measured, around its mean."""
    lower = factor(logs, known.years)
    y = known.ppm - ad.mean(known.ppm)
    mismatch = y @ ad.linalg.cholesky_solve(y, lower)
    log_determinant = 2 * ad.sum(ad.log(ad.linalg.diagonal(lower)))
    return -(mismatch + log_determinant + len(y) * math.log(2 * math.pi)) / 2


def predict(logs: ad.Tensor, known: Series, years: ad.Tensor) -> Prediction:
    """What would be measured at other times, given what is known."""
    lower = factor(logs, known.years)
    average = ad.mean(known.ppm)
    common = covariance(logs, known.years, years)
    mean = average + common.mT @ ad.linalg.cholesky_solve(known.ppm - average, lower)
    explained = ad.sum(ad.linalg.solve_triangular(lower, common, upper=False) ** 2, axis=0)
    alone = covariance(logs, years[:1], years[:1])[0] + ad.exp(logs[-1]) ** 2
    return Prediction(mean, ad.sqrt(alone - explained))


# Two ways to fit it.


def fit_by_gradients(loss: Loss, guess: ad.Tensor, limit: int) -> Fit:
    """Gradient descent with steps that Adam adapts to each hyperparameter."""
    logs = ad.tensor(guess, requires_grad=True)
    optimizer = ad.optim.Adam([logs], lr=0.1)
    for step in range(limit):
        optimizer.zero_grad()
        loss(logs).backward()
        assert logs.grad is not None
        if is_flat(logs.grad):
            return Fit(logs.detach(), step)
        optimizer.step()
    return Fit(logs.detach(), limit)


def fit_by_newton(loss: Loss, logs: ad.Tensor, limit: int) -> Fit:
    """Newton's method: to the lowest point of the parabola with the same slope and curvature."""
    value_and_slope, hessian = ad.value_and_grad(loss), ad.hessian(loss)
    for step in range(limit):
        value, slope = value_and_slope(logs)
        if is_flat(slope):
            return Fit(logs, step)
        move = downhill(slope, hessian(logs))
        while loss(logs + move) > value + 1e-4 * (slope @ move):
            move = move / 2
        logs = logs + move
    return Fit(logs, limit)


def downhill(slope: ad.Tensor, hessian: ad.Tensor) -> ad.Tensor:
    """Newton's step, made to lead down where the loss curves downwards too, and not too far."""
    curvatures, directions = ad.linalg.eigh(hessian)
    move = -directions @ ((directions.mT @ slope) / ad.clip(ad.abs(curvatures), 1e-3))
    return move / ad.clip(ad.max(ad.abs(move)), 1.0)


def is_flat(slope: ad.Tensor) -> bool:
    return ad.max(ad.abs(slope)).item() < FLAT


# Results.


def print_fits(loss: Loss, fits: dict[str, Fit]) -> None:
    """A table with a column for each fit, and how far the last two are apart."""
    values = [ad.exp(fit.logs).numpy() for fit in fits.values()]
    print(f"{'':24}" + "".join(f"{name:>12}" for name in fits))
    for name, row in zip(GUESS, np.transpose(values), strict=True):
        print(f"{name:24}" + "".join(f"{value:12.4f}" for value in row))
    likelihoods = [-loss(fit.logs).item() for fit in fits.values()]
    print(f"{'log marginal likelihood':24}" + "".join(f"{value:12.4f}" for value in likelihoods))
    print(f"{'steps':24}" + "".join(f"{fit.steps:12}" for fit in fits.values()))
    difference = np.max(np.abs(values[-1] / values[-2] - 1))
    verdict = "agree" if difference < 0.01 else "do not agree"
    print(f"the two ways {verdict}: hyperparameters differ by at most {difference:.2%}")


def print_errors(prediction: Prediction, measured: ad.Tensor) -> None:
    errors = prediction.mean - measured
    typical = ad.sqrt(ad.mean(errors**2)).item()
    within = ad.abs(errors) < 1.96 * prediction.deviation
    share = ad.mean(ad.astype(within, ad.float64)).item()
    print(f"held-out months: error {typical:.2f} ppm (RMS), {share:.0%} in the 95% interval")


# The picture.

TITLE = "Carbon dioxide above Mauna Loa, parts per million"
LEFT, RIGHT, TOP, BOTTOM = 48, 784, 72, 376
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #444 }
.title { font-size: 15px; font-weight: 600 }
.year { text-anchor: middle }
.ppm { text-anchor: end }
.grid { stroke: #888; stroke-opacity: 0.3 }
.since { stroke: #888; stroke-dasharray: 4 4 }
.band { fill: #d1495b; fill-opacity: 0.3 }
.mean { fill: none; stroke: #d1495b; stroke-width: 1.5 }
.known { fill: #3389ab }
.held-out { fill: #e09f3e }
@media (prefers-color-scheme: dark) { text { fill: #ccc } }
"""


class Axis(NamedTuple):
    """Which values stand where."""

    low: float
    high: float
    start: float
    end: float

    def at(self, values: Any) -> Any:
        return self.start + (values - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> range:
        """A few round values."""
        distances = (1, 2, 5, 10, 20, 50, 100)
        distance = next((d for d in distances if self.high - self.low <= 8 * d), 200)
        first, last = math.ceil(self.low / distance), math.floor(self.high / distance)
        return range(first * distance, last * distance + 1, distance)


def picture(known: Series, held_out: Series, grid: ad.Tensor, prediction: Prediction) -> str:
    """The text of an SVG picture: what was measured, what is predicted, and the 95% interval."""
    low = prediction.mean - 1.96 * prediction.deviation
    high = prediction.mean + 1.96 * prediction.deviation
    x = Axis(grid[0].item() - 0.3, grid[-1].item() + 0.3, LEFT, RIGHT)
    shown = ad.concat([low, high, known.ppm, held_out.ppm])
    y = Axis(ad.min(shown).item() - 2, ad.max(shown).item() + 2, BOTTOM, TOP)
    since = x.at((known.years[-1] + held_out.years[0]).item() / 2)

    def places(years: ad.Tensor, ppm: ad.Tensor) -> list[tuple[float, float]]:
        return list(zip(x.at(years.numpy()), y.at(ppm.numpy()), strict=True))

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 412" role="img">',
        f"<title>{TITLE}</title><style>{STYLE}</style>",
        text("title", LEFT, 26, TITLE),
        *legend(50),
        *(line("grid", x.at(year), TOP, x.at(year), BOTTOM) for year in x.ticks()),
        *(text("year", x.at(year), BOTTOM + 22, year) for year in x.ticks()),
        *(line("grid", LEFT, y.at(ppm), RIGHT, y.at(ppm)) for ppm in y.ticks()),
        *(text("ppm", LEFT - 8, y.at(ppm) + 4, ppm) for ppm in y.ticks()),
        line("since", since, TOP, since, BOTTOM),
        path("band", [*places(grid, low), *reversed(places(grid, high))]),
        path("mean", places(grid, prediction.mean)),
        *(dot("known", *place) for place in places(*known)),
        *(dot("held-out", *place) for place in places(*held_out)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def legend(y: float) -> list[str]:
    """A line of marks and what they stand for."""
    return [
        dot("known", LEFT + 4, y),
        text("name", LEFT + 14, y + 4, "measured, fitted"),
        dot("held-out", LEFT + 140, y),
        text("name", LEFT + 150, y + 4, "measured, held out"),
        path("mean", [(LEFT + 290, y), (LEFT + 310, y)]),
        text("name", LEFT + 318, y + 4, "predicted"),
        path("band", [(LEFT + x, y + z) for x, z in ((402, -6), (422, -6), (422, 6), (402, 6))]),
        text("name", LEFT + 430, y + 4, "95% interval"),
    ]


def text(kind: str, x: float, y: float, words: object) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{words}</text>'


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def path(kind: str, places: list[tuple[float, float]]) -> str:
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<path class="{kind}" d="M {joined}"/>'


def dot(kind: str, x: float, y: float) -> str:
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="2"/>'


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        sys.exit(130)
