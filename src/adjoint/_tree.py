"""Nested tuples, lists and dicts of values: taken apart and put together again."""

from collections.abc import Callable, Iterator
from typing import Any

from ._errors import ArgumentError


def map_tree(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same structure with every leaf replaced, in order."""
    if isinstance(tree, dict):
        return {key: map_tree(function, value) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_tree(function, value) for value in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(map_tree(function, value) for value in tree)
    return function(tree)


def aligned(pattern: Any, tree: Any) -> Iterator[tuple[Any, Any]]:
    """The leaves of two trees side by side, in the order of the first; they must be alike."""
    if isinstance(pattern, dict) and isinstance(tree, dict) and pattern.keys() == tree.keys():
        for key in pattern:
            yield from aligned(pattern[key], tree[key])
    elif isinstance(pattern, (dict, tuple, list)):
        if type(tree) is not type(pattern) or len(tree) != len(pattern) or isinstance(tree, dict):
            raise ArgumentError(
                f"graph: traced with a {type(pattern).__name__} of {len(pattern)} arguments, got "
                + (f"{len(tree)}" if type(tree) is type(pattern) else f"{tree!r}")
            )
        for one, other in zip(pattern, tree, strict=True):
            yield from aligned(one, other)
    else:
        yield pattern, tree


def leaves(tree: Any) -> Iterator[Any]:
    """The leaves in the order of `map_tree`."""
    out: list[Any] = []
    map_tree(out.append, tree)
    return iter(out)


def under(what: str, outline: Any, tree: Any, path: tuple = ()) -> Iterator[tuple[Any, Any, tuple]]:
    """Each leaf of a tree with the leaf of an outline of it that stands for it, and its path."""
    if isinstance(outline, (dict, tuple, list)):
        if keys(outline) != keys(tree):
            raise ArgumentError(
                f"{what}: {outline!r} doesn't have the structure of what it is for: "
                f"{structure(tree)}" + (f", at {list(path)}" if path else "")
            )
        for key in keys(tree) or ():
            yield from under(what, outline[key], tree[key], (*path, key))
    elif isinstance(tree, (dict, tuple, list)):
        for key in keys(tree) or ():
            yield from under(what, outline, tree[key], (*path, key))
    else:
        yield outline, tree, path


def keys(tree: Any) -> Any:
    """What the parts of a container are found by; None for a leaf."""
    if isinstance(tree, dict):
        return tree.keys()
    return range(len(tree)) if isinstance(tree, (tuple, list)) else None


def structure(tree: Any) -> str:
    """A container in a few words."""
    if isinstance(tree, dict):
        return f"a dict with the keys {list(tree)}"
    if isinstance(tree, (tuple, list)):
        return f"a {type(tree).__name__} of {len(tree)}"
    return f"a {type(tree).__name__}"
