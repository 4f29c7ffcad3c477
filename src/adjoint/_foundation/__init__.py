"""The base of all rooms: errors, options, dtypes, modes, trees, text. It knows no tensors.

It imports NumPy and the standard library alone.
"""
