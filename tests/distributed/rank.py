"""One rank of a test: calls a function of `programs.py`, and saves what it returns. One of another
file here has it in front, as in "exchanges:gradients"."""

import os
import sys
from importlib import import_module
from pathlib import Path

import numpy as np

import adjoint as ad


def main(name: str, folder: str, *args: str) -> None:
    file, _, function = name.rpartition(":")
    call = getattr(import_module(f"tests.distributed.{file or 'programs'}"), function)
    world = ad.distributed.init(timeout=float(os.environ.get("TIMEOUT", 20)))
    found = call(world, Path(folder), *args)
    np.savez(Path(folder) / f"{name}-{world.rank}.npz", **(found or {}))


main(*sys.argv[1:])
