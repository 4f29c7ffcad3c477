"""The target of launches on this machine, and layouts of its arrays."""

import functools
from typing import Any

from ...launches import Layout, Target
from ..jit import compiler, threads
from ..jit.availability import available

# The features that choose between kernels.
FEATURES = ("avx512f", "avx2", "fma", "neon")


def current_target() -> Target:
    return target_with(threads.get_num_threads())


@functools.cache
def target_with(count: int) -> Target:
    return Target("cpu", host_features(), count)


@functools.cache
def host_features() -> frozenset[str]:
    if not available():
        return frozenset()
    features = compiler.started().binding.get_host_cpu_features()
    return frozenset(name for name in FEATURES if features.get(name))


def layout_of(x: Any) -> Layout | None:
    """The layout of an array; of None, which stands for an input that isn't there, None."""
    return None if x is None else Layout(x.shape, x.strides, x.dtype, x.flags.aligned)
