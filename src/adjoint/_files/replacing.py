"""Writing a file whole or not at all."""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from .._foundation.errors import FileError
from .errors import Source, named


@contextmanager
def replacing(source: Source) -> Iterator[BinaryIO]:
    """A file to write to, which takes its place in one step when all is written and on the disk.

    Whoever opens the path meanwhile, or after a crash, finds the former file, or none.
    """
    with named(source):
        path = os.path.realpath(source.path)
        if os.path.exists(path) and not os.path.isfile(path):
            raise FileError(
                f"{source.function}: {path}: it is there, and not an ordinary file; save under "
                "another name"
            )
        folder = os.path.dirname(path)
        temporary = os.path.join(folder, f".adjoint-{secrets.token_hex(8)}.tmp")
        try:
            with create(source, temporary) as file:
                yield file
                file.flush()
                keep_mode(path, temporary)
                os.fsync(file.fileno())
            put_in_place(source, temporary, path)
        except BaseException:
            discard(temporary)
            raise
        sync_folder(folder)


def create(source: Source, temporary: str) -> BinaryIO:
    try:
        return open(temporary, "xb")
    except PermissionError as error:
        raise FileError(
            f"{source}: {error.strerror}: no file can be made in {os.path.dirname(temporary)}; "
            "change the permissions of that folder, or save to another one"
        ) from error


def put_in_place(source: Source, temporary: str, path: str) -> None:
    try:
        os.replace(temporary, path)
    except PermissionError as error:
        raise FileError(
            f"{source}: {error.strerror}: the file that is there can't be replaced; it may be "
            "read-only, or open in another program: change that, or save under another name"
        ) from error


def discard(temporary: str) -> None:
    with suppress(OSError):
        # Windows removes no read-only file, which this one is if the former one was.
        os.chmod(temporary, stat.S_IWUSR)
    with suppress(OSError):
        os.unlink(temporary)


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
