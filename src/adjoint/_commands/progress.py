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
        texts = [self.title(epoch), *told(loss, accuracy)]
        self.stream.write(ERASE + self.line(texts, done, width))
        self.stream.flush()

    def line(self, texts: list[str], done: int, width: int) -> str:
        """Title, bar, facts and the time left. What a narrow terminal has no room for goes: first
        the time left, then the bar, then the last of the facts."""
        for shown in ([*texts, f"{self.left(done)} left"], texts):
            room = width - len("  ".join(shown)) - 2
            if room >= NARROWEST:
                bar = self.bar(done / self.steps, min(room, WIDEST))
                return "  ".join([shown[0], bar, *shown[1:]])
        while len(texts) > 1 and len("  ".join(texts)) > width:
            texts = texts[:-1]
        return "  ".join(texts)[:width]

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
            texts = [self.title(epoch), *told(loss, accuracy)]
            print("  ".join(texts), file=self.stream, flush=True)

    def title(self, epoch: int) -> str:
        return f"epoch {epoch:{len(str(self.epochs))}}/{self.epochs}"

    def close(self) -> None:
        """Leave the line as it is."""
        if self.live and self.drawn:
            print(file=self.stream, flush=True)


def told(loss: float, accuracy: float | None) -> list[str]:
    return [f"loss {loss:.4f}", *([] if accuracy is None else [f"accuracy {accuracy:.1%}"])]


def can_show(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
