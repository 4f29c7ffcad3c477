"""Calls of a function from another library, one for each matrix of a batch, as LLVM IR.

Its arguments are pointers, as Fortran has them. Words: the function, the number of calls, calls for
each chunk, then for each argument where it is in the first call, and the bytes to the next.
"""

from .template import Template


def calls(arguments: int) -> str:
    t = Template("calls")
    (function,) = t.words("ptr", 1)
    total, group = t.words("i64", 2)
    places = [(*t.words("ptr", 1), *t.words("i64", 1)) for _ in range(arguments)]
    start, stop = t.part(group, total)
    with t.loop(start, stop) as call:
        given = [t.offset(pointer, t.product(call, step)) for pointer, step in places]
        t.line(f"call void {function}({', '.join(f'ptr {pointer}' for pointer in given)})")
    return str(t)
