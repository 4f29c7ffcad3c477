"""Optimizers, with PyTorch's names and defaults, schedulers of their learning rates, and averages.

A step is one native call for all parameters, whatever their number and sizes. A tensor is a value
here too: what was taken from a parameter before a step keeps its values.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ..functions.hints import missing as _missing
from . import lr_scheduler
from ._adagrad import Adagrad
from ._adam import Adam, AdamW
from ._ema import EMA
from ._lbfgs import LBFGS
from ._optimizer import Optimizer
from ._rmsprop import RMSprop
from ._sgd import SGD

__all__ = ["EMA", "LBFGS", "SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop"]
__all__ += ["lr_scheduler"]

_HINTS = {"swa_utils": "ad.optim.EMA(model), whose update() goes after each step"}

if not _TYPE_CHECKING:  # else every name would be right

    def __getattr__(name: str) -> object:
        raise _missing("module 'adjoint.optim'", name, _HINTS)
