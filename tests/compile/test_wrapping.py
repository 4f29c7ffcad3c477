"""Compiled functions in the places of those that they are made of: methods, copies, attributes."""

import copy
import dataclasses
import gc
import pickle
import sys
import weakref
from functools import partial
from typing import Any

import pytest

import adjoint as ad
from tests.support.helpers import needs_kernels

pytestmark = needs_kernels
X = ad.ones(2)


@dataclasses.dataclass(frozen=True)
class Equal:
    k: int
    w: Any = dataclasses.field(compare=False, default=None)

    @ad.compile
    def scaled(self, x: ad.Tensor) -> ad.Tensor:
        return x * self.w


@dataclasses.dataclass
class Unhashable:
    w: Any

    @ad.compile
    def scaled(self, x: ad.Tensor) -> ad.Tensor:
        return x * self.w


class Slotted:
    __slots__ = ("w",)

    def __init__(self, w: Any) -> None:
        self.w = w

    @ad.compile
    def scaled(self, x: ad.Tensor) -> ad.Tensor:
        return x * self.w


@pytest.mark.parametrize("make", [partial(Equal, 1), Unhashable, Slotted])
def test_instances_of_every_kind_have_methods_of_their_own(make: Any) -> None:
    one, other = make(ad.ones(2) * 3.0), make(ad.ones(2) * 5.0)
    for _ in range(2):
        assert one.scaled(X).tolist() == [3.0, 3.0]
        assert other.scaled(X).tolist() == [5.0, 5.0]


def test_a_method_keeps_its_instance_and_the_class_does_not() -> None:
    scaled = Unhashable(ad.ones(2) * 3.0).scaled
    gc.collect()
    assert scaled(X).tolist() == scaled(X).tolist() == [3.0, 3.0]
    assert "1 program" in scaled.explain()
    instance = weakref.ref(scaled.__self__)
    del scaled
    gc.collect()
    assert instance() is None and not vars(Unhashable)["scaled"]._bound


class Holder:
    act = ad.compile(ad.nn.ReLU())
    twice = ad.compile(partial(ad.multiply, 2.0))

    @ad.compile
    @staticmethod
    def half(x: ad.Tensor) -> ad.Tensor:
        return x * 0.5


def test_what_isnt_a_method_is_none_in_a_class() -> None:
    for holder in (Holder, Holder()):
        assert holder.act(-X).tolist() == [0.0, 0.0]
        if sys.version_info < (3, 14):  # from then on a partial is a method
            assert holder.twice(X).tolist() == [2.0, 2.0]
        assert holder.half(X).tolist() == [0.5, 0.5]


class Model(ad.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = ad.nn.Linear(2, 1)
        self.fast = ad.compile(self.body)

    def body(self, x: ad.Tensor) -> ad.Tensor:
        return self.linear(x)


def test_copies_compile_the_copied_function() -> None:
    model = Model()
    with ad.no_grad():
        before = model.fast(X).tolist()
        twin = copy.deepcopy(model)
        twin.linear.weight[...] = 0.0
        twin.linear.bias[...] = 7.0
        assert twin.fast(X).tolist() == [7.0] and model.fast(X).tolist() == before
        compiled = ad.compile(ad.nn.Linear(2, 1))
        compiled(X)
        for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
            assert other(X).tolist() == compiled(X).tolist()
            assert other.weight is not compiled.weight


@ad.compile
def doubled(x: ad.Tensor) -> ad.Tensor:
    return x * 2.0


def test_a_decorated_function_is_pickled_by_its_name() -> None:
    doubled(X)
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    assert copy.deepcopy(doubled) is doubled


def test_attributes_are_those_of_the_function() -> None:
    layer = ad.nn.Linear(2, 1)
    compiled = ad.compile(layer)
    compiled.weight = ad.nn.Parameter(ad.ones((1, 2)))
    compiled.bias = None
    assert layer.bias is None
    with ad.no_grad():
        assert compiled(X).tolist() == [2.0]


def test_a_compiled_layer_cannot_be_part_of_a_module() -> None:
    model = ad.nn.Module()
    with pytest.raises(ad.DTypeError, match=r"layer is a compiled Linear.*compile\(model\)"):
        model.layer = ad.compile(ad.nn.Linear(2, 1))
