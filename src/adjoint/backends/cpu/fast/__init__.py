"""Kernels on arrays, lowered to launches and run, and functions that stand in for NumPy's.

Each module that stands in has a dict `FAST`, from the name of an op to a function with the
signature of the one in the NumPy table, which it may leave a case to. `dispatch` sends large arrays
here.
"""
