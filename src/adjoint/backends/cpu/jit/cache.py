"""Object code of kernels on disk, so that a program compiles its kernels only once.

A file is named by a digest of all that its content depends on, and begins with a digest of that
name and the content: whatever was cut off, damaged, renamed or put there by others is ignored and
replaced. Nothing here
raises: a directory that can't be read or written is no cache, which costs time and nothing else.

The directory is `ADJOINT_CACHE_DIR` in the environment (empty, or "off": no cache), else `adjoint`
in the user's caches.
"""

import contextlib
import hashlib
import os
import sys
import tempfile
from pathlib import Path

MAGIC = b"adjoint kernel 2\n"
HEAD = len(MAGIC) + hashlib.sha256().digest_size
SUFFIX = ".kernel"
UNFINISHED = ".kernel.part"
LIMIT = 256 << 20  # bytes in the directory


def digest(*texts: str) -> str:
    lengths = [str(len(text)) for text in texts]
    return hashlib.sha256("\0".join([*lengths, *texts]).encode()).hexdigest()


def directory() -> Path | None:
    """Where kernels are kept, or None if they aren't."""
    chosen = os.environ.get("ADJOINT_CACHE_DIR")
    if chosen is not None:
        return None if chosen in ("", "off") else Path(chosen).expanduser().absolute()
    try:
        return user_caches() / "adjoint"
    except RuntimeError:  # a user without a home
        return None


def user_caches() -> Path:
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path.home() / ".cache"


def load(key: str) -> bytes | None:
    """What was stored under this key, if it is whole."""
    place = directory()
    if place is None:
        return None
    try:
        content = (place / (key + SUFFIX)).read_bytes()
    except OSError:
        return None
    code = content[HEAD:]
    return code if content[:HEAD] == head(key, code) else None


def head(key: str, code: bytes) -> bytes:
    return MAGIC + hashlib.sha256(key.encode() + code).digest()


def store(key: str, code: bytes) -> None:
    """Keep this under the key; readers in other processes see all of it or nothing."""
    place = directory()
    if place is None:
        return
    with contextlib.suppress(OSError):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_at_once(place / (key + SUFFIX), head(key, code) + code)
        if key.startswith("00"):  # one of 256: rarely, also in programs that write a single file
            make_room(place)


def write_at_once(file: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=file.parent, suffix=UNFINISHED)
    try:
        with open(handle, "wb") as stream:
            stream.write(content)
        os.replace(temporary, file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def make_room(place: Path) -> None:
    """Remove our oldest files, down to half the limit, if they exceed it."""
    files = sorted(ours(place))
    total = sum(size for _, size, _ in files)
    if total <= LIMIT:
        return
    for _, size, path in files:
        if total <= LIMIT // 2:
            break
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size


def ours(place: Path) -> list[tuple[float, int, str]]:
    """Age, size and path of the files that we wrote."""
    files = []
    for entry in os.scandir(place):
        if entry.name.endswith((SUFFIX, UNFINISHED)):
            with contextlib.suppress(OSError):  # another process has just removed it
                state = entry.stat()
                files.append((state.st_mtime, state.st_size, entry.path))
    return files
