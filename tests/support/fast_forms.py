"""The functions that run launches, by the name of their op, for arrays of every size."""

from collections.abc import Callable
from typing import Any

from adjoint.backends.cpu import NUMPY, worth
from adjoint.backends.cpu.dispatch import host_function
from adjoint.backends.cpu.lowering.ops import NativeOp
from adjoint.backends.cpu.table import HOSTED


class FastForms(dict[str, Callable]):
    def __missing__(self, name: str) -> Callable:
        small = NUMPY[name]
        if name in HOSTED:
            return host_function(name, small)
        launched = NativeOp(name, getattr(worth, name, None))

        def call(*inputs: Any, **attrs: Any) -> Any:
            out = launched(*inputs, **attrs)
            return small(*inputs, **attrs) if out is NotImplemented else out

        return call


FAST = FastForms()
