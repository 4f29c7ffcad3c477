"""Saving and loading: tensors, and numbers and texts among them, in files that aren't pickles."""

import os
from typing import Any

import numpy as np

from .._core.tensor import Tensor
from .._foundation.errors import AdjointError, ArgumentError, DTypeError
from ..functions._arguments import reject
from ..functions.creation import asarray
from . import npz, safetensors
from .errors import Source, named
from .outline import is_texts, put_together, take_apart
from .replacing import replacing

__all__ = ["load", "load_metadata", "save"]

FORMATS = {".safetensors": safetensors, ".npz": npz}
PICKLES = (".pt", ".pth", ".ckpt", ".bin", ".pkl", ".pickle")


def save(obj: Any, path: str | os.PathLike[str], metadata: dict[str, str] | None = None) -> None:
    """Save tensors to a .safetensors or an .npz file, in nested dicts, lists and tuples.

    Numbers, strings and None may be among them. The file appears in one step when it is whole: a
    crash leaves the former one. A dict of tensors is a plain file, which other tools read under the
    same names; of what is nested, they see the tensors under joined names. NumPy arrays come back
    as tensors, and every kind of dict as a dict. `metadata` is for texts about it all.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = f"{folder.name}/run.npz"
    >>> ad.save({"weights": {"w": ad.ones((2,))}, "epoch": 3}, path)
    >>> ad.load(path)
    {'weights': {'w': tensor([1., 1.])}, 'epoch': 3}
    >>> folder.cleanup()
    """
    source = source_of("save", path)
    form = format_of(source)
    if metadata is not None and not is_texts(metadata):
        raise DTypeError(f"save: metadata is a dict of str to str, got {metadata!r}")
    contents = take_apart(obj, dict(metadata or {}))
    with replacing(source) as file:
        form.write(file, source, contents)


def load(path: str | os.PathLike[str], device: str | None = None, **unknown: Any) -> Any:
    """What `save` was given, or a dict of the tensors in a file that another tool made.

    Tensors are on the CPU unless a device is given, and don't require grad. bfloat16 becomes
    float32. A file that is damaged is refused, with the reason: those that `save` made have
    checksums.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> layer, other = ad.asarray([1.0, 2.0]), ad.zeros((2,))
    >>> ad.save({"w": layer}, f"{folder.name}/layer.npz")
    >>> other[...] = ad.load(f"{folder.name}/layer.npz")["w"]
    >>> other
    tensor([1., 2.])
    >>> folder.cleanup()
    """
    if unknown:
        reject("load", unknown)
    source = source_of("load", path)
    form = format_of(source)
    with named(source), open(source.path, "rb") as file:
        contents = form.read(file, source)
    arrays = contents.arrays
    tensors = {name: placed(source, name, arrays[name], device or "cpu") for name in arrays}
    return put_together(source, contents.outline, tensors)


def load_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """The texts that were saved as `metadata`; no tensor is read.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> ad.save({"w": ad.ones((2,))}, f"{folder.name}/a.npz", metadata={"licence": "MIT"})
    >>> ad.load_metadata(f"{folder.name}/a.npz")
    {'licence': 'MIT'}
    >>> folder.cleanup()
    """
    source = source_of("load_metadata", path)
    form = format_of(source)
    with named(source), open(source.path, "rb") as file:
        return form.read_metadata(file, source)


def source_of(function: str, path: Any) -> Source:
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise DTypeError(
            f"{function}: a path is needed, as a str or a pathlib.Path, got {type(path).__name__}"
        ) from None
    if "\0" in text:
        raise ArgumentError(f"{function}: {text!r} has a null character, which no path can have")
    return Source(function, text)


def format_of(source: Source) -> Any:
    function, path = source
    suffix = os.path.splitext(path)[1].lower()
    if suffix in FORMATS:
        return FORMATS[suffix]
    if suffix in PICKLES and function != "save":
        raise ArgumentError(f"{function}: {path} isn't read: {npz.conversion(path)}")
    raise ArgumentError(
        f"{function}: {path!r} must end in .safetensors or .npz, which says the format"
    )


def placed(source: Source, name: str, array: np.ndarray, device: str) -> Tensor:
    """A tensor on a device. What can't be is an error that says which one it is."""
    if array.dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
        raise source.damaged(f"{name!r} isn't only True and False")
    try:
        return asarray(array, device=device)
    except AdjointError as error:
        error.add_note(f"{source}: this is about {name!r}")
        raise
