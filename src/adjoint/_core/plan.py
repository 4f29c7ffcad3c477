"""How an op differentiates: its declaration, specialised to the inputs that need a gradient.

A plan says what a recorded call keeps for backward, and has the derivative rules as functions on
raw arrays.
"""

from collections.abc import Callable
from typing import Any, Protocol

from .. import backends
from .._foundation.modes import symbolic
from .._foundation.silence import compute, computing
from .expressions import OnFirstUse, compile_expressions, has_constants, is_expression, symbol, walk


def parameters(function: Callable) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def shape_of(value: Any) -> tuple:
    return getattr(value, "shape", ())


def dtype_of(value: Any) -> Any:
    return getattr(value, "dtype", None)


class Declared(Protocol):
    """The part of an op that its plans use."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    results: tuple[str, ...]
    rules: dict[str, Callable]
    vjp: Callable | None
    dtype: str | None
    promotes: frozenset[str]
    variadic: bool
    arity: int
    is_self_made: bool
    functions: Any

    @property
    def gradients(self) -> tuple[str, ...]: ...

    def input_name(self, position: int) -> str: ...


class Plan:
    """An op specialised to the inputs that need a gradient: what to save, and what to compute.

    `targets`: the positions of those inputs. `names`: what `saved` holds, in order. `calls`: the
    rules with their parameter names. A `partial` plan computes fewer gradients from the same saved
    values.
    """

    recomputes = False  # a checkpoint's plan does

    __slots__ = (
        "absent",
        "calls",
        "compiled",
        "names",
        "needs",
        "op",
        "output",
        "partials",
        "pick",
        "pick_raw",
        "single",
        "targets",
    )

    def __init__(
        self,
        op: Declared,
        needs: tuple[bool, ...],
        absent: tuple[str, ...] = (),
        names: tuple[str, ...] | None = None,
    ):
        self.op = op
        self.needs = needs
        self.absent = absent
        self.targets = tuple(position for position, need in enumerate(needs) if need)
        self.single = len(self.targets) == 1
        self.calls = [(rule, parameters(rule)) for rule in self.rules()]
        self.names = self.named_by_rules() if names is None else names
        self.output: int | None = None
        self.partials: dict[tuple[bool, ...], Plan] = {}
        inputs = [f"inputs[{k}]" for k in range(len(needs))]
        results = [f"results[{k}]" for k in range(len(op.results))]
        self.pick: Callable = self.picker("inputs, results, attrs", inputs, results)
        self.pick_raw: Any = None
        if op.arity:
            args = list("xy"[: op.arity])
            self.pick_raw = self.picker(", ".join([*args, "out"]), args, ["out"])
        self.compiled = OnFirstUse(self.compile)  # by types of raw arrays

    def rules(self) -> list[Callable]:
        op = self.op
        return [op.vjp] if op.vjp else [op.rules[op.input_name(k)] for k in self.targets]

    def named_by_rules(self) -> tuple[str, ...]:
        given = {*self.op.gradients, "i", "needs", "arrived"}
        names = (name for _, names in self.calls for name in names)
        return tuple(dict.fromkeys(name for name in names if name not in given))

    def picker(self, signature: str, inputs: list[str], results: list[str]) -> Callable:
        """A function that takes from a call what `saved` holds: one value, a tuple, or None."""
        parts = [self.locate(name, inputs, results) for name in self.names]
        text = "None" if not parts else parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
        scope = {"shape_of": shape_of, "dtype_of": dtype_of}
        return eval(f"lambda {signature}: {text}", scope)

    def locate(self, name: str, inputs: list[str], results: list[str]) -> str:
        """The text of an expression for a name that a rule mentions."""
        op = self.op
        if name in op.inputs:
            return self.input_text(name, inputs)
        if name in op.results:
            return results[op.results.index(name)]
        owner, _, what = name.rpartition("_")
        if owner in op.inputs and what in ("shape", "dtype"):
            return f"{what}_of({self.input_text(owner, inputs)})"
        if owner in op.inputs and what == "shapes":
            return f"tuple(map(shape_of, {self.input_text(owner, inputs)}))"
        return f"attrs[{name!r}]"

    def input_text(self, name: str, inputs: list[str]) -> str:
        position = self.op.inputs.index(name)
        if self.op.variadic and position == len(self.op.inputs) - 1:
            return f"({', '.join(inputs[position:])},)" if inputs[position:] else "()"
        return inputs[position]

    def partial(self, wanted: tuple[bool, ...]) -> "Plan":
        """The plan for some of the targets, from the same saved values."""
        plan = self.partials.get(wanted)
        if plan is None:
            kept = {k for k, want in zip(self.targets, wanted, strict=True) if want}
            needs = tuple(k in kept for k in range(len(self.needs)))
            plan = self.partials[wanted] = Plan(self.op, needs, self.absent, self.names)
        return plan

    def unpacked(self, saved: Any) -> tuple:
        return saved if len(self.names) > 1 else (saved,) if self.names else ()

    def expressions(self) -> list[Any]:
        """The derivative rules of the targets, called with symbols."""
        static = {*self.names} - {*self.op.inputs, *self.op.results}
        known: dict[str, Any] = {name: symbol(name, name in static) for name in self.names}
        known |= dict.fromkeys(self.absent)
        known["g"] = symbol("g")
        with symbolic():
            return [rule(*(known[name] for name in names)) for rule, names in self.calls]

    def compile(self, array_type: type) -> OnFirstUse | None:
        """The rules as one function of raw arrays (g, saved) -> gradients, by dtypes of g.

        None where they aren't expressions: they branch, or ask for shapes, or (in ops that aren't
        elementwise) have constants, whose dtype would be a guess. They run on tensors then, and
        what they raise is raised in backward. A backend may have one function for all of it.
        """
        backend: Any = backends.LOADED.get(array_type)
        is_joint = self.op.vjp is not None or len(self.op.outputs) > 1
        if is_joint or not hasattr(backend, "BACKWARD"):
            return None
        whole = backend.BACKWARD.get(self.op.name)
        if whole is not None and self.targets == (0,):
            return as_rules(whole)
        try:
            outputs = self.expressions()
        except Exception:
            return None
        if self.op.kind != "elementwise" and any(map(has_constants, outputs)):
            return None
        if not all(map(is_expression, outputs)):
            return None
        saved = self.names[0] if len(self.names) == 1 else "saved"
        lines = [f"{', '.join(self.names)} = saved"] if len(self.names) > 1 else []
        lines += [
            f"if {name}.dtype is not g.dtype and {name}.dtype.kind != 'b': return NotImplemented"
            for name in self.of_another_dtype()
        ]
        names = ("g", *self.names)
        return compile_per_dtype(self.op, f"g, {saved}", names, lines, outputs, backend)

    def of_another_dtype(self) -> list[str]:
        """Arrays that may have another dtype than g: constants and promotion are in doubt then."""
        op = self.op
        if op.kind != "elementwise":
            return []
        if op.dtype is None:
            return [name for name in self.names if name in op.inputs and name not in op.promotes]
        return [name for name in self.names if name in op.inputs or name in op.results]


def compile_per_dtype(
    op: Declared,
    signature: str,
    names: tuple[str, ...],
    unpack: list[str],
    outputs: list,
    backend: Any,
) -> OnFirstUse:
    """Expressions of names as a function, by dtype: constants are typed beforehand. `unpack`: lines
    that make names of parameters.

    Large arrays go to one kernel for all of it, where there is one.
    """
    from .fused_rules import Fused  # and the kernel language: not at import, but for a first rule

    fused = Fused(op.name, outputs, names, backend)
    ours = not any(value.op is not None and value.op.is_self_made for value in walk(*outputs))
    lines = [
        *unpack,
        f"if {names[0]}.size >= {backend.LEAST}:",
        f"    _out = fused({', '.join(names)})",
        "    if _out is not NotImplemented: return _out",
    ]
    return OnFirstUse(
        lambda dtype: compile_expressions(
            signature,
            lines,
            outputs,
            lambda op: function_for_small(op, backend, ours),
            lambda value: backend.scalar(value, dtype),
            {"fused": fused},
            ours,
        )
    )


def call_compiled(compiled: Any, *args: Any, **attrs: Any) -> Any:
    """Call what was made of expressions. Functions of the user's in it run as the user has set
    NumPy, so that it is left to the others to be silent."""
    return compute(compiled, *args, **attrs) if compiled.ours else compiled(*args, **attrs)


def as_rules(function: Callable) -> OnFirstUse:
    """A backend's own function for a rule that keeps several values."""

    def compiled(g: Any, saved: tuple) -> Any:
        return function(g, *saved)

    compiled.fused, compiled.is_special, compiled.ours = None, False, True  # type: ignore[attr-defined]
    return OnFirstUse(lambda dtype: compiled)


def function_for_small(op: Declared, backend: Any, ours: bool) -> Callable:
    """The function of an op where it is known that arrays aren't large; `ours`: among others that
    aren't the user's either."""
    if op.is_self_made:
        return op.functions[backend.Array]
    is_plain = op.kind == "elementwise" and op.name in backend.NUMPY
    function = backend.NUMPY[op.name] if is_plain else op.functions[backend.Array]
    return function if ours else computing(function)


class Projection:
    """The plan of a node that stands for one output of an op with several."""

    single = True
    compiled = None
    recomputes = False

    def __init__(self, op: Declared, output: int) -> None:
        self.op = op
        self.output = output
