"""A program of which one rank fails before `distributed.init`."""

import os
from pathlib import Path
from typing import Any

if os.environ.get("PMI_RANK") == "1":
    raise ValueError("a fault before distributed.init")


def nothing(world: Any, folder: Path) -> None:
    """Nobody comes here."""
