"""What the gradient of a node's output says of its inputs: derivative rules, called and checked.

Gradients travel as raw arrays, or, with `create_graph`, as tensors with nodes of their own.
"""

from typing import Any

from .._core.anomaly import is_finite, what_is_wrong
from .._core.execute import as_array
from .._core.node import Node
from .._core.plan import Plan, Projection
from .._core.shape_inference import broadcasts_to
from .._core.tensor import Tensor, wrap
from .._foundation.errors import AnomalyError, GradientError
from ..primitives.creation import full
from ..primitives.reductions import broadcast_to, unbroadcast


def pullback(plan: Plan, node: Node, g: Any, create_graph: bool) -> Any:
    """The gradients of a plan's targets, by calling the derivative rules on tensors."""
    op = plan.op
    known = saved_values(node, create_graph)
    if isinstance(g, list):
        known |= zip(op.gradients, incoming(node, g, create_graph), strict=True)
        known["arrived"] = tuple(part is not None for part in g)
    else:
        known["g"] = g if create_graph else wrap(g)
    if op.vjp is not None:
        known["needs"] = plan.needs
        rule, names = plan.calls[0]
        out = rule(*(known[name] for name in names))
        out = out if isinstance(out, (tuple, list)) else (out,)
        if len(out) != len(plan.needs):
            raise GradientError(
                f"`{op.name}` returned {len(out)} gradients, expected {len(plan.needs)}"
            )
        out = [out[k] for k in plan.targets]
    else:
        out = []
        for (rule, names), position in zip(plan.calls, plan.targets, strict=True):
            known["i"] = position - len(op.inputs) + 1
            out.append(rule(*[known[name] for name in names]))
    for position, part in zip(plan.targets, out, strict=True):
        if type(part) is not Tensor:
            check_rule_result(op, position, part)
    if not create_graph:
        out = [None if part is None else part.raw for part in out]
    return out[0] if plan.single else out


def saved_values(node: Node, create_graph: bool) -> dict[str, Any]:
    """What a node saved, by name; arrays as tensors, with their nodes if gradients are recorded."""
    plan = node.plan
    op = plan.op
    known: dict[str, Any] = {}
    for name, value in zip(plan.names, plan.unpacked(node.saved), strict=True):
        if name in op.results:
            position = op.results.index(name)
            known[name] = wrap(value, output_node(node, position) if create_graph else None)
        elif name in op.inputs:
            first = op.inputs.index(name)
            if isinstance(value, tuple):
                known[name] = tuple(
                    as_input(node, first + k, x, create_graph) for k, x in enumerate(value)
                )
            else:
                known[name] = as_input(node, first, value, create_graph)
        else:
            known[name] = value
    return known


def as_input(node: Node, position: int, value: Any, create_graph: bool) -> Any:
    if value is None:
        return None
    parent = None
    if create_graph and position in node.plan.targets:
        parent = node.inputs[node.plan.targets.index(position)]
    return wrap(value, parent)


def output_node(node: Node, position: int) -> Node | None:
    """The node of a saved output; aux values have none."""
    outputs = len(node.plan.op.outputs)
    if position >= outputs:
        return None
    if outputs == 1:
        return node
    return node.output(position, Projection(node.plan.op, position))  # type: ignore[attr-defined]


def incoming(node: Node, parts: list, create_graph: bool) -> list[Tensor]:
    """The gradient of each output as a tensor; zeros where none arrived, which take no memory."""
    tensors = [g if create_graph or g is None else wrap(g) for g in parts]
    device = next(g.device for g in tensors if g is not None)

    def zeros(k: int) -> Tensor:
        zero = full(shape=(), value=0, dtype=node.dtype[k], device=device)
        return broadcast_to(zero, shape=node.shape[k])

    return [zeros(k) if g is None else g for k, g in enumerate(tensors)]


def check_rule_result(op: Any, position: int, out: Any) -> None:
    if isinstance(out, Tensor) or (out is None and op.vjp is not None):
        return
    raise GradientError(
        f"`{op.name}` returned {type(out).__name__} as the gradient of "
        f"`{op.input_name(position)}`, expected a tensor"
    )


def check_gradients(node: Node, plan: Plan, out: Any) -> None:
    """Under detect_anomaly: raise at the first NaN or infinity in what a rule returned."""
    for position, part in zip(plan.targets, (out,) if plan.single else out, strict=True):
        raw = part.raw if isinstance(part, Tensor) else part
        if raw is not None and not is_finite(raw):
            source = node.extra and node.extra.source
            raise AnomalyError(
                f"the gradient of `{plan.op.input_name(position)}` in {plan.op.name} (output shape "
                f"{node.shape}) has {what_is_wrong(raw)}\n  "
                + (source or "run the forward pass under detect_anomaly too to see its source line")
            )


def check_total(node: Node, g: Any) -> None:
    """Under detect_anomaly: raise where finite contributions add up to, or a hook returned, a NaN
    or an infinity."""
    for part in g if isinstance(g, list) else [g]:
        raw = part.raw if isinstance(part, Tensor) else part
        if raw is not None and not is_finite(raw):
            raise AnomalyError(
                f"the total gradient of the result of {node.name} (shape {node.shape}) has "
                f"{what_is_wrong(raw)}"
            )


def fitted(plan: Any, parent: Node, g: Any) -> Any:
    """A contribution in its parent's shape: the one place where broadcasting is undone."""
    shape, dtype = parent.shape, parent.dtype
    raw = not isinstance(g, Tensor)
    if g.shape != shape:
        if not undoes_broadcasting(plan.op.kind, g.shape, shape):
            raise GradientError(
                f"`{plan.op.name}` returned a gradient of shape {g.shape} for an input of shape "
                f"{shape}"
            )
        g = unbroadcast(wrap(as_array(g)), shape).raw if raw else unbroadcast(g, shape)
    if (g if raw else g.raw).dtype != dtype:
        raise GradientError(
            f"`{plan.op.name}` returned a gradient of dtype {g.dtype} for an input of dtype {dtype}"
        )
    return as_array(g) if raw else g


def undoes_broadcasting(kind: str, g_shape: tuple, shape: tuple) -> bool:
    """Whether `shape` broadcasts to g_shape, in the axes that ops of this kind broadcast."""
    if kind == "contraction":
        return shape[-2:] == g_shape[-2:] and broadcasts_to(shape[:-2], g_shape[:-2])
    return kind == "elementwise" and broadcasts_to(shape, g_shape)
