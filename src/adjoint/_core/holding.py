"""Tensors that native code reads: checked and held before each run, and given back after it.

Native code runs without the interpreter's lock. What it reads is held by a reference to each array,
as eager ops do: whoever is about to overwrite one (see `exclusive` of the CPU's backend) then finds
it shared. Captured tensors themselves are held weakly.

One native call checks all entries and takes the references. Python looks again at what that turns
down, and decides: an array may have an equal dtype in another object, and the array of `x.data` is
another tensor's. Where objects aren't as native code reads them Python does all of it.
"""

import weakref
from collections.abc import Sequence
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np

from ..backends.cpu import exclusive
from ..backends.cpu.jit.addresses import HEADER, address
from ..backends.launches import Layout
from .native_holding import GRADIENT, LEAF, NO_GRADIENT, RESULT, VALUE, native
from .native_objects import ALIGNED
from .tensor import Tensor

NOTHING = Layout((), (), np.dtype(bool), False)  # for an entry without an array


class Expected(NamedTuple):
    """What a tensor's array has to be.

    `requires_grad` and `is_leaf` are the tensor's. `of_grad`: the array is that of its gradient
    instead, and of the tensor nothing else is asked; without a layout there may be no gradient.
    """

    layout: Layout | None
    requires_grad: bool = False
    of_grad: bool = False
    is_leaf: bool = True

    @property
    def kind(self) -> int:
        if self.of_grad:
            return NO_GRADIENT if self.layout is None else GRADIENT
        if not self.requires_grad:
            return VALUE
        return LEAF if self.is_leaf else RESULT

    def fits(self, tensor: Tensor, array: Any) -> bool:
        """Whether a tensor with this array, which is None if it has none, is as expected."""
        x = self.layout
        if x is None:
            return array is None
        return (
            (self.of_grad or self.is_of_kind(tensor))
            and type(array) is np.ndarray
            and (array.shape, array.dtype) == (x.shape, x.dtype)
            and (array.flags.aligned or not x.aligned)
            and steps(array.strides, x) == steps(x.strides, x)
        )

    def is_of_kind(self, tensor: Tensor) -> bool:
        return (tensor.requires_grad, tensor.is_leaf) == (self.requires_grad, self.is_leaf)


def steps(strides: Sequence[int], layout: Layout) -> list[int]:
    """The strides that matter: those of axes that have a second element; others are 0."""
    return [s if n > 1 and layout.size else 0 for n, s in zip(layout.shape, strides, strict=True)]


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
        for place, one in enumerate(expected):
            if one.layout is None:
                addresses[place] = 0
        self._words = self._tables()
        self._enter, self._leave = native(self._words[0])

    def _tables(self) -> tuple[np.ndarray, ...]:
        """Memory for native code: the table, layouts, arrays held, and pointers to arguments."""
        first, layouts = layout_words([one.layout or NOTHING for one in self._expected])
        held = np.zeros_like(self.shared)
        given = np.zeros(1 + self._references.count(None), np.int64)
        argument = count(address(given), 8)
        lines = [
            (
                next(argument) if reference is None else id(reference) + HEADER,
                expected.kind,
                address(layouts) + 8 * place,
                -1,
                -1,
            )
            for expected, reference, place in zip(
                self._expected, self._references, first, strict=True
            )
        ]
        outputs = address(self._addresses), address(self.shared), address(held)
        head = len(lines), *outputs, id(None), id(np.ndarray), address(given), len(given) - 1
        return np.array([*head, *chain(*lines)], np.int64), layouts, held, given

    def enter(self, arguments: Sequence[Tensor]) -> int:
        """Hold all arrays; returns -1, or the place of the first that doesn't fit: none is held
        then."""
        if self._enter is not None and self._enter(tuple(arguments)) < 0:
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
            if expected.layout is not None:
                # Held by its tensor and once by the list: twice if it has two places.
                owned = arrays[place].flags.owndata and exclusive(arrays[place], 2)
                self._addresses[place] = arrays[place].__array_interface__["data"][0]
                self.shared[place] = not owned
        self._arrays = arrays
        return -1

    def leave(self) -> None:
        """Give back the arrays that are held, whatever their tensors have by now.

        Nothing happens if none is held, so that a `finally` may always call it, also where Ctrl-C
        came before `enter` could return.
        """
        if self._leave is not None:
            self._leave()
        if self._arrays:
            self._arrays = []

    def __del__(self) -> None:
        """Where Ctrl-C came before `leave` could do anything."""
        if "_leave" in vars(self):
            self.leave()


def layout_words(layouts: Sequence[Layout]) -> tuple[list[int], np.ndarray]:
    """Layouts as native code compares them, equal ones once, and where in these words each is."""
    words: list[int] = []
    first: dict[tuple[int, Layout], int] = {}
    for x in layouts:
        if first.setdefault((id(x.dtype), x), len(words)) == len(words):
            masks = [-1] * x.ndim + [-bool(s) for s in steps([1] * x.ndim, x)]
            axes = np.array([(*x.shape, *x.strides), masks], np.int64).reshape(2, -1, 2)
            words += [id(x.dtype), x.ndim, ALIGNED if x.aligned else 0]
            words += axes.swapaxes(0, 1).ravel().tolist()
    return [first[id(x.dtype), x] for x in layouts], np.array(words, np.int64)
