"""One rank of a test: calls a function of `programs.py`, and saves what it returns."""

import sys
from pathlib import Path

import numpy as np

import adjoint as ad
from tests.distributed import programs


def main(name: str, folder: str, *args: str) -> None:
    world = ad.distributed.init(timeout=20)
    found = getattr(programs, name)(world, Path(folder), *args)
    np.savez(Path(folder) / f"{name}-{world.rank}.npz", **(found or {}))


main(*sys.argv[1:])
