"""Errors with the file in them, and the system's as ours."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from .._foundation.errors import DamagedFileError, FileError, MissingFileError


class Source(NamedTuple):
    """What errors begin with: the function that was called, and the file."""

    function: str
    path: str

    def __str__(self) -> str:
        return f"{self.function}: {self.path}"

    def damaged(self, why: str) -> DamagedFileError:
        return DamagedFileError(f"{self} is damaged: {why}")


@contextmanager
def named(source: Source) -> Iterator[None]:
    """Within it the system's errors become ours, with the path in them."""
    try:
        yield
    except FileError:
        raise
    except FileNotFoundError as error:
        raise MissingFileError(f"{source}: there is no such file or folder") from error
    except OSError as error:
        raise FileError(f"{source}: {error.strerror or error}") from error
