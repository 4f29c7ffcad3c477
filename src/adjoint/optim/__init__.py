"""Optimizers, with PyTorch's names and defaults.

A step is one native call for all parameters, whatever their number and sizes. A tensor is a value
here too: what was taken from a parameter before a step keeps its values.
"""

from ._adam import Adam, AdamW
from ._sgd import SGD

__all__ = ["SGD", "Adam", "AdamW"]
