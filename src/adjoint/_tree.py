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
