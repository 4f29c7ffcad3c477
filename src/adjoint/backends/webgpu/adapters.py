"""Which GPUs there are, what they are called here, and what each can do."""

import functools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..._foundation.errors import DeviceError

# What is wanted first. Software drivers come last, and OpenGL after everything of its kind.
KINDS = ("DiscreteGPU", "IntegratedGPU", "Unknown", "CPU")
BACKENDS = ("Metal", "Vulkan", "D3D12", "OpenGL")
USABLE = ("Metal", "Vulkan", "D3D12")
NEEDED = {
    "max-storage-buffers-per-shader-stage": 8,
    "max-compute-invocations-per-workgroup": 256,
    "max-compute-workgroup-storage-size": 16384,
}
INSTALL = (
    "install a driver: on Debian and Ubuntu `apt install mesa-vulkan-drivers` (which also has one "
    "that runs on the CPU), on Fedora `dnf install mesa-vulkan-drivers`; Apple's, NVIDIA's and "
    "AMD's come with the system or from the vendor, and NVIDIA's is seen in a container if that "
    "has libvulkan1 and NVIDIA_DRIVER_CAPABILITIES=all"
)


@functools.cache
def wgpu() -> Any:
    """The library, imported when a GPU is first asked for."""
    try:
        import wgpu
    except (ImportError, OSError, RuntimeError) as error:
        raise DeviceError(
            f"webgpu: the package wgpu is needed, which can't be imported ({error}); "
            "`pip install wgpu` installs it"
        ) from None
    return wgpu


@functools.cache
def found() -> list[Any]:
    """All adapters, the best first. Those that can be used stand before the others."""
    library = wgpu()
    try:
        with quietly():
            adapters = library.gpu.enumerate_adapters_sync()
    except Exception as error:
        raise DeviceError(f"webgpu: no adapter could be looked for ({error}); {INSTALL}") from None
    return sorted(adapters, key=rank)


@contextmanager
def quietly() -> Iterator[None]:
    """Without complaints on standard error about displays, which are looked for, too."""
    wanted = {"XDG_RUNTIME_DIR": tempfile.gettempdir(), "EGL_LOG_LEVEL": "fatal"}
    added = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def rank(adapter: Any) -> tuple:
    info = adapter.info
    kind, backend = info["adapter_type"], info["backend_type"]
    return (
        why_not(adapter) is not None,
        KINDS.index(kind) if kind in KINDS else len(KINDS),
        BACKENDS.index(backend) if backend in BACKENDS else len(BACKENDS),
    )


def why_not(adapter: Any) -> str | None:
    """Why an adapter can't be used, or None."""
    backend = adapter.info["backend_type"]
    if backend not in USABLE:
        return f"{backend} isn't supported, only {', '.join(USABLE)}"
    for limit, least in NEEDED.items():
        if adapter.limits[limit] < least:
            return f"{limit} is {adapter.limits[limit]}, {least} is needed"
    return None


def usable() -> list[Any]:
    return [adapter for adapter in found() if why_not(adapter) is None]


def chosen(device: str) -> tuple[int, Any]:
    """The number and adapter behind "webgpu", the first, or "webgpu:N"."""
    name, colon, number = device.partition(":")
    adapters = usable()
    if not adapters:
        reasons = [f"{label(a)} can't be used: {why_not(a)}" for a in found()]
        what = "; ".join(reasons) or "this machine has no adapter"
        raise DeviceError(f"{device}: {what}; {INSTALL}")
    if colon and not number.isdecimal():
        raise DeviceError(f"there is no device {device!r}; use 'webgpu' or 'webgpu:1'")
    position = int(number) if colon else default()
    if position >= len(adapters):
        known = ", ".join(f"{name}:{k} ({label(a)})" for k, a in enumerate(adapters))
        raise DeviceError(f"there is no device {device!r}; there are {known}")
    return position, adapters[position]


def default() -> int:
    """Which adapter "webgpu" is: the first whose name has what ADJOINT_ADAPTER says."""
    wanted = os.environ.get("ADJOINT_ADAPTER", "")
    names = [label(a) for a in usable()]
    for position, name in enumerate(names):
        if wanted.lower() in name.lower():
            return position
    raise DeviceError(
        f"ADJOINT_ADAPTER is {wanted!r}, which is in no adapter's name: {', '.join(names)}"
    )


def label(adapter: Any) -> str:
    return f"{title(adapter)}, {adapter.info['backend_type']}"


def title(adapter: Any) -> str:
    info = adapter.info
    return info["device"] or info["description"] or info["vendor"]
