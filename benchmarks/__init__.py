"""Benchmarks: speed against PyTorch and JAX, kernels, accuracy, long chains, memory, importing."""
