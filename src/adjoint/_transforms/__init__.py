"""Functions that make functions: derivatives, `vmap`, checkpoints.

They may import the engine and traces, and know nothing of the functions that users call.
"""
