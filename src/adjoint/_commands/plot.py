"""The picture of a training: losses and accuracy after each epoch, as SVG."""

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 860, 340
TOP, BOTTOM = 84, 284
MOST_DOTS = 40
# Colours that can be read on a light and on a dark page.
TRAINING, TEST = "#3389ab", "#d1495b"
STYLES = {
    "text": "font:13px system-ui,sans-serif;fill:#444",
    ".title": "font-size:15px;font-weight:600",
    ".grid": "stroke:#888;stroke-opacity:.25",
    ".axis": "stroke:#888;stroke-opacity:.7",
    ".line": "fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round",
}
STYLE = "".join(f".adjoint-training {what}{{{style}}}" for what, style in STYLES.items())
DARK = "@media(prefers-color-scheme:dark){.adjoint-training text{fill:#ccc}}"


class Line(NamedTuple):
    """A value after each epoch; those that aren't finite are left out."""

    label: str
    color: str
    values: Sequence[float]

    def points(self) -> list[tuple[int, float]]:
        return [(k, v) for k, v in enumerate(self.values, start=1) if math.isfinite(v)]


class Axis(NamedTuple):
    """Which values stand where: between `low` and `high` after `scale`."""

    low: float
    high: float
    start: float
    end: float
    scale: Callable[[float], float] = float

    def at(self, value: float) -> float:
        low, high = self.scale(self.low), self.scale(self.high)
        share = (self.scale(value) - low) / (high - low)
        return self.start + share * (self.end - self.start)


class Panel(NamedTuple):
    """Lines with a common axis, and the values at which it has a rule."""

    title: str
    left: float
    right: float
    lines: list[Line]
    y: Axis
    ticks: list[float]
    show: Callable[[float], str]

    def drawing(self) -> Iterable[str]:
        epochs = len(self.lines[0].values)
        x = Axis(1, max(epochs, 2), self.left + 8, self.right - 8)
        yield text(self.left, TOP - 38, self.title, kind="title")
        yield from self.legend()
        yield rule(self.left, BOTTOM, self.right, "axis")
        for value in self.ticks:
            yield rule(self.left, self.y.at(value), self.right)
            yield text(self.left - 8, self.y.at(value) + 4, self.show(value), "end")
        for epoch in epoch_ticks(epochs):
            yield text(x.at(epoch), BOTTOM + 20, str(epoch), "middle")
        yield text((self.left + self.right) / 2, BOTTOM + 42, "epoch", "middle")
        for line in self.lines:
            yield from drawn(line, x, self.y)

    def legend(self) -> Iterable[str]:
        """Names and last values above the lines."""
        left = self.left
        for line in self.lines:
            label = f"{line.label} {self.show(line.values[-1])}"
            yield stroke(line.color, [(left, TOP - 20), (left + 16, TOP - 20)])
            yield text(left + 22, TOP - 16, label)
            left += 46 + 7.5 * len(label)


def training_plot(
    losses: Sequence[float], test_losses: Sequence[float], accuracies: Sequence[float]
) -> str:
    """The text of an SVG picture: losses on the left, accuracy on the right."""
    middle = WIDTH / 2
    panels = [
        loss_panel(58, middle - 22, losses, test_losses),
        accuracy_panel(middle + 58, WIDTH - 22, accuracies),
    ]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="adjoint-training" width="{WIDTH}" '
        f'height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>Loss and accuracy after each epoch</title><style>{STYLE}{DARK}</style>",
        *(part for panel in panels for part in panel.drawing()),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def loss_panel(
    left: float, right: float, losses: Sequence[float], test_losses: Sequence[float]
) -> Panel:
    lines = [Line("training", TRAINING, losses), Line("test", TEST, test_losses)]
    values = [max(v, 1e-12) for line in lines for _, v in line.points()] or [0.1, 1.0]
    low, high = widened(min(values), max(values))
    y = Axis(low, high, BOTTOM, TOP, lambda value: math.log(max(value, 1e-12)))
    return Panel("Loss", left, right, lines, y, log_ticks(low, high), lambda v: f"{v:.3g}")


def accuracy_panel(left: float, right: float, accuracies: Sequence[float]) -> Panel:
    line = Line("test", TEST, [100 * value for value in accuracies])
    low = min((v for _, v in line.points()), default=0.0)
    y = Axis(min(low - 0.06 * (100 - low), 99.0), 100.0, BOTTOM, TOP)
    ticks = linear_ticks(y.low, y.high)
    return Panel("Accuracy", left, right, [line], y, ticks, lambda v: f"{v:.3g}%")


def widened(low: float, high: float) -> tuple[float, float]:
    """A little room above and below, and at least a factor of 4 between them."""
    room = max(1.15, math.sqrt(4 * low / high))
    return low / room, high * room


def epoch_ticks(epochs: int) -> list[int]:
    """The first, the last, and round ones between that leave them room."""
    if epochs <= 8:
        return list(range(1, epochs + 1))
    step = int(tick_distance(epochs / 6))
    return [1, *range(step, epochs - step // 2, step), epochs] if step > 1 else [1, epochs]


def linear_ticks(low: float, high: float) -> list[float]:
    """A few round values from low to high."""
    step = tick_distance((high - low) / 6)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def tick_distance(least: float) -> float:
    """The first of 1, 2, 5, 10, 20 and so on, also below 1, that is at least this."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(k * power for k in (1, 2, 5, 10) if k * power >= least * (1 - 1e-9))


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten from low to high; where there are few, round values between them, too."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for digits in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
        found = [v for e in exponents for k in digits if low <= (v := k * 10.0**e) <= high]
        if len(found) >= 4:
            break
    return found


def drawn(line: Line, x: Axis, y: Axis) -> Iterable[str]:
    places = [(x.at(epoch), y.at(value)) for epoch, value in line.points()]
    yield stroke(line.color, places)
    if len(places) <= MOST_DOTS:
        for a, b in places:
            yield f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.5" fill="{line.color}"/>'


def stroke(color: str, places: list[tuple[float, float]]) -> str:
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
    return f'<polyline class="line" stroke="{color}" points="{points}"/>'


def rule(left: float, y: float, right: float, kind: str = "grid") -> str:
    return f'<line class="{kind}" x1="{left:.1f}" y1="{y:.1f}" x2="{right:.1f}" y2="{y:.1f}"/>'


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "label") -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
        f"{escape(words)}</text>"
    )
