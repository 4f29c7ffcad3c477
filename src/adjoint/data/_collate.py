"""Samples put together to a batch."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._core.tensor import Tensor, describe
from .._foundation.dtypes import SCALAR_RANK
from .._foundation.errors import ArgumentError, DTypeError, ShapeError
from .._foundation.modes import is_tracing
from .._foundation.trees import map_tree, similar
from ..functions.creation import asarray
from ..functions.shapes import stack

NUMBERS = tuple(SCALAR_RANK)


def default_collate(samples: Sequence[Any]) -> Any:
    """Samples as a batch: tensors, arrays and numbers get a new first axis.

    Strings are put in a list. Dicts, lists, tuples and named tuples are batches of their parts; a
    tuple becomes a list, as in PyTorch. Python floats get the default float dtype.

    >>> ad.data.default_collate([(ad.asarray([1.0, 2.0]), "a"), (ad.asarray([3.0, 4.0]), "b")])
    [tensor([[1., 2.],
            [3., 4.]]), ['a', 'b']]
    >>> ad.data.default_collate([{"label": 3}, {"label": 4}])
    {'label': tensor([3, 4])}
    """
    if not samples:
        raise ArgumentError("default_collate: there are no samples")
    first = samples[0]
    if isinstance(first, (str, bytes)):
        return list(samples)
    if isinstance(first, NUMBERS):
        check_kind(samples, NUMBERS)
        return asarray(list(samples))
    if isinstance(first, (Tensor, np.ndarray, np.generic)):
        return together(samples)
    if isinstance(first, Mapping):
        return dict_of_batches(samples)
    if isinstance(first, Sequence):
        return sequence_of_batches(samples)
    raise DTypeError(
        f"default_collate: samples are {type(first).__name__}; tensors, arrays, numbers, strings, "
        "and dicts, lists and tuples of them make a batch: pass collate_fn for others"
    )


def together(samples: Sequence[Any]) -> Tensor:
    """Tensors, or arrays, of one shape along a new axis."""
    check_kind(samples, (Tensor, np.ndarray, np.generic))
    for k, sample in enumerate(samples):
        if sample.shape != samples[0].shape:
            raise ShapeError(
                f"default_collate: sample {k} of the batch is {shown(sample)}, the first "
                f"{shown(samples[0])}: make their shapes equal, or pass collate_fn"
            )
    if len({(type(x), x.dtype) for x in samples}) > 1:
        return stack([asarray(x) for x in samples])
    if not isinstance(samples[0], Tensor):
        return asarray(np.stack(samples))
    if any(type(x.raw) is not np.ndarray or x.requires_grad for x in samples) or is_tracing():
        return stack(samples)
    return asarray(np.stack([x.raw for x in samples]), device="cpu")  # several times as fast


def shown(x: Any) -> str:
    return describe(x) if isinstance(x, Tensor) else f"{x.dtype}{list(x.shape)}"


def dict_of_batches(samples: Sequence[Any]) -> Any:
    check_kind(samples, (Mapping,))
    first = samples[0]
    for k, sample in enumerate(samples):
        if sample.keys() != first.keys():
            raise ArgumentError(
                f"default_collate: sample {k} of the batch has the keys {list(sample)}, the first "
                f"{list(first)}"
            )
    is_special = isinstance(first, dict) and type(first) is not dict
    out = similar(first) if is_special else {}
    out.update({key: default_collate([sample[key] for sample in samples]) for key in first})
    return out


def sequence_of_batches(samples: Sequence[Any]) -> Any:
    check_kind(samples, (Sequence,))
    first = samples[0]
    for k, sample in enumerate(samples):
        if len(sample) != len(first):
            raise ArgumentError(
                f"default_collate: sample {k} of the batch has {len(sample)} parts, the first "
                f"{len(first)}; make them equal, or pass collate_fn"
            )
    parts = [default_collate(part) for part in zip(*samples, strict=True)]
    return type(first)(*parts) if hasattr(first, "_fields") else parts


def check_kind(samples: Sequence[Any], kinds: tuple[type, ...]) -> None:
    for k, sample in enumerate(samples):
        if not isinstance(sample, kinds):
            raise DTypeError(
                f"default_collate: sample {k} of the batch is a {type(sample).__name__}, the "
                f"first a {type(samples[0]).__name__}"
            )


def default_convert(sample: Any) -> Any:
    """A sample with tensors in the place of NumPy arrays, also inside of dicts, lists and tuples.

    >>> ad.data.default_convert({"x": ad.ones((2,)).numpy(), "name": "a"})
    {'x': tensor([1., 1.]), 'name': 'a'}
    """
    return map_tree(converted, sample)


def converted(x: Any) -> Any:
    is_array = isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "biufc"
    return asarray(x) if is_array else x


def moved(batch: Any, device: str) -> Any:
    """A batch whose tensors are on a device."""
    return map_tree(lambda x: asarray(x, device=device) if isinstance(x, Tensor) else x, batch)
