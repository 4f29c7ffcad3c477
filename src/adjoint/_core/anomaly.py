"""Looking for the first NaN or infinity, and for who made it: `detect_anomaly`."""

from typing import Any

import numpy as np

from .. import backends
from .._foundation.errors import AnomalyError
from .._foundation.lines import text_of, users_now
from .declaration import Op
from .node import extra
from .tensor import Tensor, describe


def check_finite(op: Op, inputs: Any, outputs: tuple[Tensor, ...]) -> None:
    """Under detect_anomaly: remember who called, and raise at the first NaN or infinity."""
    source = user_line()
    for name, out in zip(op.results, outputs, strict=True):
        if out.node is not None:
            extra(out.node).source = source
            if out.node.plan.output is not None:
                extra(out.node.parents).source = source
        if not is_finite(out.raw):
            shapes = ", ".join(describe(x) if isinstance(x, Tensor) else repr(x) for x in inputs)
            raise AnomalyError(
                f"{op.name}({shapes}) gave {what_is_wrong(out.raw)} in {name}, {describe(out)}\n"
                f"  {source}"
            )


def is_finite(data: Any) -> bool:
    if data.dtype.kind not in "fc" or type(data) not in backends.LOADED:
        return True
    return bool(np.isfinite(backends.LOADED[type(data)].to_numpy(data)).all())


def what_is_wrong(data: Any) -> str:
    return "NaN" if np.isnan(backends.LOADED[type(data)].to_numpy(data)).any() else "an infinity"


def user_line() -> str:
    """The innermost line of the call stack that isn't adjoint's own."""
    name, line = next(users_now(), ("?", 0))
    return f'File "{name}", line {line}: {text_of(name, line)}'
