"""The command line: `python -m adjoint COMMAND`."""

import argparse
import dataclasses
import json
import os
import sys
import textwrap

from ._devices import DeviceInfo, devices

EXAMPLES = """\
examples:
  python -m adjoint devices           what tensors can be on here, and what can't be used, and why
  python -m adjoint devices --json    the same for a program
"""
COLUMNS = ("device", "adapter", "kind", "backend", "dtypes")
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def main(arguments: list[str] | None = None) -> int:
    """Run a command; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m adjoint",
        description="Tensors with automatic differentiation: what there is on this machine.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    command = commands.add_parser("devices", help="list the CPU and all GPUs, usable or not")
    command.add_argument("--json", action="store_true", help="print JSON, with all that is known")
    command.set_defaults(run=print_devices)
    options = parser.parse_args(arguments)
    if "run" not in options:
        parser.print_help()
        return 0
    return options.run(options)


def print_devices(options: argparse.Namespace) -> int:
    found = devices()
    if options.json:
        records = [{**dataclasses.asdict(device), "usable": device.usable} for device in found]
        print(json.dumps(records, indent=2))
    else:
        print("\n".join([table([COLUMNS, *map(row, found)]), "", *map(note, found)]))
    return 0


def row(device: DeviceInfo) -> tuple[str, ...]:
    dtypes = f"all {len(device.dtypes)}" if device.name == "cpu" else " ".join(device.dtypes)
    if not device.usable:
        dtypes = "can't be used"
    return (device.name or "-", device.adapter, device.kind, device.backend, dtypes)


def table(rows: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def note(device: DeviceInfo) -> str:
    """What the table has no room for."""
    limits = [limit(name, number) for name, number in device.limits.items()]
    facts = device.why_not or "; ".join([device.driver, ", ".join([*limits, *device.features])])
    start = device.name or f"{device.adapter}, {device.backend}"
    return textwrap.fill(f"{start}: {facts}", 100, subsequent_indent="  ", break_on_hyphens=False)


def limit(name: str, number: int) -> str:
    """As people say it: ("buffer_bytes", 2**31) is "buffer 2 GiB"."""
    what = name.removesuffix("_bytes")
    if what == name:
        return f"{name.replace('_', ' ')} {number}"
    unit = min((number.bit_length() - 1) // 10, len(UNITS) - 1)
    return f"{what} {number / 1024**unit:.3g} {UNITS[unit]}"


def quietly() -> int:
    """The same, but that whoever reads the output may stop reading."""
    try:
        code = main()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(quietly())
