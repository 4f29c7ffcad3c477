"""Where something was measured: the processor, and the versions of what took part."""

import importlib.metadata
import os
import platform
from pathlib import Path

PACKAGES = {"NumPy": "numpy", "llvmlite": "llvmlite", "PyTorch": "torch", "JAX": "jax"}


def machine() -> dict[str, str]:
    versions = {name: version(package) for name, package in PACKAGES.items()}
    return {
        "processor": processor(),
        "cores": str(os.cpu_count()),
        "Python": platform.python_version(),
        **{name: found for name, found in versions.items() if found},
    }


def described() -> str:
    found = machine()
    place = f"{found.pop('cores')} cores of {found.pop('processor')}"
    return ", ".join([place, *(f"{name} {version}" for name, version in found.items())])


def version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def processor() -> str:
    """The name that Linux gives it, or what Python knows elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
