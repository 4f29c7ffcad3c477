"""Nested tuples, lists and dicts of values: taken apart and put together again."""

from collections.abc import Callable, Iterator
from typing import Any


def map_tree(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same structure with every leaf replaced, in order."""
    if isinstance(tree, dict):
        return {key: map_tree(function, value) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_tree(function, value) for value in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(map_tree(function, value) for value in tree)
    return function(tree)


def leaves(tree: Any) -> Iterator[Any]:
    """The leaves in the order of `map_tree`."""
    out: list[Any] = []
    map_tree(out.append, tree)
    return iter(out)
