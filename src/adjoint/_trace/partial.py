"""A trace for vmap: of what depends on its stand-ins. Everything else runs at once.

An op on tensors that the stand-ins have no part in runs as it would outside of the trace: in an
outer trace, if there is one. So only what differs from example to example is unknown in the traced
function, and a change of a tensor from outside to something known happens when it is made.
"""

import weakref
from typing import Any

from .._core.declaration import Op
from .._core.execute import as_array, execute
from .._core.shape_inference import infer_shapes
from .._core.tensor import Tensor, wrap
from .._foundation.errors import TraceError
from .._foundation.modes import TRACE, mode
from .recording import Before, Slot, Trace, Traced, check_static


class PartialTrace(Trace):
    """A recording whose steps will be run with gradients recorded.

    So an op whose forward is written in ops is a step of its own, as its rule is, where it would be
    recorded.
    """

    def __init__(self) -> None:
        super().__init__()
        self.constants: dict[tuple[int, int], tuple[Traced, Tensor]] = {}
        self._inside: dict[int, Any] = {}  # tensors and raw arrays that the function made

    # Ops

    def record(self, op: Op, inputs: Any, attrs: dict) -> tuple[list, tuple]:
        mark, depends, recorded = self.mark, False, False
        raw, known = list(inputs), []
        for k, x in enumerate(inputs):
            if isinstance(x, Tensor):
                recorded = recorded or x.node is not None
                data = raw[k] = x.raw
                if type(data) is Traced and data.mark is mark:
                    depends = True
                else:
                    known.append(k)
        if not depends:
            return self.at_once(op, inputs, attrs)
        check_static(op)
        lifted = raw.copy()
        for k in known:
            raw[k] = self.lift(inputs[k])
            lifted[k] = self.capture(inputs[k], raw[k])
        attached = self.attachments(inputs) if recorded else (False,) * len(raw)
        if op.forward is None or op.kind == "elementwise":
            results = self.step(op, lifted, attrs, attached)
        elif op.differentiable and True in attached:
            results = self.noted(op, lifted, attrs, self.whole(op, inputs, attrs), attached)
        else:
            results = self.inline(op, inputs, attrs)
        return self.typed(op, raw) if recorded else raw, results

    def at_once(self, op: Op, inputs: Any, attrs: dict) -> tuple[list, tuple]:
        """Run an op that the stand-ins have no part in."""
        if self.outer is None and op.forward is not None and op.kind != "elementwise":
            results = self.inline(op, inputs, attrs)
            if any(map(self.owns, results)) and True in self.attachments(inputs):
                raise_impure(op)
            raw = [x.raw if isinstance(x, Tensor) else x for x in inputs]
            return self.typed(op, raw), results
        former = mode.word, mode.trace, mode.draws
        mode.word = former[0] & ~TRACE | self.former[0] & TRACE
        mode.trace, mode.draws = self.outer, self.former[2]
        try:
            if self.outer is not None:
                raw, results = self.outer.record(op, inputs, attrs)
            else:
                if op.kind == "elementwise":
                    infer_shapes(op, inputs, attrs)
                raw, results = execute(op, inputs, attrs)
        finally:
            mode.word, mode.trace, mode.draws = former
        given = [x.raw for x in inputs if isinstance(x, Tensor)]
        return raw, tuple([self.new_array(as_array(x), given) for x in results])

    def new_array(self, data: Any, given: list) -> Any:
        """A result that was made at once, as an array of its own."""
        if type(data) is not Traced and any(data is x for x in given):
            data = data[...]
        self.adopt(data)
        return data

    def whole(self, op: Op, inputs: Any, attrs: dict) -> tuple:
        """As `inline`, but nothing of what the op does inside is recorded."""
        count, changes_seen = len(self.steps), self.changes_seen
        results = self.inline(op, inputs, attrs)
        if self.changes_seen > changes_seen or any(s.op.random for s in self.steps[count:]):
            raise_impure(op)
        del self.steps[count:]
        return tuple(self.new(x.shape, x.dtype, x.device) for x in results)

    # Tensors

    def kept(self, tensor: Tensor) -> Traced:
        """What stands for a tensor."""
        return self.capture(tensor, self.lift(tensor))

    def capture(self, tensor: Tensor, data: Any) -> Traced:
        """The traced array behind a tensor with these data; what is known is used as it is now."""
        if type(data) is Traced and data.mark is self.mark:
            return data
        key = id(data), id(tensor.node)
        if key not in self.constants:
            self.constants[key] = self.like(tensor), wrap(data, tensor.node)
        return self.constants[key][0]

    def lift(self, tensor: Tensor) -> Any:
        """A tensor's raw array, as it is outside if the stand-ins have no part in it."""
        data = tensor.raw
        if type(data) is Traced and data.mark is self.mark:
            return data
        if self.outer is not None:
            return self.outer.lift(tensor)
        if type(data) is Traced:
            raise TraceError.escaped("vmap")
        return data

    def constant(self, data: Any) -> Tensor:
        out = wrap(data) if self.outer is None else self.outer.constant(data)
        self.adopt(out)
        return out

    def share(self, tensor: Tensor) -> Tensor:
        owned = self.outer is None or self.owns(tensor.raw)
        out = wrap(self.lift(tensor)) if owned else self.outer.share(tensor)  # type: ignore[union-attr]
        self.adopt(out)
        return out

    def adopt(self, made: Any) -> None:
        """The function made a tensor or an array: what happens to it is nobody's business."""
        self._inside[id(made)] = (lambda: made) if type(made) is Traced else weakref.ref(made)

    def is_inside(self, tensor: Tensor) -> bool:
        if id(tensor) in self.before:
            return False
        return self.owns(tensor.raw) or self.is_adopted(tensor) or self.is_adopted(tensor.raw)

    def is_adopted(self, made: Any) -> bool:
        found = self._inside.get(id(made))
        return found is not None and found() is made

    # Changes of tensors from outside

    def journal(self, tensor: Tensor) -> None:
        if self.note_change(tensor) and self.outer is not None:
            self.outer.journal(tensor)

    def journal_grad(self, tensor: Tensor) -> None:
        if self.note_change(tensor) and self.outer is not None:
            self.outer.journal_grad(tensor)

    def note_change(self, tensor: Tensor) -> bool:
        """Remember a tensor as it was before a change; False if it is the function's own."""
        if self.is_inside(tensor):
            return False
        self.changes_seen += 1
        self.remember(tensor)
        return True

    def remember(self, tensor: Tensor) -> Before:
        """The last that was known of a tensor."""
        now = Before(tensor, tensor.raw, tensor.node, tensor._grad)
        former = self.before.get(id(tensor), now)
        if self.owns(now.raw):
            now = now._replace(raw=former.raw, node=former.node)
        if now.grad is not None and self.owns(now.grad.raw):
            now = now._replace(grad=former.grad)
        self.before[id(tensor)] = now
        return now

    def read_grad(self, tensor: Tensor) -> None:
        if self.outer is not None and not self.is_inside(tensor):
            self.outer.read_grad(tensor)

    def state_of(self, generator: Any) -> Tensor:
        inside = self.is_inside(generator._state)
        return generator._state if inside else super().state_of(generator)

    def note_state(self, generator: Any, first: Traced) -> None:
        """vmap asks the generators itself."""

    def undo(self) -> None:
        """Changes to what isn't known are undone; they are made when it is."""
        for tensor, data, node, grad in self.before.values():
            if self.owns(tensor.raw):
                tensor.raw, tensor.node = data, node
            if tensor._grad is not None and self.owns(tensor._grad.raw):
                tensor._grad = grad

    def unknown_changes(self) -> list[tuple[Slot, Tensor]]:
        """Tensors from outside, and their `.grad`s, that were changed to what isn't known yet."""
        out = []
        for tensor, *_ in self.before.values():
            if self.owns(tensor.raw):
                out.append((Slot(tensor), tensor))
            if tensor._grad is not None and self.owns(tensor._grad.raw):
                out.append((Slot(tensor, grad=True), tensor._grad))
        return out


def raise_impure(op: Op) -> None:
    raise TraceError(
        f"{op.name}: its forward changes tensors from outside, or draws random numbers, which it "
        "can't do under vmap where its gradient is recorded; do it before, and give it what it "
        "needs as an input"
    )
