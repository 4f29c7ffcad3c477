"""Tensors and the engine: values, gradients, modes, errors, and the order of layers."""
