"""Which files only this user, or root, can have written: code from any other isn't run.

A directory is trusted if nobody else can change what its path leads to. So it, and each directory
and link on the way, must belong to this user or to root, and:

- the directory itself, and files in it, nobody else may write to. We make them so; where a group
  may write, somebody has changed that.
- to those above it others may write if they can't replace what belongs to us there, as in /tmp
  (that is what its sticky bit says). So may the user's own group, of which nobody else is a member:
  where users have such groups, umask 002 is usual, and the likes of ~/.cache are open to it.

From the root down each step is checked while nobody else can change those before it, so there is no
moment at which others could put something else in its place. Access control lists aren't looked at.

There are no such owners on Windows. A user's profile, where caches are, is closed to other users by
its access control list.
"""

import errno
import functools
import os
import stat
from pathlib import Path

CHECKED = os.name == "posix"
OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
MOST_LINKS = 40  # as Linux follows
FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe would wait


def objection(place: Path) -> str | None:
    """Why others could change what is in a directory; None if they can't, or it isn't there."""
    if not CHECKED:
        return None
    at, names, links = "", [*place.parts], 0
    while names:
        at = os.path.normpath(os.path.join(at, names.pop(0)))  # no link leads here: .. is above
        try:
            state = os.lstat(at)
        except FileNotFoundError:
            return None
        why_not = objection_to_owner(at, state)
        if why_not is None and stat.S_ISDIR(state.st_mode):
            why_not = objection_to_mode(at, state, is_last=not names)
        if why_not is not None:
            return why_not
        if stat.S_ISLNK(state.st_mode):
            links += 1
            if links > MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            names = [*steps(os.readlink(at)), *names]
            at = os.path.dirname(at)
    return None


def steps(target: str) -> list[str]:
    """Where a link leads to, step by step."""
    return [os.sep] * os.path.isabs(target) + target.split(os.sep)


def objection_to_owner(path: str | Path, state: os.stat_result) -> str | None:
    if state.st_uid in (0, os.geteuid()):
        return None
    return f"{path} belongs to another user (number {state.st_uid})"


def objection_to_mode(path: str, state: os.stat_result, is_last: bool) -> str | None:
    writers = state.st_mode & OTHERS_MAY_WRITE
    if not writers:
        return None
    if not is_last:
        if state.st_mode & stat.S_ISVTX:
            return None
        if writers == stat.S_IWGRP and is_own_group(os.geteuid(), state.st_gid):
            return None
    return f"others may write to {path}"


def objection_to_file(path: Path, state: os.stat_result) -> str | None:
    """Why a file that is open may be of others; None if it can't."""
    if not CHECKED:
        return None
    if not stat.S_ISREG(state.st_mode):
        return f"{path} is no ordinary file"
    return objection_to_owner(path, state) or objection_to_mode(str(path), state, is_last=True)


@functools.cache
def is_own_group(user: int, group: int) -> bool:
    """Whether a group has a user's name, and no other members."""
    import grp
    import pwd

    try:
        name, entry = pwd.getpwuid(user).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return entry.gr_name == name and {*entry.gr_mem} <= {name}


def without_following(path: str, flags: int) -> int:
    """Open a file, but no link to one."""
    return os.open(path, flags | FLAGS)
