"""Wrong calls, and what their errors must say."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import adjoint as ad


class Misuse(NamedTuple):
    """A wrong call, its error, and what the message mentions, parted by " | "."""

    error: type[Exception]
    call: Callable[[], Any]
    mentions: str

    def check(self) -> None:
        explained(self.error, self.call, *self.mentions.split(" | "))


def explained(error: type[Exception], call: Callable[[], Any], *mentions: str) -> str:
    """The message of an error of adjoint's; it must have all mentions."""
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, ad.AdjointError)
    message = str(caught.value)
    for part in mentions:
        assert part in message, message
    return message


# Arguments.


def ones(*shape: int, dtype: Any = None) -> ad.Tensor:
    return ad.ones(shape, dtype=dtype)


def ints(*values: int) -> ad.Tensor:
    return ad.asarray(list(values), dtype=ad.int64)
