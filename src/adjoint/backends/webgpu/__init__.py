"""WebGPU: any GPU, through wgpu. An op is a WGSL program, or a kernel of the kernel language.

Storage is `Array`, a view of a pooled buffer. Nothing here knows of tensors or gradients. wgpu is
imported, and an adapter opened, when a device is first named.
"""

import threading

from . import adapters
from .backend import WebGPU

OPEN: dict[int, WebGPU] = {}
OPENING = threading.Lock()  # each is opened once, whoever asks


def open_device(device: str) -> WebGPU:
    """The backend of a device, "webgpu" or "webgpu:N". The first is also number 0 by that name."""
    with OPENING:
        position, adapter = adapters.chosen(device)
        if position not in OPEN:
            first = position == adapters.default()
            OPEN[position] = WebGPU("webgpu" if first else f"webgpu:{position}", adapter)
        return OPEN[position]
