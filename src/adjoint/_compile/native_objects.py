"""The native half of `objects`: LLVM IR that reads objects of Python and NumPy, and the look at
such objects that tells, once, whether their parts are where it reads them.

All they work on are arrays of int64. A table has the words named by `TABLE`, then for each entry
those named by `ENTRY`. `where` is the address of the word that has the tensor's address. That of a
captured tensor is in its weak reference, where None follows as soon as the tensor begins to die: no
callback is needed, whose Python code an interrupt could keep from running. `layout` points to words
named by `LAYOUT`, which equal layouts share; then come the lengths of axes and their strides, which
NumPy has one after the other, two words at a time, each pair with a pair of masks: -1 where they
matter. `tensor` and `array` are what the run before found, mostly what this one finds: then the
processor needn't wait for an address before it loads what is there, a sixth of the time.
"""

import functools
import re
import sysconfig
import weakref
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._core.tensor import Tensor, new_tensor
from ..backends.cpu.jit import compiler
from ..backends.cpu.jit.addresses import HEADER, MEMORY, are_where_expected
from ..backends.cpu.jit.availability import available
from ..backends.cpu.jit.handler import NO_ARGUMENTS, ONE_ARGUMENT, builtin, supported

TABLE = ("count", "addresses", "shared", "held", "none", "ndarray", "doubt")
ENTRY = ("where", "kind", "layout", "tensor", "array")
LAYOUT = ("dtype", "ndim", "required")
KINDS = ("value", "value with node", "gradient", "no gradient")
ARRAY = ("data", "nd", "dimensions", "strides", "base", "descr", "flags")
SLOTS = ("_grad", "node", "raw")
C_CONTIGUOUS, OWNS, ALIGNED, WRITEABLE = 1, 4, 0x100, 0x400  # flags of NumPy's arrays
LOW = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Native:
    """The functions of a table.

    `enter` takes a tuple of arguments, whose addresses it puts where the table looks for them,
    holds the arrays of all entries and returns -1, or the first that doesn't fit.
    """

    enter: Callable[[tuple], int]
    leave: Callable[[], int]


def native(table: int, given: int, count: int) -> Native | None:
    """The functions of the table at an address, with `count` arguments at another; None where there
    can't be any."""
    if not are_possible():
        return None
    module = text()
    holder = np.array([table, given, count, id(tuple)])
    return Native(
        builtin(compiler.compiled(module, "enter_given"), ONE_ARGUMENT, holder),
        builtin(compiler.compiled(module, "leave_all"), NO_ARGUMENTS, holder),
    )


@functools.cache
def are_possible() -> bool:
    return available() and supported() and objects_are_as_read()


def objects_are_as_read() -> bool:
    """Whether parts of arrays, tensors and weak references are where they are read."""
    if not are_where_expected() or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    cube, frozen, unaligned = np.zeros((2, 3, 4)), np.ones(2), np.zeros(17, "u1")[1:].view("f4")
    frozen.flags.writeable = False
    arrays = [cube, cube.T, cube[:, ::-2], frozen, unaligned, np.empty((0, 2)), np.array(1)]
    return (
        len(slots()) == len(SLOTS)
        and weak_references_are_as_read()
        and references_are_as_counted()
        and all(is_as_read(x) for x in arrays)
    )


def words(thing: int, start: int, number: int) -> list[int]:
    """Words of the object with this id, from `start` bytes on."""
    first = thing + start >> 3
    return MEMORY[first : first + number]


def slots() -> dict[str, int]:
    """How many bytes into a tensor, also of a subclass, its slots are: those that are found."""
    tensor = new_tensor(Tensor)
    for name in SLOTS:
        setattr(tensor, name, object())
    found = words(id(tensor), 0, Tensor.__basicsize__ // 8)
    ids = {name: id(getattr(tensor, name)) for name in SLOTS}
    return {name: 8 * found.index(x) for name, x in ids.items() if found.count(x) == 1}


def weak_references_are_as_read() -> bool:
    tensor = new_tensor(Tensor)
    reference = weakref.ref(tensor)
    referent = id(tensor)
    before = words(id(reference), HEADER, 1)
    del tensor
    return before == [referent] and words(id(reference), HEADER, 1) == [id(None)]


def references_are_as_counted() -> bool:
    holders = [np.empty(1)]
    once = words(id(holders[0]), 0, 1)
    holders += holders
    return once == [1] and words(id(holders[0]), 0, 1) == [2]


def is_as_read(x: np.ndarray) -> bool:
    """Whether the words of an array are what Python says of it."""
    data, nd, dimensions, strides, base, descr, flags = words(id(x), HEADER, len(ARRAY))
    return (
        words(id(x), 8, 1) == [id(np.ndarray)]
        and (data, nd & LOW) == (x.__array_interface__["data"][0], x.ndim)
        and words(dimensions, 0, x.ndim) == list(x.shape)
        and words(strides, 0, x.ndim) == [s % (1 << 64) for s in x.strides]
        and (base, descr) == (0 if x.base is None else id(x.base), id(x.dtype))
        and flags & LOW == x.flags.num
    )


def text() -> str:
    """The module: `enter_given` and `leave_all`."""
    offsets = {"references": 0, "type": 8} | slots()
    offsets |= {name: HEADER + 8 * k for k, name in enumerate(ARRAY)}
    for names in (TABLE, ENTRY, LAYOUT):
        offsets |= {name: 8 * k for k, name in enumerate(names)}
    numbers = {
        "line": 8 * len(ENTRY),
        "head": 8 * len(TABLE),
        "axes": 8 * len(LAYOUT),
        "plain": C_CONTIGUOUS | OWNS | ALIGNED | WRITEABLE,
    }
    numbers |= {kind: k for k, kind in enumerate(KINDS)}
    bodies = {"hold": HOLD, "compare": COMPARE, "leave": LEAVE}
    module = (
        METHODS.replace("<data>", str(HEADER))
        + ENTER
        + "".join(
            LOOP.replace("<name>", name).replace("<body>", body) for name, body in bodies.items()
        )
    )
    for name, value in numbers.items():
        module = module.replace(f"<{name}>", str(value))
    return re.sub(
        r"(%[\w.]+) = (\w+) at (%\w+) (\w+)",
        lambda part: (
            f"{part[1]}.at = getelementptr i8, ptr {part[3]}, i64 {offsets[part[4]]}\n"
            f"  {part[1]} = load {part[2]}, ptr {part[1]}.at"
        ),
        module,
    )


# `%x = i64 at %object part` loads a part of an object, which is at %x.at. References are counted
# here, as calling Python's functions for each takes as long as all the rest; but what goes with the
# last one Python frees.
# Methods of an array with the addresses of a table and of arguments, and how many these are.
METHODS = """
declare ptr @PyLong_FromLongLong(i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define ptr @enter_given(ptr %self, ptr %tuple) {
  %own.at = getelementptr i8, ptr %self, i64 <data>
  %own = load ptr, ptr %own.at
  %table = load ptr, ptr %own
  %given.at = getelementptr i64, ptr %own, i64 1
  %given = load ptr, ptr %given.at
  %count.at = getelementptr i64, ptr %own, i64 2
  %count = load i64, ptr %count.at
  %kind.at = getelementptr i64, ptr %own, i64 3
  %kind = load i64, ptr %kind.at
  %type.at = getelementptr i64, ptr %tuple, i64 1
  %type = load i64, ptr %type.at
  %size.at = getelementptr i64, ptr %tuple, i64 2
  %size = load i64, ptr %size.at
  %is.tuple = icmp eq i64 %type, %kind
  %is.full = icmp eq i64 %size, %count
  %fits = and i1 %is.tuple, %is.full
  br i1 %fits, label %look, label %done
look:
  %items = getelementptr i64, ptr %tuple, i64 3
  %bytes = mul i64 %count, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %given, ptr %items, i64 %bytes, i1 false)
  %misfit = call i64 @enter(ptr %table)
  br label %done
done:
  %place = phi i64 [0, %0], [%misfit, %look]
  %out = call ptr @PyLong_FromLongLong(i64 %place)
  ret ptr %out
}

define ptr @leave_all(ptr %self, ptr %nothing) {
  %own.at = getelementptr i8, ptr %self, i64 <data>
  %own = load ptr, ptr %own.at
  %table = load ptr, ptr %own
  %left = call i64 @leave(ptr %table)
  %out = call ptr @PyLong_FromLongLong(i64 %left)
  ret ptr %out
}
"""

ENTER = """
declare void @Py_DecRef(ptr)

define i64 @enter(ptr %table) {
  %doubt = i64 at %table doubt
  store i64 0, ptr %doubt.at
  %misfit = call i64 @hold(ptr %table)
  %fit = icmp slt i64 %misfit, 0
  br i1 %fit, label %all, label %none
all:
  %any.doubt = load i64, ptr %doubt.at
  %is.sure = icmp eq i64 %any.doubt, 0
  br i1 %is.sure, label %done, label %compare
compare:
  call i64 @compare(ptr %table)
  br label %done
done:
  ret i64 -1
none:
  call i64 @leave(ptr %table)
  ret i64 %misfit
}
"""

# A body goes to %following, or to %bad, which ends the loop.
LOOP = """
define i64 @<name>(ptr %table) {
start:
  %count = i64 at %table count
  %none = ptr at %table none
  %ndarray = ptr at %table ndarray
  %addresses = ptr at %table addresses
  %shared = ptr at %table shared
  %helds = ptr at %table held
  %first = getelementptr i8, ptr %table, i64 <head>
  br label %next
next:
  %k = phi i64 [0, %start], [%following.k, %following]
  %line = phi ptr [%first, %start], [%following.line, %following]
  %address.at = getelementptr i64, ptr %addresses, i64 %k
  %share.at = getelementptr i64, ptr %shared, i64 %k
  %held.at = getelementptr i64, ptr %helds, i64 %k
  %more = icmp slt i64 %k, %count
  br i1 %more, label %body, label %end
body:<body>
following:
  %following.k = add i64 %k, 1
  %following.line = getelementptr i8, ptr %line, i64 <line>
  br label %next
bad:
  ret i64 %k
end:
  ret i64 -1
}
"""

# Find the array of an entry, unless there is to be no gradient; compare two words of its lengths
# and strides at a time. Hold it, say where its elements start, and whether the program may
# overwrite them: not with a reference beside the tensor's, nor if they were lent by something. One
# more reference leaves a doubt: it may be of an entry before, which would be wrong then.
HOLD = """
  %where = ptr at %line where
  %present = load ptr, ptr %where
  %former = ptr at %line tensor
  %is.former = icmp eq ptr %present, %former
  br i1 %is.former, label %living, label %other.tensor
other.tensor:
  %dead = icmp eq ptr %present, %none
  br i1 %dead, label %bad, label %new.tensor
new.tensor:
  store ptr %present, ptr %former.at
  br label %living
living:
  %given = phi ptr [%former, %body], [%present, %new.tensor]
  %kind = i64 at %line kind
  %node = ptr at %given node
  %is.constant = icmp eq ptr %node, %none
  switch i64 %kind, label %gradient [
    i64 <value>, label %constant
    i64 <value with node>, label %variable
  ]
constant:
  br i1 %is.constant, label %tensor, label %bad
variable:
  br i1 %is.constant, label %bad, label %tensor
gradient:
  %grad = ptr at %given _grad
  %unset = icmp eq ptr %grad, null
  br i1 %unset, label %bad, label %set
set:
  %is.missing = icmp eq ptr %grad, %none
  %missing = icmp eq i64 %kind, <no gradient>
  %as.asked = icmp eq i1 %is.missing, %missing
  br i1 %as.asked, label %asked, label %bad
asked:
  br i1 %missing, label %nothing, label %tensor
nothing:
  store i64 0, ptr %address.at
  store i64 1, ptr %share.at
  br label %following
tensor:
  %owner = phi ptr [%given, %constant], [%given, %variable], [%grad, %asked]
  %present.raw = ptr at %owner raw
  %former.raw = ptr at %line array
  %is.former.raw = icmp eq ptr %present.raw, %former.raw
  br i1 %is.former.raw, label %object, label %other.raw
other.raw:
  %empty = icmp eq ptr %present.raw, null
  br i1 %empty, label %bad, label %new.raw
new.raw:
  store ptr %present.raw, ptr %former.raw.at
  br label %object
object:
  %raw = phi ptr [%former.raw, %tensor], [%present.raw, %new.raw]
  %type = ptr at %raw type
  %is.array = icmp eq ptr %type, %ndarray
  br i1 %is.array, label %array, label %bad
array:
  %descr = ptr at %raw descr
  %layout = ptr at %line layout
  %dtype = ptr at %layout dtype
  %same.dtype = icmp eq ptr %descr, %dtype
  %nd = i32 at %raw nd
  %ndim = i32 at %layout ndim
  %same.ndim = icmp eq i32 %nd, %ndim
  %same = and i1 %same.dtype, %same.ndim
  %flags = i32 at %raw flags
  %plain.flags = and i32 %flags, <plain>
  %is.plain = icmp eq i32 %plain.flags, <plain>
  br i1 %same, label %similar, label %bad
similar:
  br i1 %is.plain, label %lengths, label %other
other:
  %required = i32 at %layout required
  %fulfilled = and i32 %flags, %required
  %as.required = icmp eq i32 %fulfilled, %required
  br i1 %as.required, label %lengths, label %bad
lengths:
  %dimensions = ptr at %raw dimensions
  %strides = ptr at %raw strides
  %behind = getelementptr i64, ptr %dimensions, i32 %nd
  %is.behind = icmp eq ptr %strides, %behind
  %axes = getelementptr i8, ptr %layout, i64 <axes>
  br i1 %is.behind, label %axis, label %bad
axis:
  %i = phi i32 [0, %lengths], [%following.i, %compare]
  %different = phi <2 x i64> [zeroinitializer, %lengths], [%differ, %compare]
  %some = icmp slt i32 %i, %nd
  br i1 %some, label %compare, label %compared
compare:
  %expected.at = getelementptr [2 x <2 x i64>], ptr %axes, i32 %i
  %expected = load <2 x i64>, ptr %expected.at, align 8
  %matters.at = getelementptr <2 x i64>, ptr %expected.at, i32 1
  %matters = load <2 x i64>, ptr %matters.at, align 8
  %both.at = getelementptr <2 x i64>, ptr %dimensions, i32 %i
  %both = load <2 x i64>, ptr %both.at, align 8
  %deviation = xor <2 x i64> %both, %expected
  %counted = and <2 x i64> %deviation, %matters
  %differ = or <2 x i64> %different, %counted
  %following.i = add i32 %i, 1
  br label %axis
compared:
  %bits = bitcast <2 x i64> %different to i128
  %fits = icmp eq i128 %bits, 0
  br i1 %fits, label %fitting, label %bad
fitting:
  store ptr %raw, ptr %held.at
  %data = i64 at %raw data
  store i64 %data, ptr %address.at
  %references = i64 at %raw references
  %more.references = add i64 %references, 1
  store i64 %more.references, ptr %references.at
  %is.alone = icmp eq i64 %references, 1
  %base = ptr at %raw base
  %is.own = icmp eq ptr %base, null
  br i1 %is.plain, label %plain, label %not.free
plain:
  br i1 %is.own, label %own, label %not.free
own:
  br i1 %is.alone, label %free, label %not.free
free:
  store i64 0, ptr %share.at
  br label %following
not.free:
  store i64 1, ptr %share.at
  br i1 %is.alone, label %following, label %doubtful
doubtful:
  %doubt = i64 at %table doubt
  store i64 1, ptr %doubt.at
  br label %following
"""

# All are held: an array has two references, the tensor's and ours, or others have one.
COMPARE = """
  %held = load ptr, ptr %held.at
  %is.none = icmp eq ptr %held, null
  br i1 %is.none, label %following, label %array
array:
  %references = i64 at %held references
  %others = icmp ne i64 %references, 2
  %also = zext i1 %others to i64
  %before = load i64, ptr %share.at
  %number = or i64 %before, %also
  store i64 %number, ptr %share.at
  br label %following
"""

# The last reference may run Python code: by then the entry holds nothing.
LEAVE = """
  %held = load ptr, ptr %held.at
  %is.none = icmp eq ptr %held, null
  br i1 %is.none, label %following, label %release
release:
  store ptr null, ptr %held.at
  %references = i64 at %held references
  %is.last = icmp eq i64 %references, 1
  br i1 %is.last, label %free, label %decrement
decrement:
  %fewer = sub i64 %references, 1
  store i64 %fewer, ptr %references.at
  br label %following
free:
  call void @Py_DecRef(ptr %held)
  br label %following
"""
