"""Line plots as SVG, with both axes logarithmic: enough for the figures of the documentation."""

import math
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 84, 150, 48, 56
COLORS = ("#d1495b", "#2e7d9a", "#7a9e3d", "#a05eb5")
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#444}.title{font-size:15px;font-weight:600}"
    ".grid{stroke:#888;stroke-opacity:.3}"
    "@media(prefers-color-scheme:dark){text{fill:#ccc}}"
)


@dataclass
class Line:
    """Points of one kind, with a label at the last of them."""

    label: str
    xs: list[float]
    ys: list[float]


def log_log(title: str, x_label: str, y_label: str, lines: list[Line]) -> str:
    """The text of an SVG picture of the lines."""
    x = Axis([v for line in lines for v in line.xs], LEFT, WIDTH - RIGHT)
    y = Axis([v for line in lines for v in line.ys], HEIGHT - BOTTOM, TOP)
    ticks_x = sorted({v for line in lines for v in line.xs})
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        text(LEFT, 26, title, "start", ' class="title"'),
        text(middle, HEIGHT - 14, x_label),
        f'<g transform="rotate(-90 20 {HEIGHT / 2})">{text(20, HEIGHT / 2, y_label)}</g>',
    ]
    for value in ticks_x:
        parts.append(rule(x.at(value), TOP, x.at(value), HEIGHT - BOTTOM))
        parts.append(text(x.at(value), HEIGHT - BOTTOM + 20, f"{value:g}"))
    for value in powers_of_ten(y):
        parts.append(rule(LEFT, y.at(value), WIDTH - RIGHT, y.at(value)))
        parts.append(text(LEFT - 8, y.at(value) + 4, f"{value:g}", "end"))
    for line, color in zip(lines, COLORS, strict=False):
        points = [(x.at(a), y.at(b)) for a, b in zip(line.xs, line.ys, strict=True)]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2.5"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" fill="{color}"/>' for a, b in points]
        last = points[-1]
        parts.append(text(last[0] + 10, last[1] + 4, line.label, "start"))
    return "\n".join([*parts, "</svg>"]) + "\n"


class Axis:
    """Where values stand on a logarithmic axis, with a little room at both ends."""

    def __init__(self, values: list[float], start: float, end: float) -> None:
        low, high = math.log(min(values)), math.log(max(values))
        room = 0.06 * (high - low) or 1.0
        self.low, self.high, self.start, self.end = low - room, high + room, start, end

    def at(self, value: float) -> float:
        part = (math.log(value) - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)


def powers_of_ten(axis: Axis) -> list[float]:
    """Round values within an axis: powers of ten, and 2 and 5 times those."""
    exponents = range(math.floor(axis.low / math.log(10)), math.ceil(axis.high / math.log(10)) + 1)
    values = [k * 10.0**e for e in exponents for k in (1, 2, 5)]
    return [value for value in values if axis.low <= math.log(value) <= axis.high]


def text(x: float, y: float, words: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="grid" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
