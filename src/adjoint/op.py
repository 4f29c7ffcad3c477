"""Declare differentiable ops: the same way for adjoint's own and for yours.

A declaration names the op and gives, per input, a rule for its gradient. The names of a rule's
parameters say what it needs; only that is kept for backward:

`g` the incoming gradient (`g_<output>` where there are several outputs); an input's name; `out`, or
an output's or `aux` value's name; `x_shape`, `x_dtype` metadata of the input x; `i` the position in
a `*xs` input; a static attribute of the call.

Rules call adjoint functions and operators only, and are linear in `g`. Then gradients of every
order, every device and tracing work. A rule is compiled when it is first needed: what it takes from
outside, other than its parameters, is fixed from then on.

>>> cube = ad.op.elementwise("cube", x=lambda g, x: 3 * g * x * x, forward=lambda x: x * x * x)
>>> x = ad.tensor(2.0, requires_grad=True)
>>> g, = ad.autograd.grad(cube(x), x, create_graph=True)
>>> g, ad.autograd.grad(g, x)
(tensor(12., grad_fn=<multiply>), (tensor(12.),))

Options of every kind:

- `inputs="x w bias?"`: names, where not all have a rule; `?` optional, a last `*xs` variadic.
- `outputs="u s vh"`, `aux="indices"`: results; aux ones carry no gradient.
- `attrs="axis keepdims"`: static attributes, given by keyword in a call.
- `vjp=function`: one rule for all inputs, that returns a gradient (or None) for each; `needs` in
  its parameters is a bool for each. In a rule of an op with several outputs, `arrived` is a bool
  for each of those: whether a gradient came, or zeros stand for it.
- `differentiable=False`: there are no rules, and the results carry no gradient.
- `forward=function` in adjoint ops, or `kernels={"cpu": function on raw arrays}`.
- `shape=function`: its parameters are named like a rule's; it gives the output's shape, or a tuple
  of shapes. `dtype="x"`, `"bool"` or `"dtype"`: an input's, a fixed one, or an attribute's, one
  word per result. Both are what a trace knows of the result; each kind has a default.
- `promotes="x y"`: the inputs that are cast to a common dtype; `floats=True`: to a float one.
- `real_valued=True`: complex inputs give the dtype of their parts.
- `needs_graph=function` of the outputs, tensors: the positions of those whose gradients the rule
  differentiates; it gets these with their graph then, in every order.
- `linear=True`, `dynamic_shape=True`, `random=True` (each call gives other numbers): facts that
  transforms use.
- `batch=`: how `ad.vmap` gives the op many examples at once, on one more axis before the others.
  "broadcast": axes that come first broadcast, as in elementwise ops, where this is the default.
  "leading": they pass through, if `axis`, `axes`, `shape`, `index` and `pad_width` among the
  attributes (and `x_shape` and the like) are told; so it is in reductions. "each": one example
  after the other, slow but right; the default of the other kinds. Or a function (size, batched,
  *inputs, **attrs) that calls adjoint ops: `batched` says which inputs have the axis; a result that
  is the same for all examples may come without it; NotImplemented means one after the other.
"""

from collections.abc import Callable
from typing import Any

from ._core import dispatch
from ._core.declaration import Op
from ._foundation.errors import ArgumentError

__all__ = ["contraction", "elementwise", "index", "movement", "other", "reduction"]


def declare(name: str, kind: str, doc: str, options: dict[str, Any]) -> Callable[..., Any]:
    """An op's dispatcher: a plain function, with the op as its attribute `op`."""
    known = Op.__init__.__kwdefaults__ or {}
    settings = {key: options.pop(key) for key in list(options) if key in known}
    for key, rule in options.items():
        if not callable(rule):
            raise ArgumentError(
                f"op {name}: {key}={rule!r} is neither a rule nor an option; options are "
                f"{sorted(known)}"
            )
    op = Op(name, kind, options, **settings)
    make = dispatcher(op)
    call: Any = make(op)
    call.op = op
    op.call = None if make is dispatch.general else call
    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    call.__module__ = "adjoint"
    return call


def dispatcher(op: Op) -> Callable[[Op], Callable[..., Any]]:
    """What makes the op's dispatcher: one specialised by arity where there is one."""
    all_have_rules = all(map(op.has_rule, range(len(op.inputs))))
    doubtful = op.differentiable and (op.dtype is not None or not all_have_rules)
    if not op.single_result or op.variadic or op.optional or doubtful:
        return dispatch.general
    if op.kind in ("elementwise", "contraction") and not op.attributes:
        return {1: dispatch.unary, 2: dispatch.binary}.get(len(op.inputs), dispatch.general)
    if op.kind != "elementwise" and len(op.inputs) == 1 and "device" not in op.attributes:
        return dispatch.attributed
    return dispatch.general


def elementwise(name: str, doc: str = "", example: str = "", **options: Any) -> Callable[..., Any]:
    """An op that works on each element, with broadcasting; undoing that isn't the rule's concern.

    `example="2.0, 3.0 -> 6."` becomes a doctest.
    """
    if example:
        args, _, result = example.partition(" -> ")
        doc = f"{doc}\n\n>>> ad.{name}({args})\ntensor({result})\n"
    return declare(name, "elementwise", doc, options)


def reduction(name: str, doc: str = "", **options: Any) -> Callable[..., Any]:
    """An op that reduces the axes `axis` (a tuple), kept as ones if `keepdims`: its attributes,
    unless `attrs` has others."""
    return declare(name, "reduction", doc, {"attrs": "axis keepdims"} | options)


def movement(name: str, doc: str = "", **options: Any) -> Callable[..., Any]:
    """An op that only moves elements, to places that are known beforehand."""
    return declare(name, "movement", doc, options)


def index(name: str, doc: str = "", **options: Any) -> Callable[..., Any]:
    """An op that moves elements to or from places that are data."""
    return declare(name, "index", doc, options)


def contraction(name: str, doc: str = "", **options: Any) -> Callable[..., Any]:
    """An op that is linear in each input; broadcast batch axes are undone like an elementwise's."""
    return declare(name, "contraction", doc, options)


def other(name: str, doc: str = "", **options: Any) -> Callable[..., Any]:
    """Anything else."""
    return declare(name, "other", doc, options)
