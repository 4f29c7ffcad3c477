"""Nested dicts, lists and tuples as arrays by name, and an outline of the rest that JSON can hold.

In an outline a dict has one entry, which says what it stands for: {"tensor": name},
{"tuple": items}, {"dict": [[key, value], ...]}, {"float": "nan"}, {"complex": [real, imag]}.
Everything else stands for itself.
"""

import itertools
import json
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from .._core.tensor import Tensor
from .._foundation.dtypes import canonical
from .._foundation.errors import ArgumentError, DTypeError, RangeError
from .errors import Source

SHORT = 2000  # bits of an integer that has digits, whatever the limit is set to
RESERVED = "__metadata__"  # a name that no tensor can have in a safetensors file


class Contents(NamedTuple):
    """What a file holds."""

    arrays: dict[str, np.ndarray]
    outline: Any
    metadata: dict[str, str]

    @property
    def is_plain(self) -> bool:
        """Whether the names of the arrays, in their order, say all that the outline does."""
        return self.outline == plain_outline(self.arrays)


def plain_outline(names: Iterable[str]) -> Any:
    """The outline of a dict of tensors, as files of others are."""
    return {"dict": [[name, {"tensor": name}] for name in names]}


def take_apart(tree: Any, metadata: dict[str, str]) -> Contents:
    arrays: dict[str, np.ndarray] = {}
    try:
        return Contents(arrays, outline(tree, (), arrays), metadata)
    except RecursionError:
        raise ArgumentError("save: obj is nested too deeply, or contains itself") from None


def outline(x: Any, path: tuple, arrays: dict[str, np.ndarray]) -> Any:
    """Outline a part of the tree, and put its tensors among the arrays."""
    if isinstance(x, (Tensor, np.ndarray, np.generic)):
        name = new_name(path, arrays)
        arrays[name] = as_array(x, path)
        return {"tensor": name}
    if type(x) in (list, tuple):
        items = [outline(item, (*path, k), arrays) for k, item in enumerate(x)]
        return items if type(x) is list else {"tuple": items}
    if isinstance(x, dict):
        pairs = [[key_outline(key, path), outline(x[key], (*path, key), arrays)] for key in x]
        return {"dict": pairs}
    return scalar_outline(x, path)


def scalar_outline(x: Any, path: tuple) -> Any:
    if type(x) is int and not has_digits(x):
        raise RangeError(
            f"save: {where(path)} is an integer of {x.bit_length()} bits, more than Python writes "
            "in digits; save hex(x)"
        )
    if x is None or type(x) in (bool, int, str):
        return x
    if type(x) is float:
        return x if math.isfinite(x) else {"float": repr(x)}
    if type(x) is complex:
        return {"complex": [scalar_outline(x.real, path), scalar_outline(x.imag, path)]}
    raise DTypeError(
        f"save: {where(path)} is a {type(x).__name__}; tensors, NumPy arrays, numbers, strings, "
        "None, and dicts, lists and tuples of them can be saved"
    )


def key_outline(key: Any, path: tuple) -> Any:
    """The outline of a key: a scalar, or a tuple of scalars."""
    if type(key) is tuple:
        return {"tuple": [key_outline(part, path) for part in key]}
    return scalar_outline(key, (*path, key))


def as_array(x: Any, path: tuple) -> np.ndarray:
    """The values in one piece, of a dtype that adjoint has."""
    array = x._host("save") if isinstance(x, Tensor) else np.asarray(x)
    try:
        return np.asarray(canonical(array), order="C")
    except DTypeError as error:
        raise DTypeError(f"save: {where(path)}: {error}") from None


def new_name(path: tuple, arrays: dict[str, np.ndarray]) -> str:
    """The keys, joined. What can't be a name in every file, or is one already, gets a number."""
    joined = ".".join(map(str, path))
    plain = joined.isprintable() and "\\" not in joined and joined not in ("", RESERVED)
    base = joined if plain else "tensor"
    numbered = (f"{base}~{k}" for k in itertools.count(2))
    return next(name for name in itertools.chain([base], numbered) if name not in arrays)


def where(path: tuple) -> str:
    return "obj" + "".join(f"[{label(key)}]" for key in path)


def label(key: Any) -> str:
    try:
        return repr(key)
    except ValueError:  # an integer without digits is in it
        return "..."


def has_digits(x: int) -> bool:
    """Whether Python writes an integer in digits, of which there is a limit."""
    try:
        return x.bit_length() < SHORT or bool(str(x))
    except ValueError:
        return False


def to_json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def from_json(source: Source, text: bytes | str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise source.damaged(f"its header isn't JSON: {error}") from None


def put_together(source: Source, outline: Any, tensors: dict[str, Tensor]) -> Any:
    """What `take_apart` was given, with tensors for its arrays."""
    left = dict(tensors)
    try:
        tree = rebuild(outline, left)
    except (KeyError, TypeError, ValueError, RecursionError):
        raise source.damaged("its outline is wrong") from None
    if left:
        raise source.damaged(f"{sorted(left)} aren't in its outline")
    return tree


def rebuild(x: Any, left: dict[str, Tensor]) -> Any:
    """Rebuild a part of the tree with tensors that are left, and take them out."""
    match x:
        case None | bool() | int() | float() | str():
            return x
        case list():
            return [rebuild(item, left) for item in x]
        case {"tensor": str(name), **rest} if not rest:
            return left.pop(name)
        case {"tuple": list(items), **rest} if not rest:
            return tuple(rebuild(item, left) for item in items)
        case {"dict": list(pairs), **rest} if not rest:
            return {rebuild(key, left): rebuild(value, left) for key, value in pairs}
        case {"float": "inf" | "-inf" | "nan" as name, **rest} if not rest:
            return float(name)
        case {"complex": [real, imag], **rest} if not rest:
            return complex(rebuild(real, left), rebuild(imag, left))
    raise ValueError(x)


def is_texts(value: Any) -> bool:
    """Whether something is a dict of str to str."""
    return isinstance(value, dict) and all(
        type(key) is str and type(text) is str for key, text in value.items()
    )
