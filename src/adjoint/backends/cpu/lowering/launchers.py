"""Kernels of the kernel language on arrays: lowered once for arrays of a layout, and run."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from ....kernels.language import Kernel
from ....kernels.ops import Unsupported
from ...launches import Cache, Launch
from ...spaces import Ints
from ..jit import threads
from ..jit.addresses import addresses
from ..jit.runner import run, run_words
from .expressions import Expression
from .maps import lower_map
from .native import NativeLowering
from .rows import lower_rows
from .targets import current_target, layout_of
from .updates import lower_updates


class Launcher:
    """Runs a kernel, and keeps launches for layouts that it has met.

    It takes arrays only, also for single numbers.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.expression = Expression(kernel)
        self.launches = Cache()
        self.updates = Cache()

    def map(
        self,
        arrays: Sequence[np.ndarray],
        numbers: Sequence[Any] = (),
        outputs: Sequence[np.ndarray] | None = None,
        axis: Ints | None = None,
    ) -> list[np.ndarray]:
        """The outputs of a kernel, in new memory or in that of arrays. `axis`: along which its rows
        run, if it has reductions; it stays as ones in outputs and arrays that have one element for
        each row."""
        layouts: list[Any] = [axis]
        for x in arrays:
            layouts += (x.shape, x.strides)
        if outputs is not None:
            for out in outputs:
                layouts.append(out.strides)
        key = tuple(layouts)
        launches = self.launches[key] or self.lower(key, arrays, axis, outputs)
        return run(launches, arrays, numbers, outputs)

    def lower(
        self,
        key: tuple,
        arrays: Sequence[np.ndarray],
        axis: Ints | None,
        outputs: Sequence[np.ndarray] | None,
    ) -> tuple[Launch, ...]:
        to = NativeLowering([layout_of(x) for x in arrays], current_target())
        targets = None
        if outputs is not None:
            targets = [to.result(out.shape, out.dtype, out.strides) for out in outputs]
        if axis is None:
            lower_map(to, self.expression, to.views, targets)
        else:
            lower_rows(to, self.expression, to.views, axis, targets)
        return self.launches.keep(key, to.finished())

    def update(self, arrays: Sequence[np.ndarray], numbers: np.ndarray) -> None:
        """Run the kernel on many tensors. `arrays`: for each tensor the inputs, then the outputs,
        all without gaps and of one size; an output may be an input. `numbers`: a row for each."""
        expression = self.expression
        count, dtype = len(expression.used) + len(expression.dtypes), expression.dtypes[0]
        sizes = tuple([a.size for a in arrays[::count]])
        launch = self.updates[sizes] or self.lower_update(sizes, arrays, count)
        words = np.frombuffer(launch.words, np.int64).copy()
        words[launch.addresses] = addresses(arrays)
        if launch.numbers.size:
            table = np.zeros((len(sizes), len(expression.numbers)), np.int64)
            table.view(dtype)[:, :: 8 // dtype.itemsize] = numbers[:, list(expression.numbers)]
            words[launch.numbers] = table
        run_words(launch.address, words, launch.chunks)

    def lower_update(self, sizes: Ints, arrays: Sequence[np.ndarray], count: int) -> "ManyWords":
        used = len(self.expression.used)
        tensors = [arrays[k : k + count] for k in range(0, len(arrays), count)]
        layouts = [layout_of(x.reshape(-1)) for own in tensors for x in own[:used]]
        to = NativeLowering(layouts, current_target())
        inputs = [to.views[k : k + used] for k in range(0, len(to.views), used)]
        lower_updates(to, self.expression, inputs, sizes)
        (launch,) = to.finished()
        return self.updates.keep(sizes, many_words(launch, len(sizes)))


class ManyWords(NamedTuple):
    """A launch with many addresses and numbers, which are filled in as arrays."""

    address: int
    words: bytes
    addresses: np.ndarray  # their positions, for each tensor
    numbers: np.ndarray
    chunks: int
    launch: Launch  # which keeps the table alive


def many_words(launch: Launch, tensors: int) -> ManyWords:
    addresses, numbers = (
        np.array([place[0] for place in places], np.int64)
        for places in (launch.addresses, launch.numbers)
    )
    numbers = numbers.reshape(tensors, -1)
    code = launch.kernel.address
    return ManyWords(code, launch.words, addresses, numbers, launch.chunks, launch)


def launched(function: Callable[..., None]) -> Callable[..., bool]:
    """The function on arrays of one dtype that runs what a lowering function makes for their
    layouts, which may write to them; False where it made nothing, since it is unsupported."""
    cache = Cache()

    def call(*arrays: np.ndarray, **options: Any) -> bool:
        layouts: list[Any] = [threads.chosen, arrays[0].dtype, *options.items()]
        for x in arrays:
            layouts += (x.shape, x.strides)
        key = tuple(layouts)
        launches = cache[key]
        if launches is None:
            to = NativeLowering([layout_of(x) for x in arrays], current_target())
            with suppress(Unsupported):
                function(to, *to.views, **options)
            launches = cache.keep(key, to.finished())
        if launches:
            run(launches, arrays)
        return bool(launches)

    return call
