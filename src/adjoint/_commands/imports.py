"""Finds what MODULE:NAME stands for."""

import difflib
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import adjoint as ad

from .arguments import UsageError


def import_target(target: str) -> ModuleType:
    """The module of package.module:name or path.py:name, imported."""
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise UsageError(f"{target!r} is no MODULE:NAME; write package.module:name or path.py:name")
    try:
        return from_file(Path(place)) if place.endswith(".py") else from_name(place)
    except ad.ArgumentError:
        raise
    except Exception as error:
        raise ad.ArgumentError(
            f"{place} can't be imported: it raised {type(error).__name__}: {error}; --debug shows "
            "where"
        ) from error


def from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ad.ArgumentError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.absolute()))
    sys.modules.setdefault(path.stem, module)  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def from_name(name: str) -> ModuleType:
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise ad.ArgumentError(
            f"there is no module {error.name!r} in this folder or among what is installed; a file "
            "is named as path.py:name"
        ) from error


def found_name(module: ModuleType, target: str) -> Any:
    """What the module has by that name; a dotted one goes on inside of it."""
    place, _, path = target.rpartition(":")
    found: Any = module
    for name in path.split("."):
        if not hasattr(found, name):
            raise ad.ArgumentError(f"{place} has no {path!r}{suggestion(name, found)}")
        found = getattr(found, name)
    return found


def suggestion(name: str, owner: Any) -> str:
    """What may have been meant: a name like it, else what could be called."""
    own = [n for n, value in vars(owner).items() if not n.startswith("_") and callable(value)]
    close = difflib.get_close_matches(name, own, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there are {', '.join(own[:10])}" if own else ""
