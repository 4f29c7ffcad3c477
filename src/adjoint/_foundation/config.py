"""Options of a program, `ad.config`. Imports nothing that reads them."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from .blocks import Block, ends
from .errors import ArgumentError, KeywordError
from .stepwise import within

__all__ = ["config"]


def is_switched_off(variable: str) -> bool:
    """Whether the environment says no to what is on otherwise."""
    return os.environ.get(variable, "").lower() in ("0", "off", "false", "no")


class Choice:
    """An option: one of a few words, the first unless ADJOINT_ and its name say otherwise."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self.variable = name, f"ADJOINT_{name.upper()}"

    def __get__(self, config: Any, owner: type) -> Any:
        if config is None:
            return self
        if self.name not in vars(config):
            start = os.environ.get(self.variable) or self.words[0]
            vars(config)[self.name] = self.checked(start, f"{self.variable} in the environment")
        return vars(config)[self.name]

    def __set__(self, config: Any, word: str) -> None:
        vars(config)[self.name] = self.checked(word, f"config.{self.name}")

    def checked(self, word: Any, what: str) -> str:
        if not isinstance(word, str) or word not in self.words:
            allowed = " or ".join(map(repr, self.words))
            raise ArgumentError(f"{what} is {allowed}, got {word!r}")
        return word


class Config:
    """Options of the whole process: what one thread sets, all threads see.

    `host_ops`: what happens when an op on a GPU has no program there, and goes to the CPU and back:
    "allow" it without a word, "warn", or raise a DeviceError ("error"). The environment can say
    how it starts, as `ADJOINT_HOST_OPS`.

    >>> ad.config
    config(host_ops='allow')
    >>> with ad.config(host_ops="error"):  # as before, afterwards
    ...     ad.config.host_ops
    'error'
    >>> ad.config.host_ops = "warn"
    >>> ad.config.host_ops = "allow"
    """

    host_ops = Choice("allow", "warn", "error")

    def __call__(self, **options: Any) -> "Changed":
        """A context in which options are others; they are as before when it ends."""
        for name, value in options.items():
            if name not in OPTIONS:
                raise KeywordError(unknown(name))
            OPTIONS[name].checked(value, f"config({name}=...)")
        return Changed(self, options)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in OPTIONS:
            raise AttributeError(unknown(name))
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(unknown(name))

    def __dir__(self) -> list[str]:
        return [*OPTIONS]

    def __repr__(self) -> str:
        return f"config({', '.join(f'{name}={getattr(self, name)!r}' for name in OPTIONS)})"


class Changed(Block):
    """Within it, or in a function that is decorated with it, options are others."""

    def __init__(self, config: Config, options: dict[str, Any]) -> None:
        self.config, self.options = config, options

    def __enter__(self) -> Config:
        values = vars(self.config)
        before = {name: getattr(self.config, name) for name in self.options}
        end = partial(values.update, before)
        ends.stack += (end,)
        values |= self.options
        return self.config

    def __call__(self, function: Callable) -> Callable:
        return within(lambda: self, function)


def unknown(name: str) -> str:
    return f"config has no option {name!r}; options are {', '.join(OPTIONS)}"


OPTIONS = {name: option for name, option in vars(Config).items() if isinstance(option, Choice)}
config = Config()
