"""Tables from op names to functions on NumPy arrays, complete: importing this loads them all."""

import importlib

from . import backward, dispatch
from .table import FUNCTIONS as NUMPY

# Modules that enter their functions.
SOURCES = (
    "complex contractions creation elementwise erf expm factorizations fourier gamma indexing "
    "losses movement normalization reductions solving sorting threefry triangles windows"
)
for source in SOURCES.split():
    importlib.import_module(f".{source}", __package__)
DISPATCHED = dispatch.over(NUMPY)
FUNCTIONS = NUMPY | DISPATCHED
BACKWARD = backward.over(FUNCTIONS)
