"""Pickles name public modules, and those of 0.1, when modules had other names, load."""

import inspect
import pickle
import pickletools
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from tests.support.paths import DATA

STORED = DATA / "before_rooms.pickle"


def modules_named(pickled: bytes) -> set[str]:
    texts = (arg for op, arg, _ in pickletools.genops(pickled) if isinstance(arg, str))
    return {text for text in texts if text.startswith("adjoint")}


@pytest.mark.parametrize(
    "make, public",
    [
        (lambda: ad.tensor([1.0, 2.0], requires_grad=True), "adjoint"),
        (lambda: nn.Parameter(ad.tensor([1.0])), "adjoint.nn"),
        (lambda: ad.float16, "adjoint"),
        (lambda: ad.ShapeError("wrong"), "adjoint"),
        (lambda: ad.tensor([1.0]).data, "adjoint"),
    ],
    ids=["tensor", "parameter", "dtype", "error", "alias"],
)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_name_public_modules(make: Any, public: str, protocol: int) -> None:
    value = make()
    pickled = pickle.dumps(value, protocol)
    assert all(name.split(" ")[0] == public for name in modules_named(pickled))
    assert repr(pickle.loads(pickled)) == repr(value)


def test_dtypes_are_the_same_objects_after_a_round_trip() -> None:
    assert pickle.loads(pickle.dumps(ad.int64)) is ad.int64


def test_pickles_from_before_modules_moved_load() -> None:
    stored = pickle.loads(STORED.read_bytes())
    assert stored["tensor"].tolist() == [1.0, 2.0] and stored["tensor"].requires_grad
    assert stored["integers"].tolist() == [[1, 2], [3, 4]]
    assert stored["parameter"].tolist() == [6.0, 7.0]
    assert type(stored["parameter"]) is nn.Parameter and stored["parameter"].requires_grad
    assert type(stored["frozen"]) is nn.Parameter and not stored["frozen"].requires_grad
    assert stored["dtype"] is ad.float64
    assert stored["layer"](ad.tensor([[1.0, 1.0]])).tolist() == [[12.0]]
    assert stored["hooked"](ad.tensor([[1.0, 1.0]])).tolist() == [[12.0]]
    assert type(stored["error"]) is ad.ShapeError


def test_sources_of_classes_are_found() -> None:
    for cls in (ad.Tensor, ad.DType, nn.Parameter):
        assert f"class {cls.__name__}" in inspect.getsource(cls)
