"""Arguments that several commands take."""

import argparse
import math
from collections.abc import Callable

import adjoint as ad

from ..backends import MODULES


class UsageError(ValueError):
    """A call that is wrong whatever there is on this machine."""


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        default=ad.get_default_device(),
        help="where to compute, see `devices` (default: %(default)s)",
    )


def add_seed(parser: argparse.ArgumentParser, what: str, default: int | None = 0) -> None:
    add_count(parser, "--seed", 0, 2**63 - 1, what, 0, default)


def check_device(device: str) -> None:
    """Raise unless tensors can be there."""
    if device.partition(":")[0] not in MODULES:
        raise UsageError(f"there is no device {device!r}; devices are {', '.join(MODULES)}")
    ad.zeros((1,), device=device)


def add_count(
    parser: argparse.ArgumentParser,
    name: str,
    least: int,
    most: int,
    what: str,
    shown: int,
    default: int | None = None,
) -> None:
    """Add an option that is a whole number; its help shows the default, which may be set later."""
    kind, help = whole_number(least, most), f"{what} (default: {shown})"
    parser.add_argument(name, type=kind, default=default, metavar="N", help=help)


def whole_number(least: int, most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"from {least} to {most} is possible, got {text}")
        return value

    return number


def positive(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"a number above 0 is needed, got {text}")
    return number
