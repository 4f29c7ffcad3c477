"""A recorded graph as an SVG picture.

Text stands in boxes of their own colour and edges are of a middle grey, so the picture can be read
on a light and on a dark page, also where it can't ask which of them it is on.
"""

from collections.abc import Iterable, Iterator
from html import escape
from typing import NamedTuple

from .entries import Entry, show_types
from .layout import Box, Layout, Link, Place, ports

LARGEST = 1000
MARGIN = 12
PADDING = 11
TITLE, DETAIL, NUMBER = 13, 11, 9  # font sizes
LETTER = 0.64  # the width of a letter in font sizes: monospace fonts, and most others, need less
LONGEST_LINE = 34
CELL_HEIGHT = 20
EDGE = "#8b949e"
FONTS = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
STYLES = {
    "text": f"font-family:{FONTS};text-anchor:middle;font-size:{DETAIL}px;fill:#57606a",
    ".title": f"font-size:{TITLE}px;font-weight:600;fill:#1f2328",
    ".number": f"text-anchor:start;font-size:{NUMBER}px;fill:#6e7781",
    ".note": "fill:#9a4d00",
    ".op": "fill:#f6f8fa;stroke:#8c959f",
    ".leaf": "fill:#dff3e4;stroke:#2d9a4e",
    ".root": "fill:#fff4d6;stroke:#c98a00;stroke-width:2",
    ".cell": "fill:none;stroke:#8c959f",
    ".edge": f"fill:none;stroke:{EDGE};stroke-width:1.4",
    ".arrow": f"fill:{EDGE}",
}
# A page may take the styles of a picture for all that it shows: they name whose they are.
STYLE = "".join(f".adjoint-graph {what}{{{style}}}" for what, style in STYLES.items())


class Label(NamedTuple):
    """The text of a box: its title, lines of details, and what its outputs are called."""

    number: str
    title: str
    details: list[tuple[str, str]]
    cells: list[str]

    def width(self) -> float:
        title = text_width(self.title, TITLE) + 2 * text_width(self.number, NUMBER)
        details = [text_width(text, DETAIL) for _, text in self.details]
        cell = max((text_width(text, DETAIL) + PADDING for text in self.cells), default=0.0)
        return max(title + 2 * PADDING, *(x + 2 * PADDING for x in details), cell * len(self.cells))

    def height(self) -> float:
        return 2 * PADDING - 4 + TITLE + 15 * len(self.details) + CELL_HEIGHT * bool(self.cells)


def drawing(entries: list[Entry], roots: Iterable[str]) -> str:
    """The text of an SVG file."""
    labels = [label(entry) for entry in entries]
    layout = Layout(boxes(entries, labels))
    marked = set(roots)
    width, height = layout.width + 2 * MARGIN, layout.height + 2 * MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="adjoint-graph" '
        f'width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{-MARGIN} {-MARGIN} {width:.0f} {height:.0f}">',
        f"<style>{STYLE}</style>",
        *edges(layout),
    ]
    for entry, text, place in zip(entries, labels, layout.places, strict=True):
        is_root = not marked.isdisjoint((entry.name, *entry.outputs))
        lines += box_drawing(entry, text, place, layout.top(place), is_root)
    return "\n".join([*lines, "</svg>"])


def label(entry: Entry) -> Label:
    given = "" if entry.name.isdigit() else shortened(entry.name)
    number = "" if given else f"%{entry.name}"
    title = (given or "leaf") if entry.is_leaf else f"{given} = {entry.op}" if given else entry.op
    types = show_types(entry.shape, entry.dtype)
    details = [("detail", shortened(note)) for note in ([] if entry.outputs else types)]
    details += [("note", shortened(note)) for note in entry.notes()]
    names = [shortened(entry.own_name(name)) for name in entry.outputs]
    cells = [f"{name} {type_}" for name, type_ in zip(names, types, strict=bool(names))]
    return Label(number, title, details, cells)


def boxes(entries: list[Entry], labels: list[Label]) -> list[Box]:
    sources = {}
    for k, entry in enumerate(entries):
        sources[entry.name] = k, 0
        sources |= {output: (k, position) for position, output in enumerate(entry.outputs)}
    return [
        Box(
            text.width(),
            text.height(),
            [sources[name] for name in entry.inputs],
            max(1, len(entry.outputs)),
        )
        for entry, text in zip(entries, labels, strict=True)
    ]


def box_drawing(
    entry: Entry, text: Label, place: Place, top: float, is_root: bool
) -> Iterator[str]:
    width, height = text.width(), text.height()
    left = place.x - width / 2
    kind = ["leaf" if entry.is_leaf else "op", *["root"] * is_root]
    radius = min(height / 2, 18) if entry.is_leaf else 5
    yield f"<g><title>{clean(str(entry))}</title>"
    yield (
        f'<rect class="{" ".join(kind)}" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" '
        f'height="{height:.1f}" rx="{radius:.1f}"/>'
    )
    y = top + PADDING + TITLE - 4
    if text.number:
        yield f'<text class="number" x="{left + 6:.1f}" y="{top + 12:.1f}">{text.number}</text>'
    yield f'<text class="title" x="{place.x:.1f}" y="{y:.1f}">{clean(text.title)}</text>'
    for style, detail in text.details:
        y += 15
        yield f'<text class="{style}" x="{place.x:.1f}" y="{y:.1f}">{clean(detail)}</text>'
    if text.cells:
        yield from cell_drawings(text.cells, left, top + height, width / len(text.cells))
    yield "</g>"


def cell_drawings(cells: list[str], left: float, bottom: float, width: float) -> Iterator[str]:
    """The outputs side by side at the bottom of a box; edges start below them."""
    top = bottom - CELL_HEIGHT
    yield f'<path class="cell" d="M{left:.1f} {top:.1f}h{width * len(cells):.1f}"/>'
    for k, text in enumerate(cells):
        if k:
            yield f'<path class="cell" d="M{left + k * width:.1f} {top:.1f}v{CELL_HEIGHT}"/>'
        yield f'<text x="{left + (k + 0.5) * width:.1f}" y="{bottom - 6:.1f}">{clean(text)}</text>'


def edges(layout: Layout) -> Iterator[str]:
    ends = {key: x for row in layout.rows for place in row for key, x in ports(place).items()}
    for link in layout.links:
        yield from edge(layout, link, ends[id(link)])


def edge(layout: Layout, link: Link, end: float) -> Iterator[str]:
    """A curve between two rows, with straight ends inside of them."""
    source, target = link.source, link.target
    bottom = layout.bottoms[source.row]
    first = layout.top(source) + source.box.height if source.box else layout.tops[source.row]
    top = layout.tops[target.row]
    last = layout.top(target) - 5 if target.box else top
    middle = (bottom + min(top, last)) / 2
    yield (
        f'<path class="edge" d="M{link.start:.1f} {first:.1f}V{bottom:.1f}'
        f"C{link.start:.1f} {middle:.1f} {end:.1f} {middle:.1f} {end:.1f} {min(top, last):.1f}"
        f'V{last:.1f}"/>'
    )
    if target.box:
        yield f'<path class="arrow" d="M{end - 4:.1f} {last - 2:.1f}h8l-4 7z"/>'


def text_width(text: str, size: float) -> float:
    return len(text) * size * LETTER


def shortened(text: str) -> str:
    return (
        text if len(text) <= LONGEST_LINE else f"{text[: LONGEST_LINE - 1]}\N{HORIZONTAL ELLIPSIS}"
    )


def clean(text: str) -> str:
    """Text for XML, which has no way to write control characters."""
    return escape("".join(x if x.isprintable() else "\N{REPLACEMENT CHARACTER}" for x in text))
