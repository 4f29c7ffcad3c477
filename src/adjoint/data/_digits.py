"""Handwritten digits, which come with adjoint.

They are the test set of Optical Recognition of Handwritten Digits by E. Alpaydin and C. Kaynak, UCI
Machine Learning Repository (1998), https://doi.org/10.24432/C50P49, in the order of scikit-learn's
`load_digits`, stored as bytes and otherwise unchanged. Licence: CC BY 4.0.
"""

from pathlib import Path

import numpy as np

from ..functions.creation import asarray
from ._datasets import TensorDataset

FILE = Path(__file__).with_name("digits.npz")
TRAINING = 1437  # of 1797: the other fifth is for the test


def digits(train: bool = True, *, device: str | None = None) -> TensorDataset:
    """Handwritten digits to train with (1437), or to test with (360): the same ones each time.

    An image is float32[1, 8, 8], with values from 0 to 1; its label is the digit, an int32, which
    GPUs have too.

    >>> images, labels = ad.data.digits().tensors
    >>> images.shape, labels[:5]
    ((1437, 1, 8, 8), tensor([...], dtype=adjoint.int32))
    """
    with np.load(FILE) as data:
        images = data["images"].astype(np.float32)[:, None] / 16
        labels = data["labels"].astype(np.int32)
    order = np.random.default_rng(0).permutation(len(images))
    chosen = order[:TRAINING] if train else order[TRAINING:]
    return TensorDataset(
        asarray(images[chosen], device=device), asarray(labels[chosen], device=device)
    )
