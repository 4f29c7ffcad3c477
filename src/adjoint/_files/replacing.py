"""Writing a file whole or not at all."""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from .._errors import FileError
from .errors import Source, named


@contextmanager
def replacing(source: Source) -> Iterator[BinaryIO]:
    """A file to write to, which takes its place in one step when all is written and on the disk.

    Whoever opens the path meanwhile, or after a crash, finds the former file, or none.
    """
    with named(source):
        path = os.path.realpath(source.path)
        if os.path.exists(path) and not os.path.isfile(path):
            raise FileError(f"{source.function}: {path}: it is there, and not an ordinary file")
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
    with suppress(OSError):  # it may be closed to readers, and some file systems can't
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
