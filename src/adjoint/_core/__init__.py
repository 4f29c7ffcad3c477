"""Ops and how they run: the tensor, the recorded graph, declarations, plans, dispatch.

It may import `_foundation`, `kernels` and `backends`. No op is declared here.
"""
