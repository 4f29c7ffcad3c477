"""Benchmarks: speed against PyTorch, cost of long chains, time to import."""
