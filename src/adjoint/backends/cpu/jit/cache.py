"""Object code of kernels on disk, so that a program compiles its kernels only once.

A file is named by a digest of all that its content depends on, and begins with a digest of that
name and the content: whatever was cut off, damaged or renamed is ignored and replaced. Nothing here
raises: a directory that can't be read or written is no cache, which costs time and nothing else.
What is loaded is run, so a directory that others could put code into is no cache, either: `trust`
decides, and a warning says so.

The directory is `ADJOINT_CACHE_DIR` in the environment (empty, or "off": no cache), else `adjoint`
in the user's caches.
"""

import contextlib
import hashlib
import os
import sys
import tempfile
from pathlib import Path

from ...._foundation.caller_warnings import warn
from . import trust

MAGIC = b"adjoint kernel 2\n"
HEAD = len(MAGIC) + hashlib.sha256().digest_size
SUFFIX = ".kernel"
UNFINISHED = ".kernel.part"
LIMIT = 256 << 20  # bytes in the directory

warned: set[Path] = set()  # directories that a warning was given about


def digest(*texts: str) -> str:
    lengths = [str(len(text)) for text in texts]
    return hashlib.sha256("\0".join([*lengths, *texts]).encode()).hexdigest()


def directory() -> Path | None:
    """Where kernels are kept, or None if they aren't."""
    chosen = os.environ.get("ADJOINT_CACHE_DIR")
    if chosen is not None:
        return None if chosen in ("", "off") else Path(chosen).expanduser().absolute()
    try:
        return (user_caches() / "adjoint").absolute()
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
    """The code stored under this key, if it is whole and nobody else could have put it there."""
    place = directory()
    if place is None:
        return None
    try:
        content = read(place, place / (key + SUFFIX)) if is_trusted(place) else b""
    except OSError:
        return None
    code = content[HEAD:]
    return code if content[:HEAD] == head(key, code) else None


def read(place: Path, file: Path) -> bytes:
    """The content of a file in a trusted directory; nothing if it isn't as we write files."""
    why_not: str | None = f"{file} is a link"
    if not file.is_symlink():
        with open(file, "rb", opener=trust.without_following) as stream:
            why_not = trust.objection_to_file(file, os.fstat(stream.fileno()))
            if why_not is None:
                return stream.read()
    complain(place, why_not)
    return b""


def is_trusted(place: Path) -> bool:
    """Whether nobody else can put code into a directory. If they can, the first call says so."""
    why_not = trust.objection(place)
    if why_not is not None:
        complain(place, why_not)
    return why_not is None


def complain(place: Path, why_not: str) -> None:
    if place in warned:
        return
    warned.add(place)
    warn(
        f"the kernel cache isn't to be trusted: {why_not}. So kernels are compiled anew, which is "
        "right but takes time. Make that yours alone (chown, chmod go-w), or name another "
        "directory as ADJOINT_CACHE_DIR in the environment (off: none).",
        RuntimeWarning,
    )


def head(key: str, code: bytes) -> bytes:
    return MAGIC + hashlib.sha256(key.encode() + code).digest()


def store(key: str, code: bytes) -> None:
    """Keep this under the key; readers in other processes see all of it or nothing."""
    place = directory()
    if place is None:
        return
    with contextlib.suppress(OSError):
        if not is_trusted(place):
            return
        make_private(place)
        if not is_trusted(place):  # somebody was faster
            return
        write_at_once(place / (key + SUFFIX), head(key, code) + code)
        if key.startswith("00"):  # one of 256: rarely, also in programs that write a single file
            make_room(place)


def make_private(place: Path) -> None:
    """Make a directory, and those above it, for this user only, whatever the umask says."""
    if not place.is_dir():
        make_private(place.parent)
        place.mkdir(mode=0o700, exist_ok=True)


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
                state = entry.stat(follow_symlinks=False)
                files.append((state.st_mtime, state.st_size, entry.path))
    return files
