"""`adjoint devices`: what tensors can be on."""

import argparse
import dataclasses
import json
import textwrap

import adjoint as ad

from .._foundation.formatting import table
from ..backends.devices import DeviceInfo

NAME = "devices"
SUMMARY = "list the CPU and all GPUs, usable or not"
EXAMPLES = {
    "devices": "what tensors can be on here, and what can't be used, and why",
    "devices --json": "the same for a program",
}
COLUMNS = ("device", "adapter", "kind", "backend", "dtypes")
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, with all that is known")


def run(options: argparse.Namespace) -> int:
    found = ad.devices()
    if options.json:
        print(json.dumps([record(device) for device in found], indent=2))
    else:
        print("\n".join([*table([COLUMNS, *map(row, found)]), "", *map(note, found)]))
    return 0


def record(device: DeviceInfo) -> dict[str, object]:
    return {**dataclasses.asdict(device), "usable": device.usable}


def row(device: DeviceInfo) -> tuple[str, ...]:
    dtypes = f"all {len(device.dtypes)}" if device.name == "cpu" else " ".join(device.dtypes)
    if not device.usable:
        dtypes = "can't be used"
    return (device.name or "-", device.adapter, device.kind, device.backend, dtypes)


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
