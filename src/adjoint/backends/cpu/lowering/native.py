"""Launches of machine code: how kernels are made of templates, and words of names."""

import functools
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from ...launches import Launch, Lowering, Number, Status, View
from ..jit.addresses import address
from ..jit.compiler import compiled
from ..jit.runner import NativeKernel

# How machine code calls elements of a size, which it moves, and those of a dtype, which it adds.
BY_SIZE = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}
KINDS = {"f4": "float", "f8": "double", "i4": "i32", "u4": "i32", "i8": "i64", "u8": "i64"}
BY_DTYPE = {np.dtype(name): kind for name, kind in KINDS.items()}
FLOATS = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}


@functools.cache
def kernel_of(template: Callable[..., Any], *options: Any) -> NativeKernel:
    """The kernel that a template writes."""
    written = template(*options)
    code = compiled(str(written), written.function)
    return NativeKernel(template.__name__, code, tuple(written.names))


def chunks_of(step: int, total: int) -> int:
    return -(-total // step)


Words = dict[str, Any]  # of a launch, by name


class NativeLowering(Lowering):
    """The launches of an op on the CPU."""

    @property
    def views(self) -> list[View]:
        """The operands that are there."""
        return [x for x in self.operands if x is not None]

    def launch(
        self,
        kernel: NativeKernel,
        chunks: int,
        words: Words,
        overwrites: tuple[tuple[int, int], ...] = (),
    ) -> None:
        """Append a launch. Words are numbers, or what stands for some: a view for its address, a
        `Number` of the run, a table of numbers for the address of that; for the word "status", what
        it means if it isn't 0 afterwards."""
        if len(words) != len(kernel.words):
            raise TypeError(f"{kernel.name} has the words {kernel.words}, got {[*words]}")
        values, addresses, numbers, tables = [], [], [], []
        status = None
        for position, word in enumerate(kernel.words):
            value = words[word]
            if word == "status":
                status, value = Status(position, value), 0
            elif isinstance(value, View):
                addresses.append((position, value.slot, value.offset))
                value = 0
            elif isinstance(value, Number):
                numbers.append((position, value))
                value = 0
            elif isinstance(value, np.ndarray):
                tables.append(value)
                value = address(value)
            values.append(value)
        self.launches.append(
            Launch(
                kernel,
                struct.pack(f"{len(values)}q", *values),
                tuple(addresses),
                tuple(numbers),
                chunks,
                overwrites=overwrites,
                status=status,
                tables=tuple(tables),
            )
        )
