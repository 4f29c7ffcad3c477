"""Times of adjoint against those of other libraries, as rows of a table and as bars."""

from dataclasses import dataclass
from typing import Any

from ._bars import Bar, bars
from ._common import duration, markdown_table
from ._machine import described


@dataclass
class Ratio:
    """Best time over best time, and how far the ratios of single rounds lie apart."""

    best: float
    spread: float

    def __str__(self) -> str:
        return f"{self.best:.2f} ({self.spread:.2f})"


@dataclass
class Row:
    """A workload: seconds by round, those of other libraries, and the most that is wanted."""

    workload: str
    seconds: list[float]
    others: dict[str, list[float]]
    limit: float | None = None

    @property
    def spread(self) -> float:
        return max(self.seconds) / min(self.seconds)

    @property
    def met(self) -> bool | None:
        """Whether the time is within the limit; None without a limit, or nothing to compare."""
        ratio = self.ratio("torch")
        return None if ratio is None or self.limit is None else ratio.best <= self.limit

    def ratio(self, library: str) -> Ratio | None:
        theirs = self.others.get(library)
        if not theirs:
            return None
        rounds = [a / b for a, b in zip(self.seconds, theirs, strict=False)]
        return Ratio(min(self.seconds) / min(theirs), max(rounds) / min(rounds))

    def excess(self) -> str:
        return f"{self.workload}: {self.ratio('torch')} of PyTorch's time, at most {self.limit}"

    def figures(self) -> dict[str, Any]:
        ratios = {library: self.ratio(library) for library in self.others}
        return {
            "seconds": {"adjoint": self.seconds, **self.others},
            "ratios": {library: vars(ratio) for library, ratio in ratios.items() if ratio},
            "limit": self.limit,
            "met": self.met,
        }


def print_table(rows: list[Row]) -> None:
    print(
        f"{'workload':18} {'adjoint':>9} {'spread':>7} {'/ torch':>9} {'spread':>7} "
        f"{'/ jax':>9} {'spread':>7} {'at most':>9}"
    )
    for row in rows:
        print(
            f"{row.workload:18} {duration(min(row.seconds)):>9} {row.spread:7.2f} "
            f"{columns(row.ratio('torch'))} {columns(row.ratio('jax'))} {wanted(row):>9}".rstrip()
        )
    ratios = [ratio.best for row in rows if (ratio := row.ratio("torch"))]
    if ratios:
        limited = [row.met for row in rows if row.met is not None]
        print(f"worst / torch {max(ratios):.2f}; {sum(limited)} of {len(limited)} limits met")


def columns(ratio: Ratio | None) -> str:
    return f"{ratio.best:9.2f} {ratio.spread:7.2f}" if ratio else f"{'-':>9} {'-':>7}"


def wanted(row: Row) -> str:
    if row.limit is None:
        return ""
    return f"{row.limit:g} {({True: 'met', False: 'NOT', None: '?'})[row.met]}"


def table_for_documents(rows: list[Row], rounds: int) -> str:
    head = ["workload", "adjoint", "/ PyTorch", "at most", "/ JAX"]
    body = [
        [
            f"`{row.workload}`",
            duration(min(row.seconds)),
            str(row.ratio("torch") or ""),
            "" if row.limit is None else f"{row.limit:g}" + (" ✗" if row.met is False else ""),
            str(row.ratio("jax") or ""),
        ]
        for row in rows
    ]
    return f"{markdown_table(head, body)}\n{footnote(rounds)} ✗: more than wanted. {described()}.\n"


def footnote(rounds: int) -> str:
    return (
        f"Minima over {rounds} rounds; in brackets, how many times as large the ratio of one round "
        "is as that of another, at most."
    )


def picture(rows: list[Row]) -> str:
    """Bars of the ratios to PyTorch, the worst below."""
    shown = [
        Bar(row.workload, ratio.best, row.limit, other.best if other else None)
        for row in rows
        if (ratio := row.ratio("torch"))
        for other in [row.ratio("jax")]
    ]
    if not shown:
        return ""
    shown.sort(key=lambda bar: bar.value)
    return bars("adjoint's time over PyTorch's", shown, "at most", "over that of compiled JAX")
