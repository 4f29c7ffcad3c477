"""NumPy takes the memory of arrays from a handler, four functions that can be replaced (NEP 49).

An array remembers the handler that it got its memory from, and gives it back there when it dies,
wherever that is. So arrays from a handler of ours own their memory like all others.
"""

import ctypes
import functools
import sys
from collections.abc import Callable
from string import Template

import numpy as np

from .compiler import compiled

SET_HANDLER = 304  # the place of PyDataMem_SetHandler in the C interface of NumPy 2
FASTCALL_WITH_KEYWORDS = 0x80 | 0x02
NO_ARGUMENTS, ONE_ARGUMENT = 0x04, 0x08

# call(function, *args, **kwargs), a method of the array that holds the two pointers. Because no
# Python code comes between, no interrupt can leave the handler in place.
CALL = Template("""
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)
declare void @Py_DecRef(ptr)

define internal void @put_back(ptr %set, ptr %former) {
  %ours = call ptr %set(ptr %former)
  call void @Py_DecRef(ptr %ours)
  call void @Py_DecRef(ptr %former)
  ret void
}

define ptr @call(ptr %self, ptr %arguments, i64 %count, ptr %keywords) {
start:
  %type = alloca ptr
  %value = alloca ptr
  %traceback = alloca ptr
  %pointers_place = getelementptr i8, ptr %self, i64 $head
  %pointers = load ptr, ptr %pointers_place
  %set = load ptr, ptr %pointers
  %handler_place = getelementptr ptr, ptr %pointers, i64 1
  %handler = load ptr, ptr %handler_place
  %former = call ptr %set(ptr %handler)
  %refused = icmp eq ptr %former, null
  br i1 %refused, label %none, label %run
none:
  ret ptr null
run:
  %function = load ptr, ptr %arguments
  %rest = getelementptr ptr, ptr %arguments, i64 1
  %number = sub i64 %count, 1
  %result = call ptr @PyObject_Vectorcall(ptr %function, ptr %rest, i64 %number, ptr %keywords)
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %error, label %right
error:
  call void @PyErr_Fetch(ptr %type, ptr %value, ptr %traceback)
  call void @put_back(ptr %set, ptr %former)
  %t = load ptr, ptr %type
  %v = load ptr, ptr %value
  %b = load ptr, ptr %traceback
  call void @PyErr_Restore(ptr %t, ptr %v, ptr %b)
  ret ptr null
right:
  call void @put_back(ptr %set, ptr %former)
  ret ptr %result
}
""")


OBJECT, POINTER, TEXT = ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p


class Allocator(ctypes.Structure):
    _fields_ = [(name, POINTER) for name in ("context", "malloc", "calloc", "realloc", "free")]


class Handler(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("allocator", Allocator),
    ]


class Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = [("name", TEXT), ("function", POINTER), ("flags", ctypes.c_int), ("doc", TEXT)]


def supported() -> bool:
    """Whether handlers can be set here. The pool's blocks need POSIX besides."""
    return (
        sys.implementation.name == "cpython"
        and sys.platform != "win32"
        and ctypes.sizeof(ctypes.c_void_p) == 8
        and np.__version__.partition(".")[0] == "2"
    )


def python(name: str, result: type | None, *arguments: type) -> Callable:
    """A function of Python's C interface."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


def keep_for_ever(*things: object) -> None:
    """Not even at exit, when modules are cleared, does this memory go: arrays live longer."""
    python("Py_IncRef", None, OBJECT)(things)


def set_handler_address() -> int:
    pointer = python("PyCapsule_GetPointer", POINTER, OBJECT, TEXT)
    table = pointer(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
    return ctypes.cast(table, ctypes.POINTER(POINTER))[SET_HANDLER]


def caller(name: str, context: int, functions: dict[str, int]) -> Callable:
    """A function that calls another, whose arrays get their memory from these functions:
    malloc, calloc, realloc and free, as PyDataMem_Handler has them."""
    handler = Handler(name.encode(), 1, Allocator(context, **functions))
    new_capsule = python("PyCapsule_New", OBJECT, POINTER, TEXT, POINTER)
    capsule_name = b"mem_handler"
    capsule = new_capsule(ctypes.addressof(handler), capsule_name, None)
    # An array, because the place where an array has its data is part of NumPy's binary interface.
    pointers = np.array([set_handler_address(), id(capsule)], np.int64)
    text = CALL.substitute(head=object.__basicsize__)
    keep_for_ever(handler, capsule_name, capsule, pointers)
    return builtin(compiled(text, "call"), FASTCALL_WITH_KEYWORDS, pointers)


def builtin(function: int, flags: int, holder: np.ndarray) -> Callable:
    """The C function at an address as a function of Python's: a method of an array, whose words it
    works on. A call takes a fifth of what it takes through ctypes."""
    new_function = python("PyCFunction_NewEx", OBJECT, POINTER, OBJECT, POINTER)
    return new_function(ctypes.addressof(method(function, flags)), holder, None)


@functools.cache
def method(function: int, flags: int) -> Method:
    found = Method(b"call", function, flags, None)
    keep_for_ever(found)
    return found
