"""Which devices this machine has, and what each can do: `ad.devices()`."""

import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .._foundation.dtypes import ALL
from .._foundation.errors import DeviceError

__all__ = ["devices"]

KINDS = {"DiscreteGPU": "discrete GPU", "IntegratedGPU": "integrated GPU", "CPU": "CPU"}
FEATURES = {"shader-f16": "float16", "timestamp-query": "timestamps"}
LIMITS = {
    "buffer_bytes": "max-buffer-size",
    "binding_bytes": "max-storage-buffer-binding-size",
    "storage_buffers": "max-storage-buffers-per-shader-stage",
    "workgroup_bytes": "max-compute-workgroup-storage-size",
    "workgroup_invocations": "max-compute-invocations-per-workgroup",
}


@dataclass(frozen=True, repr=False)
class DeviceInfo:
    """A device; if it can't be used, `why_not` says why.

    `name` is what `device=` takes; a GPU that can't be used has none. `adapter` is the name of the
    hardware, `kind` is "CPU" also where a driver computes on the CPU, `backend` is what lies
    between adjoint and the `driver`. `limits` are numbers, some of them of bytes, as they say.
    """

    name: str
    adapter: str = ""
    kind: str = ""
    backend: str = ""
    driver: str = ""
    dtypes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    limits: dict[str, int] = field(default_factory=dict, hash=False)
    why_not: str | None = None

    @property
    def usable(self) -> bool:
        return self.why_not is None

    def __repr__(self) -> str:
        facts = ", ".join(fact for fact in (self.adapter, self.kind, self.backend) if fact)
        reason = "" if self.usable else f" can't be used: {self.why_not}"
        return f"<{self.name or 'no device'}{facts and ': '}{facts}{reason}>"


def devices() -> list[DeviceInfo]:
    """Devices for tensors: the CPU, then GPUs, the best first; those that can't be used come last.

    "webgpu" is always among them: it tells why not, and what to do, where there is no GPU. Looking
    opens none.

    >>> cpu, *gpus = ad.devices()
    >>> cpu.name, cpu.usable
    ('cpu', True)
    >>> "webgpu" in [gpu.name for gpu in gpus]
    True
    """
    return [cpu(), *gpus()]


def cpu() -> DeviceInfo:
    from .cpu.jit import threads
    from .cpu.jit.availability import obstacle

    why_slow = obstacle()
    kernels = why_slow or "no kernels, as ADJOINT_JIT says"
    if why_slow is None:
        import llvmlite

        kernels = f"llvmlite {llvmlite.__version__}"
    return DeviceInfo(
        name="cpu",
        adapter=processor(),
        kind="CPU",
        backend="NumPy and LLVM kernels" if why_slow is None else "NumPy",
        driver=f"NumPy {np.__version__}, {kernels}",
        dtypes=tuple(dtype.name for dtype in ALL),
        limits={"cores": os.cpu_count() or 1, "threads": threads.get_num_threads()},
    )


def processor() -> str:
    """The name of the CPU, which on Linux only a file has."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def gpus() -> list[DeviceInfo]:
    from .webgpu import adapters

    try:
        found = adapters.found()
    except DeviceError as error:
        return [nothing(error)]
    try:
        default, _ = adapters.chosen("webgpu")
    except DeviceError as error:
        reason = nothing(error)
        return [reason, *(about("", a, adapters.why_not(a) or reason.why_not) for a in found)]
    names = ["webgpu" if k == default else f"webgpu:{k}" for k in range(len(adapters.usable()))]
    names += [""] * (len(found) - len(names))
    return [about(name, a, adapters.why_not(a)) for name, a in zip(names, found, strict=True)]


def nothing(error: DeviceError) -> DeviceInfo:
    return DeviceInfo("webgpu", why_not=str(error).removeprefix("webgpu: "))


def about(name: str, adapter: Any, why_not: str | None) -> DeviceInfo:
    from .webgpu.adapters import title
    from .webgpu.arrays import WGSL

    info, features, limits = adapter.info, adapter.features, adapter.limits
    missing = set() if "shader-f16" in features else {"f16"}
    return DeviceInfo(
        name=name,
        adapter=title(adapter),
        kind=KINDS.get(info["adapter_type"], "unknown kind"),
        backend=info["backend_type"],
        driver=" ".join(filter(None, [info["vendor"], info["description"]])),
        dtypes=tuple(d.name for d in ALL if d.dtype in WGSL and WGSL[d.dtype] not in missing),
        features=tuple(name for feature, name in FEATURES.items() if feature in features),
        limits={name: limits[limit] for name, limit in LIMITS.items()},
        why_not=why_not,
    )
