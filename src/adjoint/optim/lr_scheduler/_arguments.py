"""What schedulers are made with, checked."""

import math
from typing import Any

from ..._foundation.errors import ArgumentError
from ...functions._arguments import as_number
from ._scheduler import check_optimizer


def as_positive(name: str, setting: str, value: Any) -> float:
    number = as_number(name, setting, value)
    if not 0 < number < math.inf:
        raise ArgumentError(f"{name}: {setting} is above 0, got {value!r}")
    return number


def as_part(name: str, setting: str, value: Any) -> float:
    number = as_number(name, setting, value)
    if not 0 < number <= 1:
        raise ArgumentError(f"{name}: {setting} is above 0 and at most 1, got {value!r}")
    return number


def for_groups(name: str, setting: str, optimizer: Any, value: Any) -> list[Any]:
    """A value for each group, from one for all or from a list."""
    count = len(check_optimizer(name, optimizer).param_groups)
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise ArgumentError(
            f"{name}: {setting} has {len(value)} values, the optimizer {count} groups"
        )
    return list(value)


def numbers_for_groups(name: str, setting: str, optimizer: Any, value: Any) -> list[float]:
    each = for_groups(name, setting, optimizer, value)
    return [as_number(name, setting, number) for number in each]
