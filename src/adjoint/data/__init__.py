"""Data: datasets, the order in which their samples come, batches of them, made by threads."""

from ._collate import default_collate, default_convert
from ._datasets import ConcatDataset, Dataset, IterableDataset, Subset, TensorDataset
from ._digits import digits
from ._loader import DataLoader
from ._samplers import BatchSampler, RandomSampler, Sampler, SequentialSampler
from ._splits import random_split, train_test_split

__all__ = ["BatchSampler", "ConcatDataset", "DataLoader", "Dataset", "IterableDataset"]
__all__ += ["RandomSampler", "Sampler", "SequentialSampler", "Subset", "TensorDataset"]
__all__ += ["default_collate", "default_convert", "digits", "random_split", "train_test_split"]


def __dir__() -> list[str]:
    return __all__
