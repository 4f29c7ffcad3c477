"""Writing a file whole or not at all."""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from .._errors import FileError
from .errors import named


@contextmanager
def replacing(function: str, path: str) -> Iterator[BinaryIO]:
    """A file to write to, which takes its place in one step when all is written and on the disk.

    Whoever opens the path meanwhile, or after a crash, finds the former file, or none.
    """
    with named(function, path):
        path = os.path.realpath(path)
        if os.path.exists(path) and not os.path.isfile(path):
            raise FileError(f"{function}: {path}: it is there, and not an ordinary file")
        folder = os.path.dirname(path)
        temporary = os.path.join(folder, f".adjoint-{secrets.token_hex(8)}.tmp")
        try:
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                keep_mode(path, temporary)
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        sync_folder(folder)


def keep_mode(path: str, temporary: str) -> None:
    """Give a file the permissions of the one that it replaces."""
    with suppress(FileNotFoundError):
        os.chmod(temporary, stat.S_IMODE(os.stat(path).st_mode))


def sync_folder(folder: str) -> None:
    """Have the new name on the disk too, where folders can be opened."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # some file systems can't
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
