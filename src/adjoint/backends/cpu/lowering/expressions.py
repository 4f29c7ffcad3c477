"""Kernels of the kernel language as machine code, for each way to walk over memory."""

from ....kernels.frame import Loops
from ....kernels.language import Kernel
from ....kernels.llvm import render
from ..jit.compiler import compiled
from ..jit.runner import NativeKernel

CHUNK = 1 << 14  # elements
LINE = 64  # bytes
STREAMED = 1 << 23  # bytes of an output, from which on it is written past the caches


class Expression:
    """A kernel: which arrays and numbers it uses, and its machine code for each kind of walk."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.name = "rows" if kernel.reduces else "elements"
        self.dtypes = [out.type.dtype for out in kernel.outputs]
        self.natives: dict[tuple[Loops, Loops | None], NativeKernel] = {}
        widest = max((v.type.bits for v in kernel.values if v.op != "constant"), default=32)
        self.lanes = 8 if widest == 64 else 16
        self.chunk = CHUNK if len(kernel.values) < 24 else CHUNK // 4
        self.used = sorted(kernel.sources)
        self.numbers = {k: type.dtype for k, type in sorted(kernel.scalars.items())}

    def native(self, loops: Loops, past: Loops | None = None) -> NativeKernel:
        """The kernel for a walk; `past`: the one that writes past the caches."""
        found = self.natives.get((loops, past))
        if found is None:
            module = render(self.kernel, loops)
            other = 0 if past is None else self.native(past).address
            found = NativeKernel(self.name, compiled(module.text, module.name), module.words, other)
            self.natives[loops, past] = found
        return found
