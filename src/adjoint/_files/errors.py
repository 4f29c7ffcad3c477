"""The system's errors as ours."""

from collections.abc import Iterator
from contextlib import contextmanager

from .._errors import FileError, MissingFileError


@contextmanager
def named(function: str, path: str) -> Iterator[None]:
    """Within it the system's errors become ours, with the path in them."""
    try:
        yield
    except FileError:
        raise
    except FileNotFoundError as error:
        raise MissingFileError(f"{function}: {path}: there is no such file or folder") from error
    except OSError as error:
        raise FileError(f"{function}: {path}: {error.strerror or error}") from error
