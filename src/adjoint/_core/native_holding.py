"""The native half of `holding`: a table of entries, and the functions that go through it.

Native code works on int64 words. A table has those named by `TABLE`, then for each entry those of
`ENTRY`. `where` is the address of the word that has the tensor's address. That of a captured tensor
is in its weak reference, where None follows as soon as the tensor begins to die: no callback is
needed, whose Python code an interrupt could keep from running. `layout` points to words named by
`LAYOUT`, which equal layouts share; then come the lengths of axes and their strides, which NumPy
has one after the other, two words at a time, each pair with a pair of masks: -1 where they matter.
`tensor` and `array` are what the run before found, mostly what this one finds: then the processor
needn't wait for an address before it loads what is there, a sixth of the time.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from ..backends.cpu.jit.compiler import compiled
from ..backends.cpu.jit.handler import NO_ARGUMENTS, ONE_ARGUMENT, builtin
from ..kernels.text import Function
from .native_objects import ALIGNED, C_CONTIGUOUS, OWNS, WRITEABLE, are_possible, part, places

TABLE = ("count", "addresses", "shared", "held", "none", "ndarray", "given", "arguments")
ENTRY = ("where", "kind", "layout", "tensor", "array")
LAYOUT = ("dtype", "ndim", "required")
# Kinds: the array of a tensor without a node, of a leaf, of a result, of a gradient; none of that.
VALUE, LEAF, RESULT, GRADIENT, NO_GRADIENT = range(5)
PLAIN = C_CONTIGUOUS | OWNS | ALIGNED | WRITEABLE
PAIR, PAIRS = "<2 x i64>", "[2 x i64]"


def native(table: np.ndarray) -> tuple[Callable | None, Callable | None]:
    """Two functions of a table: `enter` takes a tuple of arguments, holds the arrays of all entries
    and returns -1, or an entry that doesn't fit; `leave` gives them back. None where there can't be
    any."""
    if not are_possible():
        return None, None
    enter, leave = (compiled(methods(), name) for name in ("enter", "leave"))
    return builtin(enter, ONE_ARGUMENT, table), builtin(leave, NO_ARGUMENTS, table)


# References are counted here, as calling Python's functions for each takes as long as all the rest;
# but what goes with the last one Python frees.


@functools.cache
def methods() -> str:
    """The module of `enter` and `leave`, methods of an array that is a table."""
    enter = Function("enter(ptr %self, ptr %arguments)", result="ptr")
    table = part(enter, "%self", "data")
    expected = enter.load(table, "i64", TABLE.index("arguments"))
    is_other = enter.compare("ne", part(enter, "%arguments", "size", "i64"), expected)
    number = "PyLong_FromLongLong"
    with enter.when(is_other):
        enter.give_if("true", enter.call("ptr", number, "i64 0"))
    given = enter.load(table, "ptr", TABLE.index("given"))
    with enter.loop("0", expected) as k:
        items = enter.at("%arguments", "i64", places()["items"])
        enter.store(enter.load(items, "i64", k), given, "i64", k)
    misfit = enter.new(f"call i64 @hold(ptr {table})")
    with enter.when(enter.compare("sge", misfit, 0)):
        enter.line(f"call void @give_back(ptr {table})")
    enter.give(enter.call("ptr", number, f"i64 {misfit}"))
    leave = Function("leave(ptr %self, ptr %nothing)", result="ptr")
    leave.line(f"call void @give_back(ptr {part(leave, '%self', 'data')})")
    leave.give(leave.call("ptr", number, "i64 0"))
    enter.others += hold(), note_sharing(), give_back(), leave
    return str(enter)


class Entry(NamedTuple):
    """An entry in a loop over all: its place, and pointers to its words and to what it tells."""

    place: str
    line: str
    address: str
    shared: str
    held: str


@contextmanager
def entries(t: Function) -> Iterator[Entry]:
    """A loop over all entries of %table."""
    first = t.at("%table", "i64", len(TABLE))
    columns = [t.load("%table", "ptr", TABLE.index(x)) for x in ("addresses", "shared", "held")]
    with t.loop("0", t.load("%table", "i64", TABLE.index("count"))) as k:
        line = t.at(first, f"[{len(ENTRY)} x i64]", k)
        yield Entry(k, line, *(t.at(x, "i64", k) for x in columns))


def hold() -> Function:
    """Look for the array of each entry and hold it; returns -1, or the first that doesn't fit.

    The program may overwrite an array that nobody but its tensor refers to, and that isn't lent by
    something. One more reference may be that of an entry before, of which this was said wrongly.
    """
    t = Function("hold(ptr %table)", result="i64")
    none, ndarray = (t.load("%table", "ptr", TABLE.index(x)) for x in ("none", "ndarray"))
    doubt = t.alloca("i64")
    t.store("0", doubt, "i64")
    with entries(t) as entry:
        kind = t.load(entry.line, "i64", ENTRY.index("kind"))
        where = t.load(entry.line, "ptr", ENTRY.index("where"))
        tensor = guessed(t, t.load(where, "ptr"), entry, "tensor", none)
        node = part(t, tensor, "node")
        is_constant = t.new(f"icmp eq ptr {node}, {none}")
        refused_kind = t.new(f"zext i1 {is_constant} to i64")  # VALUE with a node, or LEAF without
        t.give_if(t.compare("eq", kind, refused_kind), entry.place)
        with t.when(t.compare("ult", t.sub(kind, LEAF), RESULT)):
            t.give_if(is_constant, entry.place)
            t.give_if(t.new(f"icmp eq ptr {node}, null"), entry.place)  # `x.data` looks elsewhere
            is_leaf = t.new(f"icmp eq ptr {part(t, node, 'plan')}, {none}")
            to_be_leaf = t.compare("eq", kind, LEAF)
            t.give_if(t.new(f"xor i1 {is_leaf}, {to_be_leaf}"), entry.place)
        owner = gradient_or(t, tensor, entry, kind, none)
        with t.when(t.compare("ne", kind, NO_GRADIENT)):
            array = guessed(t, part(t, owner, "raw"), entry, "array", "null")
            t.give_if(t.new(f"icmp ne ptr {part(t, array, 'type')}, {ndarray}"), entry.place)
            flags = part(t, array, "flags", "i32")
            refuse_layout(t, entry, array, flags)
            t.store(array, entry.held, "ptr")
            t.store(part(t, array, "data", "i64"), entry.address, "i64")
            references = part(t, array, "references", "i64")
            t.store(t.add(references, 1), array, "i64", places()["references"])
            t.store("0", entry.shared, "i64")
            is_lent = t.new(f"icmp ne ptr {part(t, array, 'base')}, null")
            is_odd = t.new(f"icmp ne i32 {t.new(f'and i32 {flags}, {PLAIN}')}, {PLAIN}")
            is_known = t.compare("ne", references, 1)
            for reason in (is_lent, is_odd, is_known):  # branches take less time than an `or`
                with t.when(reason):
                    t.store("1", entry.shared, "i64")
            with t.when(is_known):
                t.store("1", doubt, "i64")
    with t.when(t.compare("ne", t.load(doubt, "i64"), 0)):
        t.line("call void @note_sharing(ptr %table)")
    t.give("-1")
    return t


def guessed(t: Function, present: str, entry: Entry, name: str, missing: str) -> str:
    """A pointer, from the entry if that still has the same one; refused if it is `missing`."""
    former = t.load(entry.line, "ptr", ENTRY.index(name))
    before = t.block
    with t.when(t.new(f"icmp ne ptr {present}, {former}")):
        t.give_if(t.new(f"icmp eq ptr {present}, {missing}"), entry.place)
        t.store(present, entry.line, "ptr", ENTRY.index(name))
        inside = t.block
    return t.new(f"phi ptr [{former}, %{before}], [{present}, %{inside}]")


def gradient_or(t: Function, tensor: str, entry: Entry, kind: str, none: str) -> str:
    """The tensor, or its gradient if the entry is that of one, which is there or isn't."""
    before = t.block
    with t.when(t.compare("sgt", kind, RESULT)):
        gradient = part(t, tensor, "_grad")
        t.give_if(t.new(f"icmp eq ptr {gradient}, null"), entry.place)
        is_none = t.new(f"icmp eq ptr {gradient}, {none}")
        to_be_none = t.compare("eq", kind, NO_GRADIENT)
        t.give_if(t.new(f"xor i1 {is_none}, {to_be_none}"), entry.place)
        inside = t.block
    return t.new(f"phi ptr [{tensor}, %{before}], [{gradient}, %{inside}]")


def refuse_layout(t: Function, entry: Entry, array: str, flags: str) -> None:
    """Dtype, axes, alignment, and two words at a time of lengths and strides are as expected."""
    layout = t.load(entry.line, "ptr", ENTRY.index("layout"))
    dtype, ndim, required = (
        t.load(layout, type, k, step="i64") for k, type in enumerate(("ptr", "i32", "i32"))
    )
    nd = part(t, array, "nd", "i32")
    other_dtype = t.new(f"icmp ne ptr {part(t, array, 'descr')}, {dtype}")
    other_ndim = t.new(f"icmp ne i32 {nd}, {ndim}")
    missing = t.new(f"icmp ne i32 {t.new(f'and i32 {flags}, {required}')}, {required}")
    wrong = t.new(f"or i1 {other_dtype}, {t.new(f'or i1 {other_ndim}, {missing}')}")
    t.give_if(wrong, entry.place)
    lengths, axes = part(t, array, "dimensions"), t.at(layout, "i64", len(LAYOUT))
    count = t.new(f"zext i32 {nd} to i64")
    behind = t.at(lengths, "i64", count)
    t.give_if(t.new(f"icmp ne ptr {part(t, array, 'strides')}, {behind}"), entry.place)
    with t.carrying("0", count, 1, (PAIR, "zeroinitializer")) as axis:
        both = t.load(t.at(lengths, PAIRS, axis.index), "i64", count=2)
        expected = t.at(axes, f"[2 x {PAIRS}]", axis.index)
        differing = t.new(f"xor {PAIR} {both}, {t.load(expected, 'i64', count=2)}")
        masked = t.new(f"and {PAIR} {differing}, {t.load(expected, 'i64', 2, count=2)}")
        axis.following = [t.new(f"or {PAIR} {axis.values[0]}, {masked}")]
    bits = t.new(f"bitcast {PAIR} {axis.values[0]} to i128")
    t.give_if(t.new(f"icmp ne i128 {bits}, 0"), entry.place)


def note_sharing() -> Function:
    """When all are held, an array that has more references than its tensor's and ours is shared."""
    t = Function("note_sharing(ptr %table)")
    with entries(t) as entry:
        array = t.load(entry.held, "ptr")
        with t.when(t.new(f"icmp ne ptr {array}, null")):
            others = t.compare("ne", part(t, array, "references", "i64"), 2)
            also = t.new(f"zext i1 {others} to i64")
            t.store(t.new(f"or i64 {t.load(entry.shared, 'i64')}, {also}"), entry.shared, "i64")
    return t


def give_back() -> Function:
    t = Function("give_back(ptr %table)")
    with entries(t) as entry:
        array = t.load(entry.held, "ptr")
        with t.when(t.new(f"icmp ne ptr {array}, null")):
            t.store("null", entry.held, "ptr")  # first, as what dies may run Python code
            references = part(t, array, "references", "i64")
            with t.when(t.compare("eq", references, 1)):
                t.call("void", "Py_DecRef", f"ptr {array}")
            with t.when(t.compare("ne", references, 1)):
                t.store(t.sub(references, 1), array, "i64", places()["references"])
    return t
