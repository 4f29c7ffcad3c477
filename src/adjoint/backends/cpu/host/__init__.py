"""Host steps: ops that stay functions on arrays, and run kernels between other work.

Linear algebra looks at what came of a step before it takes the next, and copies that NumPy does
best only need memory of the pool. Each function has the name and the signature of the one in the
NumPy table, which says so (`table.hosted`), and which it may leave a case to.
"""
