"""Learning rates that change during a training, with PyTorch's names and values.

A scheduler sets the "lr" of its optimizer's groups when it is made, and at each `step()`, which
comes after the optimizer's steps: once per epoch, or per batch. Most multiply what is there, so
several can be used at once, and changes by hand stay.
"""

from ._cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from ._factors import ConstantLR, ExponentialLR, LambdaLR, LinearLR, MultiStepLR, StepLR
from ._one_cycle import OneCycleLR
from ._plateau import ReduceLROnPlateau
from ._scheduler import LRScheduler
from ._sequence import SequentialLR

__all__ = ["ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ExponentialLR"]
__all__ += ["LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "OneCycleLR", "ReduceLROnPlateau"]
__all__ += ["SequentialLR", "StepLR"]
