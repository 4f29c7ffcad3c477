"""Kernels on the CPU: their language, templates, compiling, threads and memory."""
