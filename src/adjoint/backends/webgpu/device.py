"""One adapter at work: what is recorded, when it is submitted, and how data goes in and out.

Launches are recorded into one open compute pass, which is submitted when it is full or when data is
asked for. Their words are gathered here and go to the GPU in one piece with the submission. So a
launch costs a few microseconds: it finds its pipeline and its bind group, and appends.
"""

import atexit
import math
import os
import signal
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import numpy as np

from ..._foundation.errors import DeviceError, DTypeError, KernelError
from ..._foundation.spans import observed
from ..launches import Launch, Target
from . import adapters
from .arrays import SIZES, WGSL, number_word
from .arrays import Array as AnyArray
from .buffers import Buffer, BufferPool, Memory
from .programs import Program
from .status import SIZE, WORD, Status
from .times import Times

ALIGNMENT = 256  # bytes, of the words of a launch
WINDOW = 1024  # bytes of words that a launch can see
LAUNCHES = 256  # that are submitted together, if none has more words than fit
AHEAD = 32  # submissions that the GPU may be behind
LARGEST_STAGING = 1 << 26  # bytes of the buffer for reading that is kept
MOST_GROUPS = 65535  # workgroups along one dimension
MOST_BIND_GROUPS = 1 << 14
MOST_ARRAYS = 16  # that a program may have, if the adapter has as many; 8 are always there
FEATURES = ("shader-f16", "timestamp-query")
BYTES = ("max-storage-buffer-binding-size", "max-buffer-size")
STATUS_BYTES = 4 * SIZE
ADVICE = {"i": "ad.int32", "u": "ad.uint32", "f": "ad.float32"}  # by the kind of a dtype
BINDINGS = "max-storage-buffers-per-shader-stage"

put_integer, put_float = struct.Struct("<i").pack_into, struct.Struct("<f").pack_into


class Device:
    """`counts`: how often what has been done. `status`: what programs found wrong with data.
    `target`: what launches for it depend on."""

    Array: Any  # the class of its arrays

    def __init__(self, name: str, adapter: Any) -> None:
        self.name, self.adapter = name, adapter
        self.library = adapters.wgpu()
        self.lock = threading.RLock()
        self.process = os.getpid()
        self.lost: str | None = None
        self.features = [feature for feature in FEATURES if feature in adapter.features]
        self.dtypes = {d: t for d, t in WGSL.items() if t != "f16" or "shader-f16" in self.features}
        traits = {"software"} if adapter.info["adapter_type"] == "CPU" else set()
        traits |= {"f16"} & set(self.dtypes.values())
        most_arrays = min(adapter.limits[BINDINGS], MOST_ARRAYS)
        self.target = Target(name, frozenset(traits), arrays=most_arrays)
        sizes = {limit: adapter.limits[limit] for limit in BYTES}
        self.handle = adapter.request_device_sync(
            required_features=self.features,
            required_limits={**sizes, BINDINGS: most_arrays},
            label="adjoint",
        )
        self.queue = self.handle.queue
        self.pool = BufferPool(self.new_buffer, self.forget, min(sizes.values()) // 4 * 4)
        self.pipelines: dict[Program, Any] = {}
        self.by_text: dict[str, Any] = {}
        self.layouts: dict[str, tuple[Any, Any]] = {}
        self.bind_groups: dict[tuple, Any] = {}
        self.counts = dict.fromkeys(
            ("pipelines", "bind_groups", "launches", "submissions", "reads", "writes"), 0
        )
        self.encoder: Any = None
        self.open: Any = None  # the compute pass
        self.batch = 0  # the number of the submission that is being recorded
        self.launches = 0  # in it
        self.behind = 0  # submissions since the GPU was last waited for
        self.words = bytearray(LAUNCHES * ALIGNMENT + WINDOW)
        self.cursor = 0  # bytes of them that are taken
        self.times: Times | None = None
        self.status = Status(self)
        usage = self.library.BufferUsage
        self.storage = usage.STORAGE | usage.COPY_SRC | usage.COPY_DST
        self.reading = usage.MAP_READ | usage.COPY_DST
        self.staging: Any = None
        self.words_buffer = self.handle.create_buffer(
            size=len(self.words), usage=usage.UNIFORM | usage.COPY_DST | usage.COPY_SRC
        )
        self.words_layout = self.group_layout([{"type": "uniform", "has_dynamic_offset": True}])
        self.words_group = self.group(self.words_layout, [(self.words_buffer, WINDOW)])
        atexit.register(self.finish)

    # What can go wrong.

    @contextmanager
    def explaining(self, what: str) -> Iterator[None]:
        """Raise what wgpu raises as our own errors."""
        try:
            yield
        except self.library.GPUError as error:
            self.fail(what, error)

    def fail(self, what: str, error: Exception) -> NoReturn:
        text = str(error).lower()
        if "lost" in text or "parent device" in text:
            self.lost = str(error)
            self.open = self.encoder = None
            self.check()
        if isinstance(error, MemoryError) or "memory" in text:
            raise DeviceError(
                f"{self.name}: out of memory while {what}; tensors have {self.pool.in_use} bytes, "
                f"and {self.pool.idle} are idle, which ad.empty_cache() gives back"
            ) from None
        raise DeviceError(f"{self.name}: {what} failed: {error}") from None

    def check(self) -> None:
        """Raise an error if the device can't be used any more, or in this process."""
        if self.process != os.getpid():
            raise DeviceError(
                f"{self.name}: a GPU can't be used in a forked process; start that with "
                "multiprocessing.get_context('spawn')"
            )
        if self.lost is not None:
            raise DeviceError(
                f"{self.name}: the device was lost, and what was in its memory with it; start the "
                f"program again, or work on another device. The driver says: {self.lost}"
            )

    # Memory.

    def new_buffer(self, size: int) -> Any:
        """A buffer for the pool. If there is no memory left, what is idle is given up for it."""
        self.check()
        with self.explaining(f"allocating {size} bytes"):
            try:
                return self.handle.create_buffer(size=size, usage=self.storage)
            except self.library.GPUOutOfMemoryError:
                if not self.pool.release():
                    raise
            return self.handle.create_buffer(size=size, usage=self.storage)

    def forget(self, buffer: Buffer) -> None:
        """Free a buffer, after what is recorded with it has been submitted."""
        if buffer.batch == self.batch:
            self.submit()
        for key in buffer.groups:
            self.bind_groups.pop(key, None)
            for number in key[1:]:
                other = self.pool.buffers.get(number)
                if other is not None:
                    other.groups.discard(key)
        buffer.handle.destroy()

    def send(self, array: np.ndarray) -> AnyArray:
        """Copy an array of the host's to the device."""
        return self.Array(array.shape, array.dtype, self.upload(array))

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> AnyArray:
        """A new array; what is in it is left over from others."""
        return self.Array(shape, dtype, self.pool.take(math.prod(shape) * SIZES[dtype]))

    def upload(self, array: np.ndarray) -> Memory:
        """Copy the elements of an array to new memory, one after the other."""
        self.check()
        data = np.ascontiguousarray(array, np.uint32 if array.dtype.kind == "b" else array.dtype)
        if data.nbytes % 4:
            data = np.append(data.ravel(), data.dtype.type(0))
        with self.lock, self.explaining(f"copying {data.nbytes} bytes to the device"):
            memory = self.pool.take(data.nbytes)
            if memory.buffer.batch == self.batch:  # something recorded is still to use it
                self.submit()
            if data.nbytes:
                self.queue.write_buffer(memory.buffer.handle, 0, data)
            self.counts["writes"] += 1
        return memory

    def read(self, array: AnyArray) -> np.ndarray:
        """The elements as a NumPy array, after all that is recorded has been done. What programs
        have found wrong with data is raised."""
        self.check()
        if array.number is not None or not array.size:
            return np.full(array.shape, array.number or 0, array.dtype)
        stored = np.dtype("u4") if array.dtype.kind == "b" else array.dtype
        ends = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
        low = array.offset + sum(e for e in ends if e < 0)
        high = array.offset + sum(e for e in ends if e > 0) + 1
        low -= low * stored.itemsize % 4 // stored.itemsize  # copies start at multiples of 4 bytes
        flat = self.fetch(array.memory.buffer, low * stored.itemsize, high * stored.itemsize)
        steps = [s * stored.itemsize for s in array.strides]
        values = np.ndarray(
            array.shape, stored, flat, (array.offset - low) * stored.itemsize, steps
        )
        return np.array(values, array.dtype, order="C")

    def fetch(self, buffer: Buffer, start: int, stop: int) -> memoryview:
        """Read bytes of a buffer, after all that is recorded has been done."""
        size = stop - start + (start - stop) % 4
        whole = size + STATUS_BYTES
        with self.lock, undisturbed(), self.explaining("reading"):
            staging, self.staging = self.staging, None  # if it is interrupted, it stays mapped
            if staging is None or staging.size < whole:
                rounded = max(4096, 1 << (whole - 1).bit_length())
                enough = rounded if rounded <= LARGEST_STAGING else whole
                staging = self.handle.create_buffer(size=enough, usage=self.reading)
            encoder = self.handle.create_command_encoder()
            encoder.copy_buffer_to_buffer(buffer.handle, start, staging, 0, size)
            due = self.status.is_due
            if due:
                words = self.status.array.memory.buffer
                encoder.copy_buffer_to_buffer(words.handle, 0, staging, size, STATUS_BYTES)
            self.submit(encoder)
            staging.map_sync(self.library.MapMode.READ, 0, whole)
            data = staging.read_mapped(0, whole, copy=True)
            staging.unmap()
            if staging.size <= LARGEST_STAGING:
                self.staging = staging
            self.counts["reads"] += 1
            self.behind = 0
            if due:
                self.status.examine(np.frombuffer(data[size:whole], np.uint32))
        return data[:size]

    # Launches.

    def run(
        self,
        launches: Sequence[Launch],
        operands: Sequence[AnyArray],
        numbers: Any = (),
        outputs: Sequence[AnyArray] | None = None,
    ) -> list[AnyArray]:
        """Run the launches of an op on arrays, with numbers by key; results go into new memory, or
        into outputs."""
        first, kind, take = launches[0], self.Array, self.pool.take
        for x in operands:
            if type(x) is not kind:
                raise TypeError("arrays of different devices")
        if outputs is None:
            outputs = [kind(n, type, take(size), s) for n, type, s, size, _ in first.results]
        slots = [*operands, *outputs]
        if first.scratch:
            slots += [kind((), WORD, take(scratch.bytes)) for scratch in first.scratch]
        with self.lock:
            for launch in launches:
                missing = [
                    (position, offset + plus)
                    for position, slot, plus in launch.addresses
                    if (offset := slots[slot].offset)
                ]
                for position, number in launch.numbers:
                    missing.append((position, number_word(numbers[number.key], number.dtype)))
                if launch.status is not None:
                    position, meaning = launch.status
                    place = self.status.place_of(meaning)
                    missing += [(position, place)] if place else []
                    slots.append(self.status.array)  # slot STATUS
                words: Any = launch.words
                if missing:
                    words = bytearray(words)
                    for position, word in missing:
                        put = put_float if type(word) is float else put_integer
                        put(words, 4 * position, word)
                if launch.chunks:
                    buffers: Any = [slots[k]._memory.buffer for k in launch.bound]
                    self.record(launch.kernel, buffers, words, launch.chunks)
        return list(outputs)

    def record(self, program: Program, buffers: list[Buffer], words: bytes, groups: int) -> None:
        """Record a launch, with the lock taken."""
        pipeline = self.pipelines.get(program) or self.pipeline(program)
        if self.cursor + WINDOW > len(self.words) or self.launches >= LAUNCHES:
            self.submit()
        if self.open is None:
            self.begin(program)
        key = (program.access, *[buffer.number for buffer in buffers])
        group = self.bind_groups.get(key) or self.bind_group(key, buffers)
        for buffer in buffers:
            buffer.batch = self.batch
        start = self.cursor
        program.put(self.words, start, words)
        self.cursor = start + program.size + -program.size % ALIGNMENT
        step: Any = self.open
        step.set_pipeline(pipeline)
        step.set_bind_group(0, group)
        step.set_bind_group(1, self.words_group, (start,))
        rows = -(-groups // MOST_GROUPS)
        step.dispatch_workgroups(-(-groups // rows), rows)
        self.launches += 1
        if self.times is not None:
            step.end()
            self.open = None

    def begin(self, program: Program) -> None:
        """Open a compute pass; where times are taken, one for this launch."""
        self.check()
        with undisturbed(), self.explaining("recording"):
            if self.encoder is None:
                self.encoder = self.handle.create_command_encoder()
            writes = None if self.times is None else self.times.of_launch(program)
            self.open = self.encoder.begin_compute_pass(timestamp_writes=writes)

    def submit(self, *more: Any) -> None:
        """Hand what is recorded to the GPU, and then the commands of other encoders."""
        with self.lock, undisturbed(), self.explaining("submitting"):
            step, encoder, size = self.open, self.encoder, self.cursor
            self.open = self.encoder = None  # also if anything fails: what is recorded is lost then
            self.counts["launches"] += self.launches
            self.cursor = self.launches = 0
            encoders = [*more] if encoder is None else [encoder, *more]
            if not encoders:
                return
            if encoder is not None:
                self.queue.write_buffer(self.words_buffer, 0, self.words, 0, size)
                if step is not None:
                    step.end()
                if self.times is not None:
                    self.times.resolve(encoder)
            self.batch += 1
            self.queue.submit([each.finish() for each in encoders])
            self.counts["submissions"] += 1
            self.behind += 1
            if self.times is not None:
                self.times.collect()
            if self.behind > AHEAD:
                self.wait()

    def wait(self) -> None:
        """Wait until the GPU has done what was submitted."""
        self.behind = 0
        with self.explaining("waiting"):
            self.queue.read_buffer(self.words_buffer, 0, 4)

    def finish(self) -> None:
        """At the end of the process: drivers don't like to be unloaded while they compute."""
        if self.process == os.getpid() and self.lost is None:
            with suppress(DeviceError):
                self.submit()
                self.wait()
            self.lost = "the process is ending"  # and wgpu's threads with it

    # What is made once.

    def pipeline(self, program: Program) -> Any:
        found = self.by_text.get(program.text)
        if found is None:
            found = observed(program.name, "compile", self.compile)(program)
            self.by_text[program.text] = found
            self.counts["pipelines"] += 1
        self.pipelines[program] = found
        return found

    def compile(self, program: Program) -> Any:
        try:
            module = self.handle.create_shader_module(code=program.text, label=program.name)
            return self.handle.create_compute_pipeline(
                layout=self.layout(program.access)[1],
                compute={"module": module, "entry_point": "main"},
                label=program.name,
            )
        except self.library.GPUValidationError as error:
            if "lost" in str(error).lower():
                self.fail("compiling", error)
            raise KernelError(
                f"{self.name}: the program {program.name} can't be compiled: {error}\nThis is "
                f"a bug of adjoint, please report it. The program was\n{program.text}"
            ) from None

    def layout(self, access: str) -> tuple[Any, Any]:
        """The layouts of bind group 0, and of pipelines, whose arrays are read or written."""
        found = self.layouts.get(access)
        if found is None:
            kinds = {"r": "read-only-storage", "w": "storage"}
            group = self.group_layout([{"type": kinds[how]} for how in access])
            both = self.handle.create_pipeline_layout(bind_group_layouts=[group, self.words_layout])
            found = self.layouts[access] = group, both
        return found

    def bind_group(self, key: tuple, buffers: list[Buffer]) -> Any:
        with self.explaining("binding buffers"):
            bound = [(buffer.handle, buffer.size) for buffer in buffers]
            group = self.group(self.layout(key[0])[0], bound)
        if len(self.bind_groups) >= MOST_BIND_GROUPS:
            self.bind_groups.clear()
            for buffer in list(self.pool.buffers.values()):
                buffer.groups.clear()
        self.bind_groups[key] = group
        self.counts["bind_groups"] += 1
        for buffer in buffers:
            buffer.groups.add(key)
        return group

    def group_layout(self, buffers: list[dict]) -> Any:
        stage = self.library.ShaderStage.COMPUTE
        return self.handle.create_bind_group_layout(
            entries=[
                {"binding": k, "visibility": stage, "buffer": buffer}
                for k, buffer in enumerate(buffers)
            ]
        )

    def group(self, layout: Any, buffers: list[tuple[Any, int]]) -> Any:
        return self.handle.create_bind_group(
            layout=layout,
            entries=[
                {"binding": k, "resource": {"buffer": buffer, "offset": 0, "size": size}}
                for k, (buffer, size) in enumerate(buffers)
            ],
        )

    def check_dtype(self, dtype: np.dtype) -> None:
        """Refuse a dtype that the device doesn't have, before anything is lost."""
        if dtype in self.dtypes:
            return
        what = f"{self.name} has no {dtype.name}; it has {', '.join(d.name for d in self.dtypes)}"
        if dtype.kind == "c":
            raise DeviceError(f"{what}. Stay on the CPU with it")
        raise DTypeError(f"{what}. Use dtype={ADVICE.get(dtype.kind)}")


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let Ctrl-C wait: what is recorded, but not submitted, would be lost, and wgpu's own steps are
    none that can be left in the middle."""
    former = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(former):
        yield
        return
    late: list[tuple] = []
    signal.signal(signal.SIGINT, lambda *given: late.append(given))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
        if late:
            former(*late[0])
