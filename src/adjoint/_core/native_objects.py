"""Where native code finds the parts of Python's, NumPy's and our objects, and the look at such
objects that tells, once, whether they are there."""

import functools
import sysconfig
import weakref

import numpy as np

from ..backends.cpu.jit.addresses import HEADER, MEMORY, are_where_expected
from ..backends.cpu.jit.availability import available
from ..backends.cpu.jit.handler import supported
from ..kernels.text import Function
from .node import Node
from .tensor import Tensor, new_tensor

FIRST = HEADER // 8  # the word in which an object's own parts begin
ARRAY = ("data", "nd", "dimensions", "strides", "base", "descr", "flags")
SLOTS = {Tensor: ("_grad", "node", "raw"), Node: ("plan",)}  # by class
C_CONTIGUOUS, OWNS, ALIGNED, WRITEABLE = 1, 4, 0x100, 0x400  # flags of NumPy's arrays
LOW = (1 << 32) - 1


@functools.cache
def places() -> dict[str, int]:
    """In which word of objects each part is: of any, of arrays, tuples, tensors and nodes."""
    of_arrays = {name: FIRST + k for k, name in enumerate(ARRAY)}
    return {"references": 0, "type": 1, "size": FIRST, "items": FIRST + 1} | of_arrays | slots()


def part(t: Function, thing: str, name: str, kind: str = "ptr") -> str:
    """Load a part of an object in a native function."""
    return t.load(thing, kind, places()[name], step="i64")


@functools.cache
def are_possible() -> bool:
    """Whether native code can read objects here."""
    return available() and supported() and objects_are_as_read()


def objects_are_as_read() -> bool:
    """Whether parts of arrays, tensors, tuples and weak references are where they are read."""
    if not are_where_expected() or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    cube, frozen, unaligned = np.zeros((2, 3, 4)), np.ones(2), np.zeros(17, "u1")[1:].view("f4")
    frozen.flags.writeable = False
    arrays = [cube, cube.T, cube[:, ::-2], frozen, unaligned, np.empty((0, 2)), np.array(1)]
    pair = cube, frozen
    return (
        len(slots()) == sum(map(len, SLOTS.values()))
        and words(id(pair), FIRST, 3) == [2, id(cube), id(frozen)]
        and weak_references_are_as_read()
        and references_are_as_counted()
        and all(map(is_as_read, arrays))
    )


def words(address: int, first: int, count: int) -> list[int]:
    """Words of what is at an address, as objects are at their ids."""
    place = (address >> 3) + first
    return MEMORY[place : place + count]


def slots() -> dict[str, int]:
    """In which words objects, also of a subclass, have their slots: those that are found."""
    out: dict[str, int] = {}
    for cls, names in SLOTS.items():
        thing = cls.__new__(cls)
        for name in names:
            setattr(thing, name, object())
        found = words(id(thing), 0, cls.__basicsize__ // 8)
        ids = {name: id(getattr(thing, name)) for name in names}
        out |= {name: found.index(x) for name, x in ids.items() if found.count(x) == 1}
    return out


def weak_references_are_as_read() -> bool:
    tensor = new_tensor(Tensor)
    reference, before = weakref.ref(tensor), id(tensor)
    while_alive = words(id(reference), FIRST, 1)
    del tensor
    return while_alive == [before] and words(id(reference), FIRST, 1) == [id(None)]


def references_are_as_counted() -> bool:
    holders = [np.empty(1)]
    once = words(id(holders[0]), 0, 1)
    holders += holders
    return once == [1] and words(id(holders[0]), 0, 1) == [2]


def is_as_read(x: np.ndarray) -> bool:
    """Whether the words of an array agree with its attributes."""
    data, nd, dimensions, strides, base, descr, flags = words(id(x), FIRST, len(ARRAY))
    return (
        words(id(x), 1, 1) == [id(np.ndarray)]
        and (data, nd & LOW) == (x.__array_interface__["data"][0], x.ndim)
        and words(dimensions, 0, x.ndim) == list(x.shape)
        and words(strides, 0, x.ndim) == [s % (1 << 64) for s in x.strides]
        and (base, descr) == (0 if x.base is None else id(x.base), id(x.dtype))
        and flags & LOW == x.flags.num
    )
