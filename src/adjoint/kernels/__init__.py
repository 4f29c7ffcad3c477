"""Kernels: what an op computes, said once, in a small language that every device can be given.

`language` is an expression DAG on typed values; `ops` says what each op is in it, with the
functions of `exponential`, `logarithmic` and their neighbours as polynomials; renderers make text
of it: `llvm` for the CPU. What isn't a loop over an expression is a template of its own per
renderer. Nothing here runs anything. May import `_errors` and `_dtypes`, nothing else.
"""
