"""How tensors look in a notebook."""

import numpy as np

from .. import backends
from .._core.tensor import Tensor
from ._marks import method_named

EDGE = 5  # rows and columns shown at each end of a table


@method_named("_repr_html_")
def as_html(x: Tensor) -> str:
    """The tensor in a notebook: a table of up to two axes, with its dtype, shape and gradient."""
    import html  # takes as long to load as a tenth of adjoint

    if type(x.raw) not in backends.LOADED or not 1 <= x.ndim <= 2:
        return f"<pre>{html.escape(repr(x))}</pre>"
    rows = np.atleast_2d(x._host("_repr_html_"))
    lines = [table_row(rows[k]) if k is not None else table_row(None) for k in shown(len(rows))]
    notes = [x.dtype.name, str(list(x.shape)), x.device]
    if x.node is not None:
        notes.append("requires grad" if x.is_leaf else f"from {x.node.name}")
    caption = html.escape(" · ".join(notes))
    return f"<table><caption>{caption}</caption>{''.join(lines)}</table>"


def shown(length: int) -> list[int | None]:
    """The positions to show; None stands for those left out."""
    if length <= 2 * EDGE + 1:
        return list(range(length))
    return [*range(EDGE), None, *range(length - EDGE, length)]


def table_row(values: np.ndarray | None) -> str:
    if values is None:
        return "<tr><td>&#8942;</td></tr>"
    texts = ["&#8230;" if k is None else cell(values[k]) for k in shown(len(values))]
    return f"<tr>{''.join(f'<td>{text}</td>' for text in texts)}</tr>"


def cell(value: np.generic) -> str:
    return f"{value:.4g}" if value.dtype.kind in "fc" else str(value)
