"""Lowering: units become launches on places in memory, and host steps where there is no kernel."""

import functools
import math
import struct
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._trace.recording import Step, Traced
from ..backends.cpu import lower
from ..backends.cpu.jit import threads
from ..backends.cpu.jit.addresses import address
from ..backends.cpu.jit.compiler import compiled
from ..backends.cpu.jit.runner import NativeKernel, word_of
from ..backends.cpu.lowering.maps import copying, lower_map
from ..backends.cpu.lowering.matmul import add_product
from ..backends.cpu.lowering.native import NativeLowering, kernel_of
from ..backends.cpu.lowering.rows import lower_rows
from ..backends.cpu.lowering.targets import target_with
from ..backends.cpu.lowering.updates import chunk_table, many
from ..backends.launches import Launch, Layout, Target
from ..kernels.language import TYPES
from ..kernels.ops import Unsupported
from .draft import Fill, is_array, nbytes
from .group_kernels import described_group
from .layouts import Buffer, Place, moved, part, up_to, whole
from .units import Unit, alone

HOISTED = 3  # products that a transposed factor is laid out for, by rows and once
MUCH = 1 << 18  # bytes that launches of one kernel work on, from which on they are one
SMALL = 200_000  # multiplications, below which a product stays on the caller's thread


class Launched(NamedTuple):
    """Launches of one op, and where each of their slots lies."""

    launches: tuple[Launch, ...]
    places: list[tuple[Buffer, int]]
    numbers: Any
    steps: list[Step]

    @property
    def buffers(self) -> list[Buffer]:
        return [buffer for buffer, _ in self.places]

    @property
    def own(self) -> list[Buffer]:
        """The memory of results."""
        results, scratch = self.launches[0].results, self.launches[0].scratch
        return self.buffers[len(self.places) - len(results) - len(scratch) :][: len(results)]

    @property
    def scratch(self) -> int:
        """Bytes of scratch memory."""
        return sum(up_to(one.alignment, one.bytes) for one in self.launches[0].scratch)


class HostStep(NamedTuple):
    """An op that is a function on arrays."""

    step: Step
    inputs: list[Any]  # places, or what isn't an array
    outputs: list[Place]

    scratch = 0

    @property
    def steps(self) -> list[Step]:
        return [self.step]

    @property
    def buffers(self) -> list[Buffer]:
        return [x.buffer for x in (*self.inputs, *self.outputs) if isinstance(x, Place)]


class Lowerer:
    """Items of a program, as they are found; `places` of all values so far."""

    def __init__(
        self, places: dict[Traced, Place], updates: dict[Traced, Place], factors: Counter
    ) -> None:
        self.places = places
        self.updates = updates  # values that are written over what was there, and where
        self.items: list[Launched | HostStep] = []
        self.buffers: list[Buffer] = []
        self.constants: list[np.ndarray] = []
        self.factors = factors  # how many products have a value as their second factor
        self.laid_out: dict[Any, Place] = {}
        self.finished: dict[Buffer, Place] = {}  # memory of results, and how the first lies there

    # Memory

    def scratch(self, nbytes: int, alignment: int = 0) -> Buffer:
        buffer = Buffer("scratch", nbytes, len(self.buffers))
        buffer.alignment = max(buffer.alignment, alignment)
        self.buffers.append(buffer)
        return buffer

    def new(self, x: Any) -> Place:
        """Memory for an array of the shape and dtype of x."""
        return whole(self.scratch(nbytes(x)), x.shape, x.dtype)

    def constant(self, array: np.ndarray) -> Place:
        """An array that the program keeps; single numbers stand for arrays full of them."""
        array = array if array.flags.aligned else array.copy()
        self.constants.append(array)
        buffer = Buffer("constant", array.nbytes, len(self.constants) - 1)
        return Place(buffer, array.shape, array.strides, array.dtype)

    def place(self, x: Any) -> Place:
        if type(x) is Fill:
            return self.constant(np.array(x.value, x.dtype)).broadcast(x.shape)
        return self.places[x]

    # Units

    def add(self, unit: Unit, outputs: list[Traced]) -> None:
        """`outputs`: the values of the unit that are needed outside of it."""
        if unit.is_group:
            self.add_group(unit, outputs)
        elif len(unit.steps) == 1:
            self.add_step(unit.steps[0])
        elif not self.add_to_product(*unit.steps):
            product, total = unit.steps
            self.add_step(product)
            self.add_group(alone(total), list(total.results))

    def add_group(self, unit: Unit, outputs: list[Traced]) -> None:
        kernel = described_group(unit, outputs)
        used = [self.place(x) for x, _ in kernel.sources]
        assert unit.shape is not None
        shapes = [unit.shape if not is_row else unit.small[0] for _, is_row in kernel.sources]
        arrays = [self.seen(place, shape) for place, shape in zip(used, shapes, strict=True)]
        to = NativeLowering([x.layout() for x in arrays], target_of(math.inf))
        keys = list(range(len(kernel.numbers)))
        targets = [self.updates[x] for x in outputs if x in self.updates]
        if unit.axes is None:
            results = None
            if targets:
                assert len(targets) == len(outputs)
                results = [to.result(t.shape, t.dtype, t.strides) for t in targets]
            made = lower_map(to, kernel.expression, to.views, results, keys)
        else:
            made = lower_rows(to, kernel.expression, to.views, unit.axes, keys=keys)
        own = self.append(to.finished(), arrays, kernel.numbers, unit.steps, targets)
        for x, view in zip(outputs, made, strict=True):
            place = Place(own[view.slot - to.given], view.shape, view.strides, x.dtype)
            self.places[x] = self.seen(place, x.shape)

    def seen(self, x: Place, shape: tuple[int, ...]) -> Place:
        """A place in a shape that it broadcasts to, or from which it differs by ones."""
        if x.shape == shape:
            return x
        if 0 in shape:
            return whole(x.buffer, shape, x.dtype)
        if math.prod(shape) == math.prod(x.shape):
            steps = [s for n, s in zip(x.shape, x.strides, strict=True) if n != 1]
            strides = tuple(0 if n == 1 else steps.pop(0) for n in shape)
            return x._replace(shape=shape, strides=strides)
        return x.broadcast(shape)

    def append(
        self,
        launches: tuple[Launch, ...],
        operands: Sequence[Place],
        numbers: Any,
        steps: list[Step],
        targets: Sequence[Place] = (),
    ) -> list[Buffer]:
        """Append launches; the memory of their results."""
        results, scratch = launches[0].results, launches[0].scratch
        own = [t.buffer for t in targets] or [self.scratch(x.bytes) for x in results]
        rest = [self.scratch(x.bytes, x.alignment) for x in scratch]
        places = [(x.buffer, x.offset) for x in operands]
        places += [(buffer, 0) for buffer in (*own, *rest)]
        for buffer, one in zip(rest, scratch, strict=True):
            if one.zeroed:
                self.items.append(Launched((zeroing(one.bytes),), [(buffer, 0)], (), steps))
        self.items.append(Launched(launches, places, numbers, steps))
        return own

    # Other steps

    def add_step(self, step: Step) -> None:
        if step.op.kind == "movement" and is_array(step.inputs[0]):
            place = moved(step, self.place(step.inputs[0]))
            if place is not None:
                self.places[step.results[0]] = place
                return
            if step.name in COPIES and step.results[0].dtype in TYPES:
                COPIES[step.name](self, step)
                return
        operands = [self.place(x) if is_array(x) else x for x in step.inputs]
        if step.op.is_self_made or not self.add_launches(step, operands):
            self.add_host_step(step, operands)

    def add_to_product(self, product: Step, total: Step) -> bool:
        """Add a product to another one, in its memory; false where that can't be done."""
        (other,) = (x for x in total.inputs if x not in product.results)
        place, factors = self.place(other), self.factors_of(product)
        if place.buffer.kind != "scratch" or not place.is_whole:
            return False

        def lowered(layouts: list[Layout]) -> tuple[Launch, ...] | None:
            to = NativeLowering(layouts, target_of(work(product)))
            try:
                add_product(to, *to.views)
            except Unsupported:
                return None
            return to.finished()

        factors, found = self.with_copies(factors, lowered)
        if found is None:
            return False
        self.append(found, factors, {}, [product, total], [place])
        self.places[total.results[0]] = place
        return True

    def factors_of(self, product: Step) -> list[Place]:
        """Where the factors of a product lie; a transposed one that several small products read is
        laid out by rows: packing it takes as long as one of them."""
        x, y = map(self.place, product.inputs)
        by_rows = y.strides[-1:] == (y.dtype.itemsize,)
        if work(product) >= SMALL or self.factors[product.inputs[1]] < HOISTED or by_rows:
            return [x, y]
        if product.inputs[1] not in self.laid_out:
            self.laid_out[product.inputs[1]] = self.copied(y)
        return [x, self.laid_out[product.inputs[1]]]

    def add_launches(self, step: Step, operands: list[Any]) -> bool:
        if any(x is not None and not isinstance(x, Place) for x in operands):
            return False
        attrs = {key: value for key, value in step.attrs.items() if key != "device"}
        target = target_of(work(step))
        if step.name == "matmul":
            operands = self.factors_of(step)
        lowered = partial(lower, step.name, attrs=attrs, target=target)
        operands, found = self.with_copies(operands, lowered)
        if found is None or len(found[0].results) != len(step.results):
            return False
        own = self.append(found, [x for x in operands if x is not None], attrs, [step])
        for x, buffer, result in zip(step.results, own, found[0].results, strict=True):
            self.places[x] = Place(buffer, x.shape, result.strides, x.dtype)
        return True

    def add_host_step(self, step: Step, operands: list[Any]) -> None:
        outputs = []
        for x in step.results:
            buffer = Buffer("host", nbytes(x), len(self.buffers))
            self.buffers.append(buffer)
            self.places[x] = whole(buffer, x.shape, x.dtype)
            outputs.append(self.places[x])
        self.items.append(HostStep(step, operands, outputs))

    # Copies

    def with_copies(
        self, operands: list[Any], lowered: Callable[[list[Any]], tuple[Launch, ...] | None]
    ) -> tuple[list[Any], tuple[Launch, ...] | None]:
        """Launches for layouts of the operands, as few of which as can be are copies without gaps;
        None where there are none for any."""
        strided = [
            k
            for k, x in enumerate(operands)
            if x is not None and not x.is_contiguous and x.dtype in TYPES
        ]
        for chosen in dict.fromkeys([(), *((k,) for k in reversed(strided)), tuple(strided)]):
            pairs = enumerate(operands)
            found = lowered([x and (dense(x) if k in chosen else x).layout() for k, x in pairs])
            if found is not None:
                copies = {x: self.copied(x) for x in dict.fromkeys(operands[k] for k in chosen)}
                return [copies[x] if k in chosen else x for k, x in enumerate(operands)], found
        return operands, None

    def copied(self, x: Place) -> Place:
        """x, or a copy without gaps."""
        if x.is_contiguous or x.dtype not in TYPES:
            return x
        out = self.new(x)
        self.copy(x, out)
        return out

    def copy(self, x: Place, out: Place, steps: list[Step] | None = None) -> None:
        if not math.prod(out.shape):
            return
        x, out = parted(x), parted(out)
        to = NativeLowering([x.layout()], target_of(math.inf))
        target = to.result(out.shape, out.dtype, out.strides)
        type = TYPES[x.dtype]
        lower_map(to, copying(type, type), to.views, [target])
        places = [(x.buffer, x.offset), (out.buffer, out.offset)]
        self.items.append(Launched(to.finished(), places, (), steps or []))

    def fresh(self, step: Step) -> Place:
        """Memory for the result of a step."""
        place = self.places[step.results[0]] = self.new(step.results[0])
        return place


def batched(items: list[Any]) -> list[Any]:
    """Launches of one kernel that don't depend on each other and have much to do, as one launch:
    threads share the chunks of all."""
    by_kernel: dict[int, list[Launched]] = {}
    rest: list[Any] = []
    for item in items:
        single = isinstance(item, Launched) and len(item.launches) == 1
        if single and item.launches[0].status is None and not item.launches[0].tables:
            by_kernel.setdefault(item.launches[0].kernel.address, []).append(item)
        else:
            rest.append(item)
    for own in by_kernel.values():
        large = sum(buffer.nbytes for item in own for buffer, _ in item.places) >= MUCH
        rest += [together(own)] if large and len(own) > 1 else own
    return rest


def together(items: list[Launched]) -> Launched:
    """Launches of one kernel as one, whose words are theirs one after the other."""
    launches = [item.launches[0] for item in items]
    first = launches[0].kernel
    table = chunk_table([launch.chunks for launch in launches])
    length = len(first.words)
    words = array("q", [first.address, address(table), length])
    addresses, places, numbers = [], [], []
    for item, launch in zip(items, launches, strict=True):
        start = len(words)
        words.frombytes(launch.words)
        addresses += [(start + k, len(places) + slot, off) for k, slot, off in launch.addresses]
        for k, number in launch.numbers:
            words[start + k] = word_of(item.numbers[number.key], number.dtype)
        places += item.places
    kernel = NativeKernel("updates", kernel_of(many).address, ())
    launch = Launch(kernel, words.tobytes(), tuple(addresses), (), len(table), tables=(table,))
    return Launched((launch,), places, numbers, [step for item in items for step in item.steps])


def dense(x: Place) -> Place:
    """How a copy would lie."""
    return whole(x.buffer, x.shape, x.dtype)


def parted(x: Place) -> Place:
    """Complex numbers as pairs."""
    if x.dtype.kind != "c":
        return x
    part = np.dtype(f"f{x.dtype.itemsize // 2}")
    return Place(x.buffer, (*x.shape, 2), (*x.strides, part.itemsize), part, x.offset)


ZERO = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define void @zero(ptr %words, i64 %chunk) {
  %out = load ptr, ptr %words
  %second = getelementptr i64, ptr %words, i64 1
  %bytes = load i64, ptr %second
  call void @llvm.memset.p0.i64(ptr %out, i8 0, i64 %bytes, i1 false)
  ret void
}
"""


def zeroing(nbytes: int) -> Launch:
    """A launch that puts zeros into scratch memory."""
    kernel = NativeKernel("zero", compiled(ZERO, "zero"), ("out", "bytes"))
    return Launch(kernel, struct.pack("2q", 0, nbytes), ((0, 0, 0),), (), 1)


def reshape(to: Lowerer, step: Step) -> None:
    """A copy without gaps, seen in another shape."""
    x = to.copied(to.place(step.inputs[0]))
    seen = whole(x.buffer, step.results[0].shape, x.dtype)
    to.places[step.results[0]] = seen._replace(offset=x.offset, aligned=x.aligned)


def concat(to: Lowerer, step: Step) -> None:
    out, axis = to.fresh(step), step.attrs["axis"] % len(step.results[0].shape)
    start = 0
    for x in step.inputs:
        place = to.place(x)
        offset = start * out.strides[axis]
        to.copy(place, out._replace(shape=place.shape, offset=offset), [step])
        start += place.shape[axis]


def place(to: Lowerer, step: Step) -> None:
    surround(to, step, 0, step.attrs["index"])


def pad(to: Lowerer, step: Step) -> None:
    widths = zip(step.attrs["pad_width"], step.inputs[0].shape, strict=True)
    inside = tuple(slice(before, before + n) for (before, _), n in widths)
    surround(to, step, step.attrs["value"], inside)


def surround(to: Lowerer, step: Step, value: Any, index: tuple) -> None:
    """An array in the part of the result that `index` says, and a number everywhere else."""
    x, out = to.place(step.inputs[0]), to.fresh(step)
    to.copy(to.place(Fill(value, out.shape, out.dtype)), out, [step])
    inside = part(out, index)
    to.copy(to.seen(x, inside.shape), inside, [step])


COPIES = {"reshape": reshape, "concat": concat, "place": place, "pad": pad}


def work(step: Step) -> float:
    """How much a step has to do, where that decides whether threads should share it."""
    if step.name not in ("matmul", "linear"):
        return math.inf
    return math.prod(step.results[0].shape) * step.inputs[0].shape[-1]


def target_of(work: float) -> Target:
    return steady_target(1 if work < SMALL else threads.get_num_threads())


@functools.cache
def steady_target(count: int) -> Target:
    return target_with(count)._replace(steady=True)
