"""Numbers and tables as people read them."""

from collections.abc import Sequence

UNITS = ("KiB", "MiB", "GiB", "TiB")
SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def show_bytes(count: int) -> str:
    """A number of bytes, short.

    >>> from adjoint._foundation.formatting import show_bytes
    >>> show_bytes(1000), show_bytes(1536), show_bytes(3 << 20)
    ('1000 B', '1.5 KiB', '3.0 MiB')
    """
    if count < 1024:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, len(UNITS))
    return f"{count / 1024**power:.1f} {UNITS[power - 1]}"


def show_seconds(seconds: float) -> str:
    """Three digits, in a unit that suits them.

    >>> from adjoint._foundation.formatting import show_seconds
    >>> show_seconds(0.00123), show_seconds(75)
    ('1.23 ms', '75.0 s')
    """
    size, unit = next((u for u in SECONDS if seconds >= u[0]), SECONDS[-1])
    value = seconds / size
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {unit}"


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """The lines of a table: columns aligned on the left, those numbered in `right` on the right.

    >>> from adjoint._foundation.formatting import table
    >>> print("\\n".join(table([("name", "size"), ("x", "10"), ("weight", "7")], right=[1])))
    name    size
    x         10
    weight     7
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [str.rjust if k in right else str.ljust for k in range(len(widths))]

    def line(row: Sequence[str]) -> str:
        cells = zip(sides, row, widths, strict=True)
        return "  ".join(side(cell, width) for side, cell, width in cells).rstrip()

    return [line(row) for row in rows]
