"""What an op is and how it runs: the tensor, the recorded graph, declarations, plans, dispatch.

It may import `_foundation`, `kernels` and `backends`. No op is declared here.
"""
