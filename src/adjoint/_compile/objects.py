"""The tensors that a program reads, checked and held before each run, and given back after it.

A program runs without the GIL. It holds a reference to each array that it reads, as eager ops do:
whoever is about to overwrite one (see `exclusive` of the CPU's backend) then finds it shared.
Captured tensors themselves are held weakly.

One native call checks all entries and takes the references. Python looks again at what that turns
down, and decides: an array may have an equal dtype in another object, and the array of `x.data` is
another tensor's. Where objects aren't as native code reads them Python does all of it.
"""

import weakref
from collections.abc import Sequence
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np

from .._core.tensor import Tensor
from ..backends.cpu import exclusive
from ..backends.cpu.jit.addresses import HEADER, address
from ..backends.launches import Layout
from .native_objects import ALIGNED, KINDS, native

UNKNOWN = (-1, -1)  # tensor and array of the run before
NOTHING = Layout((), (), np.dtype(bool), False)  # for an entry without an array


class Expected(NamedTuple):
    """What a tensor's array has to be.

    `requires_grad`: whether the tensor has a node. `of_grad`: the array is that of its gradient
    instead, and of the node nothing is asked; without a layout there may be no gradient.
    """

    layout: Layout | None
    requires_grad: bool = False
    of_grad: bool = False

    @property
    def kind(self) -> str:
        """How native code looks for the array."""
        if self.of_grad:
            return "no gradient" if self.layout is None else "gradient"
        return "value with node" if self.requires_grad else "value"

    def fits(self, tensor: Tensor, array: Any) -> bool:
        """Whether a tensor with this array, which is None if it has none, is as expected."""
        if self.layout is None:
            return array is None
        if not self.of_grad and tensor.requires_grad != self.requires_grad:
            return False
        return type(array) is np.ndarray and has_layout(array, self.layout)


def has_layout(array: np.ndarray, layout: Layout) -> bool:
    """Whether the elements of an array lie as a layout says."""
    return (
        array.shape == layout.shape
        and array.dtype == layout.dtype
        and (array.flags.aligned or not layout.aligned)
        and all(
            stride == expected or not matters
            for stride, expected, matters in zip(
                array.strides, layout.strides, steps(layout), strict=True
            )
        )
    )


def steps(layout: Layout) -> list[bool]:
    """Which strides matter: those of axes that have a second element."""
    return [n > 1 and layout.size > 0 for n in layout.shape]


def layout_words(layouts: Sequence[Layout]) -> tuple[list[int], np.ndarray]:
    """Layouts as native code compares them, equal ones once, and where in these words each is."""
    words: list[int] = []
    places: dict[tuple[int, Layout], int] = {}
    for x in layouts:
        if places.setdefault((id(x.dtype), x), len(words)) == len(words):
            masks = [-1] * x.ndim + [-matters for matters in steps(x)]
            axes = np.array([(*x.shape, *x.strides), masks], np.int64).reshape(2, -1, 2)
            words += [id(x.dtype), x.ndim, ALIGNED if x.aligned else 0]
            words += axes.swapaxes(0, 1).ravel().tolist()
    return [places[id(x.dtype), x] for x in layouts], np.array(words, np.int64)


class Objects:
    """Tensors that a program reads: those captured, and those given at each call, in whose places
    `captured` has None. One instance serves one run at a time.

    `enter` writes into `addresses` where the elements of each array start, and into `shared` 0 if
    the program may overwrite them, since nobody else can reach their memory, or else 1.
    """

    def __init__(
        self,
        expected: Sequence[Expected],
        captured: Sequence[Tensor | None],
        addresses: np.ndarray,
    ) -> None:
        assert addresses.dtype == np.int64 and addresses.flags.c_contiguous
        assert len(expected) == len(captured) <= len(addresses)
        self.shared = np.ones(len(expected), np.int64)
        self._addresses = addresses
        self._expected = tuple(expected)
        self._references = [None if x is None else weakref.ref(x) for x in captured]
        self._arrays: list[Any] = []  # those that are held by Python
        count = self._references.count(None)
        self._given = np.zeros(max(1, count), np.int64)  # addresses of arguments
        self._words = self._tables()
        self._native = native(address(self._words[0]), address(self._given), count)

    def _tables(self) -> tuple[np.ndarray, ...]:
        """What native code works on: the table, layouts, and the addresses of arrays held."""
        places, layouts = layout_words([one.layout or NOTHING for one in self._expected])
        held, start = np.zeros_like(self.shared), address(layouts)
        given = count(address(self._given), 8)
        lines = [
            (
                next(given) if reference is None else id(reference) + HEADER,
                KINDS.index(expected.kind),
                start + 8 * place,
                *UNKNOWN,
            )
            for expected, reference, place in zip(
                self._expected, self._references, places, strict=True
            )
        ]
        outputs = address(self._addresses), address(self.shared), address(held)
        head = len(lines), *outputs, id(None), id(np.ndarray), 0
        return np.array([*head, *chain(*lines)], np.int64), layouts, held

    def enter(self, arguments: Sequence[Tensor]) -> int:
        """Hold all arrays; returns -1, or the place of the first that doesn't fit: none is held
        then."""
        if self._native is not None and self._native.enter(tuple(arguments)) < 0:
            return -1
        return self._enter_in_python(arguments)

    def _enter_in_python(self, arguments: Sequence[Tensor]) -> int:
        given, arrays = iter(arguments), []
        for place, (expected, reference) in enumerate(
            zip(self._expected, self._references, strict=True)
        ):
            tensor = next(given) if reference is None else reference()
            owner = tensor if tensor is None or not expected.of_grad else tensor._grad
            arrays.append(None if owner is None else owner.raw)
            if tensor is None or not expected.fits(tensor, arrays[place]):
                return place
        for place, expected in enumerate(self._expected):
            self._tell(place, expected.layout is not None, arrays)
        self._arrays = arrays
        return -1

    def _tell(self, place: int, is_array: bool, arrays: list[Any]) -> None:
        """Write where an array is, and whether others reach it. It is held by its tensor and once
        by the list: twice if it has two places."""
        start = arrays[place].__array_interface__["data"][0] if is_array else 0
        owned = is_array and arrays[place].flags.owndata
        self._addresses[place] = start
        self.shared[place] = not (owned and exclusive(arrays[place], 2))

    def leave(self) -> None:
        """Give back the arrays that are held, whatever their tensors have by now.

        Nothing happens if none is held, so that a `finally` may always call it, also where Ctrl-C
        came before `enter` could return.
        """
        if self._native is not None:
            self._native.leave()
        if self._arrays:
            self._arrays = []

    def __del__(self) -> None:
        """Where Ctrl-C came before `leave` could do anything."""
        if "_native" in vars(self):
            self.leave()

    def alive(self) -> bool:
        """Whether all captured tensors live."""
        return all(x is None or x() is not None for x in self._references)
