"""Kernels: what an op computes, said once, in a small language that every device can be given.

`language` is an expression DAG on typed values; `ops` says what each op is in it, with the
functions of `exponential`, `logarithmic` and their neighbours as polynomials; renderers make text
of it: `llvm` for the CPU, `wgsl` for GPUs. What isn't a loop over an expression is a template of
LLVM IR here, and a program of `backends.webgpu` there. Nothing here runs anything, nor imports
anything else of adjoint.
"""
