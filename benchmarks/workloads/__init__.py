"""The same work written for adjoint, PyTorch and JAX: python -m benchmarks.workloads LIBRARY.

A workload is a function that makes tensors of its inputs and returns a step, which is what is
timed. It is given `look`, and its step passes the results to it.
"""
