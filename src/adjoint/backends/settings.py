"""Settings and statistics of the machine: memory, threads, and how long GPUs take."""

from typing import Any

from .. import backends
from .._foundation.errors import DeviceError
from .cpu.jit import memory, threads

__all__ = ["empty_cache", "get_num_threads", "launch_times", "memory_stats", "set_cache_limit"]
__all__ += ["set_num_threads"]


def memory_stats(device: str = "cpu") -> dict[str, int]:
    """Statistics of the memory of tensors; on the CPU, of large ones.

    `in_use` bytes belong to tensors and arrays; `idle` bytes wait for the next ones, never more
    than `limit`; `peak` is the most that was in use at once. `allocations`, `reuses` of idle memory
    and `releases` to the system are counts. All are 0 where there is no pool: on Windows, and where
    kernels can't be compiled.

    >>> sorted(ad.memory_stats())
    ['allocations', 'idle', 'in_use', 'limit', 'peak', 'releases', 'reuses']
    """
    return memory.stats() if device == "cpu" else gpu(device).pool.stats()


def gpu(device: str) -> Any:
    """The GPU behind a device."""
    found = getattr(backends.backend(device), "gpu", None)
    if found is None:
        raise DeviceError(f"{device} is no GPU")
    return found


def launch_times(device: str = "webgpu") -> Any:
    """How long a GPU takes for each program, by its own clock, in a `with` block.

    It works where the adapter has timestamps, see `ad.devices()`. Programs run one by one
    meanwhile, so the whole takes longer.

    >>> with ad.launch_times() as times:  # doctest: +SKIP
    ...     y = ad.tanh(ad.ones(4, device="webgpu")).sum()
    >>> print(times)  # doctest: +SKIP
    program                       launches         ms
    elements                             1      0.012
    rows                                 1      0.010
    """
    from .webgpu.times import Times

    return Times(gpu(device))


def empty_cache(device: str = "cpu") -> int:
    """Return all idle memory to the system; returns its size in bytes.

    >>> released = ad.empty_cache()
    >>> ad.memory_stats()["idle"]
    0
    """
    return memory.release() if device == "cpu" else gpu(device).pool.release()


def set_cache_limit(bytes: int) -> None:
    """Limit the memory that the pool keeps for reuse, in bytes; beyond it the oldest is released.

    The default is an eighth of the memory that there is.

    >>> limit = ad.memory_stats()["limit"]
    >>> ad.set_cache_limit(0)  # keep nothing
    >>> ad.memory_stats()["idle"]
    0
    >>> ad.set_cache_limit(limit)
    """
    memory.set_limit(bytes)


def set_num_threads(n: int) -> None:
    """Let each kernel run on up to n threads, the caller's among them.

    Results don't depend on it, not in a single bit. The default is the number of cores that this
    process may use, or what the environment says as `ADJOINT_NUM_THREADS`. More than 256, and than
    four for each core, are refused. On Windows a kernel runs on the caller alone, whatever n is.

    >>> n = ad.get_num_threads()
    >>> ad.set_num_threads(1)
    >>> ad.get_num_threads()
    1
    >>> ad.set_num_threads(n)
    """
    threads.set_num_threads(n)


def get_num_threads() -> int:
    """How many threads a kernel runs on, at most.

    It is 1 on Windows, and where there are no kernels: NumPy, which then computes everything, has
    threads only in its BLAS, which aren't ours.

    >>> ad.get_num_threads() >= 1
    True
    """
    return threads.get_num_threads()
