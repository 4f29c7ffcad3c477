"""How an op is declared: its inputs, outputs, attributes and derivative rules, checked.

The parameter names of a derivative rule say what is kept for backward: `g` (for op with several
outputs, `g_<output>`) is the incoming gradient; an input's, output's or aux value's name is that
array (`out`: the only output); `x_shape` and `x_dtype` are an input's metadata; `i` is the position
in a `*xs` input; `needs` (joint rules) says which inputs want a gradient, `arrived` which outputs
have got one; every other name is a static attribute of the call.
"""

from collections.abc import Callable
from typing import Any

from .. import backends
from .._foundation.errors import ArgumentError, TraceError
from .._foundation.modes import no_grad, symbolic
from .expressions import OnFirstUse, is_expression, symbol
from .plan import Plan, call_compiled, compile_per_dtype, parameters
from .tensor import Tensor, wrap

RESERVED = {"g", "i", "needs", "arrived", "saved"}

# How an op takes one more axis, before the others, for a batch; by kind, unless it is declared.
BATCHING = {"elementwise": "broadcast", "reduction": "leading"}


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
        self.own_functions = kernels or {}
        self.is_self_made = bool(forward or kernels)  # what computes it isn't a backend's
        self.arity = 0  # set where a dispatcher specialised by arity serves the op
        self.call: Any = None  # the dispatcher, where it isn't the general one
        self.functions = OnFirstUse(self.function_on)  # by types of raw arrays
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
        """Names of the incoming gradients in rules, one per output."""
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

    def function_on(self, array_type: type) -> Callable:
        """The function that computes the op on raw arrays of a type."""
        backend = backends.LOADED.get(array_type)
        if backend is None:
            raise TraceError.escaped(self.name)
        own = self.own_functions.get(backend.DEVICE)
        function = own or (self.forward and from_forward(self, backend))
        function = function or backend.function_of(self)
        if function is None:
            raise ArgumentError(
                f"op {self.name} has no implementation on {backend.DEVICE}: declare it with "
                f"forward= or kernels={{{backend.DEVICE!r}: function}}"
            )
        return function


def from_forward(op: Op, backend: Any) -> Callable:
    """A function from a forward that is written in adjoint ops."""
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
    compiled = compile_per_dtype(op, ", ".join(names), names, [], [output], backend)

    def run_compiled(*inputs: Any, **attrs: Any) -> Any:
        dtype = inputs[0].dtype
        if dtype.kind != "f" or any(getattr(x, "dtype", None) is not dtype for x in inputs):
            return run(*inputs, **attrs)  # constants have no one dtype: leave it to promotion
        return call_compiled(compiled[dtype], *inputs, **attrs)

    return run_compiled
