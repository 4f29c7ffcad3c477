"""Ops that no program computes: the CPU does, on copies. `ad.config.host_ops` can forbid it.

Those are decompositions that take many decisions on the way, and what depends on them.
"""

import functools
from typing import Any

import numpy as np

from ..._foundation.caller_warnings import warn
from ..._foundation.config import config
from ..._foundation.errors import DeviceError
from .. import backend, widest
from .arrays import Array


@functools.cache
def function(name: str) -> Any:
    """The CPU's function of an op, for arrays on a device; None where the CPU has none either."""
    cpu: Any = backend("cpu")
    compute = cpu.FUNCTIONS.get(name)
    if compute is None:
        return None

    def call(*inputs: Any, **attrs: Any) -> Any:
        if any(isinstance(x, np.ndarray) for x in inputs):
            raise TypeError("arrays of different devices")
        first = next(x for x in inputs if isinstance(x, Array))
        gpu = first.gpu
        check_permitted(name, first.device)
        given = [gpu.read(x) if isinstance(x, Array) else x for x in inputs]
        results = compute(*given, **attrs)
        if not isinstance(results, tuple):
            return send(gpu, name, results)
        return tuple([send(gpu, name, result) for result in results])

    return call


def check_permitted(name: str, device: str) -> None:
    what = f"{name} isn't computed on {device} but on the CPU, to which its inputs are copied"
    if config.host_ops == "error":
        raise DeviceError(f"{what}; ad.config.host_ops is 'error', 'allow' lets it")
    if config.host_ops == "warn":
        warn(what, RuntimeWarning)


def send(gpu: Any, name: str, result: np.ndarray) -> Array:
    """Send a result to the device: indices in the dtype that it has for them."""
    result = np.asarray(result)
    if result.dtype == np.int64:
        result = result.astype(widest(gpu.name, "i"))
    if result.dtype not in gpu.dtypes:
        raise DeviceError(
            f"{name} gives {result.dtype}, which {gpu.name} doesn't have; move its input to the "
            "CPU first: x.to('cpu')"
        )
    return gpu.send(result)
