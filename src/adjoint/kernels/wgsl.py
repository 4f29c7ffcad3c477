"""Kernels as WGSL text: what one invocation, or one workgroup, does with its part of the elements.

Drivers may take sums and products apart and put them together as if nothing were rounded, as it
suits the rest of the program, and assume that there are no NaNs. So one operation is kept apart
from the next by a word that is 0, which no compiler can know: a value has the same bits in every
program that computes it. NaNs and infinities are looked for by their bits, and come in as words, as
WGSL can't write them.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

from .accumulators import Accumulator, compensated_product, compensated_sum, extreme, total
from .language import BOOL, F16, F32, I32, U32, Kernel, Type, Value, value, walk
from .wgsl_functions import EXACT_FMA, FAR, FMOD, OPAQUE

TYPES = {F16: "f16", F32: "f32", I32: "i32", U32: "u32", BOOL: "bool"}
BITS = {F32: "f32", I32: "i32", U32: "u32"}
INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "quotient": "/",
    "and": "&",
    "or": "|",
    "xor": "^",
    "lt": "<",
    "le": "<=",
    "eq": "==",
    "ne": "!=",
}
CALLS = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "round"}
CALLS |= {"absolute": "abs", "fma": "fma"}
INFINITY = "0x7f800000u"
SUMS = ("add", "sub", "neg", "fma")
PRODUCTS = ("mul", "div", "sqrt")

# Words are read once: lavapipe reads them anew in every round of a loop otherwise, and kernels take
# 10 to 20 % longer.
WORDS = "let p = p;"


class Unrendered(TypeError):
    """A value that WGSL has no type for."""


class Loops(NamedTuple):
    """How a launch walks over memory, as far as the text depends on it.

    `outer`: how many axes the elements, or the rows, have. `inner`: how many axes each row has.
    `flat`: all arrays have their elements in one order without gaps. `whole`: a workgroup takes a
    row, rather than one invocation. `shared`: inputs that are an output too, and are overwritten.
    """

    outer: int = 0
    inner: int = 0
    flat: bool = False
    whole: bool = False
    shared: tuple[tuple[int, int], ...] = ()


class Rendered(NamedTuple):
    """The parts of a program, see `backends.webgpu.programs`. Words: those of the loops, then where
    each array and output begins, the kernel's numbers, and `constants`."""

    arrays: str
    words: str
    declarations: str
    body: str
    constants: dict[str, float]


def storage_type(type: Type) -> str:
    return "u32" if type == BOOL else typed(type)


def typed(type: Type) -> str:
    if type not in TYPES:
        raise Unrendered(f"WGSL has no {type!r}")
    return TYPES[type]


def accumulator(reduction: Value) -> Accumulator:
    """How the elements of a reduction are added up: WGSL has nothing wider than 32 bits."""
    how, source = reduction.detail, reduction.args[0].type
    if how in ("max", "min"):
        return extreme(how, source)
    if source == F32:
        return compensated_sum(F32) if how == "sum" else compensated_product()
    return total(how, source, reduction.type, source)


def render(kernel: Kernel, loops: Loops, width: int) -> Rendered:
    """`width`: how many invocations a workgroup has."""
    renderer = WGSLRenderer(kernel, loops, width)
    return renderer.render_rows() if kernel.reduces else renderer.render_elements()


class WGSLRenderer:
    """`names`: what stands for the values that have been written, in the scopes that are open."""

    def __init__(self, kernel: Kernel, loops: Loops, width: int) -> None:
        self.kernel, self.loops, self.width = kernel, loops, width
        self.sources = sorted(kernel.sources.items())
        self.lines: list[str] = []
        self.declarations: list[str] = []
        self.constants: dict[str, float] = {}
        self.names: dict[Value, str] = {}
        self.opaque = kept_apart(kernel.values)
        self.count = 0
        shared = dict(loops.shared)
        self.array = {k: f"out{shared[k]}" if k in shared else f"x{k}" for k, _ in self.sources}
        self.arrays = [f"x{k}" for k, _ in self.sources]
        self.arrays += [f"out{k}" for k in range(len(kernel.outputs))]

    # Whole programs.

    def render_elements(self) -> Rendered:
        """Each invocation computes every `step`th element."""
        self.line(f"for (var i = group * {self.width}u + lane; i < p.count; i += p.step) {{")
        place = self.places("i", "outer", self.arrays)
        self.load({k: place[f"x{k}"] for k, _ in self.sources})
        for k, out in enumerate(self.kernel.outputs):
            self.store(k, self.write(out), place[f"out{k}"])
        self.line("}")
        return self.rendered("count step")

    def render_rows(self) -> Rendered:
        """Each workgroup, or each invocation, computes a row."""
        whole = self.loops.whole
        self.line("let row = group;" if whole else f"let row = group * {self.width}u + lane;")
        self.line("if (row >= p.rows) { return; }")
        self.start = self.places("row", "outer", self.arrays)
        fixed = {k: self.start[f"x{k}"] for k, v in self.sources if v.op == "row"}
        self.load(fixed)
        outputs = self.kernel.outputs
        for depth in range(1, max(v.depth for v in self.kernel.values) + 1):
            self.reduce([v for v in self.kernel.values if v.op == "reduce" and v.depth == depth])
        varying = [k for k, out in enumerate(outputs) if out.varies]
        if varying:
            self.write_fixed(outputs[k] for k in varying)
            with self.loop_along_row():
                for k in varying:
                    self.store(k, self.write(outputs[k]), self.inner[f"out{k}"])
        for k, out in enumerate(outputs):
            if k not in varying:
                name = self.write(out)
                if whole:
                    self.line("if (lane == 0u) {")
                self.store(k, name, self.start[f"out{k}"])
                if whole:
                    self.line("}")
        return self.rendered("rows length")

    def rendered(self, words: str) -> Rendered:
        loops, shared = self.loops, dict(self.loops.shared)
        names = words.split()
        if not loops.flat:
            axes = [f"outer{a}" for a in range(loops.outer)]
            axes += [f"inner{a}" for a in range(loops.inner)]
            names += [f"{axis}_size" for axis in axes]
            names += [f"{axis}_{array}" for array in self.arrays for axis in axes]
        names += [f"at_{array}" for array in self.arrays]
        for k, type in sorted(self.kernel.scalars.items()):
            names.append(f"n{k}:{'u32' if type == BOOL else typed(type)}")
        names += [f"{name}:{'u32' if name == 'nothing' else 'f32'}" for name in self.constants]
        inputs = [f"x{k}:{storage_type(v.type)}" for k, v in self.sources if k not in shared]
        outputs = [f"out{k}:{storage_type(v.type)}" for k, v in enumerate(self.kernel.outputs)]
        first = [WORDS, "nothing = p.nothing;"] if "nothing" in self.constants else [WORDS]
        return Rendered(
            " ".join([*inputs, "->", *outputs]),
            " ".join(names),
            "\n".join(self.declarations),
            "\n".join([*first, *self.lines]),
            self.constants,
        )

    # Rows.

    def loop_along_row(self) -> "Scope":
        """A loop over the elements of the row, which are loaded."""
        first, step = ("lane", f"{self.width}u") if self.loops.whole else ("0u", "1u")
        scope = Scope(self, f"for (var e = {first}; e < p.length; e += {step}) {{")
        varying = [f"x{k}" for k, v in self.sources if v.op == "element"]
        varying += [f"out{k}" for k, out in enumerate(self.kernel.outputs) if out.varies]
        self.inner = self.places("e", "inner", varying, self.start)
        self.load({k: self.inner[f"x{k}"] for k, v in self.sources if v.op == "element"})
        return scope

    def reduce(self, reductions: list[Value]) -> None:
        """Combine values of a row; all that are ready go in one loop."""
        how = {v: accumulator(v) for v in reductions}
        self.write_fixed(v.args[0] for v in reductions)
        held: dict[Value, tuple[Value, ...]] = {}
        for v, acc in how.items():
            parts = []
            for part in acc.start:
                name = self.new_name("a")
                self.line(f"var {name} = {self.write(part)};")
                parts.append(held_value(name, part.type))
            held[v] = tuple(parts)
        with self.loop_along_row():
            for v, acc in how.items():
                self.assign(held[v], acc.step(held[v], self.named(v.args[0])))
        if self.loops.whole:
            self.combine(how, held)
        for v, acc in how.items():
            [self.names[v]] = self.written([acc.result(held[v])])

    def combine(self, how: dict[Value, Accumulator], held: dict[Value, tuple[Value, ...]]) -> None:
        """What the lanes of a workgroup have, joined as a tree; all lanes get the result."""
        places: dict[Value, list[str]] = {}
        for v, parts in held.items():
            places[v] = []
            for part in parts:
                name = self.new_name("shared")
                self.declarations.append(
                    f"var<workgroup> {name}: array<{typed(part.type)}, {self.width}>;"
                )
                self.line(f"{name}[lane] = {part.detail};")
                places[v].append(name)
        self.line(f"for (var half = {self.width // 2}u; half > 0u; half = half / 2u) {{")
        self.line("workgroupBarrier();")
        with Scope(self, "if (lane < half) {"):
            for v, acc in how.items():
                mine, others = (
                    tuple(
                        held_value(f"{name}[lane{far}]", part.type)
                        for name, part in zip(places[v], held[v], strict=True)
                    )
                    for far in ("", " + half")
                )
                self.assign(mine, acc.join(mine, others))
        self.line("}")
        self.line("workgroupBarrier();")
        for v, parts in held.items():
            for name, part in zip(places[v], parts, strict=True):
                self.line(f"{part.detail} = {name}[0];")

    def assign(self, targets: tuple[Value, ...], values: tuple[Value, ...]) -> None:
        for target, name in zip(targets, self.written(values), strict=True):
            self.line(f"{target.detail} = {name};")

    def written(self, values: Iterable[Value]) -> list[str]:
        """The names of values that aren't the kernel's own."""
        values = list(values)
        self.opaque |= kept_apart(walk(values))
        return [self.write(x) for x in values]

    def write_fixed(self, values: Iterable[Value]) -> None:
        """Write what is the same all along a row before the loop over it begins."""
        for v in walk(values, known=self.names):
            if not v.varies and v not in self.names and v.op != "reduce":
                self.write(v)

    def named(self, v: Value) -> Value:
        return held_value(self.write(v), v.type)

    # Places in memory.

    def places(
        self, index: str, axes: str, arrays: list[str], start: dict[str, str] | None = None
    ) -> dict[str, str]:
        """Where each array has the element with an index."""
        first = start or {array: f"p.at_{array}" for array in arrays}
        if self.loops.flat and axes == "outer" and not self.kernel.reduces:
            return {array: f"{first[array]} + {index}" for array in arrays}
        rank = self.loops.outer if axes == "outer" else self.loops.inner
        rest, coordinates = index, {}
        for axis in reversed(range(rank)):
            if axis:
                name, left = self.new_name("c"), self.new_name("r")
                self.line(f"let {left} = {rest} / p.{axes}{axis}_size;")
                self.line(f"let {name} = {rest} - {left} * p.{axes}{axis}_size;")
                coordinates[axis], rest = name, left
            else:
                coordinates[axis] = rest
        out = {}
        for array in arrays:
            terms = [first[array]]
            terms += [f"{coordinates[a]} * p.{axes}{a}_{array}" for a in range(rank)]
            name = self.new_name("at")
            self.line(f"let {name} = {' + '.join(terms)};")
            out[array] = name
        return out

    def load(self, places: dict[int, str]) -> None:
        for k, place in places.items():
            source = self.kernel.sources[k]
            text = f"{self.array[k]}[{place}]"
            self.names[source] = self.let(f"{text} != 0u" if source.type == BOOL else text)

    def store(self, k: int, name: str, place: str) -> None:
        type = self.kernel.outputs[k].type
        self.line(f"out{k}[{place}] = {f'u32({name})' if type == BOOL else name};")

    # Values.

    def write(self, out: Value) -> str:
        """The name of a value; what it is made of is written first."""
        for v in walk([out], known=self.names):
            if v not in self.names:
                self.names[v] = v.detail if v.op == "held" else self.let(self.guarded(v))
        return self.names[out]

    def guarded(self, v: Value) -> str:
        """The expression of a value, behind what nobody sees through where it has to be."""
        if v not in self.opaque:
            return self.text(v)
        self.declare(OPAQUE)
        return f"opaque({self.text(v)})"

    def declare(self, text: str) -> None:
        self.constants.setdefault("nothing", 0)
        for part in (OPAQUE, text):
            if part not in self.declarations:
                self.declarations.append(part)

    def text(self, v: Value) -> str:
        """The expression of a value whose operands are written."""
        args, op = [self.names[arg] for arg in v.args], v.op
        if op == "constant":
            return self.constant(v)
        if op == "scalar":
            return f"p.n{v.detail} != 0u" if v.type == BOOL else f"p.n{v.detail}"
        if op == "position":
            return f"{typed(v.type)}(e)"
        if op == "count":
            return f"{typed(v.type)}(p.length)"
        if op in ("eq", "ne") and v.args[0].type == F32:
            return self.equality(v, args)
        if op in ("lt", "le") and v.args[0].type == F32 and (test := self.compared_with_zero(v)):
            return test
        if op == "select":
            return f"select({args[2]}, {args[1]}, {args[0]})"
        if op == "library":
            self.declare(FAR)
            name = self.new_name("v")
            self.line(f"var {name} = {args[2]};")
            self.line(f"if ({args[0]}) {{ {name} = opaque(far_{v.detail}({args[1]})); }}")
            return name
        if op == "convert":
            return f"{typed(v.type)}({args[0]})"
        if op == "bits":
            return f"bitcast<{BITS[v.type]}>({args[0]})"
        if op == "neg":
            return f"0u - {args[0]}" if v.type.kind == "u" else f"-{args[0]}"
        if op == "copysign":
            size, sign = f"bitcast<u32>({args[0]})", f"bitcast<u32>({args[1]})"
            return f"bitcast<f32>(({size} & 0x7fffffffu) | ({sign} & 0x80000000u))"
        if op in ("shl", "shr"):
            return f"{args[0]} {'<<' if op == 'shl' else '>>'} u32({args[1]})"
        if op == "fmod":
            self.declare(FMOD)
            return f"float_modulo({args[0]}, {args[1]})"
        if op == "fma" and v.detail:
            self.declare(EXACT_FMA)
            return f"exact_fma({', '.join(args)})"
        if op in CALLS:
            return f"{CALLS[op]}({', '.join(args)})"
        if v.args[0].type == BOOL and op == "xor":
            return f"{args[0]} != {args[1]}"
        if v.args[0].type == BOOL and op in ("lt", "le"):
            args = [f"u32({arg})" for arg in args]
        return f"{args[0]} {INFIX[op]} {args[1]}"

    def equality(self, v: Value, args: list[str]) -> str:
        """Comparisons that ask for NaNs and infinities go by bits."""
        x, y = v.args
        if x is y:
            test = f"(bitcast<u32>({args[0]}) & 0x7fffffffu) > {INFINITY}"
            return test if v.op == "ne" else f"!({test})"
        if x.op == "sub" and x.args[0] is x.args[1] and is_number(y, 0):
            test = f"(bitcast<u32>({self.names[x.args[0]]}) & {INFINITY}) != {INFINITY}"
            return test if v.op == "eq" else f"!({test})"
        if is_number(y, 0):  # numbers that are almost 0 may be taken for it
            return f"(bitcast<u32>({args[0]}) & 0x7fffffffu) {INFIX[v.op]} 0u"
        if is_number(y, math.inf):
            return f"bitcast<u32>({args[0]}) {INFIX[v.op]} {INFINITY}"
        same = f"{args[0]} == {args[1]}"
        return same if v.op == "eq" else f"!({same})"  # != says no where there is a NaN

    def compared_with_zero(self, v: Value) -> str | None:
        """A comparison with 0 by bits: numbers that are almost 0 may be taken for it."""
        below = is_number(v.args[1], 0)
        if not below and not is_number(v.args[0], 0):
            return None
        word = f"bitcast<u32>({self.names[v.args[0 if below else 1]]})"
        start = "0x80000001u" if below else "1u"
        test = f"{word} - {start} < {INFINITY}"
        return test if v.op == "lt" else f"{test} || ({word} & 0x7fffffffu) == 0u"

    def constant(self, v: Value) -> str:
        number = v.detail
        if v.type.kind == "b":
            return "true" if number else "false"
        if v.type.kind == "u":
            return f"{number}u"
        if v.type.kind == "i":
            return f"{number}i" if number >= 0 else f"bitcast<i32>({number & 0xFFFFFFFF}u)"
        number = float(v.type.dtype.type(number))
        if not math.isfinite(number):
            name = "nan" if number != number else "infinity" if number > 0 else "minus_infinity"
            self.constants[name] = number
            return f"{typed(v.type)}(p.{name})"
        return f"{typed(v.type)}({number.hex()})"

    def let(self, text: str) -> str:
        name = self.new_name("v")
        self.line(f"let {name} = {text};")
        return name

    def new_name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def line(self, text: str) -> None:
        self.lines.append(text)


class Scope:
    """A block: what is named in it isn't known behind it."""

    def __init__(self, renderer: WGSLRenderer, head: str) -> None:
        self.renderer = renderer
        self.former = dict(renderer.names)
        renderer.line(head)

    def __enter__(self) -> None: ...

    def __exit__(self, *exception: object) -> None:
        self.renderer.line("}")
        self.renderer.names = self.former


def kept_apart(values: Iterable[Value]) -> set[Value]:
    """The floats that a driver could compute together with what is made of them."""
    return {
        arg
        for v in values
        for k, arg in enumerate(v.args)
        if arg.type == F32 and (arg.op in PRODUCTS or (arg.op in SUMS and not is_factor(v, k)))
    }


def is_factor(v: Value, k: int) -> bool:
    """Whether operand k is a factor of fma: a sum there, as in polynomials, isn't multiplied out,
    which would take more operations. (An exact fma is a function that subtracts from its factors.)
    """
    return v.op == "fma" and not v.detail and k < 2


def held_value(name: str, type: Type) -> Value:
    """A value that has a name in the text already."""
    return value("held", (), type, name)


def is_number(v: Value, number: float) -> bool:
    return v.op == "constant" and v.detail == number
