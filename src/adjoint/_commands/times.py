"""Times on a clock."""


def on_a_clock(seconds: float) -> str:
    """75 seconds are "1:15"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
