"""Nested tuples, lists and dicts of values: taken apart and put together again."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from .errors import ArgumentError, DTypeError

__all__ = ["tree_map"]


def map_tree(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same structure with every leaf replaced, in order."""
    if isinstance(tree, dict):
        out = {} if type(tree) is dict else similar(tree)
        for key, value in tree.items():
            out[key] = map_tree(function, value)
        return out
    if not isinstance(tree, (tuple, list)):
        return function(tree)
    parts = [map_tree(function, value) for value in tree]
    if isinstance(tree, list):
        return parts if type(tree) is list else type(tree)(parts)
    if all(x is y for x, y in zip(parts, tree, strict=True)):
        return tree  # also one of a kind that can't be made from its parts
    return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)


def similar(tree: dict) -> dict:
    """A dict of the same kind, to be filled."""
    if type(tree).copy is not dict.copy:  # an OrderedDict, a defaultdict: it knows how
        return tree.copy()
    out = type(tree).__new__(type(tree))
    vars(out).update(vars(tree))
    return out


def tree_map(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """A function applied to each leaf of nested tuples, lists and dicts, in their structure.

    With more trees, all of one structure, it is applied to the leaves that belong together. Where
    the first tree has None, so has the result.

    >>> params, grads = {"w": 1.0, "b": [2.0]}, {"w": 0.5, "b": [1.0]}
    >>> ad.tree_map(lambda p, g: p - 0.1 * g, params, grads)
    {'w': 0.95, 'b': [1.9]}
    """
    if not callable(function):
        raise DTypeError(f"tree_map: a function is needed, got {type(function).__name__}")
    others: list[list] = []
    for k, other in enumerate(rest, 1):
        try:
            others.append([y for _, _, y in side_by_side(tree, other)])
        except DiffersError as error:
            raise ArgumentError(
                f"tree_map: tree {k} doesn't have the structure of the first: {error}"
            ) from None
    following = zip(*others, strict=True) if others else itertools.repeat(())

    def apply(x: Any) -> Any:
        more = next(following)
        return None if x is None else function(x, *more)

    return map_tree(apply, tree)


def leaves(tree: Any) -> Iterator[Any]:
    """The leaves in the order of `map_tree`."""
    inner = parts(tree)
    if inner is None:
        yield tree
    else:
        for value in inner.values():
            yield from leaves(value)


def parts(tree: Any) -> dict[Any, Any] | None:
    """The parts of a container, by what they are found by in it; None for a leaf."""
    if isinstance(tree, dict):
        return tree
    return dict(enumerate(tree)) if isinstance(tree, (tuple, list)) else None


def step(tree: Any, key: Any) -> str:
    """The expression that takes a part from a container."""
    named = isinstance(tree, tuple) and hasattr(tree, "_fields")
    return f".{tree._fields[key]}" if named else f"[{key!r}]"  # type: ignore[attr-defined]


def with_paths(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves, each with an expression that says where it is."""
    inner = parts(tree)
    if inner is None:
        yield path, tree
    else:
        for key, value in inner.items():
            yield from with_paths(value, path + step(tree, key))


class DiffersError(Exception):
    """Two trees don't have the same structure: `path` is where."""

    def __init__(self, path: str, pattern: Any, tree: Any) -> None:
        self.path = path
        where = f" at {path}" if path else ""
        super().__init__(f"it has {structure(tree)}, not {structure(pattern)}{where}")


def side_by_side(pattern: Any, tree: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The leaves of two trees that belong together, in the order of the first, with their path."""
    mine, other = parts(pattern), parts(tree)
    if mine is None and other is None:
        yield path, pattern, tree
        return
    dicts = isinstance(pattern, dict) and isinstance(tree, dict)
    if mine is None or other is None or not (dicts or type(pattern) is type(tree)):
        raise DiffersError(path, pattern, tree)
    if mine.keys() != other.keys():
        raise DiffersError(path, pattern, tree)
    for key, value in mine.items():
        yield from side_by_side(value, other[key], path + step(pattern, key))


def under(what: str, outline: Any, tree: Any, path: str = "") -> Iterator[tuple[Any, Any, str]]:
    """Each leaf of a tree with the leaf of an outline of it that stands for it, and its path."""
    outer, inner = parts(outline), parts(tree)
    if outer is not None and (inner is None or outer.keys() != inner.keys()):
        raise ArgumentError(
            f"{what}: {outline!r} doesn't have the structure of what it is for: "
            f"{structure(tree)}" + (f", at {path}" if path else "")
        )
    if inner is None:
        yield outline, tree, path
        return
    for key, value in inner.items():
        inside = outline if outer is None else outer[key]
        yield from under(what, inside, value, path + step(tree, key))


def structure(tree: Any) -> str:
    """A container in a few words."""
    if isinstance(tree, dict):
        return f"a dict with the keys {list(tree)}"
    if isinstance(tree, (tuple, list)):
        return f"a {type(tree).__name__} of {len(tree)}"
    return f"a {type(tree).__name__}"
