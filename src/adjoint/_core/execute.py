"""The one way an op runs: on a backend, in a trace, on symbols; recorded if gradients are wanted.

`apply` takes tensors, `apply_coerced` operands of any kind: it converts, promotes and explains.
"""

from typing import Any

import numpy as np

from .. import backends
from .._foundation.dtypes import SCALAR_RANK, weak
from .._foundation.errors import (
    AdjointError,
    ArgumentError,
    DTypeError,
    IndexingError,
    KeywordError,
    RangeError,
)
from .._foundation.modes import ANOMALY, GRAD, PROFILE, SYMBOLIC, TRACE, mode
from .._foundation.spans import timed
from .anomaly import check_finite
from .declaration import Op
from .expressions import Expr
from .node import Joint, Node, needing_graph
from .plan import Projection
from .promotion import as_operand, beside_tensors, check_devices, promoted
from .shape_inference import infer_shapes
from .tensor import Tensor, describe, wrap

# What a function's errors are called when they reach the user.
EXPLAINED = {TypeError: DTypeError, IndexError: IndexingError, OverflowError: RangeError}


def as_array(out: Any) -> Any:
    """NumPy gives scalars for 0-d results: make them arrays again."""
    return np.asarray(out) if isinstance(out, np.generic) else out


def apply_checked(op: Op, inputs: tuple, attrs: dict) -> Any:
    """Apply an op after checking its attributes; elementwise operands may be of any kind."""
    if op.optional:
        inputs = (*inputs, *(None for _ in op.inputs[len(inputs) :]))
    if attrs.keys() != op.attributes:
        raise KeywordError(
            f"{op.name}: its attributes are {sorted(op.attributes)}, got {sorted(attrs)}"
        )
    return (
        apply_coerced(op, *inputs, **attrs)
        if op.kind == "elementwise"
        else apply(op, inputs, attrs)
    )


def apply_coerced(op: Op, *inputs: Any, **attrs: Any) -> Any:
    """Apply an op to operands of any kind: convert them, promote their dtypes, check shapes."""
    if mode.word & SYMBOLIC:
        return Expr(op, tuple(map(weak, inputs)), attrs)  # symbols are tensors
    given = beside_tensors(inputs)
    operands = promoted(op, [as_operand(op, k, x) for k, x in enumerate(given)])
    if not mode.word & TRACE:  # a trace infers them anyway
        infer_shapes(op, operands, attrs)
    return apply(op, operands, attrs)


def apply(op: Op, inputs: Any, attrs: dict) -> Any:
    """Run an op on tensors (and Python scalars, or None where optional); record it."""
    word = mode.word
    if word & SYMBOLIC:
        return Expr(op, tuple(inputs), attrs)
    if word & TRACE:
        raw, results = mode.trace.record(op, inputs, attrs)
    else:
        raw, results = execute(op, inputs, attrs)
    outputs = tuple(wrap(as_array(result)) for result in results)
    if word & TRACE:
        mode.trace.note_made(outputs)
    if word & GRAD and op.differentiable:
        record(op, inputs, raw, outputs, attrs)
    if word & ANOMALY:
        check_finite(op, inputs, outputs)
    return outputs[0] if op.single_result else outputs


def execute(op: Op, inputs: Any, attrs: dict) -> tuple[list, tuple]:
    """The raw inputs and the raw results of an op, computed by its backend."""
    tensors = [x for x in inputs if isinstance(x, Tensor)]
    if "device" in attrs:
        module = backends.backend(attrs["device"])
        arrays, attrs = module.Array, {k: v for k, v in attrs.items() if k != "device"}
    else:
        arrays = type(tensors[0].raw)
        module = backends.LOADED.get(arrays)
        if module is None or any(type(x.raw) is not arrays for x in tensors):
            check_devices(op.name, tensors)
    raw = [x.raw if isinstance(x, Tensor) else x for x in inputs]
    try:
        if module is not None and len(tensors) < len(raw):
            dtype = scalar_dtype(op, inputs)
            raw = [module.scalar(x, dtype) if type(x) in SCALAR_RANK else x for x in raw]
        function = op.functions[arrays]
        if mode.word & PROFILE:
            function = timed(op.name, "forward", function)
        results = function(*raw, **attrs)
    except (TypeError, ValueError, IndexError, OverflowError) as error:
        if op.is_self_made or isinstance(error, AdjointError):
            raise
        raise explained(op, inputs, error) from None
    results = (results,) if op.single_result else results
    if op.is_self_made:
        check_results(op, results, arrays)
    return raw, results


def check_results(op: Op, results: Any, arrays: type) -> None:
    """Raise unless the results of a user's function or forward fit the declaration."""
    names = ", ".join(op.results)
    if not isinstance(results, (tuple, list)) or len(results) != len(op.results):
        raise ArgumentError(f"op {op.name}: its results are {names}, but it returned {results!r}")
    for name, result in zip(op.results, results, strict=True):
        if not isinstance(as_array(result), arrays):
            kind = type(result).__name__
            raise DTypeError(f"op {op.name}: {name} is a {kind}, expected {arrays.__name__}")


def explained(op: Op, inputs: Any, error: Exception) -> AdjointError:
    """A function's error, with what it was given."""
    given = ", ".join(describe(x) if isinstance(x, Tensor) else repr(x) for x in inputs)
    cls = next((c for b, c in EXPLAINED.items() if isinstance(error, b)), ArgumentError)
    return cls(f"{op.name}({given}): {error}")


def scalar_dtype(op: Op, inputs: Any) -> Any:
    """The dtype that scalar operands take: that of the tensors they were promoted with."""
    promoting = [x for k, x in enumerate(inputs) if op.input_name(k) in op.promotes]
    return next((x.raw.dtype for x in promoting if isinstance(x, Tensor)), None)


def record(op: Op, inputs: Any, raw: list, outputs: tuple[Tensor, ...], attrs: dict) -> None:
    """Give the outputs a node, if an input that has a rule has one."""
    nodes = [x.node if isinstance(x, Tensor) else None for x in inputs]
    needs = tuple([node is not None and op.has_rule(k) for k, node in enumerate(nodes)])
    data = [out.raw for out in outputs]
    kind = data[0].dtype.kind
    if True not in needs or kind not in "fc":
        return
    if kind == "c":
        raise DTypeError(f"{op.name}: gradients through complex values aren't supported yet")
    absent = tuple([op.input_name(k) for k, x in enumerate(inputs) if x is None])
    plan = op.plan(needs, absent)
    parents: Any = tuple([node for node, need in zip(nodes, needs, strict=True) if need])
    parents = parents[0] if plan.single else parents
    saved = plan.pick(raw, data, attrs)
    count = len(op.outputs)
    if count == 1:
        outputs[0].node = Node(plan, parents, saved, data[0].shape, data[0].dtype)
        return
    shapes, dtypes = zip(*((out.shape, out.dtype) for out in data[:count]), strict=True)
    node = Joint(plan, parents, saved, shapes, dtypes)
    node.outputs = [None] * count
    for position in range(count):
        outputs[position].node = node.output(position, Projection(op, position))
    if op.needs_graph is not None and (positions := op.needs_graph(*outputs[:count])):
        needing_graph[node] = positions
