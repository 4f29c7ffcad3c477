"""Recording what a function does, whole or in part, and running the recorded Graph.

It needs what `_core` has and few ops; transforms stand on it, not the other way round.
"""
