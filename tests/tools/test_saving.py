"""Saving: what is loaded is what was saved, or the file is refused; no crash leaves half a file."""

import collections
import importlib
import io
import json
import math
import os
import pickle
import random
import signal
import stat
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import adjoint as ad
from tests.support.helpers import leaf, values

SUFFIXES = (".npz", ".safetensors")
DTYPES = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split()


@pytest.fixture(params=SUFFIXES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == ".safetensors":
        pytest.importorskip("safetensors")
    return tmp_path / f"file{request.param}"


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A path for a safetensors file that another tool makes."""
    pytest.importorskip("safetensors")
    return tmp_path / "foreign.safetensors"


def saved(obj: Any, path: Path, **options: Any) -> Any:
    ad.save(obj, path, **options)
    return ad.load(path)


def same(one: Any, other: Any) -> None:
    """Equal structures, types, keys in their order, dtypes and bits."""
    if isinstance(other, (ad.Tensor, np.ndarray, np.generic)):
        assert isinstance(one, ad.Tensor) and one.device == "cpu" and not one.requires_grad
        expected = values(other) if isinstance(other, ad.Tensor) else np.asarray(other)
        assert one.shape == expected.shape and values(one).dtype == expected.dtype
        assert values(one).tobytes() == expected.tobytes()
        return
    assert type(one) is (dict if isinstance(other, dict) else type(other))
    if isinstance(other, dict):
        assert [(type(k), k) for k in one] == [(type(k), k) for k in other]
        one, other = list(one.values()), list(other.values())
    if isinstance(other, (list, tuple)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    else:
        assert repr(one) == repr(other)


def example(dtype: str) -> np.ndarray:
    return np.array([[0, 1, 2], [3, 100, 77]]).astype(dtype)


# What comes back


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_and_layout_comes_back(dtype: str, path: Path) -> None:
    x = example(dtype)
    layouts = {
        "plain": x,
        "transposed": x.T,
        "reversed": x[::-1, ::-1],
        "strided": x[:, ::2],
        "repeated": np.broadcast_to(x[0], (4, 3)),
        "scalar": x[1, 1],
        "0-d": np.array(x[1, 1]),
        "empty": x[:0],
        "none": np.zeros((2, 0, 3), dtype),
        "tensor": ad.asarray(x),
        "view": ad.asarray(x).T,
        "big-endian": x.astype(x.dtype.newbyteorder(">")),
    }
    out = saved(layouts, path)
    same(out, layouts | {"big-endian": x})


def test_complex_numbers(tmp_path: Path) -> None:
    x = {"a": np.array([1 + 2j, math.nan], np.complex64), "b": np.array(3j)}
    same(saved(x, tmp_path / "x.npz"), x)
    pytest.importorskip("safetensors")
    with pytest.raises(TypeError, match=r"no complex128, which 'b' has; save to \.npz"):
        ad.save(x, tmp_path / "x.safetensors")
    same(saved({"a": x["a"]}, tmp_path / "x.safetensors"), {"a": x["a"]})
    assert os.listdir(tmp_path) and not any("tmp" in name for name in os.listdir(tmp_path))


def test_bits_of_nan_and_signed_zero(path: Path) -> None:
    bits = np.array([0x7FC00001, 0xFFC12345, 0x80000000, 0x7F800000, 1], np.uint32)
    same(saved({"x": bits.view(np.float32)}, path), {"x": bits.view(np.float32)})


TREES: list[Any] = [
    {"model": {"layer.weight": np.ones((2, 3)), "bias": np.zeros(2)}, "epoch": 3},
    {"state": {0: {"exp_avg": np.ones(2), "step": 1}, 1: {"exp_avg": np.ones(3), "step": 2}}},
    {"betas": (0.9, 0.999), "lr": 1e-3, "flags": [True, False, None], "name": "Ädam\n\0"},
    {"numbers": [0.1, 1e300, 5e-324, -0.0, math.inf, -math.inf, math.nan, 2**200, -1, 1 - 2j]},
    {"complex": [complex(math.inf, math.nan)], "dict": {}, "tuple": (), "tensor": [], "": None},
    {1: "int", "1": "str", True + 1: 2, 1.5: "float", None: 0, (1, ("a", None)): "tuple"},
    {"a": {"b": np.ones(1)}, "a.b": np.zeros(1), "a.b~2": np.full(1, 2.0)},
    {1: np.ones(1), "1": np.zeros(2)},
    {"__metadata__": np.ones(1), "tensor": np.zeros(1), "a\\b": np.ones(2), "c/../d": np.ones(3)},
    {"\ud800": np.ones(1), "\0": np.ones(2), "": np.ones(3), "é✓": np.ones(4)},
    {"adjoint.json": np.ones(1), "adjoint": np.ones(2), "x.npy": np.ones(3)},
    {"z": np.ones(1), "a": np.ones(1, np.int8), "m": np.ones(1, bool)},
    [np.ones(1), (np.zeros(1), [ad.asarray([1.0])])],
    {"nested": {"tuple": {"dict": {"tensor": "name"}}}, "float": {"float": "nan"}},
    np.float32(1.5),
    (),
    {},
    None,
    "text",
    3,
]


@pytest.mark.parametrize("tree", TREES, ids=range(len(TREES)))
def test_structures_come_back(tree: Any, path: Path) -> None:
    same(saved(tree, path), tree)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.complex_numbers()
arrays = st.builds(
    lambda dtype, shape: np.random.default_rng(0).integers(0, 2, shape).astype(dtype),
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 3), max_size=3),
)
trees = st.recursive(
    scalars | arrays,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=5) | st.integers() | st.booleans(), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tree=trees, metadata=st.dictionaries(st.text(), st.text(), max_size=2))
def test_any_structure_comes_back(tree: Any, metadata: dict[str, str], path: Path) -> None:
    metadata = {k: v for k, v in metadata.items() if not {*k, *v} & {chr(0xD800)}}
    same(saved(tree, path, metadata=metadata), tree)
    assert ad.load_metadata(path) == metadata


def test_dicts_of_all_kinds_come_back_as_dicts(path: Path) -> None:
    given = collections.OrderedDict(w=np.ones(2), b=collections.defaultdict(list, a=[1]))
    out = saved(given, path)
    assert type(out) is dict and type(out["b"]) is dict
    same(out, dict(given))


def test_tensors_are_saved_by_value(path: Path) -> None:
    x = leaf([1.0, 2.0])
    out = saved({"x": x, "y": x * 2, "again": x}, path)
    assert [t.requires_grad for t in out.values()] == [False] * 3
    same(out, {"x": np.array([1.0, 2.0]), "y": np.array([2.0, 4.0]), "again": np.array([1.0, 2.0])})
    out["x"][0] = 9.0
    assert out["again"].tolist() == [1.0, 2.0] and ad.load(path)["x"].tolist() == [1.0, 2.0]


def test_loaded_tensors_do_not_follow_the_file(path: Path) -> None:
    out = saved({"x": np.arange(100_000.0)}, path)
    os.truncate(path, 10)
    ad.save({"x": np.zeros(3)}, path)
    same(out, {"x": np.arange(100_000.0)})


@pytest.mark.webgpu
def test_tensors_on_a_gpu(path: Path) -> None:
    x = ad.asarray([1.0, 2.0], device="webgpu", requires_grad=True)
    same(saved({"x": x}, path), {"x": np.array([1.0, 2.0], np.float32)})
    out = ad.load(path, device="webgpu")["x"]
    assert out.device == x.device and out.tolist() == [1.0, 2.0]
    ad.save({"big": np.ones(2)}, path)
    with pytest.raises(ad.AdjointError, match="float64") as caught:
        ad.load(path, device="webgpu")
    assert "'big'" in caught.value.__notes__[0]


def test_an_optimizer_goes_on_from_a_file(path: Path) -> None:
    def step(optimizer: Any, x: ad.Tensor) -> None:
        x.grad = ad.asarray([0.5, -1.0], dtype=ad.float64)
        optimizer.step()

    x = leaf([1.0, 2.0])
    optimizer = ad.optim.Adam([x], lr=0.1)
    step(optimizer, x)
    out = saved({"x": x, "optimizer": optimizer.state_dict(), "epoch": 1}, path)
    y = out["x"].requires_grad_()
    other = ad.optim.Adam([y])
    other.load_state_dict(out["optimizer"])
    step(optimizer, x)
    step(other, y)
    assert y.tolist() == x.tolist() and out["epoch"] == 1


def test_metadata(path: Path) -> None:
    texts = {"licence": "MIT", "": "ä\n", "format": "pt"}
    same(saved({"w": np.ones(2)}, path, metadata=texts), {"w": np.ones(2)})
    assert ad.load_metadata(path) == texts
    ad.save({"w": np.ones(2)}, path)
    assert ad.load_metadata(path) == {}
    for wrong in ({"a": 1}, {1: "a"}, ["a"]):
        with pytest.raises(TypeError, match="dict of str to str"):
            ad.save({}, path, metadata=wrong)  # type: ignore[arg-type]


def test_what_can_not_be_saved_is_named(path: Path) -> None:
    ad.save({"w": np.ones(1)}, path)
    before = path.read_bytes()
    Point = collections.namedtuple("Point", "x")
    cases: list[tuple[Any, str]] = [
        ({"a": [1, object()]}, r"obj\['a'\]\[1\] is a object"),
        ({"a": Point(1)}, r"obj\['a'\] is a Point"),
        ({"a": {1, 2}}, r"obj\['a'\] is a set"),
        ({b"a": 1}, "is a bytes"),
        ({"a": np.array(["x"])}, r"obj\['a'\]: .*isn't a dtype"),
        ({"a": np.array([None])}, r"obj\['a'\]: .*isn't a dtype"),
    ]
    for obj, message in cases:
        with pytest.raises(TypeError, match=message) as caught:
            ad.save(obj, path)
        assert isinstance(caught.value, ad.AdjointError)
    long = 10**5000
    for obj in ({"n": long}, {"n": [1, -long]}, {"n": {long: 1}}, {"n": {(1, long): np.ones(1)}}):
        with pytest.raises(ad.RangeError, match=r"obj\['n'\].* is an integer of 16610 bits.*hex"):
            ad.save(obj, path)
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="contains itself"):
        ad.save(loop, path)
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]


# With other tools


def test_numpy_reads_what_we_write_and_the_reverse(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    given = {"w": np.ones((2, 3), np.float32), "layer/b": np.arange(3)}
    ad.save(given, path)
    with np.load(path, allow_pickle=False) as out:
        assert out.files == list(given)
        for name, x in given.items():
            np.testing.assert_array_equal(out[name], x, strict=True)
    turned = {"f": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "i": np.arange(3, dtype=">i4")}
    for write in (np.savez, np.savez_compressed):
        write(path, **turned)
        same(ad.load(path), turned | {"i": np.arange(3, dtype=np.int32)})
    assert ad.load_metadata(path) == {}


def test_pytorch_reads_what_we_write(foreign: Path) -> None:
    torch = pytest.importorskip("torch")
    load_file = importlib.import_module("safetensors.torch").load_file
    given = {f"x.{dtype}": example(dtype) for dtype in DTYPES} | {"scalar": np.array(1.5)}
    ad.save(given, foreign, metadata={"format": "pt"})
    out = load_file(foreign)
    assert out.keys() == given.keys()
    for name, x in given.items():
        np.testing.assert_array_equal(out[name].numpy(), x, strict=True)
    ad.save({"model": {"0.weight": np.ones((1, 2), np.float32)}, "epoch": 3}, foreign)
    assert torch.equal(load_file(foreign)["model.0.weight"], torch.ones(1, 2))


def test_weights_of_a_pytorch_model_both_ways(foreign: Path) -> None:
    torch = pytest.importorskip("torch")
    package = importlib.import_module("safetensors.torch")
    nn = torch.nn
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2))
    package.save_file(model.state_dict(), foreign, metadata={"format": "pt"})
    weights = ad.load(foreign)
    same(weights, {k: v.numpy() for k, v in sorted_like(weights, model.state_dict()).items()})
    assert ad.load_metadata(foreign) == {"format": "pt"}
    ad.save({k: x * 2 for k, x in weights.items()}, foreign)
    model.load_state_dict(package.load_file(foreign))
    for name, x in model.state_dict().items():
        np.testing.assert_array_equal(x.numpy(), 2 * values(weights[name]))


def sorted_like(one: dict, other: dict) -> dict:
    assert one.keys() == other.keys()
    return {key: other[key] for key in one}


def image(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """The bytes of a safetensors file."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(dtype: str, shape: list[int], start: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def test_bfloat16_of_others_becomes_float32(foreign: Path) -> None:
    every = np.arange(1 << 16, dtype="<u2")
    foreign.write_bytes(image({"x": entry("BF16", [256, 256], 0, 1 << 17)}, every.tobytes()))
    expected = (every.astype(np.uint32) << 16).view(np.float32).reshape(256, 256)
    same(ad.load(foreign), {"x": expected})


def test_a_dtype_that_adjoint_does_not_have_is_named(foreign: Path) -> None:
    foreign.write_bytes(image({"x.y": entry("F8_E4M3", [2], 0, 2)}, b"\0\0"))
    with pytest.raises(TypeError, match=r"'x\.y' is F8_E4M3") as caught:
        ad.load(foreign)
    assert isinstance(caught.value, ad.AdjointError)


# Files that aren't what they should be

GOOD = entry("F32", [2], 0, 8)
BAD_SAFETENSORS = {
    "empty": b"",
    "short": b"\x10\0\0",
    "only a length": (0).to_bytes(8, "little"),
    "text": b"this is not a safetensors file",
    "zip": b"PK\x03\x04" + bytes(100),
    "pickle": pickle.dumps({"a": 1}),
    "absurd length": image({"x": GOOD}, bytes(8), 1 << 62),
    "length beyond the end": image({"x": GOOD}, bytes(8), 500),
    "length into the data": image({"x": GOOD}, bytes(8), len(json.dumps({"x": GOOD})) + 1),
    "length too short": image({"x": GOOD}, bytes(8), 20),
    "not JSON": image(b"{'x': 1}"),
    "not UTF-8": image(b'{"\xff": 1}'),
    "a list": image([1]),
    "deep": image(b"[" * 100_000),
    "no entry": image({"x": 1}),
    "cut": image({"x": GOOD}, bytes(7)),
    "too long": image({"x": GOOD}, bytes(9)),
    "overlap": image({"x": GOOD, "y": GOOD}, bytes(8)),
    "partial overlap": image({"x": GOOD, "y": entry("F32", [2], 4, 12)}, bytes(12)),
    "gap": image({"x": GOOD, "y": entry("F32", [2], 9, 17)}, bytes(17)),
    "backwards": image({"x": entry("F32", [2], 8, 0)}, bytes(8)),
    "out of bounds": image({"x": entry("F32", [2], 1 << 40, (1 << 40) + 8)}, bytes(8)),
    "negative": image({"x": entry("F32", [2], -8, 0)}, bytes(8)),
    "shape": image({"x": entry("F32", [3], 0, 8)}, bytes(8)),
    "overflowing shape": image({"x": entry("F32", [1 << 62, 1 << 62], 0, 8)}, bytes(8)),
    "negative shape": image({"x": entry("F32", [-1, -2], 0, 8)}, bytes(8)),
    "no such dtype": image({"x": entry("Q32", [2], 0, 8)}, bytes(8)),
    "metadata": image({"__metadata__": {"a": 1}, "x": GOOD}, bytes(8)),
    "metadata list": image({"__metadata__": ["a"], "x": GOOD}, bytes(8)),
    "bool": image({"x": entry("BOOL", [2], 0, 2)}, b"\1\2"),
    "own part without checksum": image({"__metadata__": {"adjoint": "{}"}, "x": GOOD}, bytes(8)),
    "checksum alone": image({"__metadata__": {"adjoint.crc32": "0"}, "x": GOOD}, bytes(8)),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_SAFETENSORS)
def test_bad_safetensors_are_refused(name: str, foreign: Path) -> None:
    foreign.write_bytes(BAD_SAFETENSORS[name])
    refused(foreign)


def refused(path: Path, message: str = "load: ") -> None:
    """Loading raises an error of ours, a ValueError that names the file."""
    with pytest.raises(ad.DamagedFileError, match=message) as caught:
        ad.load(path)
    assert str(path) in str(caught.value) and isinstance(caught.value, ValueError)


@pytest.mark.parametrize("image", [b"", b"PK\3\4", b"\x80\2", b"\2\0\0\0\0\0\0\0[]"], ids=repr)
def test_errors_name_the_function_that_was_called(image: bytes, path: Path) -> None:
    path.write_bytes(image)
    for call in (ad.load, ad.load_metadata):
        with pytest.raises(ad.DamagedFileError, match=f"^{call.__name__}: "):
            call(path)


def test_outlines_that_we_never_wrote_are_refused(foreign: Path) -> None:
    text_checksum = ad._files.safetensors.text_checksum  # type: ignore[attr-defined]
    for tree in (
        {"tensor": "y"}, {"tensor": 1}, {"list": []}, {"dict": [[1]]}, {"dict": [[[], 1]]},
        {"dict": 3}, {"float": "1"}, {"complex": [1]}, {"tuple": {}}, {}, [],
        {"tensor": "x", "tuple": []}, [{"tensor": "x"}, {"tensor": "x"}],
    ):  # fmt: skip
        texts = {"adjoint": json.dumps({"tree": tree, "crc32": {}})}
        texts["adjoint.crc32"] = text_checksum(texts)
        foreign.write_bytes(image({"__metadata__": texts, "x": GOOD}, bytes(8)))
        refused(foreign, "outline")
    texts = {"adjoint": "[]"}
    texts["adjoint.crc32"] = text_checksum(texts)
    foreign.write_bytes(image({"__metadata__": texts, "x": GOOD}, bytes(8)))
    refused(foreign, "outline")


def archive(**entries: bytes) -> bytes:
    """The bytes of a zip archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, data in entries.items():
            file.writestr(name, data)
    return out.getvalue()


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode().ljust(100) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def of_numpy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


F8 = "{'descr': '<f8', 'fortran_order': False, 'shape': (%s,), }"
BAD_NPZ = {
    "empty": b"",
    "text": b"this is not a zip archive",
    "npy": of_numpy(np.ones(3)),
    "no array": archive(**{"a.txt": b"text"}),
    "no header": archive(**{"a.npy": b"text"}),
    "nothing": archive(**{"a.npy": b""}),
    "object": archive(**{"a.npy": of_numpy(np.array([None, {}]))}),
    "strings": archive(**{"a.npy": of_numpy(np.array(["a"]))}),
    "dates": archive(**{"a.npy": of_numpy(np.array(["2020-01-01"], "M8[D]"))}),
    "records": archive(**{"a.npy": of_numpy(np.zeros(2, [("x", "f8")]))}),
    "code": archive(**{"a.npy": npy("__import__('os').abort()")}),
    "short": archive(**{"a.npy": npy(F8 % 2, bytes(15))}),
    "long": archive(**{"a.npy": npy(F8 % 2, bytes(17))}),
    "absurd shape": archive(**{"a.npy": npy(F8 % (1 << 60), bytes(16))}),
    "overflowing shape": archive(**{"a.npy": npy(F8 % f"{1 << 62},{1 << 62}", bytes(16))}),
    "negative shape": archive(**{"a.npy": npy(F8 % "-2,-1", bytes(16))}),
    "version": archive(**{"a.npy": b"\x93NUMPY\x09\x00" + npy(F8 % 0)[8:]}),
    "python 2": archive(**{"a.npy": npy(F8 % "2L", bytes(16))}),
    "bool": archive(**{"a.npy": npy((F8 % 2).replace("<f8", "|b1"), b"\1\2")}),
    "outline": archive(**{"adjoint.json": b"{}"}),
    "outline text": archive(**{"adjoint.json": b"\xff"}),
    "outline list": archive(**{"adjoint.json": b"[]"}),
    "outline metadata": archive(**{"adjoint.json": b'{"tree": 1, "metadata": {"a": 1}}'}),
    "outline tensor": archive(**{"adjoint.json": b'{"tree": {"tensor": "a"}, "metadata": {}}'}),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_NPZ)
def test_bad_npz_files_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(BAD_NPZ[name])
    with pytest.raises(ad.AdjointError) as caught:
        ad.load(path)
    assert str(path) in str(caught.value) + "".join(getattr(caught.value, "__notes__", ()))


def test_objects_in_an_npz_are_refused_as_pickles(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, fine=np.ones(2), things=np.array([{}, None]))
    refused(path, "'things.npy' holds Python objects, as a pickle")


def patched(data: bytes, signature: bytes, offset: int, value: bytes) -> bytes:
    """An archive with other bytes in the (last) header of a kind."""
    at = data.rindex(signature) + offset
    return data[:at] + value + data[at + len(value) :]


def test_archives_that_lie_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    good = archive(**{"a.npy": of_numpy(np.ones(4))})
    directory = b"PK\x01\x02"
    lies = {
        "checksum": patched(good, directory, 16, b"\1\2\3\4"),
        "absurd length": patched(good, directory, 24, b"\xf0\xff\xff\x7f"),
        "absurd packed length": patched(good, directory, 20, b"\xf0\xff\xff\x7f"),
        "shorter": patched(good, directory, 24, b"\x80\0\0\0"),
        "compression": patched(good, directory, 10, b"\x0e\0"),
        "encrypted": patched(good, directory, 8, b"\1\0"),
        "offset": patched(good, directory, 42, b"\xff\xff\0\0"),
    }
    for data in lies.values():
        assert data != good
        path.write_bytes(data)
        refused(path)
    with pytest.warns(UserWarning, match="Duplicate"):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as file:
            for k in (1, 2):
                file.writestr("a.npy", of_numpy(np.ones(k)))
    path.write_bytes(out.getvalue())
    refused(path, "one name")


def test_no_change_of_a_file_of_ours_goes_unnoticed(path: Path) -> None:
    """Each byte changed in several ways: an error of ours, or the same result."""
    tree = {"a": np.arange(5.0), "b": {"c": np.array([True, False])}, "n": (1.5, "text")}
    ad.save(tree, path, metadata={"k": "v"})
    good = path.read_bytes()
    rng = random.Random(0)
    for place in range(len(good)):
        changed = bytearray(good)
        changed[place] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        unchanged_or_refused(tree, path)


def unchanged_or_refused(tree: Any, path: Path) -> None:
    try:
        out = ad.load(path)
        metadata = ad.load_metadata(path)
    except ad.AdjointError as error:
        assert str(path) in str(error)
    else:
        same(out, tree)
        assert metadata == {"k": "v"}


def test_every_cut_is_noticed(path: Path) -> None:
    tree = {"a": np.arange(3.0), "n": 1}
    ad.save(tree, path, metadata={"k": "v"})
    good = path.read_bytes()
    for length in range(len(good)):
        path.write_bytes(good[:length])
        with pytest.raises(ad.DamagedFileError):
            ad.load(path)
    path.write_bytes(good + good)
    unchanged_or_refused(tree, path)


def test_changed_values_are_found_and_named(foreign: Path) -> None:
    ad.save({"weights": np.zeros(100), "other": np.ones(3)}, foreign)
    good = foreign.read_bytes()
    foreign.write_bytes(good[:-1] + b"\1")
    refused(foreign, r"aren't what was saved: \['weights'\]")


def test_paths_that_are_wrong(tmp_path: Path) -> None:
    x = {"x": np.ones(1)}
    with pytest.raises(FileNotFoundError, match=r"no\.npz: there is no such file") as caught:
        ad.load(tmp_path / "no.npz")
    assert isinstance(caught.value, ad.AdjointError)
    with pytest.raises(FileNotFoundError, match="there is no such file or folder"):
        ad.save(x, tmp_path / "no" / "x.npz")
    (tmp_path / "folder.npz").mkdir()
    for call in (lambda p: ad.load(p), lambda p: ad.save(x, p), lambda p: ad.load_metadata(p)):
        with pytest.raises(OSError, match=r"folder\.npz") as caught:
            call(tmp_path / "folder.npz")
        assert isinstance(caught.value, ad.FileError)
    for name in ("x.h5", "x", "npz"):
        for call in (lambda p: ad.load(p), lambda p: ad.save(x, p)):
            with pytest.raises(ValueError, match=r"must end in \.safetensors or \.npz"):
                call(tmp_path / name)
    for call in (lambda p: ad.load(p), lambda p: ad.save(x, p), lambda p: ad.load_metadata(p)):
        with pytest.raises(ad.ArgumentError, match="null character"):
            call("m\0.npz")
    for wrong in (3, None, io.BytesIO()):
        with pytest.raises(TypeError, match="a path is needed"):
            ad.load(wrong)  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == ["folder.npz"]


def test_files_of_pytorch_are_refused_with_how_to_convert_them(tmp_path: Path) -> None:
    for name in ("model.pt", "model.pth", "model.ckpt"):
        with pytest.raises(ValueError, match=r"torch\.load\(.*model\.p?.*weights_only=True"):
            ad.load(tmp_path / name)
    path = tmp_path / "model.npz"
    path.write_bytes(archive(**{"model/data.pkl": b"x", "model/version": b"3"}))
    refused(path, "PyTorch's; .*save_file")


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    path = tmp_path / "x.safetensors"
    with pytest.raises(ImportError, match=r"pip install 'adjoint\[safetensors\]'") as caught:
        ad.save({"x": np.ones(1)}, path)
    assert isinstance(caught.value, ad.MissingPackageError) and not os.listdir(tmp_path)
    path.write_bytes(image({"x": GOOD}, bytes(8)))
    with pytest.raises(ImportError, match="pip install"):
        ad.load(path)
    same(saved({"x": np.ones(1)}, tmp_path / "x.npz"), {"x": np.ones(1)})


# Writing


def test_the_same_contents_are_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    tree = {"a": np.ones(3), "b": [1, {"c": np.zeros(2)}]}
    ad.save(tree, path, metadata={"x": "1", "y": "2"})
    first = path.read_bytes()
    time.sleep(0.01)
    ad.save(tree, path, metadata={"x": "1", "y": "2"})
    assert path.read_bytes() == first


@pytest.mark.skipif(sys.platform == "win32", reason="permissions")
def test_permissions_are_those_of_an_ordinary_file_or_the_former_one(path: Path) -> None:
    before = os.umask(0o027)
    try:
        ad.save({"x": np.ones(1)}, path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        ad.save({"x": np.ones(2)}, path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
    finally:
        os.umask(before)


@pytest.mark.skipif(not hasattr(os, "O_DIRECTORY"), reason="folders can't be opened")
@pytest.mark.parametrize("where", ["open", "fsync"])
def test_a_folder_may_be_closed_to_readers(
    where: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = getattr(os, where)

    def refusing(target: Any, *args: Any) -> Any:
        is_folder = target == str(path.parent) if where == "open" else os.path.isdir(target)
        if is_folder:
            raise PermissionError(13, "Permission denied")
        return former(target, *args)

    with monkeypatch.context() as patch:
        patch.setattr(os, where, refusing)
        ad.save({"x": np.ones(1)}, path)
    same(ad.load(path), {"x": np.ones(1)})


@pytest.mark.skipif(sys.platform == "win32", reason="links")
def test_a_link_stays_a_link(path: Path) -> None:
    target = path.with_name("target" + path.suffix)
    path.symlink_to(target.name)
    same(saved({"x": np.ones(1)}, path), {"x": np.ones(1)})
    assert path.is_symlink() and target.is_file()
    path.unlink()
    path.symlink_to(os.devnull)
    with pytest.raises(OSError, match="not an ordinary file"):
        ad.save({"x": np.ones(1)}, path)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_failure_leaves_the_former_file_and_no_other(
    error: BaseException, where: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise error

    ad.save({"x": np.ones(1)}, path)
    with monkeypatch.context() as patch:
        patch.setattr(os, where, fail)
        expected = ad.FileError if isinstance(error, OSError) else KeyboardInterrupt
        with pytest.raises(expected) as caught:
            ad.save({"x": np.zeros(1)}, path)
    assert str(caught.value) == (
        f"save: {path}: {error.strerror}" if isinstance(error, OSError) else ""
    )
    assert os.listdir(path.parent) == [path.name]
    same(ad.load(path), {"x": np.ones(1)})


def test_a_read_only_file_that_cant_be_replaced_leaves_no_other(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Windows such files are neither replaced nor removed."""

    def guarded(patch: pytest.MonkeyPatch, name: str, target: int) -> None:
        function = getattr(os, name)

        def call(*args: Any) -> Any:
            if not os.stat(args[target]).st_mode & stat.S_IWUSR:
                raise PermissionError(13, "Access is denied")
            return function(*args)

        patch.setattr(os, name, call)

    ad.save({"x": np.ones(1)}, path)
    path.chmod(stat.S_IRUSR)
    with monkeypatch.context() as patch:
        guarded(patch, "replace", 1)
        guarded(patch, "unlink", 0)
        with pytest.raises(ad.FileError, match="or save under another name") as caught:
            ad.save({"x": np.zeros(1)}, path)
        assert str(caught.value).startswith(f"save: {path}: Access is denied: ")
        assert os.listdir(path.parent) == [path.name]
    same(ad.load(path), {"x": np.ones(1)})


def test_a_folder_that_no_file_can_be_made_in_is_named(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        module = sys.modules["adjoint._files.replacing"]
        patch.setattr(module, "open", refuse, raising=False)
        with pytest.raises(ad.FileError) as caught:
            ad.save({"x": np.ones(1)}, path)
    assert str(caught.value) == (
        f"save: {path}: Permission denied: no file can be made in {path.parent}; change the "
        "permissions of that folder, or save to another one"
    )
    assert not os.listdir(path.parent)


LOOP = """
import sys, numpy as np, adjoint as ad
k = 0
while True:
    ad.save({"x": np.full(200_000, k), "k": k}, sys.argv[1])
    if k == 1: print("ready", flush=True)
    k += 1
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_process_that_is_killed_while_it_saves_leaves_a_whole_file(path: Path) -> None:
    rng = random.Random(0)
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", LOOP, str(path)], stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"ready\n"
        for _ in range(5):
            whole(path)
        time.sleep(rng.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        whole(path)


def whole(path: Path) -> None:
    out = ad.load(path)
    assert out["x"].shape == (200_000,) and bool(ad.all(out["x"] == out["k"]))


def test_savers_at_once_leave_one_of_their_files(path: Path) -> None:
    def many(k: int) -> None:
        for _ in range(5):
            ad.save({"x": np.full(1000, k)}, path)

    threads = [threading.Thread(target=many, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ad.load(path)["x"].tolist())) == 1
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss is in other units")
@pytest.mark.parametrize("call", ["save", "load"])
def test_memory_stays_within_two_copies(call: str, path: Path) -> None:
    size = 64 << 20
    ad.save({"x": np.zeros(size, np.uint8)}, path)
    code = (
        "import resource, sys, numpy as np, adjoint as ad\n"
        "path = sys.argv[1]\n"
        "ad.save({'x': np.zeros(1)}, path + '-small' + path[path.rindex('.'):])\n"
        "ad.load(path + '-small' + path[path.rindex('.'):])\n"
        f"x = np.ones({size}, np.uint8) if {call!r} == 'save' else None\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10\n"
        "before = peak()\n"
        f"ad.save({{'x': x}}, path) if {call!r} == 'save' else ad.load(path)\n"
        "print(peak() - before)\n"
    )
    out = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    limit = 1.2 if call == "save" else 2.2
    assert int(out.stdout) < limit * size, out.stderr
