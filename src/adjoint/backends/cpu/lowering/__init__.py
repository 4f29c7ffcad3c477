"""Lowering: launches of ops, made of layouts alone.

Each op that the NumPy table marks so (`table.lowered`) has a function of its name here, which takes
views in the place of arrays and appends launches to a `NativeLowering`; `ops.lower` calls it. What
has no kernel raises `Unsupported`. Nothing here asks whether an array is large enough.
"""
