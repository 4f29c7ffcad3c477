"""`adjoint info`: what a bug report needs to say about this machine."""

import argparse
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Iterator
from typing import Any

import adjoint as ad

from .._foundation.formatting import show_bytes
from ..backends.cpu.jit import cache
from ..backends.devices import DeviceInfo, processor

NAME = "info"
SUMMARY = "tell what a bug report needs: versions, machine, devices, kernel cache"
EXAMPLES = {
    "info": "versions, machine, devices, kernel cache, environment",
    "info --json": "the same for a program",
}
PACKAGES = ("numpy", "llvmlite", "wgpu")
OPTIONAL_PACKAGES = ("safetensors", "torch", "jax")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    found = facts()
    print(json.dumps(found, indent=2) if options.json else "\n".join(lines(found)))
    return 0


def facts() -> dict[str, Any]:
    return {
        "versions": versions(),
        "machine": machine(),
        "devices": {device.name or device.adapter: state(device) for device in ad.devices()},
        "kernel cache": kernel_cache(),
        "environment": environment(),
    }


def versions() -> dict[str, str]:
    found = {"adjoint": ad.__version__, "python": python()}
    found |= {name: version(name) or "not installed" for name in PACKAGES}
    return found | {name: v for name in OPTIONAL_PACKAGES if (v := version(name))}


def python() -> str:
    return f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}"


def version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    return {
        "platform": platform.platform(),
        "processor": processor(),
        "cores": os.cpu_count() or 1,
        "threads": ad.get_num_threads(),
    }


def state(device: DeviceInfo) -> str:
    if not device.usable:
        return f"can't be used: {device.why_not}"
    return ", ".join(fact for fact in (device.adapter, device.backend, device.driver) if fact)


def kernel_cache() -> dict[str, Any]:
    folder = cache.directory()
    try:
        sizes = [size for _, size, _ in cache.ours(folder)] if folder else []
    except OSError:  # nothing was ever kept there, or it can't be read
        sizes = []
    return {"folder": folder and str(folder), "kernels": len(sizes), "bytes": sum(sizes)}


def environment() -> dict[str, str]:
    return {name: os.environ[name] for name in sorted(os.environ) if name.startswith("ADJOINT_")}


def lines(found: dict[str, Any]) -> Iterator[str]:
    """Each section under its name, each fact on a line."""
    for section, entries in found.items():
        yield section
        width = max(map(len, entries), default=0)
        for name, value in entries.items():
            yield f"  {name:{width}}  {shown(name, value)}"
        if not entries:
            yield "  no ADJOINT_ variables are set"


def shown(name: str, value: Any) -> str:
    if name == "folder" and value is None:
        return "none, as ADJOINT_CACHE_DIR says"
    return show_bytes(value) if name == "bytes" else str(value)
