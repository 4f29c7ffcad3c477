"""How far a training is: a line that is drawn over on a terminal, else a line per epoch."""

import os
import shutil
import time
from typing import TextIO

from .times import on_a_clock

NARROWEST, WIDEST = 10, 40  # bars
REDRAW = 0.1  # seconds
COLOR, PLAIN = "\x1b[36m", "\x1b[0m"
ERASE = "\r\x1b[K"


class Progress:
    """Shows steps and epochs on a stream; a run that goes on starts with steps that are `done`."""

    def __init__(self, stream: TextIO, epochs: int, steps: int, done: int = 0) -> None:
        self.stream, self.epochs, self.steps = stream, epochs, steps
        self.live = stream.isatty() and os.environ.get("TERM") != "dumb"
        self.colored = self.live and not os.environ.get("NO_COLOR")
        self.start, self.first = time.monotonic(), done
        self.drawn = 0.0

    def due(self) -> bool:
        """Whether it is time to draw again: not after every step, which costs time."""
        return self.live and time.monotonic() - self.drawn >= REDRAW

    def draw(self, done: int, epoch: int, loss: float, accuracy: float | None) -> None:
        """Write over the last line."""
        self.drawn = time.monotonic()
        width = shutil.get_terminal_size().columns - 1
        facts = [told(loss, accuracy), f"{self.left(done)} left"]
        self.stream.write(ERASE + self.line(self.title(epoch), done, facts, width))
        self.stream.flush()

    def line(self, title: str, done: int, facts: list[str], width: int) -> str:
        """Title, bar and facts; in a narrow terminal without the last of them."""
        texts = [title, *facts]
        while len(texts) > 1 and len("  ".join(texts)) > width:
            texts.pop()
        room = min(width - len("  ".join(texts)) - 2, WIDEST)
        bar = [self.bar(done / self.steps, room)] if room >= NARROWEST else []
        return "  ".join([texts[0][:width], *bar, *texts[1:]])

    def bar(self, share: float, width: int) -> str:
        full, empty = ("━", "─") if can_show(self.stream, "━─") else ("#", ".")
        length = int(share * width)
        start, end = (COLOR, PLAIN) if self.colored else ("", "")
        return f"{start}{full * length}{end}{empty * (width - length)}"

    def left(self, done: int) -> str:
        """The time that is left, if the rest goes as what was done here."""
        taken = time.monotonic() - self.start
        return on_a_clock(taken / max(done - self.first, 1) * (self.steps - done))

    def epoch(self, done: int, epoch: int, loss: float, accuracy: float) -> None:
        """Tell of an epoch that is done."""
        if self.live:
            self.draw(done, epoch, loss, accuracy)
        else:
            print(f"{self.title(epoch)}  {told(loss, accuracy)}", file=self.stream, flush=True)

    def title(self, epoch: int) -> str:
        return f"epoch {epoch:{len(str(self.epochs))}}/{self.epochs}"

    def close(self) -> None:
        """Leave the line as it is."""
        if self.live and self.drawn:
            print(file=self.stream, flush=True)


def told(loss: float, accuracy: float | None) -> str:
    return f"loss {loss:.4f}" + (f"  accuracy {accuracy:.1%}" if accuracy is not None else "")


def can_show(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
