"""Values of the kernel language as LLVM instructions on vectors, and how vectors get to memory."""

import math
import struct
from typing import Any

from .language import BOOL, Type, Value
from .text import Function

SCALARS = {"f16": "half", "f32": "float", "f64": "double", "bool": "i1"}
FLOAT_OPS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
FLOAT_ORDERS = {"lt": "fcmp olt", "le": "fcmp ole", "eq": "fcmp oeq", "ne": "fcmp une"}
INTRINSICS = {"sqrt", "floor", "ceil", "trunc", "rint", "fma", "copysign"}


def scalar_type(type: Type) -> str:
    return SCALARS.get(repr(type)) or f"i{type.bits}"


def stored_type(type: Type) -> str:
    return "i8" if type == BOOL else scalar_type(type)


def number_text(number: Any, type: Type) -> str:
    """A number as LLVM writes it: floats by their bits, so that nothing is rounded twice."""
    if type.kind == "b":
        return "true" if number else "false"
    if type.kind != "f":
        return str(number)
    if type.bits == 16:
        return f"0xH{struct.unpack('<H', packed('<e', number))[0]:04X}"
    if type.bits == 32:
        number = struct.unpack("<f", packed("<f", number))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


def packed(form: str, number: float) -> bytes:
    """The bytes of a number; infinite where it is too large."""
    try:
        return struct.pack(form, number)
    except OverflowError:
        return struct.pack(form, math.copysign(math.inf, number))


class Vectors:
    """Writes instructions on `lanes` elements at once."""

    def __init__(self, write: Function, lanes: int) -> None:
        self.write = write
        self.lanes = lanes
        self.ahead = 0  # bytes ahead of a load that are fetched: for what comes from far away

    def type(self, type: Type) -> str:
        return f"<{self.lanes} x {scalar_type(type)}>"

    def stored(self, type: Type) -> str:
        return f"<{self.lanes} x {stored_type(type)}>"

    def splat(self, scalar: str, type: Type) -> str:
        """A vector of one number, which is a name; constants are written in place."""
        return self.write.splat(scalar_type(type), scalar, self.lanes)

    def constant(self, number: Any, type: Type) -> str:
        return f"splat ({scalar_type(type)} {number_text(number, type)})"

    # Memory.

    def load_one(self, pointer: str, type: Type) -> str:
        """One element, as a scalar."""
        name = self.write.new(f"load {stored_type(type)}, ptr {pointer}, align {type.bits // 8}")
        return self.write.new(f"icmp ne i8 {name}, 0") if type == BOOL else name

    def load(self, pointer: str, step: str, access: str, type: Type) -> str:
        """As many elements as there are lanes, one after the other or `step` bytes apart."""
        if access == "b":
            return self.splat(self.load_one(pointer, type), type)
        if access == "c":
            if self.ahead:
                self.write.fetch(self.write.offset(pointer, self.ahead))
            vector = self.write.new(
                f"load {self.stored(type)}, ptr {pointer}, align {type.bits // 8}"
            )
        else:
            vector = self.gathered(pointer, step, type)
        if type != BOOL:
            return vector
        return self.write.new(f"icmp ne {self.stored(type)} {vector}, zeroinitializer")

    def gathered(self, pointer: str, step: str, type: Type) -> str:
        vector, stored = "poison", stored_type(type)
        for lane in range(self.lanes):
            one = self.write.new(f"load {stored}, ptr {pointer}, align {type.bits // 8}")
            vector = self.write.new(
                f"insertelement {self.stored(type)} {vector}, {stored} {one}, i64 {lane}"
            )
            pointer = self.write.offset(pointer, step)
        return vector

    def store(self, vector: str, pointer: str, step: str, access: str, type: Type) -> None:
        stored, align = self.stored(type), type.bits // 8
        if type == BOOL:
            vector = self.write.new(f"zext {self.type(type)} {vector} to {stored}")
        if access == "n":
            self.write.declarations.add("!0 = !{i32 1}")
            past = "align 64, !nontemporal !0"
            self.write.line(f"store {stored} {vector}, ptr {pointer}, {past}")
            return
        if access == "c":
            self.write.line(f"store {stored} {vector}, ptr {pointer}, align {align}")
            return
        for lane in range(self.lanes):
            one = self.write.new(f"extractelement {stored} {vector}, i64 {lane}")
            self.write.line(f"store {stored_type(type)} {one}, ptr {pointer}, align {align}")
            pointer = self.write.offset(pointer, step)

    def store_one(self, vector: str, pointer: str, type: Type) -> None:
        """The first lane of a vector."""
        one = self.write.new(f"extractelement {self.type(type)} {vector}, i64 0")
        if type == BOOL:
            one = self.write.new(f"zext i1 {one} to i8")
        self.write.line(f"store {stored_type(type)} {one}, ptr {pointer}, align {type.bits // 8}")

    # Ops.

    def compute(self, node: Value, args: list[str]) -> str:
        """The vector of an op on vectors."""
        type = node.args[0].type
        vector, kind, op = self.type(type), type.kind, node.op
        if op == "constant":
            return self.constant(node.detail, node.type)
        if op in ("select", "library"):
            return self.select(node, args) if op == "select" else self.library(node, args)
        if op in ("convert", "bits"):
            how = "bitcast" if op == "bits" else conversion(type, node.type)
            return self.write.new(f"{how} {vector} {args[0]} to {self.type(node.type)}")
        if op in INTRINSICS or op == "absolute":
            return self.intrinsic(op, type, args)
        if op == "neg":
            text = (
                f"fneg {vector} {args[0]}"
                if kind == "f"
                else f"sub {vector} zeroinitializer, {args[0]}"
            )
            return self.write.new(text)
        return self.write.new(f"{instruction(op, kind)} {vector} {args[0]}, {args[1]}")

    def select(self, node: Value, args: list[str]) -> str:
        vector = self.type(node.type)
        condition = f"{self.type(BOOL)} {args[0]}"
        return self.write.new(f"select {condition}, {vector} {args[1]}, {vector} {args[2]}")

    def intrinsic(self, op: str, type: Type, args: list[str]) -> str:
        vector = self.type(type)
        suffix = f"v{self.lanes}{type.kind if type.kind == 'f' else 'i'}{type.bits}"
        given = [f"{vector} {arg}" for arg in args]
        if op == "absolute":
            op = "fabs" if type.kind == "f" else "abs"
            given += ["i1 false"] if type.kind != "f" else []
        return self.write.call(vector, f"llvm.{op}.{suffix}", *given)

    def library(self, node: Value, args: list[str]) -> str:
        """A branch to where the rare lanes are computed one by one, if there are any."""
        write, type = self.write, node.type
        vector, scalar = self.type(type), scalar_type(type)
        name = node.detail + ("f" if type.bits == 32 else "")
        mask = f"<{self.lanes} x i1>"
        rare = write.call("i1", f"llvm.vector.reduce.or.v{self.lanes}i1", f"{mask} {args[0]}")
        slow, end, before = write.label("slow"), write.label("end"), write.block
        write.branch(rare, slow, end)
        write.start(slow)
        held = [write.alloca(vector) for _ in range(2)]
        bits = write.alloca(f"<{self.lanes} x i8>")
        write.line(f"store {vector} {args[1]}, ptr {held[0]}, align 64")
        write.line(f"store {vector} {args[2]}, ptr {held[1]}, align 64")
        wide = write.new(f"zext {mask} {args[0]} to <{self.lanes} x i8>")
        write.line(f"store <{self.lanes} x i8> {wide}, ptr {bits}, align 64")
        with write.loop("0", str(self.lanes)) as lane:
            chosen = write.load(bits, "i8", lane)
            with write.when(write.new(f"icmp ne i8 {chosen}, 0")):
                x = write.load(held[0], scalar, lane)
                write.store(write.call(scalar, name, f"{scalar} {x}"), held[1], scalar, lane)
        out = write.new(f"load {vector}, ptr {held[1]}, align 64")
        after = write.block
        write.jump(end)
        write.start(end)
        return write.new(f"phi {vector} [{args[2]}, %{before}], [{out}, %{after}]")

    def halves(self, vector: str, type: Type) -> list[str]:
        """The two halves of a vector."""
        places = range(self.lanes // 2), range(self.lanes // 2, self.lanes)
        return [self.write.shuffle(self.type(type), vector, "poison", half) for half in places]


def instruction(op: str, kind: str) -> str:
    """The instruction of an op with two operands of a kind."""
    if op in ("lt", "le", "eq", "ne"):
        if kind == "f":
            return FLOAT_ORDERS[op]
        return f"icmp {op}" if op in ("eq", "ne") else f"icmp {'s' if kind == 'i' else 'u'}{op}"
    if kind == "f":
        return FLOAT_OPS[op]
    if op == "quotient":
        return "sdiv" if kind == "i" else "udiv"
    if op == "shr":
        return "ashr" if kind == "i" else "lshr"
    return op


def conversion(source: Type, target: Type) -> str:
    if source.kind == "f" and target.kind == "f":
        return "fpext" if target.bits > source.bits else "fptrunc"
    if source.kind == "f":
        return "fptosi" if target.kind == "i" else "fptoui"
    if target.kind == "f":
        return "sitofp" if source.kind == "i" else "uitofp"
    if source.kind == "b":
        return "zext"
    if target.bits == source.bits:
        return "bitcast"
    if target.bits < source.bits:
        return "trunc"
    return "sext" if source.kind == "i" else "zext"
