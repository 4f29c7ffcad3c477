"""Kernels at run time: LLVM IR text becomes machine code, which runs on threads of ours.

`compiler` makes functions of text, `cache` keeps their object code on disk, `threads` runs them on
all cores, `memory` has buffers for their results, and `availability` says whether all that works
here. Nothing here knows what a kernel computes. May import `_foundation` and, inside functions, on
first use, llvmlite: `import adjoint` doesn't pay for a compiler.
"""
