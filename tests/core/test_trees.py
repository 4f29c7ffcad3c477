"""Nested containers: their kinds are kept, and trees that belong together must be alike."""

import sys
from collections import OrderedDict, defaultdict, namedtuple
from typing import Any

import pytest

import adjoint as ad

Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("tree", "doubled"),
    [
        (3, 6),
        ((1, [2, {"k": 3}]), (2, [4, {"k": 6}])),
        (Pair(1, (2,)), Pair(2, (4,))),
        (OrderedDict(b=1, a=2), OrderedDict(b=2, a=4)),
        (defaultdict(list, a=1), defaultdict(list, a=2)),
        ({"w": None, "v": [None, 1]}, {"w": None, "v": [None, 2]}),
        ((), ()),
    ],
)
def test_a_function_is_applied_to_each_leaf(tree: Any, doubled: Any) -> None:
    found = ad.tree_map(lambda x: 2 * x, tree)
    assert found == doubled and type(found) is type(doubled)


def test_leaves_of_several_trees_are_taken_together() -> None:
    tree, other = {"a": [1, None], "b": 2}, {"b": 20, "a": [10, None]}
    assert ad.tree_map(lambda x, y, z: x + y + z, tree, other, tree) == {"a": [12, None], "b": 24}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            {"a": 1},
            r"tree 1 .* a dict with the keys \['a'\], not a dict with the keys \['a', 'b'\]",
        ),
        ({"a": 1, "b": 2}, r"a int, not a list of 2 at \['b'\]"),
        ({"a": 1, "b": (1, 2)}, r"a tuple of 2, not a list of 2 at \['b'\]"),
        ([1, 2], "a list of 2, not a dict"),
    ],
)
def test_other_structures_are_an_error(other: Any, message: str) -> None:
    with pytest.raises(ad.ArgumentError, match=message):
        ad.tree_map(lambda x, y: x, {"a": 1, "b": [1, 2]}, other)


def test_a_function_is_needed() -> None:
    with pytest.raises(ad.DTypeError, match="a function is needed, got int"):
        ad.tree_map(3, [1])  # type: ignore[arg-type]


def test_transforms_hand_on_the_kind_of_a_dict() -> None:
    params = defaultdict(lambda: ad.tensor(5.0), w=ad.tensor(2.0))
    grads = ad.grad(lambda p: p["w"] * p["w"] * p["missing"])(params)
    assert type(grads) is defaultdict and grads["w"].item() == 20


class Params(dict):
    """Parameters by attribute."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


def test_dicts_of_other_kinds_stay_what_they_are() -> None:
    assert ad.grad(lambda p: p.w * p.w)(Params(w=2.0)).w.item() == 4
    x = ad.tensor(3.0, requires_grad=True)
    ad.checkpoint(lambda p: p.w * p.w, Params(w=x)).backward()
    assert x.grad is not None and x.grad.item() == 6


def test_keys_that_print_alike_are_different_keys() -> None:
    a, b = ad.zeros(2), ad.zeros(2)
    grads = ad.grad(lambda d: d[a] * d[b])({a: 2.0, b: 3.0})
    assert grads[a].item() == 3 and grads[b].item() == 2
    assert ad.vmap(lambda d: d[a] * d[b])({a: ad.ones(2), b: ad.ones(2)}).tolist() == [1.0, 1.0]
    assert ad.tree_map(lambda x, y: x + y, {a: 1, b: 2}, {a: 1, b: 2})[b] == 4


def test_tuples_without_tensors_are_passed_on_as_they_are() -> None:
    x = ad.tensor(3.0, requires_grad=True)
    ad.checkpoint(lambda x, version: x * version[0], x, sys.version_info).backward()
    assert x.grad is not None and x.grad.item() == sys.version_info[0]
