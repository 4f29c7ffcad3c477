"""The loss of scores against class indices as one op, which keeps nothing but them."""

from .. import op
from .indexing import scatter_along_axis
from .reductions import repeated, softmax


def cross_entropy_rule(g, x, target, axis: int):
    """A share for each class, but that of the target."""
    return g * softmax(x, axis=axis) - scatter_along_axis(g, target, axis=axis, shape=x.shape)


def cross_entropy_batch(size: int, batched: tuple[bool, ...], x, target, *, axis: int):
    x, target = (
        z if one else repeated(z, size) for z, one in zip((x, target), batched, strict=True)
    )
    return cross_entropy(x, target, axis=axis + 1)


cross_entropy = op.other(
    "cross_entropy",
    "log(sum(exp(x))) - x[target] along an axis, which has length 1 in target.",
    inputs="x target",
    attrs="axis",
    promotes="x",
    shape=lambda target_shape: target_shape,
    batch=cross_entropy_batch,
    x=cross_entropy_rule,
)
