"""Kernels on arrays, lowered to launches and run, and functions that stand in for NumPy's.

A function that stands in has the name and the signature of the one in the NumPy table, which says
so (`table.fast`), and which it may leave a case to. `dispatch` sends large arrays here.
"""
