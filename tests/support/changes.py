"""Tensors are values: what changes one, what is made of one, and random programs of both."""

import copy
import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import adjoint as ad
from tests.support.helpers import values

CHANGES = {
    "item": lambda x: x.__setitem__(0, 9.0),
    "slice": lambda x: x.__setitem__(slice(1, None), 9.0),
    "array": lambda x: x.__setitem__([0, 0], 9.0),
    "mask": lambda x: x.__setitem__(x.detach() > 0, 9.0),
    "all": lambda x: x.__setitem__(Ellipsis, 9.0),
    "+=": lambda x: x.__iadd__(1.0),
    "+= tensor": lambda x: x.__iadd__(ad.ones_like(x)),
    "-=": lambda x: x.__isub__(1.0),
    "*=": lambda x: x.__imul__(2.0),
    "/=": lambda x: x.__itruediv__(2.0),
    "add_": lambda x: x.add_(ad.ones_like(x), alpha=2.0),
}


def filled_with(x):
    y = ad.zeros_like(x)
    y[...] = x
    return y


ALIASES = {
    "T": lambda x: x.T,
    "detach": lambda x: x.detach(),
    "slice": lambda x: x[0],
    "reversed": lambda x: x[::-1],
    "reshape": lambda x: ad.reshape(x, (4,)),
    "broadcast_to": lambda x: ad.broadcast_to(x, (2, 2, 2)),
    "large broadcast_to": lambda x: ad.broadcast_to(x, (2000, 2, 2)),
    "expand_dims": lambda x: ad.expand_dims(x, 0),
    "astype": lambda x: ad.astype(x, ad.float64),
    "asarray": lambda x: ad.asarray(x, copy=True),
    "copy": lambda x: x.copy(),
    "view of a view": lambda x: x.T[1:].T,
    "tensor": lambda x: ad.tensor(x),
    "deepcopy": copy.deepcopy,
    "iteration": lambda x: next(iter(x)),
    "numpy": lambda x: x.numpy(),
    "numpy view": lambda x: x.numpy().T[:1],
    "np.asarray": np.asarray,
    "set from": lambda x: filled_with(x),
}


# Programs.

sizes = st.integers(0, 3)


def transposed(x: Any) -> Any:
    return x.transpose() if isinstance(x, np.ndarray) else ad.transpose(x)


def broadcast(x: Any) -> Any:
    module: Any = np if isinstance(x, np.ndarray) else ad
    return module.broadcast_to(x, (2, *x.shape))


VIEWS: dict[str, Any] = {
    "whole": lambda x: x[...],
    "first": lambda x: x[:1],
    "tail": lambda x: x[1:],
    "reversed": lambda x: x[::-1],
    "every second": lambda x: x[::2],
    "flat": lambda x: x.reshape(-1),
    "new axis": lambda x: x[None],
    "row": lambda x: x[0],
    "last column": lambda x: x[..., -1],
    "transposed": transposed,
    "broadcast": broadcast,
}
INDICES: list[Any] = [
    0,
    -1,
    slice(None),
    slice(None, None, -2),
    slice(1, None),
    Ellipsis,
    (Ellipsis, 0),
    [0, 0],
    [-1],
]
IN_PLACE = [operator.iadd, operator.isub, operator.imul]


@st.composite
def value_programs(draw) -> list[tuple]:
    step = st.one_of(
        st.tuples(st.just("view"), sizes, st.sampled_from(sorted(VIEWS))),
        st.tuples(st.just("numpy"), sizes),
        st.tuples(st.just("detach"), sizes),
        st.tuples(st.just("fill from"), sizes, sizes),
        st.tuples(
            st.just("assign"), sizes, st.sampled_from(range(len(INDICES))), st.integers(1, 9)
        ),
        st.tuples(st.just("assign part"), sizes, st.sampled_from(range(len(INDICES))), sizes),
        st.tuples(
            st.just("at.set"), sizes, st.sampled_from(range(len(INDICES))), st.integers(1, 9)
        ),
        st.tuples(st.just("in place"), sizes, st.sampled_from(range(3)), sizes),
        st.tuples(st.just("in place scalar"), sizes, st.sampled_from(range(3))),
        st.tuples(st.just("drop"), sizes),
    )
    return draw(st.lists(step, min_size=2, max_size=14))


class Pool:
    """Tensors, and NumPy arrays that share nothing with anything, changed in the same way."""

    def __init__(self) -> None:
        start = np.arange(6.0).reshape(2, 3)
        self.tensors: list[Any] = [ad.asarray(start.copy())]
        self.models: list[np.ndarray] = [start]
        self.exports: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, tensor: Any, model: np.ndarray) -> None:
        if model.size <= 200:
            self.tensors.append(tensor)
            self.models.append(model.copy())

    def step(self, kind: str, which: int, *rest: Any) -> None:
        k = which % len(self.tensors)
        x, model = self.tensors[k], self.models[k]
        if kind == "drop":
            if len(self.tensors) > 1:
                del self.tensors[k], self.models[k]
        elif kind == "numpy":
            self.exports.append((x.numpy(), model.copy()))
        elif kind == "detach":
            self.add(x.detach(), model)
        else:
            method = {"view": self.view, "at.set": self.at_set, "in place": self.in_place}
            method |= {"in place scalar": self.in_place_scalar, "fill from": self.fill_from}
            method |= {"assign": self.assign, "assign part": self.assign_part}
            method[kind](k, x, model, *rest)

    def view(self, k: int, x: Any, model: np.ndarray, name: str) -> None:
        try:
            expected = VIEWS[name](model)
        except IndexError:
            with pytest.raises(ad.IndexingError):
                VIEWS[name](x)
            return
        self.add(VIEWS[name](x), np.asarray(expected))

    def assign(self, k: int, x: Any, model: np.ndarray, index: int, value: Any) -> None:
        place = INDICES[index]
        try:
            model[place] = value
        except IndexError:
            with pytest.raises(ad.IndexingError):
                x[place] = value
            return
        x[place] = value

    def assign_part(self, k: int, x: Any, model: np.ndarray, index: int, other: int) -> None:
        """x[place] = y[place], where that fits; x and y may be the same."""
        place, j = INDICES[index], other % len(self.tensors)
        try:
            value = self.models[j][place].copy()
            if np.broadcast_shapes(model[place].shape, value.shape) != model[place].shape:
                return
        except (IndexError, ValueError):
            return
        model[place] = value
        x[place] = self.tensors[j][place]

    def fill_from(self, k: int, x: Any, model: np.ndarray, other: int) -> None:
        j = other % len(self.tensors)
        if self.models[j].shape == model.shape:
            model[...] = self.models[j].copy()
            x[...] = self.tensors[j]

    def at_set(self, k: int, x: Any, model: np.ndarray, index: int, value: int) -> None:
        expected = model.copy()
        try:
            expected[INDICES[index]] = value
        except IndexError:
            return
        self.add(x.at[INDICES[index]].set(value), expected)

    def in_place(self, k: int, x: Any, model: np.ndarray, which: int, other: int) -> None:
        j = other % len(self.tensors)
        value, tensor = self.models[j].copy(), self.tensors[j]
        try:
            fits = np.broadcast_shapes(model.shape, value.shape) == model.shape
        except ValueError:
            fits = False
        if fits and np.abs(value).max(initial=0) < 1e6:
            self.models[k] = np.asarray(IN_PLACE[which](model, value))
            assert IN_PLACE[which](x, tensor) is x

    def in_place_scalar(self, k: int, x: Any, model: np.ndarray, which: int) -> None:
        self.models[k] = np.asarray(IN_PLACE[which](model, 2.0))
        assert IN_PLACE[which](x, 2.0) is x

    def check(self) -> None:
        for x, model in zip(self.tensors, self.models, strict=True):
            np.testing.assert_array_equal(values(x), model)
        for array, model in self.exports:
            np.testing.assert_array_equal(array, model)
