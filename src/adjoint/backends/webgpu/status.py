"""What was wrong with data on the device, where nobody waits for it: it is raised at the next read.

A program that meets, say, a singular matrix writes NaNs in its place, and what it found into an
array with a word for each matrix: 0 if all is well. The array is reported here, on the device: the
first word that isn't 0 is kept, and its position.
"""

from typing import Any

import numpy as np

from ..._foundation.errors import ArgumentError, IndexingError
from .arrays import Array, Ints
from .programs import wgsl

WORD = np.dtype("u4")
STATUS = -1  # in the place of an array: the device's own, for what programs find
MOST = 64  # kinds of complaints between two looks
FIRST = 4  # words before theirs
SIZE = FIRST + 2 * MOST

REPORT = wgsl(
    "report",
    "found -> status first",
    "count place",
    declarations="var<workgroup> left: atomic<u32>;  // from the first that isn't 0 to the end",
    workgroup=256,
)("""
    if (lane == 0u) { atomicStore(&left, 0u); }
    workgroupBarrier();
    for (var i = lane; i < p.count; i += 256u) {
        if (found[i] != 0u) {
            atomicMax(&left, p.count - i);
            break;
        }
    }
    workgroupBarrier();
    if (lane == 0u && group == 0u) {
        let rest = atomicLoad(&left);
        first[0] = 0u;
        if (rest != 0u) {
            let i = p.count - rest;
            first[0] = found[i];
            if (status[2u * p.place] == 0u) {
                status[2u * p.place] = i + 1u;
                status[2u * p.place + 1u] = found[i];
            }
        }
    }""")


class Status:
    """What was found since the last look. The first words say how often an index was out of range,
    the first that was, the length of its axis, and whether it has no sign; then come two for each
    complaint: the number of the first matrix that has it, counted from 1, and what was found there.

    `is_due`: something was launched that may have found something.
    """

    def __init__(self, gpu: Any) -> None:
        self.gpu = gpu
        self.is_due = False
        self.complaints: dict[tuple, int] = {}  # what makes the error -> where its words are
        self._array: Array | None = None

    @property
    def array(self) -> Array:
        array = self._array
        if array is None:
            array = self._array = self.gpu.send(np.zeros(SIZE, WORD))
        return array

    def place_of(self, complaint: tuple | None) -> int:
        """Where the words of a complaint, which is now due, are; None is about indices."""
        self.is_due = True
        if complaint is None:
            return 0
        if complaint not in self.complaints and len(self.complaints) == MOST:
            self.gpu.read(self.array)  # which looks
            self.is_due = True
        return FIRST // 2 + self.complaints.setdefault(complaint, len(self.complaints))

    def examine(self, found: np.ndarray) -> None:
        """Look at the words, as they were read: raise what they say."""
        complaints, self.complaints, self.is_due = list(self.complaints), {}, False
        failed = np.flatnonzero(found[FIRST::2])
        if not found[0] and not len(failed):
            return
        handle = self.array.memory.buffer.handle
        self.gpu.queue.write_buffer(handle, 0, np.zeros(SIZE, WORD))
        errors: list[Exception] = [out_of_range(self.gpu.name, found)] if found[0] else []
        for k in failed:
            describe, *args = complaints[k]
            index, word = found[FIRST + 2 * k :][:2].tolist()
            errors.append(describe(*args, index - 1, word))
        for other in errors[1:]:
            errors[0].add_note(f"And: {other}")
        raise errors[0]


def out_of_range(device: str, found: np.ndarray) -> IndexingError:
    index, length, unsigned = found[1:4].tolist()
    index -= 0 if unsigned else index >> 31 << 32
    return IndexingError(
        f"an index given to {device} was out of range: {index} for an axis of length {length}. It "
        "is found out now, as data is read: a device computes while the program goes on. What came "
        "of it since data was last read is wrong"
    )


def refusal(name: str, shape: Ints, index: int, complaint: str) -> ArgumentError:
    """The error of one matrix, the index-th, in an array of a shape; found after the call."""
    batch = shape[:-2]
    place = tuple(map(int, np.unravel_index(index, batch)))
    which = f"matrix {place} in a tensor" if batch else "the matrix"
    return ArgumentError(f"{name}: {which} of shape {shape} {complaint}")
