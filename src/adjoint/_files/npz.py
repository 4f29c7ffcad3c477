"""Files in NumPy's .npz format: zip archives of arrays, with checksums. Pickles are refused.

The outline and the metadata are in an entry of their own, unless names of arrays say it all.
"""

import io
import math
import os
import struct
import warnings
import zipfile
import zlib
from typing import Any, BinaryIO

import numpy as np

from .._foundation.errors import DamagedFileError
from .errors import Source
from .outline import Contents, from_json, is_texts, plain_outline, to_json

OUTLINE = "adjoint.json"
SUFFIX = ".npy"
PYTORCH = "data.pkl"  # an entry of PyTorch's archives
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
EXPANSION = 1100  # deflate makes nothing smaller than by this factor
CHUNK = 1 << 20
END = 22  # bytes of an archive's last record, which a comment may follow
# How zipfile and what it calls say that an archive is damaged, or written in a way they don't know.
REFUSALS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    ValueError,
    RuntimeError,
    OverflowError,
)


def write(file: BinaryIO, source: Source, contents: Contents) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in contents.arrays.items():
            with archive.open(zipfile.ZipInfo(name + SUFFIX), "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)
        if contents.metadata or not contents.is_plain:
            own = {"tree": contents.outline, "metadata": contents.metadata}
            archive.writestr(zipfile.ZipInfo(OUTLINE), to_json(own))


def read(file: BinaryIO, source: Source) -> Contents:
    with open_archive(file, source) as archive:
        infos = {info.filename: info for info in archive.infolist()}
        own = read_own_part(archive, infos, source)
        arrays = {
            name.removesuffix(SUFFIX): array_of(source, name, read_entry(archive, info, source))
            for name, info in infos.items()
            if name != OUTLINE
        }
    return Contents(arrays, own["tree"] if own else plain_outline(arrays), own.get("metadata", {}))


def read_metadata(file: BinaryIO, source: Source) -> dict[str, str]:
    with open_archive(file, source) as archive:
        infos = {info.filename: info for info in archive.infolist()}
        return read_own_part(archive, infos, source).get("metadata", {})


def open_archive(file: BinaryIO, source: Source) -> zipfile.ZipFile:
    """Open the archive, after a look at what its directory says."""
    size = os.fstat(file.fileno()).st_size
    try:
        archive = zipfile.ZipFile(file)
    except REFUSALS as error:
        raise source.damaged(f"not a whole .npz archive: {error}") from None
    infos = archive.infolist()
    names = {info.filename for info in infos}
    if any(name.rpartition("/")[2] == PYTORCH for name in names):
        raise DamagedFileError(
            f"{source} isn't an .npz file, but PyTorch's; {conversion(source.path)}"
        )
    file.seek(max(size - END - len(archive.comment), 0))
    if file.read(END)[10:12] != min(len(infos), 0xFFFF).to_bytes(2, "little"):
        raise source.damaged("its directory isn't whole")
    if len(names) < len(infos):
        raise source.damaged("several entries have one name")
    if any(info.compress_type not in COMPRESSIONS for info in infos):
        raise source.damaged("entries are compressed in a way that NumPy doesn't use")
    if sum(info.compress_size for info in infos) > size:
        raise source.damaged("its entries overlap")
    return archive


def read_own_part(
    archive: zipfile.ZipFile, infos: dict[str, zipfile.ZipInfo], source: Source
) -> dict[str, Any]:
    """Read the outline and the metadata, if they are there."""
    if OUTLINE not in infos:
        return {}
    own = from_json(source, read_entry(archive, infos[OUTLINE], source).tobytes())
    if not isinstance(own, dict) or "tree" not in own or not is_texts(own.get("metadata")):
        raise source.damaged(f"{OUTLINE} isn't as adjoint writes it")
    return own


def read_entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo, source: Source) -> np.ndarray:
    """Read the bytes of an entry, which has the length and the checksum that the directory says."""
    if info.file_size > EXPANSION * (info.compress_size + 1):
        raise source.damaged(f"{info.filename!r} can't be as long as it says")
    out = np.empty(info.file_size, np.uint8)
    filled = 0
    try:
        with archive.open(info) as stream:
            while chunk := stream.read(CHUNK):
                out[filled : filled + len(chunk)] = np.frombuffer(chunk, np.uint8)
                filled += len(chunk)
    except REFUSALS as error:
        raise source.damaged(f"{info.filename!r}: {error}") from None
    if filled < info.file_size:
        raise source.damaged(f"{info.filename!r} is cut short")
    return out


def array_of(source: Source, name: str, data: np.ndarray) -> np.ndarray:
    """The array in an entry; it stays where it was read to."""
    if not name.endswith(SUFFIX):
        raise source.damaged(f"{name!r} isn't an array")
    shape, is_fortran, dtype, start = array_header(source, name, data)
    if dtype.hasobject:
        raise DamagedFileError(
            f"{source}: {name!r} holds Python objects, as a pickle, which could run any code; "
            "save it as numbers"
        )
    expected = dtype.itemsize * math.prod(shape)
    if len(data) - start != expected or min(shape, default=0) < 0:
        raise source.damaged(f"{name!r} has {len(data) - start} bytes, not {expected}")
    flat = data[start:].view(dtype)
    array = flat.reshape(shape[::-1]).T if is_fortran else flat.reshape(shape)
    return np.require(array, requirements="A")


def array_header(source: Source, name: str, data: np.ndarray) -> tuple[tuple, bool, np.dtype, int]:
    """The shape, whether the first axis is the fastest, the dtype, and where the values begin."""
    stream = io.BytesIO(data[: 1 << 17].tobytes())
    form = np.lib.format
    readers = {(1, 0): form.read_array_header_1_0, (2, 0): form.read_array_header_2_0}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of a header that Python 2 wrote, or nobody
            return *readers[form.read_magic(stream)](stream), stream.tell()
    except (ValueError, KeyError, TypeError, SyntaxError, RecursionError, UserWarning) as error:
        raise source.damaged(f"{name!r} has no header of an array: {error}") from None


def conversion(path: str) -> str:
    """How a file of PyTorch's gets to be one that can be read."""
    return (
        "such files are pickles, which could run any code. Where PyTorch is, convert it: "
        "safetensors.torch.save_file("
        f"torch.load({path!r}, weights_only=True), {os.path.splitext(path)[0]!r} + '.safetensors')"
    )
