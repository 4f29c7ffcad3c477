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
        self.natives: dict[tuple[Loops, bool], NativeKernel] = {}
        widest = max((v.type.bits for v in kernel.values if v.op != "constant"), default=32)
        self.lanes = 8 if widest == 64 else 16
        self.chunk = CHUNK if len(kernel.values) < 24 else CHUNK // 4
        self.used = sorted(kernel.sources)
        self.numbers = {k: type.dtype for k, type in sorted(kernel.scalars.items())}

    def native(self, loops: Loops, goes_past: bool = False) -> NativeKernel:
        """The kernel for a walk; `goes_past`: where it can, it writes past the caches what lies
        side by side."""
        found = self.natives.get((loops, goes_past))
        if found is None:
            module = render(self.kernel, loops)
            inputs, outputs = loops.access[: len(self.used)], loops.access[len(self.used) :]
            past = loops._replace(access=inputs + outputs.replace("c", "n"))
            other = self.native(past).address if goes_past else 0
            found = NativeKernel(self.name, compiled(module.text, module.name), module.words, other)
            self.natives[loops, goes_past] = found
        return found
