"""Ops and public functions against NumPy, PyTorch and the array API."""
