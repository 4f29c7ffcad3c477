"""Kernels as LLVM IR text: the loops over rows and columns around vectors of values.

A kernel becomes a function of a block of words (see `frame`) and the number of a chunk: some rows
and some columns. Columns are the axis that vectors lie along, rows all the axes before it. Vectors
may be longer than those of the machine: LLVM splits them.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from .accumulators import Accumulator, accumulator
from .frame import ArrayWords, Frame, Loops
from .language import BOOL, I64, Kernel, Value, convert, value, walk
from .template import Template
from .text import Function
from .vectors import Vectors

GIVEN = ("constant", "scalar", "count")  # known before the first row
AHEAD = 1024  # bytes that are fetched ahead of the first pass over memory
ROWS_AHEAD = 8  # the same, in rows, where columns are reduced
SHORTER = 16  # lanes of vectors for columns that are left after the longest
CHEAP = 8  # ops that are computed again sooner than kept in memory


class Module(NamedTuple):
    """The text of a module with one function, the function's name, and those of its words."""

    text: str
    name: str
    words: tuple[str, ...]


def render(kernel: Kernel, loops: Loops) -> Module:
    renderer = LLVMRenderer(kernel, loops)
    text = str(renderer)
    name = f"kernel_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    return Module(text.replace("@kernel(", f"@{name}("), name, tuple(renderer.write.names))


class Place(NamedTuple):
    """Where an array is read or written now."""

    pointer: str
    step: str


Places = dict[ArrayWords, Place]
Body = Callable[[Places, str], None]  # what is written for elements at places, where a mask holds


class LLVMRenderer:
    """`fixed`: the vectors of values that are the same all along a row, as far as is known."""

    def __init__(self, kernel: Kernel, loops: Loops) -> None:
        self.kernel, self.loops = kernel, loops
        self.write = Template("kernel")
        self.vectors = Vectors(self.write, loops.lanes)
        self.frame = Frame(self.write, kernel, loops)
        count = len(kernel.sources)
        self.inputs = dict(zip(sorted(kernel.sources), self.frame.arrays[:count], strict=True))
        self.outputs = self.frame.arrays[count:]
        self.depths = sorted({v.depth for v in kernel.values if v.op == "reduce"})
        self.elements = any(out.varies for out in kernel.outputs)
        self.stash = stashed(kernel)
        self.stores = self.stash is not None or not kernel.reduces  # in the pass that is written
        self.helpers: dict[str, Function] = {}
        self.fixed: dict[Value, str] = {}
        self.write_chunk()

    def __str__(self) -> str:
        return str(self.write)

    # The loops.

    def write_chunk(self) -> None:
        write, frame = self.write, self.frame
        part = write.new(f"srem i64 %chunk, {frame.parts}")
        block = write.new(f"sdiv i64 %chunk, {frame.parts}")
        rows = write.part(frame.row_step, frame.rows, block)
        columns = write.part(frame.column_step, frame.columns, part)
        self.fix_given()
        given = self.fixed
        with write.loop(*rows) as row:
            self.fixed = dict(given)
            places = self.at_row(row)
            if not self.kernel.reduces:
                self.vectors.ahead = AHEAD
                count = write.sub(columns[1], columns[0])
                self.fix_repeated(places)
                self.write_strips(
                    self.moved(places, columns[0]), count, lambda at, _: self.finish(at)
                )
            elif self.loops.along:
                self.reduce_along_row(places)
            else:
                self.reduce_down_columns(places, *columns)
        if "n" in self.loops.access:
            write.line("fence seq_cst")  # what goes past the caches is there before we say so

    def at_row(self, row: str) -> Places:
        """Where each array is at a row, whose number is taken apart into places along its axes."""
        write, places, rest = self.write, [], row
        for size in reversed(self.frame.outer[1:]):
            places.append(write.new(f"srem i64 {rest}, {size}"))
            rest = write.new(f"sdiv i64 {rest}, {size}")
        places = [rest, *reversed(places)][: self.loops.outer]
        out = {}
        for array in self.frame.arrays:
            steps = zip(places, array.outer, strict=True)
            terms = [write.product(k, step) for k, step in steps]
            out[array] = Place(write.offset(array.pointer, *terms), array.step)
        return out

    def moved(self, places: Places, count: str, axis: int | None = None) -> Places:
        """Places so many columns further, or elements along an inner axis."""
        write, out = self.write, {}
        for array, place in places.items():
            step = place.step if axis is None else array.inner[axis]
            pointer = write.offset(place.pointer, write.product(count, step))
            out[array] = Place(pointer, place.step)
        return out

    @contextmanager
    def each_inner(self, places: Places, axis: int = 0) -> Iterator[Places]:
        """Loops over the reduced axes that vectors don't lie along."""
        if axis == self.loops.inner:
            yield places
            return
        with self.write.loop("0", self.frame.inner[axis]) as k:
            with self.each_inner(self.moved(places, k, axis), axis + 1) as innermost:
                yield innermost

    def reduce_along_row(self, places: Places) -> None:
        columns = self.frame.columns
        self.fix_repeated(places)
        for position, source in self.kernel.sources.items():
            if source.op == "row":
                array = self.inputs[position]
                one = self.vectors.load_one(places[array].pointer, array.type)
                self.fixed[source] = self.vectors.splat(one, array.type)
        self.reduce(places, lambda at, body: self.write_strips(at, columns, body), self.joined)
        for out, array in zip(self.kernel.outputs, self.outputs, strict=True):
            if not out.varies:
                self.vectors.store_one(self.fixed[out], places[array].pointer, array.type)

    def reduce_down_columns(self, places: Places, start: str, stop: str) -> None:
        """Reduce each column by itself: long vectors of columns first, then what is left."""
        write, longest = self.write, self.loops.lanes
        for lanes in sorted({longest, min(longest, SHORTER), 1}, reverse=True):
            self.vectors.lanes = lanes
            self.fix_given()
            rest = write.new(f"srem i64 {write.sub(stop, start)}, {lanes}")
            end = write.sub(stop, rest)
            with write.loop(start, end, str(lanes)) as column:
                self.reduce_down(self.moved(places, column))
            start = end
        self.vectors.lanes = longest
        self.fix_given()

    def reduce_down(self, places: Places) -> None:
        given = dict(self.fixed)
        for position, source in self.kernel.sources.items():
            if source.op == "row":
                self.fixed[source] = self.load(self.inputs[position], places)
        self.reduce(places, lambda at, body: body(at, ""), self.of_each_lane)
        for out, array in zip(self.kernel.outputs, self.outputs, strict=True):
            if not out.varies:
                self.vectors.store(self.fixed[out], *places[array], array.access, array.type)
        self.fixed = given

    def reduce(
        self,
        places: Places,
        write: Callable[[Places, Body], None],
        result: Callable[[Value, list[str]], str],
    ) -> None:
        """Reduce in as many passes as there are reductions of reductions; then one for outputs.

        `write` writes a body for elements, `result` makes a reduction of what accumulators hold.
        """
        for depth in self.depths:
            slots = self.started(depth)
            self.vectors.ahead = AHEAD if self.loops.along and depth == self.depths[0] else 0
            with self.each_inner(places) as inside:
                write(inside, lambda at, mask, s=slots: self.take_in(s, at, mask))
            for reduction, held in slots.items():
                self.fixed[reduction] = result(reduction, held)
        self.vectors.ahead = 0
        self.fix(max(self.depths))
        self.stores = True
        if self.elements:
            with self.each_inner(places) as inside:
                write(inside, lambda at, _: self.finish(at))
        self.stores = self.stash is not None

    def write_strips(self, places: Places, count: str, body: Body) -> None:
        """Write a body for each vector along the columns, and for what is left after the last.

        That is copied to memory of a vector's size and goes through the same lines once more, so
        that there is one text for both; a mask says which lanes count.
        """
        write, lanes = self.write, self.loops.lanes
        full = write.new(f"sdiv i64 {count}, {lanes}")
        rest = write.new(f"srem i64 {count}, {lanes}")
        beyond = self.moved(places, write.product(full, lanes))
        used = [a for a in places if a.access != "b" and (self.stores or a not in self.outputs)]
        spare = {a: write.alloca(self.vectors.stored(a.type)) for a in used}
        before, again, whole = write.block, write.label("again"), write.label("whole")
        rest_in, rest_out, end = write.label("rest_in"), write.label("rest_out"), write.label("end")
        write.jump(again)
        write.start(again)
        last, rounds, mask = write.name(), write.name(), write.name()
        now = {a: Place(write.name(), write.name() if a.access == "s" else a.step) for a in spare}
        phis = len(write.lines)
        write.line("")
        with write.loop("0", rounds) as number:
            body(dict(places) | self.moved(now, write.product(number, lanes)), mask)
        write.branch(last, rest_out, whole)
        write.start(whole)
        write.branch(write.compare("eq", rest, 0), end, rest_in)
        write.start(rest_in)
        for array, memory in spare.items():
            if array not in self.outputs or self.stash is not None:
                self.copy(array, Place(memory, str(array.size)), beyond[array], rest)
        some = write.places("slt", rest, lanes)
        write.jump(again)
        phi = f"[{{}}, %{before}], [{{}}, %{rest_in}]"
        lines = [
            f"{last} = phi i1 {phi.format('false', 'true')}",
            f"{rounds} = phi i64 {phi.format(full, 1)}",
            f"{mask} = phi <{lanes} x i1> {phi.format('splat (i1 true)', some)}",
        ]
        for array, place in now.items():
            former = places[array]
            lines.append(f"{place.pointer} = phi ptr {phi.format(former.pointer, spare[array])}")
            if array.access == "s":
                lines.append(f"{place.step} = phi i64 {phi.format(former.step, array.size)}")
        write.lines[phis] = "\n  ".join(lines)
        write.start(rest_out)
        for array, memory in spare.items():
            if array in self.outputs:
                self.copy(array, beyond[array], Place(memory, str(array.size)), rest)
        write.jump(end)
        write.start(end)

    def copy(self, array: ArrayWords, target: Place, source: Place, count: str) -> None:
        """Copy a few elements."""
        name = f"copy{8 * array.size}"
        if name not in self.helpers:
            self.helpers[name] = copy_function(name, f"i{8 * array.size}")
            self.write.others.append(self.helpers[name])
        self.write.line(
            f"call void @{name}(ptr {target.pointer}, i64 {target.step}, ptr {source.pointer}, "
            f"i64 {source.step}, i64 {count})"
        )

    # The values.

    def load(self, array: ArrayWords, places: Places) -> str:
        if self.kernel.reduces and not self.loops.along and array.access == "c":
            self.fetch_below(array, places[array].pointer)
        return self.vectors.load(*places[array], array.access, array.type)

    def fetch_below(self, array: ArrayWords, pointer: str) -> None:
        """Where columns are reduced, what comes next lies a row further on."""
        if array.inner and self.vectors.lanes > 1:
            below = self.write.offset(pointer, self.write.product(array.inner[-1], ROWS_AHEAD))
            for line in range(0, self.vectors.lanes * array.size, 64):
                self.write.fetch(self.write.offset(below, line))

    def fix_given(self) -> None:
        self.fixed = {v: self.given(v) for v in self.kernel.values if v.op in GIVEN}

    def given(self, v: Value) -> str:
        if v.op == "constant":
            return self.vectors.constant(v.detail, v.type)
        if v.op == "scalar":
            number = self.frame.numbers[v.detail]
            if v.type == BOOL:
                number = self.write.new(f"icmp ne i8 {number}, 0")
            return self.vectors.splat(number, v.type)
        total = self.frame.columns if self.loops.along else "1"
        for size in self.frame.inner:
            total = self.write.product(total, size)
        integer = value("element", (), I64, "count")
        return self.computed(convert(integer, v.type), {integer: self.vectors.splat(total, I64)})

    def fix_repeated(self, places: Places) -> None:
        """Load what is the same all along the columns once for each row."""
        for position, source in self.kernel.sources.items():
            array = self.inputs[position]
            if array.access == "b" and source.op == "element" and not self.loops.inner:
                self.fixed[source] = self.load(array, places)

    def fix(self, depth: int) -> None:
        """Compute what is the same all along a row and needs no reductions beyond a depth."""
        for v in self.kernel.values:
            if not v.varies and v.depth <= depth and v not in self.fixed and v.op != "reduce":
                if all(arg in self.fixed for arg in v.args):
                    self.fixed[v] = self.vectors.compute(v, [self.fixed[arg] for arg in v.args])

    def computed(self, out: Value, known: dict[Value, str]) -> str:
        """The vector of a value, from the vectors of some that it is made of."""
        return self.all_computed([out], known)[0]

    def all_computed(self, outputs: list[Value], known: dict[Value, str]) -> list[str]:
        names = dict(known)
        for v in self.needed(outputs, names):
            if v.op == "constant":
                names[v] = self.vectors.constant(v.detail, v.type)
            else:
                names[v] = self.vectors.compute(v, [names[arg] for arg in v.args])
        return [names[out] for out in outputs]

    def needed(self, outputs: list[Value], known: dict[Value, str]) -> list[Value]:
        """What has to be computed, operands first."""
        return [v for v in walk(outputs, known) if v not in known]

    def loaded(self, outputs: list[Value], places: Places, depth: int) -> dict[Value, str]:
        """What is fixed, and the elements that outputs are made of; from the stash if it's full."""
        known = dict(self.fixed)
        if self.stash is not None and depth > self.stash.depth + 1:
            known[self.stash] = self.load(self.outputs[0], places)
        for v in self.needed(outputs, known):
            if v.op == "element":
                known[v] = self.load(self.inputs[v.detail], places)
        return known

    def finish(self, places: Places) -> None:
        """Compute and store the outputs that have an element for each of the space."""
        every = not self.kernel.reduces
        kept = [k for k, out in enumerate(self.kernel.outputs) if out.varies or every]
        outputs = [self.kernel.outputs[k] for k in kept]
        known = self.loaded(outputs, places, max(self.depths, default=0) + 1)
        for k, vector in zip(kept, self.all_computed(outputs, known), strict=True):
            array = self.outputs[k]
            self.vectors.store(vector, *places[array], array.access, array.type)

    # Reductions.

    def started(self, depth: int) -> dict[Value, list[str]]:
        """Memory for each reduction of a depth, with what it starts from."""
        self.fix(depth - 1)
        slots: dict[Value, list[str]] = {}
        for v in self.kernel.values:
            if v.op != "reduce" or v.depth != depth:
                continue
            slots[v] = []
            for part in accumulator(v).start:
                type = self.vectors.type(part.type)
                slots[v].append(self.write.alloca(type))
                start = self.vectors.constant(part.detail, part.type)
                self.write.line(f"store {type} {start}, ptr {slots[v][-1]}, align 64")
        return slots

    def take_in(self, slots: dict[Value, list[str]], places: Places, mask: str) -> None:
        """Let reductions take in a vector of elements, where the mask holds."""
        terms = [v.args[0] for v in slots]
        depth = next(iter(slots)).depth
        known = self.loaded(terms, places, depth)
        vectors = self.all_computed(terms, known)
        for (v, held), term in zip(slots.items(), vectors, strict=True):
            made = accumulator(v)
            former = holders(made)
            x = value("element", (), v.args[0].type, "term")
            names = self.read(made, held) | {x: term}
            parts = self.all_computed(list(made.step(former, x)), names)
            for part, new, slot in zip(former, parts, held, strict=True):
                type = self.vectors.type(part.type)
                if mask:
                    lanes = f"<{self.vectors.lanes} x i1> {mask}"
                    new = self.write.new(f"select {lanes}, {type} {new}, {type} {names[part]}")
                self.write.line(f"store {type} {new}, ptr {slot}, align 64")
        if self.stash is not None and depth == self.stash.depth + 1:
            array = self.outputs[0]
            vector = vectors[terms.index(self.stash)]
            self.vectors.store(vector, *places[array], array.access, array.type)

    def read(self, made: Accumulator, held: list[str]) -> dict[Value, str]:
        """The parts of an accumulator, from memory."""
        return {
            part: self.write.new(f"load {self.vectors.type(part.type)}, ptr {slot}, align 64")
            for part, slot in zip(holders(made), held, strict=True)
        }

    def of_each_lane(self, reduction: Value, held: list[str]) -> str:
        """The results of lanes, each by itself."""
        made = accumulator(reduction)
        return self.computed(made.result(holders(made)), self.read(made, held))

    def joined(self, reduction: Value, held: list[str]) -> str:
        """The result of all lanes, in every lane: halves are joined until one is left."""
        made, lanes = accumulator(reduction), self.vectors.lanes
        low, high = holders(made), holders(made, "other")
        names = [self.read(made, held)[part] for part in low]
        while self.vectors.lanes > 1:
            known: dict[Value, str] = {}
            for part, other, name in zip(low, high, names, strict=True):
                known[part], known[other] = self.vectors.halves(name, part.type)
            self.vectors.lanes //= 2
            names = self.all_computed(list(made.join(low, high)), known)
        out = self.computed(made.result(low), dict(zip(low, names, strict=True)))
        one = self.write.new(f"extractelement {self.vectors.type(reduction.type)} {out}, i64 0")
        self.vectors.lanes = lanes
        return self.vectors.splat(one, reduction.type)


def holders(made: Accumulator, side: str = "part") -> tuple[Value, ...]:
    """Values that stand for the parts of an accumulator."""
    return tuple(
        value("element", (), part.type, f"{side} {k}") for k, part in enumerate(made.start)
    )


def stashed(kernel: Kernel) -> Value | None:
    """What is kept in the output's memory between passes: reduced, used later, not cheap."""
    varying = [out for out in kernel.outputs if out.varies]
    if len(kernel.outputs) != 1 or not varying:
        return None
    terms = {v.args[0] for v in kernel.values if v.op == "reduce"}
    used = {arg for v in walk(varying, terms) for arg in v.args} | set(varying)
    worth = [v for v in terms & used if len(walk([v])) > CHEAP and v.type == varying[0].type]
    return max(worth, key=lambda v: len(walk([v])), default=None)


def copy_function(name: str, kind: str) -> Function:
    copy = Function(f"{name}(ptr %to, i64 %to_step, ptr %from, i64 %from_step, i64 %count)")
    with copy.loop("0", "%count") as k:
        x = copy.load(copy.offset("%from", copy.product(k, "%from_step")), kind)
        copy.store(x, copy.offset("%to", copy.product(k, "%to_step")), kind)
    return copy
