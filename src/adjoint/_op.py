"""What an op is: its declaration, and plans: the declaration specialised to what needs a gradient.

The parameter names of a derivative rule say what is kept for backward: `g` (for op with several
outputs, `g_<output>`) is the incoming gradient; an input's, output's or aux value's name is that
array (`out`: the only output); `x_shape` and `x_dtype` are an input's metadata; `i` is the position
in a `*xs` input; `needs` (joint rules) says which inputs want a gradient, `arrived` which outputs
have got one; every other name is a static attribute of the call.
"""

from collections.abc import Callable
from typing import Any

from . import backends
from ._errors import ArgumentError, TraceError
from ._expr import PerDType, compile_expressions, has_constants, is_expression, symbol, walk
from ._fusion import Fused
from ._modes import no_grad, symbolic
from ._silence import compute, computing
from ._tensor import Tensor, wrap

RESERVED = {"g", "i", "needs", "arrived", "saved"}

# How an op takes one more axis, before the others, for a batch; by kind, unless it is declared.
BATCHING = {"elementwise": "broadcast", "reduction": "leading"}


def parameters(function: Callable) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def shape_of(value: Any) -> tuple:
    return getattr(value, "shape", ())


def dtype_of(value: Any) -> Any:
    return getattr(value, "dtype", None)


class Op:
    """A declared op; see `adjoint.op` for what the fields mean to who declares one."""

    def __init__(
        self,
        name: str,
        kind: str,
        rules: dict[str, Callable],
        *,
        inputs: str | None = None,
        outputs: str = "out",
        aux: str = "",
        attrs: str = "",
        vjp: Callable | None = None,
        differentiable: bool = True,
        shape: Callable | None = None,
        dtype: str | None = None,
        promotes: str | None = None,
        floats: bool = False,
        real_valued: bool = False,
        linear: bool = False,
        dynamic_shape: bool = False,
        random: bool = False,
        needs_graph: Callable[..., tuple[int, ...]] | None = None,
        batch: str | Callable | None = None,
        forward: Callable | None = None,
        kernels: dict[str, Callable] | None = None,
    ) -> None:
        words = (inputs if inputs is not None else " ".join(rules)).split()
        self.name = name
        self.kind = kind
        self.inputs = tuple(word.strip("*?") for word in words)
        self.optional = frozenset(word[:-1] for word in words if word.endswith("?"))
        self.variadic = bool(words) and words[-1].startswith("*")
        self.outputs = tuple(outputs.split())
        self.results = (*self.outputs, *aux.split())
        self.attributes = frozenset(attrs.split())
        self.rules = rules
        self.vjp = vjp
        self.differentiable = differentiable
        self.shape = shape
        self.dtype = dtype
        self.promotes = frozenset(self.inputs if promotes is None else promotes.split())
        self.floats = floats
        self.real_valued = real_valued
        self.linear = linear
        self.dynamic_shape = dynamic_shape
        self.random = random
        self.needs_graph = needs_graph
        self.batch = batch or BATCHING.get(kind, "each")
        self.forward = forward
        self.own_kernels = kernels or {}
        self.is_self_made = bool(forward or kernels)  # what computes it isn't a backend's
        self.arity = 0  # set where a dispatcher specialised by arity serves the op
        self.call: Any = None  # the dispatcher, where it isn't the general one
        self.kernels = Kernels(self)
        self.plans: dict[tuple, Plan] = {}
        self._check()

    def _check(self) -> None:
        unknown = set(self.rules) - set(self.inputs)
        if unknown:
            raise ArgumentError(
                f"op {self.name}: rules for {sorted(unknown)}, but its inputs are {self.inputs}"
            )
        if not callable(self.batch) and self.batch not in ("broadcast", "leading", "each"):
            raise ArgumentError(
                f"op {self.name}: batch is a function, 'broadcast', 'leading' or 'each', got "
                f"{self.batch!r}"
            )
        if self.rules and self.vjp:
            raise ArgumentError(f"op {self.name}: give a rule per input or a joint vjp, not both")
        if self.differentiable != bool(self.rules or self.vjp):
            raise ArgumentError(
                f"op {self.name}: give rules for its gradient, or differentiable=False; one of them"
            )
        for name in (*self.inputs, *self.results, *self.attributes):
            if not name.isidentifier() or name.startswith("_") or name in RESERVED:
                raise ArgumentError(f"op {self.name}: {name!r} can't name an input or attribute")
        metadata = {f"{x}_{what}" for x in self.inputs for what in ("shape", "dtype", "shapes")}
        own = {*self.inputs, *self.results, *self.attributes}
        known = {*own, *metadata, *self.gradients, "i", "needs", "arrived"}
        for rule in [*self.rules.values(), *filter(None, [self.vjp])]:
            if not hasattr(rule, "__code__"):
                raise ArgumentError(f"op {self.name}: a rule is a plain function, not {rule!r}")
            unknown = set(parameters(rule)) - known
            if unknown:
                raise ArgumentError(
                    f"op {self.name}: a rule names {sorted(unknown)}, which is neither an input, "
                    "an output, metadata such as x_shape, nor declared in attrs="
                )

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    @property
    def gradients(self) -> tuple[str, ...]:
        """What the rules call the incoming gradients, one per output."""
        return ("g",) if len(self.outputs) == 1 else tuple(f"g_{x}" for x in self.outputs)

    @property
    def single_result(self) -> bool:
        return len(self.results) == 1

    def input_name(self, position: int) -> str:
        """The declared name of the input at a position; all of `*xs` share one."""
        return self.inputs[min(position, len(self.inputs) - 1)]

    def has_rule(self, position: int) -> bool:
        return self.vjp is not None or self.input_name(position) in self.rules

    def plan(self, needs: tuple[bool, ...], absent: tuple[str, ...] = ()) -> "Plan":
        """The op specialised to the inputs that need a gradient, and to optional ones left out."""
        plan = self.plans.get((needs, absent))
        if plan is None:
            plan = self.plans[needs, absent] = Plan(self, needs, absent)
        return plan


class Kernels(dict):
    """Raw array type -> the function that computes an op on such arrays."""

    def __init__(self, op: Op) -> None:
        self.op = op

    def __missing__(self, array_type: type) -> Callable:
        backend = backends.LOADED.get(array_type)
        if backend is None:
            raise TraceError.escaped(self.op.name)
        self[array_type] = self.find(backend)
        return self[array_type]

    def find(self, backend: Any) -> Callable:
        op = self.op
        own = op.own_kernels.get(backend.DEVICE)
        kernel = own or (op.forward and from_forward(op, backend)) or backend.kernel_of(op)
        if kernel is None:
            raise ArgumentError(
                f"op {op.name} has no implementation on {backend.DEVICE}: declare it with "
                f"forward= or kernels={{{backend.DEVICE!r}: function}}"
            )
        return kernel


def from_forward(op: Op, backend: Any) -> Callable:
    """A kernel from a forward that is written in adjoint ops."""
    forward: Any = op.forward

    def run(*inputs: Any, **attrs: Any) -> Any:
        tensors = [wrap(x) if isinstance(x, backend.Array) else x for x in inputs]
        with no_grad():
            out = forward(*tensors, **attrs)
        return out.raw if isinstance(out, Tensor) else tuple(part.raw for part in out)

    names = parameters(forward)
    if op.kind != "elementwise" or op.variadic or not op.single_result:
        return run
    try:
        with symbolic():
            output = forward(*(symbol(name, name in op.attributes) for name in names))
    except Exception:  # it branches, or is wrong: tensors will tell
        return run
    if not is_expression(output):
        return run
    compiled = compiled_per_dtype(op, ", ".join(names), names, [], [output], backend)

    def run_compiled(*inputs: Any, **attrs: Any) -> Any:
        dtype = inputs[0].dtype
        if dtype.kind != "f" or any(getattr(x, "dtype", None) is not dtype for x in inputs):
            return run(*inputs, **attrs)  # constants have no one dtype: leave it to promotion
        return called(compiled[dtype], *inputs, **attrs)

    return run_compiled


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
        op: Op,
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
        self.compiled = Compiled(self)

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

    def compilable(self, backend: Any) -> PerDType | None:
        """The rules as one function of raw arrays (g, saved) -> gradients, for each dtype of g.

        None where they aren't expressions: they branch, or ask for shapes, or (in ops that aren't
        elementwise) have constants, whose dtype would be a guess. They run on tensors then, and
        what they raise is raised in backward. A backend may have one function for all of it.
        """
        if self.op.vjp is not None or len(self.op.outputs) > 1:
            return None
        whole = backend.BACKWARD.get(self.op.name)
        if whole is not None and self.targets == (0,):
            return whole_rule(whole)
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
        return compiled_per_dtype(self.op, f"g, {saved}", names, lines, outputs, backend)

    def of_another_dtype(self) -> list[str]:
        """Arrays that may have another dtype than g: constants and promotion are in doubt then."""
        op = self.op
        if op.kind != "elementwise":
            return []
        if op.dtype is None:
            return [name for name in self.names if name in op.inputs and name not in op.promotes]
        return [name for name in self.names if name in op.inputs or name in op.results]


class Compiled(dict):
    """Raw array type -> the rules of a plan as functions of such arrays, or None: see `compilable`.

    Made when a gradient of that type first arrives.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __missing__(self, array_type: type) -> PerDType | None:
        backend = backends.LOADED.get(array_type)
        able = backend is not None and hasattr(backend, "BACKWARD")
        self[array_type] = self.plan.compilable(backend) if able else None
        return self[array_type]


def compiled_per_dtype(
    op: Op,
    signature: str,
    names: tuple[str, ...],
    unpack: list[str],
    outputs: list,
    backend: Any,
) -> PerDType:
    """Expressions of names as a function, by dtype. `unpack`: lines that make names of parameters.

    Large arrays go to one kernel for all of it, where there is one.
    """
    fused = Fused(op.name, outputs, names, backend)
    ours = not any(value.op is not None and value.op.is_self_made for value in walk(*outputs))
    lines = [
        *unpack,
        f"if {names[0]}.size >= {backend.LEAST}:",
        f"    _out = fused({', '.join(names)})",
        "    if _out is not NotImplemented: return _out",
    ]
    return PerDType(
        lambda dtype: compile_expressions(
            signature,
            lines,
            outputs,
            lambda op: for_small(op, backend, ours),
            lambda value: backend.scalar(value, dtype),
            {"fused": fused},
            ours,
        )
    )


def called(compiled: Any, *args: Any, **attrs: Any) -> Any:
    """Call what was made of expressions. Kernels of the user's in it run as the user has set NumPy,
    so that it is left to the others to be silent."""
    return compute(compiled, *args, **attrs) if compiled.ours else compiled(*args, **attrs)


def whole_rule(function: Callable) -> PerDType:
    """A backend's own function for a rule that keeps several values."""

    def compiled(g: Any, saved: tuple) -> Any:
        return function(g, *saved)

    compiled.fused, compiled.is_special, compiled.ours = None, False, True  # type: ignore[attr-defined]
    return PerDType(lambda dtype: compiled)


def for_small(op: Op, backend: Any, ours: bool) -> Callable:
    """The function of an op where it is known that arrays aren't large; `ours`: among others that
    aren't the user's either."""
    if op.is_self_made:
        return op.kernels[backend.Array]
    is_plain = op.kind == "elementwise" and op.name in backend.NUMPY
    kernel = backend.NUMPY[op.name] if is_plain else op.kernels[backend.Array]
    return kernel if ours else computing(kernel)


class Projection:
    """The plan of a node that stands for one output of an op with several."""

    single = True
    compiled = None
    recomputes = False

    def __init__(self, op: Op, output: int) -> None:
        self.op = op
        self.output = output
