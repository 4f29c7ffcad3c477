"""Times as people read them."""

SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def in_seconds(seconds: float) -> str:
    """Three digits, in a unit that suits them: 0.00123 is "1.23 ms"."""
    size, unit = next((u for u in SECONDS if seconds >= u[0]), SECONDS[-1])
    value = seconds / size
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {unit}"


def on_a_clock(seconds: float) -> str:
    """75 seconds are "1:15"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
