"""Horizontal bars of ratios as SVG: left of 1 on a logarithmic axis, or right of it."""

from dataclasses import dataclass
from xml.sax.saxutils import escape

from ._plot import Axis, powers_of_ten, rule, text

WIDTH, ROW = 720, 26
LEFT, RIGHT, TOP, BOTTOM = 150, 64, 66, 46
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#444}.title{font-size:15px;font-weight:600}"
    ".grid{stroke:#888;stroke-opacity:.3}.one{stroke:#666;stroke-width:1.5}"
    ".less{fill:#2e8b7f}.more{fill:#d1495b}.limit{stroke:#222;stroke-width:2.5}"
    ".other{fill:#b9a3d6;stroke:#8d6fb8}"
    "@media(prefers-color-scheme:dark){text{fill:#ccc}.limit{stroke:#f2f2f2}.one{stroke:#aaa}"
    ".other{fill:#6d5a8c;stroke:#b9a3d6}}"
)


@dataclass
class Bar:
    """A ratio, the most that it should be, and a second ratio to compare with."""

    label: str
    value: float
    limit: float | None = None
    other: float | None = None


def bars(title: str, shown: list[Bar], limit_label: str, other_label: str) -> str:
    """The text of an SVG picture, with a legend for the marks."""
    height = TOP + ROW * len(shown) + BOTTOM
    axis = Axis([v for bar in shown for v in values(bar)], LEFT, WIDTH - RIGHT)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        text(LEFT, 24, title, "start", ' class="title"'),
        legend(limit_label, other_label),
        *grid(axis, height),
        line("one", axis.at(1), TOP - 4, height - BOTTOM + 4),
    ]
    for k, bar in enumerate(shown):
        parts += row(bar, axis, TOP + ROW * (k + 0.5))
    below = height - 10
    parts.append(text(axis.at(1) - 14, below, "← faster", "end"))
    parts.append(text(axis.at(1) + 14, below, "slower →", "start"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def values(bar: Bar) -> list[float]:
    return [1.0, bar.value, *(v for v in (bar.limit, bar.other) if v is not None)]


def legend(limit_label: str, other_label: str) -> str:
    y = 47
    return "".join(
        [
            line("limit", LEFT + 4, y - 11, y + 2),
            text(LEFT + 14, y, limit_label, "start"),
            dot(LEFT + 104, y - 4.5),
            text(LEFT + 114, y, other_label, "start"),
        ]
    )


def grid(axis: Axis, height: int) -> list[str]:
    parts = []
    for value in powers_of_ten(axis):
        parts.append(rule(axis.at(value), TOP, axis.at(value), height - BOTTOM))
        parts.append(text(axis.at(value), height - BOTTOM + 18, f"{value:g}"))
    return parts


def row(bar: Bar, axis: Axis, y: float) -> list[str]:
    """The bar from 1 to its value, the marks over it, and the value as a number."""
    start, end = sorted((axis.at(1), axis.at(bar.value)))
    kind = "less" if bar.value <= 1 else "more"
    parts = [
        text(LEFT - 10, y + 4.5, bar.label, "end"),
        f'<rect class="{kind}" x="{start:.1f}" y="{y - 8:.1f}" width="{end - start:.1f}" '
        'height="16" rx="2"/>',
        text(WIDTH - 10, y + 4.5, f"{bar.value:.2f}", "end"),
    ]
    if bar.other is not None:
        parts.append(dot(axis.at(bar.other), y))
    if bar.limit is not None:
        parts.append(line("limit", axis.at(bar.limit), y - 11, y + 11))
    return parts


def line(kind: str, x: float, y1: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x:.1f}" y1="{y1:.1f}" x2="{x:.1f}" y2="{y2:.1f}"/>'


def dot(x: float, y: float) -> str:
    return f'<circle class="other" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>'
