"""Functions: what users call. They check arguments, normalise axes and shapes, and compose ops.

May import everything below: `primitives`, the engine, the backends' registry. `methods` binds those
that are marked as methods to `Tensor`.
"""
