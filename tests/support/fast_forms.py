"""The functions that launch kernels, by the name of their op, for arrays of every size."""

from collections.abc import Callable

from adjoint.backends.cpu import NUMPY
from adjoint.backends.cpu.dispatch import fast_function


class FastForms(dict[str, Callable]):
    def __missing__(self, name: str) -> Callable:
        return fast_function(name, NUMPY[name])


FAST = FastForms()
