"""Files in the safetensors format, which other tools read and write too.

Those that we write have two entries of our own among the metadata: the outline with a checksum of
each tensor, and a checksum of the metadata.
"""

import importlib
import os
import zlib
from typing import Any, BinaryIO

import numpy as np

from .._foundation.errors import ArgumentError, DamagedFileError, DTypeError, MissingPackageError
from .errors import Source
from .outline import RESERVED, Contents, from_json, is_texts, plain_outline, to_json

OUTLINE, CHECKSUM = "adjoint", "adjoint.crc32"
LONGEST = 100_000_000  # bytes of a header, which the format limits

# NumPy's codes count bytes, names of the format bits.
CODES = "u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8 c8".split()
DTYPES = {"BOOL": np.dtype("?")}
DTYPES |= {f"{code[0].upper()}{8 * int(code[1])}": np.dtype(f"<{code}") for code in CODES}


def package(source: Source) -> Any:
    try:
        importlib.import_module("safetensors.numpy")
    except ImportError as error:
        raise MissingPackageError(
            f"{source.function}: .safetensors files need the package safetensors: "
            "pip install 'adjoint[safetensors]'; .npz files need nothing"
        ) from error
    return importlib.import_module("safetensors")


def write(file: BinaryIO, source: Source, contents: Contents) -> None:
    safetensors = package(source)
    for name, array in contents.arrays.items():
        if array.dtype not in DTYPES.values():
            raise DTypeError(
                f"{source}: the format has no {array.dtype}, which {name!r} has; save to .npz"
            )
    for key in contents.metadata.keys() & {OUTLINE, CHECKSUM}:
        raise ArgumentError(f"{source}: {key!r} in metadata is adjoint's own; choose another")
    sums = {name: checksum(array) for name, array in contents.arrays.items()}
    texts = contents.metadata | {OUTLINE: to_json({"tree": contents.outline, "crc32": sums})}
    texts[CHECKSUM] = text_checksum(texts)
    try:
        image = safetensors.numpy.save(contents.arrays, texts)
    except (safetensors.SafetensorError, UnicodeEncodeError) as error:
        raise ArgumentError(f"{source}: {error}") from None
    file.write(image)


def checksum(array: np.ndarray) -> int:
    """Of the shape, the dtype and the bytes of an array that is in one piece."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    kind = f"{array.dtype.name}{list(array.shape)}"
    return zlib.crc32(little.reshape(-1).view(np.uint8).data, zlib.crc32(kind.encode()))


def text_checksum(texts: dict[str, str]) -> str:
    return str(zlib.crc32(to_json(sorted(texts.items())).encode()))


def read(file: BinaryIO, source: Source) -> Contents:
    safetensors = package(source)
    entries = read_header(file, source)
    file.seek(0)
    try:
        found = dict(safetensors.deserialize(file.read()))
    except safetensors.SafetensorError as error:
        raise source.damaged(f"{error}") from None
    names = [name for name in entries if name != RESERVED]
    if found.keys() != set(names):
        raise source.damaged("its header isn't that of safetensors")
    arrays = {name: array_of(source, name, found[name]) for name in names}
    outline, sums, metadata = own_part(source, entries)
    wrong = [name for name in sums if name not in arrays or sums[name] != checksum(arrays[name])]
    if wrong:
        raise source.damaged(f"these tensors aren't what was saved: {wrong}")
    return Contents(arrays, outline, metadata)


def read_metadata(file: BinaryIO, source: Source) -> dict[str, str]:
    return own_part(source, read_header(file, source))[2]


def read_header(file: BinaryIO, source: Source) -> dict[str, Any]:
    """Read the entries of the header: tensors by name, and the metadata."""
    start = file.read(8)
    length = int.from_bytes(start, "little")
    rest = os.fstat(file.fileno()).st_size - 8
    if length > min(rest, LONGEST):
        raise DamagedFileError(
            f"{source} is cut short, or isn't a safetensors file: "
            f"{foreign(start) or f'its header would have {length} bytes'}"
        )
    entries = from_json(source, file.read(length))
    if not isinstance(entries, dict) or not is_texts(entries.get(RESERVED, {})):
        raise source.damaged("its header isn't that of safetensors")
    return entries


def foreign(start: bytes) -> str | None:
    """What a file is, by its first bytes, that some people take for a safetensors file."""
    if start.startswith(b"PK"):
        return "it is a zip archive, as .npz files and PyTorch's .pt files are"
    return "it is a pickle" if start.startswith(b"\x80") and start[1:2] < b"\x06" else None


def array_of(source: Source, name: str, entry: dict[str, Any]) -> np.ndarray:
    code, shape, data = entry["dtype"], entry["shape"], entry["data"]
    if code == "BF16":  # the upper halves of float32
        wide = np.frombuffer(data, "<u2").astype(np.uint32) << 16
        return wide.view(np.float32).reshape(shape)
    if code not in DTYPES:
        raise DTypeError(
            f"{source}: {name!r} is {code}, which adjoint doesn't have; convert it to one of "
            f"{', '.join(DTYPES)} where it was made"
        )
    return np.frombuffer(data, DTYPES[code]).reshape(shape)


def own_part(source: Source, entries: dict[str, Any]) -> tuple[Any, dict[str, int], dict[str, str]]:
    """From the header: the outline, checksums of tensors, and the metadata of the user."""
    texts = dict(entries.get(RESERVED, {}))
    if not {OUTLINE, CHECKSUM} & texts.keys():
        return plain_outline(name for name in entries if name != RESERVED), {}, texts
    if texts.pop(CHECKSUM, None) != text_checksum(texts) or OUTLINE not in texts:
        raise source.damaged("its metadata isn't what was saved")
    match from_json(source, texts.pop(OUTLINE)):
        case {"tree": tree, "crc32": dict(sums)}:
            return tree, sums, texts
    raise source.damaged("its outline is wrong")
