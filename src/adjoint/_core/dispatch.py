"""Dispatchers: what a call of an op goes through first, specialised by arity.

Each has a fast path for the common case: tensors of one dtype on one device, or a tensor and a
Python number. Operands that it isn't made for raise, and `execute` takes them.
"""

import functools
from collections.abc import Callable
from typing import Any

from .. import backends
from .._foundation.modes import GRAD, mode
from .declaration import Op
from .execute import apply_checked, apply_coerced, as_array
from .node import Node, next_order
from .tensor import Tensor, new_tensor, wrap

new_node = Node.__new__
FLOATS, INTEGERS = backends.FLOATS, backends.INTEGERS

# Raised on the fast path by operands that it isn't made for, and by functions that refuse them.
NOT_FAST = (AttributeError, KeyError, TypeError, ValueError, OverflowError)


def unary(op: Op) -> Callable[[Any], Tensor]:
    """The dispatcher of an op with one input and no attributes."""
    op.arity = 1
    functions, plan = op.functions, None
    keeps_dtype, differentiable = op.dtype is None, op.differentiable
    keeps_shape = op.kind == "elementwise"

    def call(x, /):
        nonlocal plan
        word = mode.word
        if word > GRAD:
            return apply_coerced(op, x)
        try:
            node, data = x.node, x.raw
            out = functions[type(data)](data)
            dtype = out.dtype
            if keeps_dtype and dtype is not data.dtype:
                return apply_coerced(op, x)
        except NOT_FAST:
            return apply_coerced(op, x)
        if type(out) is not type(data):  # cheaper than asking for the shape
            out = as_array(out)
        result = new_tensor(Tensor)
        result.raw = out
        result._grad = None
        if node is None or not word or not differentiable:
            result.node = None
            return result
        if plan is None:
            plan = op.plan((True,))
        recorded = new_node(Node)
        recorded.plan = plan
        recorded.parents = node
        recorded.saved = plan.pick_raw(data, out)
        recorded.order = next_order()
        recorded.shape = node.shape if keeps_shape else out.shape
        recorded.dtype = dtype
        recorded.extra = None
        result.node = recorded
        return result

    return call


def binary(op: Op) -> Callable[[Any, Any], Tensor]:
    """The dispatcher of an op with two inputs and no attributes."""
    op.arity = 2
    functions = op.functions
    keeps_dtype, differentiable = op.dtype is None, op.differentiable
    plan_x = plan_y = plan_xy = None

    def call(x, y, /):
        nonlocal plan_x, plan_y, plan_xy
        word = mode.word
        if word > GRAD:
            return apply_coerced(op, x, y)
        try:
            x_node, x_data = x.node, x.raw
            if type(y) is float:
                y_node, y_data = None, FLOATS[type(x_data)][x_data.dtype][y]
            elif type(y) is int:
                y_node, y_data = None, INTEGERS[type(x_data)][x_data.dtype][y]
            else:
                y_node, y_data = y.node, y.raw
                if y_data.dtype is not x_data.dtype:
                    return apply_coerced(op, x, y)
            out = functions[type(x_data)](x_data, y_data)
            dtype = out.dtype
            if keeps_dtype and dtype is not x_data.dtype:
                return apply_coerced(op, x, y)
        except NOT_FAST:
            return apply_coerced(op, x, y)
        shape = out.shape
        if not shape:
            out = as_array(out)
        result = new_tensor(Tensor)
        result.raw = out
        result._grad = None
        if not word or (x_node is None and y_node is None) or not differentiable:
            result.node = None
            return result
        recorded = new_node(Node)
        if y_node is None:
            plan = plan_x = plan_x or op.plan((True, False))
            recorded.parents = x_node
            if shape == recorded.parents.shape:
                shape = recorded.parents.shape
        elif x_node is None:
            plan = plan_y = plan_y or op.plan((False, True))
            recorded.parents = y_node
        else:
            plan = plan_xy = plan_xy or op.plan((True, True))
            recorded.parents = (x_node, y_node)
        recorded.plan = plan
        recorded.saved = plan.pick_raw(x_data, y_data, out)
        recorded.order = next_order()
        recorded.shape = shape
        recorded.dtype = dtype
        recorded.extra = None
        result.node = recorded
        return result

    return call


def attributed(op: Op) -> Callable[..., Tensor]:
    """The dispatcher of an op with one input, one output, and attributes."""
    functions, plan = op.functions, None
    differentiable = op.differentiable

    def call(x, /, **attrs):
        nonlocal plan
        word = mode.word
        if word > GRAD:
            return apply_checked(op, (x,), attrs)
        try:
            node, data = x.node, x.raw
            out = as_array(functions[type(data)](data, **attrs))
        except NOT_FAST:
            return apply_checked(op, (x,), attrs)
        if node is None or not word or not differentiable or out.dtype.kind != "f":
            return wrap(out)
        if plan is None:
            plan = op.plan((True,))
        saved = plan.pick((data,), (out,), attrs)
        return wrap(out, Node(plan, node, saved, out.shape, out.dtype))

    return call


def general(op: Op) -> Callable[..., Any]:
    """The dispatcher of every other op."""
    if op.kind == "elementwise" and not (op.attributes or op.variadic or op.optional):
        return maker_for(", ".join(op.inputs))(op)
    return lambda *inputs, **attrs: apply_checked(op, inputs, attrs)


@functools.cache
def maker_for(names: str) -> Callable[[Op], Callable[..., Any]]:
    """A maker of dispatchers with these parameters: a signature that help() and tools can show."""
    scope = {"apply_checked": apply_checked}
    return eval(f"lambda op: lambda {names}, /: apply_checked(op, ({names},), {{}})", scope)
