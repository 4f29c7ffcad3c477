"""Primitives: the ops, each declared once with its derivative rules.

No NumPy and no device code: a rule calls only ops and operators, so one set of rules serves every
order, every device and the tracer. May import `op` and what lies below it.

`elementwise` ops check and promote their operands themselves and are public as they are; the
others expect what `functions` has normalised: axes as sorted tuples, shapes as tuples of ints.
"""
