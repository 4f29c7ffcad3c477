"""Expressions on symbols: what a derivative rule says, before there is any array.

A rule is called once with symbols; the ops in it return `Expr`s instead of computing. That DAG is
the single source of the compiled forms of the rule: here, a straight-line NumPy function.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .._foundation.errors import TraceError


class Expr:
    """A symbol (`op` is None, `name` set) or an op on expressions and scalars."""

    __slots__ = ("args", "attrs", "name", "op", "static")
    __hash__ = object.__hash__

    def __init__(self, op: Any, args: tuple = (), attrs: Mapping | None = None):
        self.op = op
        self.args = args
        self.attrs = attrs or {}
        self.name = ""
        self.static = False

    def __bool__(self) -> bool:
        raise TraceError(f"a rule can't branch on the value of {self}; use ad.where")

    def __repr__(self) -> str:
        if self.op is None:
            return self.name
        attrs = [f"{key}={value!r}" for key, value in self.attrs.items()]
        return f"{self.op.name}({', '.join([*map(repr, self.args), *attrs])})"


def symbol(name: str, static: bool = False) -> Expr:
    """An array, or, if static, an attribute of the call."""
    out = Expr(None)
    out.name, out.static = name, static
    return out


def walk(*outputs: Any) -> list[Expr]:
    """All expressions behind the outputs, each once, operands before what uses them."""
    order: dict[int, Expr] = {}
    stack = [(out, False) for out in outputs]
    while stack:
        value, done = stack.pop()
        if not isinstance(value, Expr) or id(value) in order:
            continue
        if done:
            order[id(value)] = value
        else:
            stack.append((value, True))
            stack.extend((arg, False) for arg in value.args)
    return list(order.values())


def has_constants(output: Expr) -> bool:
    """Whether a Python scalar or an attribute is an operand somewhere in an expression."""
    operands = [arg for value in walk(output) for arg in value.args if arg is not None]
    return any(not isinstance(arg, Expr) or arg.static for arg in operands)


def is_expression(output: Any) -> bool:
    """Whether a value is made of symbols and Python scalars only."""
    scalars = (bool, int, float, complex, type(None))
    operands = [arg for value in walk(output) for arg in value.args]
    return isinstance(output, Expr) and all(
        isinstance(arg, Expr) or type(arg) in scalars for arg in operands
    )


class Writer:
    """Writes expressions as lines of Python, equal subexpressions once."""

    def __init__(self, kernel: Callable[[Any], Callable], constant: Callable[[Any], Any]) -> None:
        self.kernel = kernel
        self.constant = constant
        self.scope: dict[str, Any] = {}
        self.names: dict[str, str] = {}
        self.texts: dict[int, str] = {}
        self.lines: list[str] = []

    def write(self, output: Expr) -> str:
        """The name of an output; the lines that compute it are added."""
        for value in walk(output):
            self.texts[id(value)] = self.text(value)
        return self.texts[id(output)]

    def text(self, value: Expr) -> str:
        """What stands for an expression whose operands are written."""
        if value.op is None:
            scalar = f"{self.bind('typed', self.constant)}({value.name})"
            return self.line(scalar) if value.static else value.name
        args = [self.operand(arg) for arg in value.args]
        args += [f"{key}={self.attribute(item)}" for key, item in value.attrs.items()]
        kernel = self.bind(value.op.name, self.kernel(value.op))
        return self.line(f"{kernel}({', '.join(args)})")

    def operand(self, value: Any) -> str:
        if isinstance(value, Expr):
            return self.texts[id(value)]
        return "None" if value is None else self.bind("c", self.constant(value))

    def line(self, call: str) -> str:
        """The name of a call's result; the same call is made once."""
        if call not in self.names:
            self.names[call] = f"_t{len(self.names)}"
            self.lines.append(f"{self.names[call]} = {call}")
        return self.names[call]

    def attribute(self, value: Any) -> str:
        if isinstance(value, tuple):
            return f"({''.join(f'{self.attribute(item)}, ' for item in value)})"
        return value.name if isinstance(value, Expr) else self.bind("a", value)

    def bind(self, prefix: str, value: Any) -> str:
        """A name in the function's scope for an object."""
        for name, held in self.scope.items():
            if held is value:
                return name
        name = f"_{prefix if prefix.isidentifier() else 'op'}_{len(self.scope)}"
        self.scope[name] = value
        return name


def compile_expressions(
    signature: str,
    unpack: Iterable[str],
    outputs: list[Any],
    kernel: Callable[[Any], Callable],
    constant: Callable[[Any], Any],
    scope: Mapping[str, Any],
    ours: bool,
) -> Callable:
    """A straight-line function that computes `outputs`: one value, or a tuple of them. `ours`: no
    kernel in it is the user's."""
    writer = Writer(kernel, constant)
    results = [writer.write(out) for out in outputs]
    result = results[0] if len(results) == 1 else f"({', '.join(results)},)"
    lines = [*unpack, *writer.lines, f"return {result}"]
    source = f"def compiled({signature}):\n" + "".join(f"    {line}\n" for line in lines)
    scope = {**writer.scope, **scope}
    exec(source, scope)
    compiled = scope["compiled"]
    compiled.source, compiled.ours = source, ours
    compiled.fused = fused = scope.get("fused")
    compiled.is_special = not ours or (fused is not None and fused.adder is not None)
    return compiled


class OnFirstUse(dict):
    """A dict whose values are made of their keys, when they are first asked for."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.make = make

    def __missing__(self, key: Any) -> Any:
        self[key] = self.make(key)
        return self[key]
